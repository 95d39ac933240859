//! What a store is. Every adapter (embedded, PostgreSQL, …) does three mechanical things around
//! [`stockhold_domain::decide`]: load what a batch of commands may touch, decide them in turn, commit everything at
//! once; then, and only then, it answers. No rule stands in an adapter.
//!
//! Reading order: [`Store`], the [`Job`] it is given and the [`Query`] among it; [`codec`], the bytes that events become; [`digest`], how
//! idempotency keys are found; [`model`], the naive reference; [`conformance`], the suite that every adapter passes.

mod job;
mod query;
mod store;
mod unit_history;

pub mod clock;
pub mod codec;
pub mod digest;
pub mod fault;
pub mod ids;
pub mod unit_transitions;

#[cfg(feature = "model")]
pub mod conformance;
#[cfg(feature = "model")]
pub mod model;
#[cfg(feature = "testing")]
pub mod mutate;
#[cfg(feature = "testing")]
pub mod parsers;

pub use job::{Answer, Failure, Inbox, Job, ReplyTo, Request};
pub use query::{
    Cursor, ItemPageRequest, MAX_UNITS_SCANNED, Pauses, Query, QueryResult, ReservationFilter,
    ReservationPage, SeatMap, UnitFilter, UnitPage, UnitState,
};
pub use store::{EventRow, Store};
pub use unit_history::{UNIT_HISTORY_LIMIT, UnitHistory, for_each_unit};
