//! The process's exit codes. They are part of the interface: scripts and service managers read them, and docs/cli.md lists them.

use crate::standard_error;
use std::process::ExitCode;

/// The command did what it was asked to do.
pub const DONE: u8 = 0;
/// The command failed, the server refused it, or a check found an error. Standard error says why.
pub const FAILED: u8 = 1;
/// The command line, the configuration or an input file is invalid. Nothing was done.
pub const USAGE: u8 = 2;
/// The data directory can't be used: it is damaged, in use by another process, or of a newer version.
pub const DATA: u8 = 3;
/// The store failed while serving. A restart recovers it.
pub const STORE_FAILED: u8 = 4;
/// No server answered, or it answered that it was overloaded or unavailable. The command may have taken effect. The same command
/// with the same idempotency key takes effect once.
pub const NO_ANSWER: u8 = 5;
/// Done, except for what is listed: an import left rows out.
pub const PARTLY: u8 = 6;

/// Writes to standard error what went wrong.
pub fn because(code: u8, why: impl std::fmt::Display) -> ExitCode {
    standard_error::write(format_args!("stockhold: {why}\n"));
    ExitCode::from(code)
}
