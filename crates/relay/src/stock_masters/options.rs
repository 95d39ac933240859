//! What a stock master is configured with.

use std::fmt;
use std::time::Duration;

/// What a stock master is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StockMasterKind {
    /// A system that speaks the JSON form of this service.
    Json,
    /// Magento, whose REST API is read only: it books orders and shipments itself.
    Magento,
}

impl StockMasterKind {
    /// The name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Magento => "magento",
        }
    }
}

/// When a stock master subtracts units from its figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecrementAt {
    /// When they are sold. The figure counts units that can be sold.
    Sale,
    /// When they leave the shelf. The figure counts units on the shelf.
    Shipment,
}

/// A stock master.
#[derive(Clone)]
pub struct StockMasterOptions {
    /// Its name, as items have it.
    pub name: String,
    /// What it is.
    pub kind: StockMasterKind,
    /// The address of its API.
    pub url: String,
    /// The bearer token for it.
    pub token: Option<String>,
    /// How often its figures are read.
    pub pull: Duration,
    /// How long sales are gathered before they are sent.
    pub push: Duration,
    /// How often orders and reservations are compared, and a report is made.
    pub reconcile: Duration,
    /// Whether orphans are released.
    pub release_orphans: bool,
    /// The age from which a reservation without an order is an orphan.
    pub orphan_after: Duration,
    /// What its figures count.
    pub decrement_at: DecrementAt,
}

/// Shows no secret.
impl fmt::Debug for StockMasterOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StockMasterOptions")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}
