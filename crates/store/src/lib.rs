//! What a store is. Every adapter (embedded, PostgreSQL, …) does three mechanical things around
//! [`stockhold_domain::decide`]: load what a batch of commands may touch, decide them in turn, commit everything at
//! once; then, and only then, it answers. No rule stands in an adapter.
//!
//! Reading order: [`Store`], the [`Work`] it is given and the [`Query`] among it; [`codec`], the bytes that events become; [`digest`], how
//! idempotency keys are found; [`model`], the naive reference; [`conformance`], the suite that every adapter passes.

mod query;
mod store;
mod unit_history;
mod work;

pub mod clock;
pub mod codec;
pub mod digest;
pub mod fault;
pub mod ids;
pub mod unit_steps;

#[cfg(feature = "model")]
pub mod conformance;
#[cfg(feature = "testing")]
pub mod mangle;
#[cfg(feature = "model")]
pub mod model;
#[cfg(feature = "testing")]
pub mod parsers;

pub use query::{
    Cursor, Filter, Found, Page, Pauses, Query, SeatMap, Shelf, Standing, UNITS_LOOKED_AT, UnitFilter,
    UnitPage,
};
pub use store::{EventRow, Store};
pub use unit_history::{UNIT_HISTORY, UnitHistory, each_unit};
pub use work::{Answer, Ask, Failure, Inbox, ReplyTo, Work};
