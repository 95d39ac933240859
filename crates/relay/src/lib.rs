//! Delivers the events of a store to other systems: to *sinks*, which are files, brokers and caches, and to webhooks.
//!
//! Each sink has a task (`runner`). It reads the feed from the sink's position, has it delivered, and moves the position once the sink
//! has confirmed. So an event is delivered at least once, and never before its commit. A sink that is down delays itself alone.
//!
//! The position is in a record of the store (`lease`). The instance whose id is in the record serves the sink. Each change of a
//! record names the version that it expects, so an instance that has lost a sink can't move its position.
//!
//! Webhooks get the same events (`webhooks`). Their endpoints are records of the store, and not in the configuration.
//!
//! Stock masters are external systems that own the totals of items (`stock_masters`). The relay sends sales to them, and their figures are
//! compared with the totals.
//!
//! Read in this order: `sink`, `message`, `runner`, `lease`, `relay`, `webhooks`, `webhook_commands`, `stock_masters`.

mod connection;
mod feed;
mod filter;
mod inventory;
mod lease;
mod message;
mod options;
mod reconciliation_commands;
mod records;
mod relay;
mod runner;
mod sink;
mod sinks;
mod status;
mod stock_masters;
mod webhook_commands;
mod webhooks;

pub use filter::{EventFilter, TypeFilter};
pub use options::{KafkaOptions, RelayOptions, SinkKind, SinkOptions, SinkStart};
pub use reconciliation_commands::ReconciliationError;
pub use relay::{Relay, SinkCommandError};
pub use stock_masters::{DecrementAt, StockMasterKind, StockMasterOptions};
pub use webhook_commands::{DeliveryFilter, WebhookCommandError};
pub use webhooks::WebhookOptions;
