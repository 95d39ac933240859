//! The wire contract of Stockhold's HTTP API: requests ([`decode`]), answers ([`encode`], and
//! [`wire`] for clients), refusals ([`problem`]), other wire shapes of the same
//! commands ([`profiles`]), the routes ([`routes`]), all of it as a document ([`openapi`]), and a
//! client ([`client`]).
//!
//! Validation ends here: everything that [`decode`] returns is valid by its type. Nothing in this crate runs a rule,
//! reads a clock, or keeps state between requests.

pub mod cursor;
pub mod decode;
pub mod delivery_state;
pub mod encode;
mod event_type;
mod field;
mod inventory_event;
pub mod openapi;
pub mod printable;
pub mod problem;
pub mod profiles;
pub mod resources;
pub mod routes;
pub mod sink_record;
pub mod stock_master_record;
pub mod webhook_record;
pub mod wire;

pub use event_type::{EventType, EventTypes, event_types_named, is_named};
pub use inventory_event::{InventoryEvent, InventoryEventType};

#[cfg(feature = "client")]
pub mod client;
