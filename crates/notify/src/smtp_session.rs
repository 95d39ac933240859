//! A conversation with a mail server, step by step: what a refusal means depends on the step.

use lettre::Address;
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailBodyParameter, MailParameter};
use percent_encoding::percent_decode_str;
use std::time::Duration;

/// Longest time that a step may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Ports of plain SMTP, of submission, and of submission over TLS.
const PORTS: (u16, u16, u16) = (25, 587, 465);

/// How mail is sent.
#[derive(Clone)]
pub struct SmtpOptions {
    /// `smtp://` or `smtps://`, with user and password, host and port. `?tls=required` and `?tls=opportunistic` have `smtp` use STARTTLS.
    pub url: String,
    /// Who the mail comes from: an address, with or without a name.
    pub from: String,
    /// The name that this server greets the mail server with; that of the host when absent.
    pub ehlo_name: Option<String>,
}

/// A step of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The greeting, EHLO and STARTTLS.
    Connect,
    /// AUTH.
    LogIn,
    /// MAIL FROM.
    Sender,
    /// RCPT TO.
    Recipient,
    /// DATA, and the mail.
    Mail,
}

/// Why a step was not done.
#[derive(Debug)]
pub(crate) enum SessionError {
    /// The server has answered, or could not be reached.
    Failed(Step, SmtpError),
    /// The server takes addresses in ASCII only, and that of the recipient is not.
    AsciiOnly,
    /// The server does not offer TLS, and it is required.
    NoTls,
    /// The server has no way to log in that is known.
    NoWayToLogIn,
}

/// How TLS is used.
#[derive(Clone)]
enum Tls {
    None,
    IfOffered(TlsParameters),
    Required(TlsParameters),
    FromTheBeginning(TlsParameters),
}

/// Where the server is, and who logs in.
pub(crate) struct MailServer {
    host: String,
    port: u16,
    tls: Tls,
    hello: ClientId,
    credentials: Option<Credentials>,
}

impl MailServer {
    /// Reads an address. `None`: it is none. An error of the system's certificates names them.
    pub(crate) fn parse(options: &SmtpOptions) -> Result<Option<Self>, String> {
        let Some((scheme, rest)) = options.url.split_once("://") else { return Ok(None) };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, authority),
        };
        let Some((host, port)) = host_and_port(place) else { return Ok(None) };
        let tls = || TlsParameters::new(host.clone()).map_err(|error| format!("TLS: {error}"));
        let (plain, submission, over_tls) = PORTS;
        let (tls, default_port) = match (scheme, query) {
            ("smtp", "") => (Tls::None, plain),
            ("smtp", "tls=required") => (Tls::Required(tls()?), submission),
            ("smtp", "tls=opportunistic") => (Tls::IfOffered(tls()?), submission),
            ("smtps", _) => (Tls::FromTheBeginning(tls()?), over_tls),
            _ => return Ok(None),
        };
        let decoded =
            |text: &str| percent_decode_str(text).decode_utf8().ok().map(std::borrow::Cow::into_owned);
        let credentials = match user.and_then(|user| user.split_once(':')) {
            Some((name, password)) => {
                let (Some(name), Some(password)) = (decoded(name), decoded(password)) else {
                    return Ok(None);
                };
                Some(Credentials::new(name, password))
            }
            None => None,
        };
        let hello = match (&options.ehlo_name, path.trim_matches('/')) {
            (Some(name), _) => ClientId::Domain(name.clone()),
            (None, "") => ClientId::default(),
            (None, name) => ClientId::Domain(name.to_owned()),
        };
        Ok(Some(Self { host, port: port.unwrap_or(default_port), tls, hello, credentials }))
    }

    /// A connection that is logged in.
    pub(crate) async fn connect(&self) -> Result<AsyncSmtpConnection, SessionError> {
        let failed = |step| move |error| SessionError::Failed(step, error);
        let at_once = match &self.tls {
            Tls::FromTheBeginning(tls) => Some(tls.clone()),
            Tls::None | Tls::IfOffered(_) | Tls::Required(_) => None,
        };
        let place = (self.host.as_str(), self.port);
        let connect =
            AsyncSmtpConnection::connect_tokio1(place, Some(TIMEOUT), &self.hello, at_once, None).await;
        let mut connection = connect.map_err(failed(Step::Connect))?;
        match &self.tls {
            Tls::IfOffered(tls) | Tls::Required(tls) if connection.can_starttls() => {
                connection.starttls(tls.clone(), &self.hello).await.map_err(failed(Step::Connect))?;
            }
            Tls::Required(_) => return Err(SessionError::NoTls),
            Tls::None | Tls::IfOffered(_) | Tls::FromTheBeginning(_) => {}
        }
        if let Some(credentials) = &self.credentials {
            if connection.server_info().get_auth_mechanism(DEFAULT_MECHANISMS).is_none() {
                return Err(SessionError::NoWayToLogIn);
            }
            connection.auth(DEFAULT_MECHANISMS, credentials).await.map_err(failed(Step::LogIn))?;
        }
        Ok(connection)
    }
}

/// Sends a mail. The server has taken it when this returns.
pub(crate) async fn send(
    connection: &mut AsyncSmtpConnection,
    from: &Address,
    to: &Address,
    mail: &[u8],
) -> Result<(), SessionError> {
    let failed = |step| move |error| SessionError::Failed(step, error);
    let offers = |extension| connection.server_info().supports_feature(extension);
    let mut parameters = Vec::new();
    if !to.to_string().is_ascii() || !from.to_string().is_ascii() {
        if !offers(Extension::SmtpUtfEight) {
            return Err(SessionError::AsciiOnly);
        }
        parameters.push(MailParameter::SmtpUtfEight);
    }
    if !mail.is_ascii() && offers(Extension::EightBitMime) {
        parameters.push(MailParameter::Body(MailBodyParameter::EightBitMime));
    }
    connection.command(Mail::new(Some(from.clone()), parameters)).await.map_err(failed(Step::Sender))?;
    connection.command(Rcpt::new(to.clone(), Vec::new())).await.map_err(failed(Step::Recipient))?;
    connection.command(Data).await.map_err(failed(Step::Mail))?;
    connection.message(mail).await.map_err(failed(Step::Mail))?;
    Ok(())
}

/// The host and the port of an address, in which an IPv6 address has brackets.
fn host_and_port(place: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => (address, rest.strip_prefix(':').or(rest.is_empty().then_some(""))?),
        None => place.split_once(':').unwrap_or((place, "")),
    };
    let port = if port.is_empty() { None } else { Some(port.parse().ok()?) };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Option<MailServer> {
        let options = SmtpOptions { url: url.to_owned(), from: String::new(), ehlo_name: None };
        MailServer::parse(&options).unwrap()
    }

    #[test]
    fn an_address_has_a_place_a_user_and_a_name_for_the_greeting() {
        let server = parse("smtp://shop%40a:p%3Ass@mail.example:2525/shop.example").unwrap();
        assert_eq!((server.host.as_str(), server.port), ("mail.example", 2525));
        assert_eq!(server.credentials, Some(Credentials::new("shop@a".to_owned(), "p:ss".to_owned())));
        assert_eq!(server.hello, ClientId::Domain("shop.example".to_owned()));
        assert_eq!(
            parse("smtp://[::1]").map(|server| (server.host, server.port)),
            Some(("::1".to_owned(), 25))
        );
        let options = SmtpOptions {
            url: "smtp://mail.example/other".to_owned(),
            from: String::new(),
            ehlo_name: Some("shop.example".to_owned()),
        };
        let named = MailServer::parse(&options).unwrap().unwrap();
        assert_eq!(named.hello, ClientId::Domain("shop.example".to_owned()));
        for wrong in ["http://mail.example", "mail.example", "smtp://", "smtp://h:x", "smtp://h?tls=maybe"] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
