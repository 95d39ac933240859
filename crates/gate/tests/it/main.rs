//! A gate over a real Redis server, in front of a store.

#[path = "../../../sql/tests/support/ports.rs"]
mod ports;

mod conformance;
mod counters;
mod redis_server;
mod refusals;
mod topologies;
mod world;
