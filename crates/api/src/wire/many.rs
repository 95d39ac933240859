//! Many at once: pages of lists, batches of commands, availabilities.

use super::{
    Amendment, Availability, Confirmation, Item, MergeRequest, PaymentWindow, Problem, Recipient,
    RequestedLine, Reservation, ReturnedUnits, Shipment, Stock, Terms, form,
};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};
use stockhold_domain::{Instant, ReservationId};

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Page<T> {
    /// The entries. A page may have fewer than `limit` although more follow.
    pub data: Vec<T>,
    /// Whether there are more.
    pub has_more: bool,
    /// The cursor of the next page. Events always have one, for the events to come.
    pub next_cursor: Option<String>,
}

/// One command of a batch.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Command {
    /// Hold a basket.
    Reserve {
        /// The wishes.
        lines: Vec<RequestedLine>,
        /// What goes with them.
        #[serde(flatten)]
        terms: Terms,
        /// The idempotency key; the client makes one when there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<String>,
    },
    /// Turn a hold into a sale.
    Confirm {
        /// Which.
        #[serde(serialize_with = "shown")]
        reservation_id: ReservationId,
        /// The order and the payment.
        #[serde(flatten)]
        confirmation: Confirmation,
        /// The idempotency key.
        #[serde(skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<String>,
    },
    /// Give a hold's units back.
    Release {
        /// Which.
        #[serde(serialize_with = "shown")]
        reservation_id: ReservationId,
        /// Why.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The idempotency key.
        #[serde(skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<String>,
    },
    /// Move a hold's deadline.
    Extend {
        /// Which.
        #[serde(serialize_with = "shown")]
        reservation_id: ReservationId,
        /// How long from now, in seconds.
        ttl_seconds: u32,
        /// The idempotency key.
        #[serde(skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<String>,
    },
    /// Change the lines, the deadline or the metadata of a hold.
    Amend {
        /// The reservation.
        #[serde(serialize_with = "shown")]
        reservation_id: ReservationId,
        /// What changes.
        #[serde(flatten)]
        amendment: Amendment,
        /// The version that the reservation must have.
        #[serde(skip_serializing_if = "Option::is_none")]
        if_version: Option<u64>,
        /// The idempotency key.
        #[serde(skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<String>,
    },
    /// Give a hold to another owner, customer or session.
    Transfer {
        /// The reservation.
        #[serde(serialize_with = "shown")]
        reservation_id: ReservationId,
        /// Who it is for afterwards.
        #[serde(flatten)]
        recipient: Recipient,
        /// The version that the reservation must have.
        #[serde(skip_serializing_if = "Option::is_none")]
        if_version: Option<u64>,
        /// The idempotency key.
        #[serde(skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<String>,
    },
    /// Move units of a hold into a new one.
    Split {
        /// The reservation.
        #[serde(serialize_with = "shown")]
        reservation_id: ReservationId,
        /// The units.
        lines: Vec<RequestedLine>,
        /// The version that the reservation must have.
        #[serde(skip_serializing_if = "Option::is_none")]
        if_version: Option<u64>,
        /// The idempotency key.
        #[serde(skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<String>,
    },
    /// Add the lines of other holds to a hold.
    Merge {
        /// The reservation.
        #[serde(serialize_with = "shown")]
        reservation_id: ReservationId,
        /// The other holds.
        #[serde(flatten)]
        merge: MergeRequest,
        /// The version that the reservation must have.
        #[serde(skip_serializing_if = "Option::is_none")]
        if_version: Option<u64>,
        /// The idempotency key.
        #[serde(skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<String>,
    },
    /// Open a payment window.
    OpenPayment {
        /// The reservation.
        #[serde(serialize_with = "shown")]
        reservation_id: ReservationId,
        /// The payment.
        #[serde(flatten)]
        window: PaymentWindow,
        /// The version that the reservation must have.
        #[serde(skip_serializing_if = "Option::is_none")]
        if_version: Option<u64>,
        /// The idempotency key.
        #[serde(skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<String>,
    },
    /// Close a payment window.
    ClosePayment {
        /// The reservation.
        #[serde(serialize_with = "shown")]
        reservation_id: ReservationId,
        /// The payment; that of the open window when absent.
        #[serde(skip_serializing_if = "Option::is_none")]
        payment_id: Option<String>,
        /// Why.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The idempotency key.
        #[serde(skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<String>,
    },
    /// Record that sold units left the shelf.
    Fulfil {
        /// The reservation.
        #[serde(serialize_with = "shown")]
        reservation_id: ReservationId,
        /// The units.
        #[serde(flatten)]
        shipment: Shipment,
        /// The idempotency key.
        #[serde(skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<String>,
    },
    /// Take back sold units.
    Return {
        /// The reservation.
        #[serde(serialize_with = "shown")]
        reservation_id: ReservationId,
        /// The units.
        #[serde(flatten)]
        returned: ReturnedUnits,
        /// The idempotency key.
        #[serde(skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<String>,
    },
    /// Create an item, or change its stock and settings. Setting it twice changes nothing, so that it takes no key.
    SetStock {
        /// The item's SKU.
        sku: String,
        /// Its location; the default one when absent.
        #[serde(skip_serializing_if = "Option::is_none")]
        location: Option<String>,
        /// The new values.
        #[serde(flatten)]
        stock: Stock,
    },
    /// Change an item's total by a difference.
    AdjustStock {
        /// The item's SKU.
        sku: String,
        /// Its location; the default one when absent.
        #[serde(skip_serializing_if = "Option::is_none")]
        location: Option<String>,
        /// Units that arrived (above 0) or left (below 0).
        delta: i64,
        /// Why.
        reason: String,
        /// The expected delivery that arrived.
        #[serde(skip_serializing_if = "Option::is_none")]
        supply_id: Option<String>,
        /// The idempotency key.
        #[serde(skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<String>,
    },
}

fn shown<S: Serializer>(id: &ReservationId, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(id)
}

impl Command {
    /// Its idempotency key, if it takes one.
    pub fn idempotency_key(&mut self) -> Option<&mut Option<String>> {
        match self {
            Self::Reserve { idempotency_key, .. }
            | Self::Confirm { idempotency_key, .. }
            | Self::Release { idempotency_key, .. }
            | Self::Extend { idempotency_key, .. }
            | Self::Amend { idempotency_key, .. }
            | Self::Transfer { idempotency_key, .. }
            | Self::Split { idempotency_key, .. }
            | Self::Merge { idempotency_key, .. }
            | Self::OpenPayment { idempotency_key, .. }
            | Self::ClosePayment { idempotency_key, .. }
            | Self::Fulfil { idempotency_key, .. }
            | Self::Return { idempotency_key, .. }
            | Self::AdjustStock { idempotency_key, .. } => Some(idempotency_key),
            Self::SetStock { .. } => None,
        }
    }
}

/// What became of one command of a batch.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct CommandResult {
    /// The status that the command's own route would answer with.
    pub status: u16,
    /// Whether its key had made it before.
    #[serde(default)]
    pub replayed: bool,
    /// The reservation; a release shows none.
    pub reservation: Option<Reservation>,
    /// The item, after its stock was set or adjusted.
    pub item: Option<Item>,
    /// Why it was not done.
    pub problem: Option<Problem>,
}

/// The availability of a SKU over several locations.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LocationsAvailability {
    /// The SKU.
    pub sku: String,
    /// Available units at all of the locations together.
    pub available: u64,
    /// Each location, in the order of the request.
    pub locations: Vec<LocationAvailability>,
}

/// The availability of a SKU at one of several locations.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LocationAvailability {
    /// The location.
    pub location: String,
    /// Available units; absent when the location does not stock the SKU.
    pub available: Option<u64>,
    /// When this was true.
    #[serde(default, deserialize_with = "form::optional_time")]
    pub as_of: Option<Instant>,
}

/// The availability of one of many items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stocked {
    /// There is such an item.
    Known(Availability),
    /// There is none.
    Unknown {
        /// What.
        sku: String,
        /// Where.
        location: String,
    },
}

impl<'de> Deserialize<'de> for Stocked {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Name {
            sku: String,
            location: String,
            #[serde(default)]
            unknown: bool,
        }
        let value = serde_json::Value::deserialize(from)?;
        let Name { sku, location, unknown } = Name::deserialize(&value).map_err(D::Error::custom)?;
        if unknown {
            return Ok(Self::Unknown { sku, location });
        }
        Availability::deserialize(value).map(Self::Known).map_err(D::Error::custom)
    }
}
