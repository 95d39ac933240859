//! The wire contract of Stockhold's HTTP API: requests ([`decode`]), answers ([`encode`], and
//! [`wire`] for clients), refusals ([`problem`]), the routes ([`routes`]), all of it as a document ([`openapi`]), and a
//! client ([`client`]).
//!
//! Validation ends here: everything that [`decode`] returns is valid by its type. Nothing in this crate runs a rule,
//! reads a clock, or keeps state between requests.

pub mod cursor;
pub mod decode;
pub mod encode;
mod event_type;
pub mod openapi;
pub mod problem;
pub mod routes;
pub mod wire;

pub use event_type::{EventType, EventTypes};

#[cfg(feature = "client")]
pub mod client;
