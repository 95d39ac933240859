//! The binary as its users have it: started as a process, spoken to over HTTP.

mod access;
mod api;
mod backup;
mod bench;
mod credentials;
mod ctl;
mod databases;
mod demo;
mod doctor;
mod export;
mod import;
mod keys;
mod records;
mod replay;
mod resume;
mod sim;
mod start;
mod support;
mod tls_support;
mod tools;
