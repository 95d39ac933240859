//! Asking with patience: the same request with the same key until there is an answer that says something.
//!
//! It never repeats a refusal of the rules, and never makes a key of its own.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::fmt::{self, Write};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};
use stockhold_api::client::{Client, Error, Raw, TRY_TIMEOUT};
use stockhold_api::problem::Reason;
use stockhold_api::wire::Problem;

/// Pause before the second try; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// Longest pause between tries, unless the server asks for a longer one.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long the first answer may take: a wrong address should be noticed at once.
const FIRST_CONTACT: Duration = Duration::from_secs(5);
/// The header that marks an answer to a key that was used before.
const REPLAYED: &str = "idempotent-replayed";
/// Longest piece of an odd answer that an error shows, in characters.
const SHOWN_CHARS: usize = 120;
/// The path of the basket route.
pub(crate) const RESERVATIONS: &str = "/v1/reservations";

/// A success, and whether it is the repeated answer to an earlier request.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    pub(crate) body: T,
    pub(crate) replayed: bool,
}

/// Why there is no success.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The rules said no.
    Refused(Box<Problem>),
    /// Patience ran out.
    TimedOut {
        waited: Duration,
        last: String,
        /// Whether somebody is there, who answered the last try that it can't be done now.
        answered: bool,
        /// Whether every try was answered that nothing was done; if not, the command may have taken effect.
        nothing_done: bool,
    },
    /// The server does not behave like Stockhold, or the request can't be sent.
    Unexpected(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(problem) => write!(f, "{}: {}", problem.reason, problem.detail),
            Self::TimedOut { waited, last, answered, .. } => {
                let how = if *answered { "turned away" } else { "no answer" };
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
            other => Self::Unexpected(other.to_string()),
        }
    }
}

/// A client that waits for a server that is away.
pub(crate) struct RetryClient {
    client: Client,
    patience: Duration,
    retries: Cell<u64>,
    away: Cell<bool>,
    say: Box<dyn Fn(&str)>,
}

impl RetryClient {
    /// Speaks to the server at `url` and waits so long for each answer. `say` is told when the server goes away and
    /// when it is back.
    pub(crate) fn new(url: &str, patience: Duration, say: Box<dyn Fn(&str)>) -> Result<Self, CallError> {
        let client = Client::new(url).map_err(|error| CallError::Unexpected(error.to_string()))?;
        let client = client.with_patience(NonZeroU32::MIN, TRY_TIMEOUT);
        Ok(Self { client, patience, retries: Cell::new(0), away: Cell::new(false), say })
    }

    /// Sees whether somebody answers, before there is much to wait with. Any answer will do.
    pub(crate) async fn check_reachable(&self) -> Result<(), CallError> {
        self.with_retries(FIRST_CONTACT.min(self.patience), async || {
            self.client.send_raw("GET", "/", b"").await
        })
        .await?;
        Ok(())
    }

    /// How often something was sent again.
    pub(crate) fn retries(&self) -> u64 {
        self.retries.get()
    }

    /// Sends a command; the body carries its key.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Answer<T>, CallError> {
        let body = serde_json::to_vec(body).map_err(|error| CallError::Unexpected(error.to_string()))?;
        self.with_retries(self.patience, async || read(&self.client.send_raw("POST", path, &body).await?))
            .await
    }

    /// Sends anything and gives back the success as it came.
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

    /// The client itself, without patience.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Asks until there is an answer.
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
                Error::Refused(problem) if problem.retryable && problem.status >= 500 => {
                    Reason::from_name(&problem.reason).and_then(Reason::retry_after)
                }
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
                (self.say)(&format!(
                    "{}; trying again for {:.0} s",
                    last_attempt(&error),
                    left.as_secs_f64()
                ));
            }
            self.retries.set(self.retries.get() + 1);
            let asked = asked.map(|seconds| Duration::from_secs(seconds.into()));
            tokio::time::sleep(asked.unwrap_or(pause).min(left)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// What one try has come to.
fn last_attempt(error: &Error) -> String {
    match error {
        Error::Unreachable { last, .. } => last.clone(),
        other => other.to_string(),
    }
}

/// Whether an answer says that nothing was done.
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

/// What an answer that is no success says.
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

/// A path below an item.
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

/// Percent-encodes all but what RFC 3986 calls unreserved.
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
