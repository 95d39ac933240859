//! Sends requests: single tries, and retries until there is a conclusive answer.

use super::access::{ClientAccess, no_tls, tls_error};
use super::request::{Request, random_below};
use super::retry_after::retry_after;
use crate::wire::Problem;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, IF_MATCH};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::de::DeserializeOwned;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use stockhold_store::clock::{Clock, WallClock};

/// Pause before the second try; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest pause between tries that the client chooses itself.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Longest pause that a server may ask for.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(30);
/// Longest answer that is read, in bytes: the results of the largest batch fit, metadata and all.
const ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// Longest piece of an answer that an error shows, in characters.
const SHOWN_CHARS: usize = 200;

/// Why a call failed.
#[derive(Debug)]
pub enum Error {
    /// The server refused the request. A 503 is reported here when the last try got it.
    Refused(Box<Problem>),
    /// No try got an answer. A command may have taken effect. If it is sent again with the same key, it takes effect
    /// once.
    Unreachable {
        /// How often the request was sent.
        tries: u32,
        /// The error of the last try.
        last: String,
    },
    /// The answer does not come from Stockhold.
    Unexpected {
        /// The HTTP status.
        status: u16,
        /// What is wrong, and the beginning of the answer.
        what: String,
    },
    /// TLS with the server is not possible, for example because its certificate is not trusted. A further try would end in the
    /// same way.
    Tls(String),
    /// The request is invalid and was not sent.
    Unsendable(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(problem) => write!(f, "{}: {}", problem.reason, problem.detail),
            Self::Unreachable { tries, last } => write!(f, "no answer after {tries} tries: {last}"),
            Self::Unexpected { status, what } => write!(f, "an unexpected answer, status {status}: {what}"),
            Self::Tls(why) => write!(f, "no connection with TLS: {why}"),
            Self::Unsendable(why) => write!(f, "the request can't be sent: {why}"),
        }
    }
}

impl std::error::Error for Error {}

/// A raw answer.
#[derive(Clone, Debug)]
pub struct Raw {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Raw {
    /// The body of a successful answer, or the refusal.
    fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        self.check()?;
        serde_json::from_slice(&self.body).map_err(|error| self.unexpected(&error.to_string()))
    }

    /// Ignores the body of a successful answer.
    pub(super) fn done(&self) -> Result<(), Error> {
        self.check()
    }

    fn check(&self) -> Result<(), Error> {
        if (200..300).contains(&self.status) {
            return Ok(());
        }
        match serde_json::from_slice::<Problem>(&self.body) {
            Ok(problem) => {
                Err(Error::Refused(Box::new(Problem { retry_after: self.retry_after(), ..problem })))
            }
            Err(error) => Err(self.unexpected(&error.to_string())),
        }
    }

    fn unexpected(&self, what: &str) -> Error {
        let begins: String = String::from_utf8_lossy(&self.body).chars().take(SHOWN_CHARS).collect();
        Error::Unexpected { status: self.status, what: format!("{what}; it begins with {begins:?}") }
    }

    /// The pause that the server asks for.
    fn retry_after(&self) -> Option<Duration> {
        let asked = retry_after(&self.headers, || WallClock.now())?;
        Some(asked.min(LONGEST_RETRY_AFTER))
    }
}

#[derive(Clone, Debug)]
pub(super) struct Retrying {
    http: Http<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    /// What `Authorization` says.
    authorization: Option<HeaderValue>,
    tries: NonZeroU32,
    timeout: Duration,
}

impl Retrying {
    pub(super) fn new(
        base: &str,
        access: &ClientAccess,
        tries: NonZeroU32,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let base = base.trim_end_matches('/').to_owned();
        let uri: hyper::Uri =
            base.parse().map_err(|error| Error::Unsendable(format!("{base:?}: {error}")))?;
        let tls = match uri.scheme_str() {
            Some("https") if uri.authority().is_some() => access.tls()?,
            Some("http") if uri.authority().is_some() => no_tls()?,
            _ => {
                let why = format!("{base:?} is no address of a server: write it like http://127.0.0.1:8101");
                return Err(Error::Unsendable(why));
            }
        };
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(Arc::unwrap_or_clone(tls))
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let authorization = access.authorization().cloned();
        let http = Http::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Ok(Self { http, base, authorization, tries, timeout })
    }

    pub(super) fn set_patience(&mut self, tries: NonZeroU32, timeout: Duration) {
        self.tries = tries;
        self.timeout = timeout;
    }

    pub(super) async fn read<T: DeserializeOwned>(&self, request: Request) -> Result<T, Error> {
        self.send(request).await?.read()
    }

    /// Tries until there is an answer other than 503, or the last try is done.
    pub(super) async fn send(&self, request: Request) -> Result<Raw, Error> {
        let most = if request.repeatable() { self.tries.get() } else { 1 };
        let mut pause = FIRST_PAUSE;
        let mut tries = 1;
        loop {
            let result = self.send_once(&request).await;
            let asked = match &result {
                Ok(answer) if answer.status == 503 => answer.retry_after(),
                Err(Error::Unreachable { .. }) => None,
                Ok(_) | Err(_) => return result,
            };
            if tries >= most {
                return match result {
                    Err(Error::Unreachable { last, .. }) => Err(Error::Unreachable { tries, last }),
                    other => other,
                };
            }
            tokio::time::sleep(asked.unwrap_or_else(|| jittered(pause))).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            tries += 1;
        }
    }

    pub(super) async fn send_once(&self, request: &Request) -> Result<Raw, Error> {
        let http_request = self.prepare(request)?;
        let answer = async {
            let answer = self.http.request(http_request).await.map_err(|error| lost(&error))?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, ANSWER_BYTES).collect().await;
            let body = body.map_err(|error| lost(&*error))?.to_bytes();
            Ok(Raw { status: head.status.as_u16(), headers: head.headers, body })
        };
        match tokio::time::timeout(self.timeout, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(unreachable(format!("no answer within {:?}", self.timeout))),
        }
    }

    /// Sends once, and reads the body for so long and up to so many bytes.
    pub(super) async fn send_once_beginning(
        &self,
        request: &Request,
        most: usize,
        time: Duration,
    ) -> Result<Raw, Error> {
        let http_request = self.prepare(request)?;
        let answer = match tokio::time::timeout(self.timeout, self.http.request(http_request)).await {
            Ok(answer) => answer.map_err(|error| lost(&error))?,
            Err(_) => return Err(unreachable(format!("no answer within {:?}", self.timeout))),
        };
        let (head, mut body) = answer.into_parts();
        let mut read = Vec::new();
        let reading = async {
            while read.len() < most
                && let Some(Ok(frame)) = body.frame().await
            {
                if let Some(data) = frame.data_ref() {
                    read.extend_from_slice(data);
                }
            }
        };
        // What was read until then may be enough.
        let _ = tokio::time::timeout(time, reading).await;
        read.truncate(most);
        Ok(Raw { status: head.status.as_u16(), headers: head.headers, body: read.into() })
    }

    /// Sends once and returns the body of a successful answer as a stream. Only its beginning has a deadline.
    pub(super) async fn open(&self, request: &Request) -> Result<Incoming, Error> {
        let http_request = self.prepare(request)?;
        let answer = match tokio::time::timeout(self.timeout, self.http.request(http_request)).await {
            Ok(answer) => answer.map_err(|error| lost(&error))?,
            Err(_) => return Err(unreachable(format!("no answer within {:?}", self.timeout))),
        };
        if answer.status().is_success() {
            return Ok(answer.into_body());
        }
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| lost(&*error))?.to_bytes();
        let raw = Raw { status: head.status.as_u16(), headers: head.headers, body };
        Err(raw.check().err().unwrap_or_else(|| raw.unexpected("no success")))
    }

    fn prepare(&self, request: &Request) -> Result<hyper::Request<Full<Bytes>>, Error> {
        let mut builder = hyper::Request::builder()
            .method(request.method.as_str())
            .uri(format!("{}{}", self.base, request.path));
        let names_content = request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        if request.body.is_some() && !names_content {
            builder = builder.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(key) = &request.key {
            builder = builder.header("idempotency-key", key.as_bytes());
        }
        if let Some(version) = request.if_match {
            builder = builder.header(IF_MATCH, crate::encode::etag(version));
        }
        if let Some(authorization) = &self.authorization {
            builder = builder.header(AUTHORIZATION, authorization);
        }
        for (name, value) in &request.headers {
            builder = builder.header(name, value);
        }
        let body = Full::new(request.body.clone().unwrap_or_default());
        builder.body(body).map_err(|error| Error::Unsendable(error.to_string()))
    }
}

/// Between half of a pause and all of it, so that callers that failed together do not retry together.
fn jittered(pause: Duration) -> Duration {
    let half = pause / 2;
    let span = u64::try_from(half.as_micros()).unwrap_or(u64::MAX);
    half + Duration::from_micros(random_below(span))
}

/// The error of a try that got no answer.
fn lost(error: &(dyn std::error::Error + 'static)) -> Error {
    match tls_error(error) {
        Some(error) => Error::Tls(error.to_string()),
        None => unreachable(chain(error)),
    }
}

fn unreachable(last: String) -> Error {
    Error::Unreachable { tries: 1, last }
}

/// An error with its causes. If the last cause is the operating system's, it alone says what happened.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    if last.is::<std::io::Error>() {
        return last.to_string();
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::RETRY_AFTER;

    #[test]
    fn a_servers_pause_is_kept_within_bounds() {
        let asked = |value: &'static str| {
            let headers = [(RETRY_AFTER, HeaderValue::from_static(value))].into_iter().collect();
            Raw { status: 503, headers, body: Bytes::new() }.retry_after()
        };
        assert_eq!(asked("0"), Some(Duration::ZERO));
        assert_eq!(asked("7"), Some(Duration::from_secs(7)));
        assert_eq!(asked("86400"), Some(LONGEST_RETRY_AFTER));
        assert_eq!(asked("-1"), None);
        assert_eq!(asked("Fri, 20 Nov 2426 12:00:00 GMT"), Some(LONGEST_RETRY_AFTER));
        assert_eq!(Raw { status: 503, headers: HeaderMap::new(), body: Bytes::new() }.retry_after(), None);
    }

    #[test]
    fn jitter_stays_between_half_and_all_of_a_pause() {
        for pause in [Duration::ZERO, Duration::from_micros(1), FIRST_PAUSE, LONGEST_PAUSE] {
            for _ in 0..100 {
                let jittered = jittered(pause);
                assert!(pause / 2 <= jittered && jittered <= pause, "{pause:?}: {jittered:?}");
            }
        }
    }
}
