//! The binary as its users have it: started as a process, spoken to over HTTP.

mod api;
mod demo;
mod replay;
mod resume;
mod support;
