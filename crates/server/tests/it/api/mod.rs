//! The HTTP API and the process around it, over the real server: what goes well, what is refused and how it is told,
//! crowds, deadlines, and an end in order.

mod batches;
mod both_paths;
mod changes;
mod configuration;
mod contract;
mod crowd;
mod documented;
mod expiry;
mod hostile;
mod http2;
mod lifecycle;
mod list_filters;
mod lists;
mod page_examples;
mod pools;
mod prices;
mod protocol;
mod refusals;
mod replays;
mod routes;
mod sale_terms;
pub(crate) mod server;
pub(crate) mod shape;
mod sourcing;
pub(crate) mod streams;
mod tls;
mod units;
pub(crate) mod wire;
mod wrong_fields;
mod wrong_requests;
