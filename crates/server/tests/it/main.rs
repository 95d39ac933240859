//! The binary as its users have it: started as a process, spoken to over HTTP.

mod access;
mod api;
mod backup;
mod bench;
mod credentials;
mod ctl;
mod ctl_terms;
mod databases;
mod demo;
mod doctor;
mod export;
mod import;
mod import_terms;
mod keys;
mod profiles;
mod records;
mod replay;
mod resume;
mod sim;
mod sinks;
mod start;
mod support;
mod tls_support;
mod tools;
