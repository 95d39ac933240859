//! Stores for tests.

#[cfg(feature = "testing")]
mod bench;
#[cfg(feature = "testing")]
pub mod parsers;
pub mod stepped;

#[cfg(feature = "testing")]
pub use bench::{AnswerInbox, Bench, open, sell, submit_all};
