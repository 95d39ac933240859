//! What a stock master is asked for, in the terms of this service.

use super::json_source::JsonSource;
use super::magento_source::MagentoSource;
use super::options::{StockMasterKind, StockMasterOptions};
use serde_json::Value;
use std::num::NonZeroU32;
use std::time::Duration;
use stockhold_api::client::{Client, ClientAccess, Error, Raw};
use stockhold_api::printable::quote;
use stockhold_api::stock_master_record::DecrementBatch;
use stockhold_domain::{Instant, ItemKey};

const ACT_ON_ADDRESS: &str =
    "correct the url of the stock master in the configuration, or have it offer this";
const ACT_ON_TOKEN: &str =
    "correct the token of the stock master in the configuration, or have it give the token this right";
const ACT_ON_TLS: &str = "the stock master needs a certificate that this system trusts";
/// How long the body of the answer to a batch is read, and how much of it.
const BOOKED_ANSWER: (usize, Duration) = (64 * 1024, Duration::from_secs(5));
/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The units of an item that a stock master has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Figure {
    pub(super) item: ItemKey,
    /// The units, if they are a number that an item can have.
    pub(super) quantity: Result<u64, String>,
}

/// A page of figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FiguresPage {
    pub(super) figures: Vec<Figure>,
    /// Where the next page begins. `None` after the last one.
    pub(super) next: Option<String>,
    /// The last batch that the figures contain.
    pub(super) booked: BookedBatch,
}

/// The last batch that figures contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum BookedBatch {
    /// The stock master does not say.
    #[default]
    NotSaid,
    /// None yet.
    None,
    /// The batch with this id.
    Id(String),
}

impl BookedBatch {
    /// Whether the figures may lack the batch that was booked last.
    pub(super) fn lacks(&self, newest: Option<&String>) -> bool {
        match (self, newest) {
            (Self::NotSaid, _) | (_, None) => false,
            (Self::None, Some(_)) => true,
            (Self::Id(theirs), Some(newest)) => theirs != newest,
        }
    }
}

/// An order that a stock master has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MasterOrder {
    pub(super) id: String,
    pub(super) placed_at: Instant,
}

/// A page of orders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OrdersPage {
    pub(super) orders: Vec<MasterOrder>,
    /// Where the next page begins. `None` after the last one.
    pub(super) next: Option<String>,
}

/// What became of a batch of decrements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BookingResult {
    /// It is booked.
    Booked,
    /// It is not booked, and the same batch will not be booked.
    Refused(String),
    /// It may be booked or not.
    Unknown(SourceError),
}

/// Why a stock master gave no answer that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SourceError {
    /// It does not offer what it was asked for.
    NotOffered,
    /// No answer, or one that can't be read.
    Failed(String),
    /// Nothing works before somebody does the second.
    Blocked(String, &'static str),
}

impl SourceError {
    pub(super) fn message(&self) -> &str {
        match self {
            Self::NotOffered => "the stock master does not offer it",
            Self::Failed(what) | Self::Blocked(what, _) => what,
        }
    }

    /// Who has to do what before it works.
    pub(super) fn action(&self) -> Option<&'static str> {
        match self {
            Self::NotOffered => Some(ACT_ON_ADDRESS),
            Self::Failed(_) => None,
            Self::Blocked(_, action) => Some(action),
        }
    }
}

/// A stock master.
pub(super) enum Source {
    Json(JsonSource),
    Magento(MagentoSource),
}

impl Source {
    /// Makes what calls the stock master. Sends nothing yet.
    pub(super) fn new(options: &StockMasterOptions) -> Result<Self, String> {
        let mut access = ClientAccess::default();
        if let Some(token) = &options.token {
            access = access
                .with_api_key(token)
                .map_err(|_| "token: is not one word of visible ASCII characters")?;
        }
        let client = Client::with_access(&options.url, &access).map_err(|error| error.to_string())?;
        let caller = Caller(client.with_patience(NonZeroU32::MIN, TIMEOUT));
        Ok(match options.kind {
            StockMasterKind::Json => Self::Json(JsonSource(caller)),
            StockMasterKind::Magento => Self::Magento(MagentoSource(caller)),
        })
    }

    /// Whether sales are sent to it.
    pub(super) fn takes_decrements(&self) -> bool {
        matches!(self, Self::Json(_))
    }

    /// A page of its figures.
    pub(super) async fn figures(&self, cursor: Option<&str>) -> Result<FiguresPage, SourceError> {
        match self {
            Self::Json(source) => source.figures(cursor).await,
            Self::Magento(source) => source.figures(cursor).await,
        }
    }

    /// Sends a batch of decrements.
    pub(super) async fn book(&self, batch: &DecrementBatch) -> BookingResult {
        match self {
            Self::Json(source) => source.book(batch).await,
            Self::Magento(_) => BookingResult::Refused("Magento books sales itself".to_owned()),
        }
    }

    /// A page of the orders that were placed at this instant or later.
    pub(super) async fn orders(
        &self,
        since: Instant,
        cursor: Option<&str>,
    ) -> Result<OrdersPage, SourceError> {
        match self {
            Self::Json(source) => source.orders(since, cursor).await,
            Self::Magento(source) => source.orders(since, cursor).await,
        }
    }
}

/// Sends requests to a stock master.
pub(super) struct Caller(Client);

impl Caller {
    /// Reads JSON. A read that was not answered is repeated, because a server may close a connection that was not used for long.
    pub(super) async fn get(&self, path: &str) -> Result<Value, SourceError> {
        let mut answer = self.0.send_raw("GET", path, b"").await;
        if answer.is_err() {
            answer = self.0.send_raw("GET", path, b"").await;
        }
        let answer = answer.map_err(|error| no_answer(&error))?;
        match answer.status {
            200 => serde_json::from_slice(&answer.body)
                .map_err(|error| SourceError::Failed(format!("the answer is no JSON: {error}"))),
            404 | 405 | 501 => Err(SourceError::NotOffered),
            401 | 403 => Err(SourceError::Blocked(refusal(&answer), ACT_ON_TOKEN)),
            _ => Err(SourceError::Failed(refusal(&answer))),
        }
    }

    /// Sends a batch of decrements. It is booked if the answer repeats its id: a proxy or a page for maintenance may answer with any status.
    pub(super) async fn book(&self, path: &str, batch_id: &str, body: &[u8]) -> BookingResult {
        let headers = [("idempotency-key", batch_id), ("content-type", "application/json")];
        let sent = self.0.send_raw_beginning("POST", path, (&headers, body), BOOKED_ANSWER).await;
        let answer = match sent {
            Ok(answer) => answer,
            Err(error) => return BookingResult::Unknown(no_answer(&error)),
        };
        match answer.status {
            200..=299 if repeats(&answer.body, batch_id) => BookingResult::Booked,
            200..=299 => {
                let what = format!("{}; the answer does not repeat the batch_id", refusal(&answer));
                BookingResult::Unknown(SourceError::Failed(what))
            }
            401 | 403 => BookingResult::Unknown(SourceError::Blocked(refusal(&answer), ACT_ON_TOKEN)),
            404 | 405 => BookingResult::Unknown(SourceError::Blocked(refusal(&answer), ACT_ON_ADDRESS)),
            // It asks for another try. A retry of the same batch is right.
            408 | 425 | 429 | 500.. | ..200 | 300..=399 => {
                BookingResult::Unknown(SourceError::Failed(refusal(&answer)))
            }
            _ => BookingResult::Refused(refusal(&answer)),
        }
    }
}

/// Whether the first JSON value of a text is an object with this `batch_id`. What follows may be cut off.
fn repeats(text: &[u8], batch_id: &str) -> bool {
    let first = serde_json::Deserializer::from_slice(text).into_iter::<Value>().next();
    first.and_then(Result::ok).is_some_and(|answer| answer["batch_id"] == batch_id)
}

/// What a call without an answer means.
fn no_answer(error: &Error) -> SourceError {
    match error {
        Error::Tls(_) => SourceError::Blocked(error.to_string(), ACT_ON_TLS),
        other => SourceError::Failed(other.to_string()),
    }
}

/// The status and the text of an answer.
fn refusal(answer: &Raw) -> String {
    quote(&format!("HTTP {}: {}", answer.status, String::from_utf8_lossy(&answer.body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_booked_if_the_answer_repeats_its_id() {
        for (text, expected) in [
            (r#"{"batch_id":"b"}"#, true),
            (r#"{"ok":true,"batch_id":"b"} xxxxxxx"#, true),
            (r#"{"batch_id":"a"}"#, false),
            (r#"{"batch_id":"b""#, false),
            ("{}", false),
            ("", false),
            ("<html>back soon</html>", false),
            (r#"["b"]"#, false),
        ] {
            assert_eq!(repeats(text.as_bytes(), "b"), expected, "{text}");
        }
    }
}
