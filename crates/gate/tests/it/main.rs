//! A gate over a real Redis server, in front of a store.

mod conformance;
mod counters;
mod redis_server;
mod refusals;
mod topologies;
mod world;
