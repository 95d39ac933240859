//! Mail, over SMTP.

use crate::smtp_session::{MailServer, SessionError, SmtpOptions, Step, send};
use crate::templates::RenderedText;
use crate::verdict::Verdict;
use lettre::Address;
use lettre::message::header::{ContentType, Header, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::client::AsyncSmtpConnection;
use std::error::Error;
use std::time::{Duration, Instant};
use stockhold_api::printable::quote;
use tokio::sync::Mutex;

/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_secs(30);
/// Most unused connections that are kept.
const IDLE_CONNECTIONS: usize = 4;

const ACT_ON_CONNECTION: &str = "correct [notifications.smtp] (url, ehlo_name), or have the operator of the mail server let this \
     server in";
const ACT_ON_LOGIN: &str = "correct the user and the password of notifications.smtp.url";
const ACT_ON_SENDER: &str =
    "correct notifications.smtp.from, or have the operator of the mail server allow this sender";

/// Sends mail.
pub(crate) struct SmtpSender {
    server: MailServer,
    from: Mailbox,
    /// Connections that are not used, each with the time of its last use.
    idle: Mutex<Vec<(AsyncSmtpConnection, Instant)>>,
}

/// Tells other programs that nobody wrote the mail, so that none answers it (RFC 3834).
#[derive(Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}

impl SmtpSender {
    /// Connects at the first mail. An error never has the password.
    pub(crate) fn new(options: &SmtpOptions) -> Result<Self, String> {
        let from: Mailbox = options
            .from
            .parse()
            .map_err(|error| format!("from: {:?} is no address: {error}", options.from))?;
        let server = MailServer::parse(options).map_err(|error| format!("url: {error}"))?.ok_or(
            "url: must be smtp:// or smtps://, with user:password@, host and :port, and for smtp:// with ?tls=required",
        )?;
        Ok(Self { server, from, idle: Mutex::default() })
    }

    /// Sends a mail. The server has taken it when this returns [`Verdict::Sent`]. `id` is unique in the world with the sender's domain.
    pub(crate) async fn send(&self, to: &str, id: &str, text: &RenderedText) -> Verdict {
        let Ok(address) = to.parse::<Address>() else {
            return Verdict::Refused("the address is none".to_owned());
        };
        let built = Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, address.clone()))
            .subject(text.subject.as_str())
            .message_id(Some(format!("<{id}@{}>", self.from.email.domain())))
            .header(AutoSubmitted)
            .header(ContentType::TEXT_PLAIN)
            .body(text.text.clone());
        let mail = match built {
            Ok(message) => message.formatted(),
            Err(error) => return Verdict::Refused(format!("the mail can't be made: {error}")),
        };
        match self.deliver(&address, &mail).await {
            Ok(()) => Verdict::Sent,
            Err(error) => verdict(&error, to),
        }
    }

    async fn deliver(&self, to: &Address, mail: &[u8]) -> Result<(), SessionError> {
        let mut connection = match self.idle_connection().await {
            Some(connection) => connection,
            None => self.server.connect().await?,
        };
        // A connection on which something was refused is not used again.
        send(&mut connection, &self.from.email, to, mail).await?;
        let mut idle = self.idle.lock().await;
        if idle.len() < IDLE_CONNECTIONS {
            idle.push((connection, Instant::now()));
        }
        Ok(())
    }

    /// A connection that was used a short time ago, and still works.
    async fn idle_connection(&self) -> Option<AsyncSmtpConnection> {
        loop {
            let (mut connection, used) = self.idle.lock().await.pop()?;
            if used.elapsed() < IDLE && connection.test_connected().await {
                return Some(connection);
            }
        }
    }
}

/// What an error means. What a server says about a recipient often quotes the address, so it is shown without.
fn verdict(error: &SessionError, to: &str) -> Verdict {
    let (step, error) = match error {
        SessionError::AsciiOnly if !to.is_ascii() => {
            return Verdict::Refused("the SMTP server takes addresses in ASCII only".to_owned());
        }
        SessionError::AsciiOnly => {
            let why = "the SMTP server takes addresses in ASCII only, and that of the sender is not";
            return Verdict::Blocked(why.to_owned(), ACT_ON_SENDER);
        }
        SessionError::NoTls => {
            return Verdict::Blocked("the SMTP server does not offer TLS".to_owned(), ACT_ON_CONNECTION);
        }
        SessionError::NoWayToLogIn => {
            let why = "the SMTP server has no way to log in that is known";
            return Verdict::Blocked(why.to_owned(), ACT_ON_CONNECTION);
        }
        SessionError::Failed(step, error) => (*step, error),
    };
    let Some(code) = error.status().map(u16::from) else {
        let what = if error.is_timeout() {
            "the SMTP server did not answer in time"
        } else if error.is_tls() {
            let why = format!("TLS with the SMTP server is not possible: {}", words(error));
            return Verdict::Blocked(quote(&why), ACT_ON_CONNECTION);
        } else {
            "the SMTP server can't be reached"
        };
        return Verdict::Later(what.to_owned());
    };
    let said = words(error);
    let why = quote(&format!("the SMTP server answered {code} {}", without_addresses(&said, to)));
    if !error.is_permanent() {
        return Verdict::Later(why);
    }
    match step {
        Step::Connect => Verdict::Blocked(why, ACT_ON_CONNECTION),
        Step::LogIn => Verdict::Blocked(why, ACT_ON_LOGIN),
        Step::Sender => Verdict::Blocked(why, ACT_ON_SENDER),
        Step::Recipient | Step::Mail if is_about_the_recipient(code, &said) => Verdict::Refused(why),
        Step::Recipient | Step::Mail => Verdict::Aside(why),
    }
}

/// What the server said beside the code.
fn words(error: &SmtpError) -> String {
    error.source().map(ToString::to_string).unwrap_or_default()
}

/// Whether a refusal is about this recipient and no other: by its enhanced status code (RFC 3463), and without one by its code.
fn is_about_the_recipient(code: u16, said: &str) -> bool {
    match enhanced_status(said) {
        // 5.1.7 and 5.1.8 are about the address of the sender.
        Some((1, detail)) => !matches!(detail, 7 | 8),
        Some((2, _)) => true,
        Some(_) => false,
        None => (550..=553).contains(&code),
    }
}

/// The subject and the detail of an enhanced status code of class 5, if the text begins with one.
fn enhanced_status(said: &str) -> Option<(u16, u16)> {
    let mut parts = said.split_whitespace().next()?.splitn(3, '.');
    let (class, subject, detail) = (parts.next()?, parts.next()?, parts.next()?);
    if class != "5" {
        return None;
    }
    Some((subject.parse().ok()?, detail.parse().ok()?))
}

/// A text without the address of the recipient and without every word that looks like one.
fn without_addresses(text: &str, to: &str) -> String {
    let local = to.rsplit_once('@').map_or(to, |(local, _)| local).to_lowercase();
    let is_local = |word: &str| {
        let word = word.to_lowercase();
        word.trim_matches(|c: char| !c.is_alphanumeric()) == local || local.len() > 3 && word.contains(&local)
    };
    let is_personal = |word: &str| word.contains('@') || is_local(word);
    let shown: Vec<&str> =
        text.split_whitespace().map(|word| if is_personal(word) { "(address)" } else { word }).collect();
    shown.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_about_the_recipient_by_its_status() {
        for (code, said, expected) in [
            (550, "5.1.1 <a@b> unknown", true),
            (550, "5.1.7 bad sender", false),
            (550, "5.1.8 bad sender", false),
            (552, "5.2.2 full", true),
            (550, "5.4.1 no route", false),
            (550, "5.7.1 blocked", false),
            (504, "5.5.2 <shop>: Helo command rejected", false),
            (504, "no", false),
            (550, "no such user", true),
            (553, "no", true),
            (554, "no", false),
            (554, "", false),
        ] {
            assert_eq!(is_about_the_recipient(code, said), expected, "{code} {said}");
        }
    }

    #[test]
    fn an_address_is_not_repeated() {
        let text = "5.7.1 <Anna.K@example.com>: user anna.k of other@example.com is blocked";
        let shown = without_addresses(text, "anna.k@example.com");
        assert_eq!(shown, "5.7.1 (address) user (address) of (address) is blocked");
    }
}
