//! The wire contract from outside: what is refused and how that is told, and that what is written can be read.

mod bodies;
mod client;
mod commands;
mod parameters;
mod problems;
mod samples;
mod shapes;
