//! The binary as its users have it: started as a process, spoken to over HTTP.

mod api;
mod backup;
mod bench;
mod ctl;
mod demo;
mod doctor;
mod import;
mod replay;
mod resume;
mod support;
mod tools;
