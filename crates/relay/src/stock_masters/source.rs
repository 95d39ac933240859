//! What a stock master is asked for, in the terms of this service.

use super::json_source::JsonSource;
use super::magento_source::MagentoSource;
use super::options::{StockMasterKind, StockMasterOptions};
use serde_json::Value;
use std::num::NonZeroU32;
use std::time::Duration;
use stockhold_api::client::{Client, ClientAccess, Raw};
use stockhold_api::stock_master_record::DecrementBatch;
use stockhold_domain::{Instant, ItemKey};

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
    /// The last batch that the figures contain, if the stock master says so.
    pub(super) booked: Option<String>,
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
    Unknown(String),
}

/// Why a stock master gave no answer that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SourceError {
    /// It does not offer what it was asked for.
    NotOffered,
    /// No answer, or one that can't be read.
    Failed(String),
}

impl SourceError {
    pub(super) fn message(&self) -> &str {
        match self {
            Self::NotOffered => "the stock master does not offer it",
            Self::Failed(what) => what,
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

    /// Whether it is told of sales.
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
    /// Reads JSON.
    pub(super) async fn get(&self, path: &str) -> Result<Value, SourceError> {
        let answer = self.0.send_raw("GET", path, b"").await;
        let answer = answer.map_err(|error| SourceError::Failed(error.to_string()))?;
        match answer.status {
            200 => serde_json::from_slice(&answer.body)
                .map_err(|error| SourceError::Failed(format!("the answer is no JSON: {error}"))),
            404 | 405 | 501 => Err(SourceError::NotOffered),
            _ => Err(SourceError::Failed(refusal(&answer))),
        }
    }

    /// Sends JSON with an idempotency key.
    pub(super) async fn post(&self, path: &str, key: &str, body: &[u8]) -> BookingResult {
        let headers = [("idempotency-key", key), ("content-type", "application/json")];
        match self.0.send_raw_with("POST", path, &headers, body).await {
            Err(error) => BookingResult::Unknown(error.to_string()),
            Ok(answer) => match answer.status {
                200..=299 => BookingResult::Booked,
                // It asks for another try, or is not configured yet. A retry of the same batch is right.
                401 | 403 | 404 | 405 | 408 | 425 | 429 | 500.. | ..200 | 300..=399 => {
                    BookingResult::Unknown(refusal(&answer))
                }
                _ => BookingResult::Refused(refusal(&answer)),
            },
        }
    }
}

/// The status and the text of an answer.
fn refusal(answer: &Raw) -> String {
    format!("HTTP {}: {}", answer.status, String::from_utf8_lossy(&answer.body))
}
