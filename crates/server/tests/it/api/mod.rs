//! The HTTP API and the process around it, over the real server: what goes well, what is refused and how it is told,
//! crowds, deadlines, and an end in order.

mod both_paths;
mod configuration;
mod crowd;
mod expiry;
mod lifecycle;
mod protocol;
mod refusals;
mod replays;
mod routes;
mod server;
mod shape;
mod wire;
mod wrong_fields;
mod wrong_requests;
