//! Mail, over SMTP.

use crate::templates::RenderedText;
use crate::verdict::Verdict;
use lettre::message::header::{ContentType, Header, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::Error as SmtpError;
use lettre::{Address, AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use std::time::Duration;

/// Longest time that a step of the protocol may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The codes with which a server refuses to let Stockhold in. They say nothing about the recipient.
const NOT_LET_IN: std::ops::RangeInclusive<u16> = 530..=538;

/// How mail is sent.
#[derive(Clone)]
pub struct SmtpOptions {
    /// `smtp://` or `smtps://`, with user and password, host and port. `?tls=required` and `?tls=opportunistic` have `smtp` use STARTTLS.
    pub url: String,
    /// Who the mail comes from: an address, with or without a name.
    pub from: String,
}

/// Sends mail.
pub(crate) struct SmtpSender {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
}

/// Tells other programs that nobody wrote the mail, so that none answers it (RFC 3834).
#[derive(Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
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
        let builder = AsyncSmtpTransport::<Tokio1Executor>::from_url(&options.url).map_err(|_| {
            "url: must be smtp:// or smtps://, with user:password@, host and :port, and for smtp:// with ?tls=required".to_owned()
        })?;
        Ok(Self { transport: builder.timeout(Some(TIMEOUT)).build(), from })
    }

    /// Sends a mail. The server has taken it when this returns [`Verdict::Sent`]. `id` is unique in the world with the sender's domain.
    pub(crate) async fn send(&self, to: &str, id: &str, text: &RenderedText) -> Verdict {
        let Ok(address) = to.parse::<Address>() else {
            return Verdict::Refused("the address is none".to_owned());
        };
        let is_ascii = to.is_ascii();
        let built = Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, address))
            .subject(text.subject.as_str())
            .message_id(Some(format!("<{id}@{}>", self.from.email.domain())))
            .header(AutoSubmitted)
            .header(ContentType::TEXT_PLAIN)
            .body(text.text.clone());
        let message = match built {
            Ok(message) => message,
            Err(error) => return Verdict::Refused(format!("the mail can't be made: {error}")),
        };
        match self.transport.send(message).await {
            Ok(_) => Verdict::Sent,
            Err(error) => verdict(&error, is_ascii),
        }
    }
}

/// What an error means. The texts of servers often quote the address, so only the code is kept.
fn verdict(error: &SmtpError, is_ascii: bool) -> Verdict {
    if let Some(code) = error.status() {
        let code = u16::from(code);
        let what = format!("the SMTP server answered {code}");
        return if error.is_permanent() && !NOT_LET_IN.contains(&code) {
            Verdict::Refused(what)
        } else {
            Verdict::Later(what)
        };
    }
    if error.is_client() && !is_ascii {
        return Verdict::Refused("the SMTP server takes addresses in ASCII only".to_owned());
    }
    let what = if error.is_timeout() {
        "the SMTP server did not answer in time"
    } else if error.is_tls() {
        "TLS with the SMTP server is not possible"
    } else if error.is_client() {
        "the SMTP server has no way to log in that is known"
    } else {
        "the SMTP server can't be reached"
    };
    Verdict::Later(what.to_owned())
}
