//! The wire contract from outside: what is refused and how that is told, and that what is written can be read.

mod batches;
mod bodies;
mod client;
mod commands;
mod lists;
mod mangled;
mod openapi;
mod parameters;
mod parsers;
mod problems;
mod samples;
mod shapes;
