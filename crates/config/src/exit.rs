//! What the process's exit code says, in one place. Part of the interface: scripts and service managers read it, and
//! docs/cli.md repeats it.

use std::process::ExitCode;

/// All went as it was asked.
pub const DONE: u8 = 0;
/// It could not be done, the server refused it, or what was checked is not right; standard error says why.
pub const FAILED: u8 = 1;
/// The command line, the configuration or an input file is not understood. Nothing was done.
pub const USAGE: u8 = 2;
/// The data directory can't be used: damaged, in use by another process, or of a newer version.
pub const DATA: u8 = 3;
/// The store failed while serving; a restart recovers.
pub const STORE_FAILED: u8 = 4;
/// No server answered, or it could not: unreachable, overloaded, unavailable. What was sent may have taken effect; the
/// same command with the same idempotency key finds out.
pub const NO_ANSWER: u8 = 5;
/// Done but for what is listed: an import left rows out.
pub const PARTLY: u8 = 6;

/// Says on standard error what went wrong.
pub fn because(code: u8, why: impl std::fmt::Display) -> ExitCode {
    eprintln!("stockhold: {why}");
    ExitCode::from(code)
}
