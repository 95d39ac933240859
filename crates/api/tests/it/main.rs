//! The wire contract from outside: what is refused and with which words, and that everything written can be read.

mod batches;
mod bodies;
mod changes;
mod client;
mod client_changes;
mod client_limits;
mod commands;
mod keys;
mod lists;
mod mangled;
mod openapi;
mod parameters;
mod parsers;
mod pools;
mod prices;
mod problems;
mod profiles;
mod samples;
mod shapes;
mod sources;
mod webhooks;
