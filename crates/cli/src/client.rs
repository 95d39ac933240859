//! Requests with retries: the same request with the same idempotency key, until the server decides or the time is over.
//!
//! It never repeats a request that the rules refused, and never makes a key of its own.

use crate::credentials;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::fmt::{self, Write};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};
use stockhold_api::client::{Client, ClientAccess, Error, Raw, TRY_TIMEOUT};
use stockhold_api::problem::Reason;
use stockhold_api::wire::Problem;

/// Pause before the second try. It doubles with each further try.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// Longest pause between tries, unless the server asks for a longer one.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long the first answer may take: a wrong address should be reported quickly.
const FIRST_CONTACT: Duration = Duration::from_secs(5);
/// The header of an answer that repeats an earlier one with the same key.
const REPLAYED: &str = "idempotent-replayed";
/// Most characters of an unexpected answer that an error shows.
const SHOWN_CHARS: usize = 120;
/// The path of reservations with several lines.
pub(crate) const RESERVATIONS: &str = "/v1/reservations";

/// A success, and whether it repeats the answer to an earlier request with the same key.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    pub(crate) body: T,
    pub(crate) replayed: bool,
}

/// Why a request did not succeed.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The server refused it by its rules.
    Refused(Box<Problem>),
    /// The time for retries is over.
    TimedOut {
        waited: Duration,
        last: String,
        /// Whether a server answered the last try, and could not do it now.
        answered: bool,
        /// Whether every try was answered with "nothing was done". If not, the command may have taken effect.
        nothing_done: bool,
    },
    /// The server does not answer like Stockhold, or the request can't be sent.
    Unexpected(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(problem) => write!(f, "{}: {}", problem.reason, problem.detail),
            Self::TimedOut { waited, last, answered, .. } => {
                let how = if *answered { "the server could not do it" } else { "no answer" };
                write!(f, "{how} for {:.1} s; the last try: {last}", waited.as_secs_f64())
            }
            Self::Unexpected(what) => f.write_str(what),
        }
    }
}

impl From<Error> for CallError {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(problem) => Self::Refused(problem),
            Error::Tls(_) => Self::Unexpected(format!("{error}\n{}", credentials::TLS_ADVICE)),
            other => Self::Unexpected(other.to_string()),
        }
    }
}

/// A client that retries while the server can't be reached.
pub(crate) struct RetryClient {
    client: Client,
    access: ClientAccess,
    patience: Duration,
    retries: Cell<u64>,
    away: Cell<bool>,
    say: Box<dyn Fn(&str)>,
}

impl RetryClient {
    /// A client for the server at `url` that waits up to `patience` for each answer. It calls `say` when the server can no longer be
    /// reached, and when it answers again. It has the certificates and the key of the environment. `plain_http`: the key may be read on
    /// the way.
    pub(crate) fn new(
        url: &str,
        plain_http: bool,
        patience: Duration,
        say: Box<dyn Fn(&str)>,
    ) -> Result<Self, CallError> {
        let access = credentials::access(url, plain_http).map_err(CallError::Unexpected)?;
        Self::with_access(url, access, patience, say)
    }

    /// The same without a key, for an API that has no use for one.
    pub(crate) fn without_key(
        url: &str,
        patience: Duration,
        say: Box<dyn Fn(&str)>,
    ) -> Result<Self, CallError> {
        Self::with_access(url, credentials::certificates(), patience, say)
    }

    fn with_access(
        url: &str,
        access: ClientAccess,
        patience: Duration,
        say: Box<dyn Fn(&str)>,
    ) -> Result<Self, CallError> {
        let client = Client::with_access(url, &access)?.with_patience(NonZeroU32::MIN, TRY_TIMEOUT);
        Ok(Self { client, access, patience, retries: Cell::new(0), away: Cell::new(false), say })
    }

    /// The certificates and the key.
    pub(crate) fn access(&self) -> &ClientAccess {
        &self.access
    }

    /// Checks that a server answers, before there is work that would have to wait. Any answer is enough.
    pub(crate) async fn check_reachable(&self) -> Result<(), CallError> {
        self.with_retries(FIRST_CONTACT.min(self.patience), async || {
            self.client.send_raw("GET", "/", b"").await
        })
        .await?;
        Ok(())
    }

    /// How many requests were sent again.
    pub(crate) fn retries(&self) -> u64 {
        self.retries.get()
    }

    /// Sends a command. The body has its idempotency key.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Answer<T>, CallError> {
        self.command("POST", path, None, body).await
    }

    /// Sends a command by any method, under the condition that its target has this version. The body has its idempotency
    /// key.
    pub(crate) async fn command<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        version: Option<u64>,
        body: &impl Serialize,
    ) -> Result<Answer<T>, CallError> {
        let body = serde_json::to_vec(body).map_err(|error| CallError::Unexpected(error.to_string()))?;
        let version = version.map(|version| format!("\"{version}\""));
        let headers: Vec<(&str, &str)> =
            version.as_deref().map(|version| ("if-match", version)).into_iter().collect();
        let send = async || read(&self.client.send_raw_with(method, path, &headers, &body).await?);
        self.with_retries(self.patience, send).await
    }

    /// Sends a request and returns the success as it came.
    pub(crate) async fn send(&self, method: &str, path: &str, body: &[u8]) -> Result<Raw, CallError> {
        self.send_with(method, path, &[], body).await
    }

    /// The same with headers.
    pub(crate) async fn send_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Raw, CallError> {
        let send = async || {
            let raw = self.client.send_raw_with(method, path, headers, body).await?;
            if is_success(&raw) { Ok(raw) } else { Err(refusal(&raw)) }
        };
        self.with_retries(self.patience, send).await
    }

    /// The client without retries.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Runs one call with retries.
    pub(crate) async fn ask<T>(
        &self,
        ask: impl AsyncFn(&Client) -> Result<T, Error>,
    ) -> Result<T, CallError> {
        self.with_retries(self.patience, async || ask(&self.client).await).await
    }

    async fn with_retries<T>(
        &self,
        patience: Duration,
        ask: impl AsyncFn() -> Result<T, Error>,
    ) -> Result<T, CallError> {
        let started = Instant::now();
        let mut pause = FIRST_PAUSE;
        let mut nothing_done = true;
        loop {
            let error = match ask().await {
                Ok(answer) => {
                    if self.away.replace(false) {
                        (self.say)("the server answers again");
                    }
                    return Ok(answer);
                }
                Err(error) => error,
            };
            let asked = match &error {
                Error::Unreachable { .. } => None,
                Error::Refused(problem) if problem.retryable && problem.status >= 500 => problem.retry_after,
                _ => return Err(error.into()),
            };
            nothing_done &= says_nothing_done(&error);
            let waited = started.elapsed();
            let Some(left) = patience.checked_sub(waited).filter(|left| !left.is_zero()) else {
                let answered = matches!(error, Error::Refused(_));
                return Err(CallError::TimedOut {
                    waited,
                    last: last_attempt(&error),
                    answered,
                    nothing_done,
                });
            };
            if !self.away.replace(true) {
                (self.say)(&format!("{}; retrying for {:.0} s", last_attempt(&error), left.as_secs_f64()));
            }
            self.retries.set(self.retries.get() + 1);
            tokio::time::sleep(asked.unwrap_or(pause).min(left)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// The error text of one try.
fn last_attempt(error: &Error) -> String {
    match error {
        Error::Unreachable { last, .. } => last.clone(),
        other => other.to_string(),
    }
}

/// Whether the answer says that nothing was done.
fn says_nothing_done(error: &Error) -> bool {
    let Error::Refused(problem) = error else { return false };
    let reason = Reason::from_name(&problem.reason);
    matches!(reason, Some(Reason::Overloaded | Reason::Unavailable))
}

fn read<T: DeserializeOwned>(raw: &Raw) -> Result<Answer<T>, Error> {
    if !is_success(raw) {
        return Err(refusal(raw));
    }
    let body = serde_json::from_slice(&raw.body).map_err(|error| unexpected(raw, &error))?;
    Ok(Answer { body, replayed: raw.headers.contains_key(REPLAYED) })
}

fn is_success(raw: &Raw) -> bool {
    (200..300).contains(&raw.status)
}

/// The error of an answer that is not a success.
fn refusal(raw: &Raw) -> Error {
    match serde_json::from_slice(&raw.body) {
        Ok(problem) => Error::Refused(problem),
        Err(error) => unexpected(raw, &error),
    }
}

fn unexpected(raw: &Raw, error: &serde_json::Error) -> Error {
    let begins: String = String::from_utf8_lossy(&raw.body).chars().take(SHOWN_CHARS).collect();
    let what = format!("{error}; it begins with {begins:?}. Is this address a Stockhold server's API?");
    Error::Unexpected { status: raw.status, what }
}

/// The path of an item, with something after it.
pub(crate) fn item_path(sku: &str, location: &str, tail: &str) -> String {
    let mut path = format!("/v1/inventory/{}{tail}", encoded(sku));
    push_query(&mut path, "location", location);
    path
}

/// Appends a query parameter.
pub(crate) fn push_query(path: &mut String, name: &str, value: &str) {
    path.push(if path.contains('?') { '&' } else { '?' });
    path.push_str(name);
    path.push('=');
    path.push_str(&encoded(value));
}

/// Percent-encodes everything except what RFC 3986 calls unreserved.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
