//! The wire contract of Stockhold's HTTP API: what may be asked ([`decode`]), what is answered ([`encode`], and
//! [`wire`] for those who read it), how a refusal is told ([`problem`]), all of it as a document ([`openapi`]), and a
//! client that speaks it ([`client`]).
//!
//! Validation ends here: what [`decode`] lets through is valid by its type. Nothing in this crate knows a rule, reads a
//! clock, or keeps state between requests.

pub mod cursor;
pub mod decode;
pub mod encode;
pub mod openapi;
pub mod problem;
pub mod routes;
pub mod wire;

#[cfg(feature = "client")]
pub mod client;
