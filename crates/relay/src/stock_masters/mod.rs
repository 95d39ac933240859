//! Stock masters: external systems that own the totals of items.
//!
//! Each has a task (`worker`). It follows the feed and knows two things of each item that the stock master owns, both as of the same
//! event: the counters of the item (`owned_items`), and the units that the stock master has not been told of (`decrements`). Units are
//! sent as batches, which are stored before they are sent, so that a batch that is sent again is the same. A figure of the stock master
//! is compared with the counters only while no batch has an unknown outcome (`figures`):
//!
//! `total_units − counted = figure − units that it was not told of`
//!
//! `counted` is what its decrements count: sold units, or units that have left the shelf. A sale moves both sides alike, so sales may go
//! on while figures are compared. Corrections are adjustments that expect the version of the item.
//!
//! Read in this order: `options`, `decrements`, `owned_items`, `source`, `worker`, `figures`, `orders`, `commands`.

mod commands;
mod decrements;
mod figures;
mod json_source;
mod lease;
mod magento_source;
mod options;
mod orders;
mod owned_items;
mod push;
mod source;
mod worker;

pub use commands::ReconciliationError;
pub use options::{DecrementAt, StockMasterKind, StockMasterOptions};
pub(crate) use worker::Worker;
