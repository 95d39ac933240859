//! What the process's exit code says. Part of the interface: scripts and service managers read it.

use std::process::ExitCode;

/// All went as it was asked.
pub(crate) const DONE: u8 = 0;
/// It could not be done; standard error says why.
pub(crate) const FAILED: u8 = 1;
/// The command line or the configuration is not understood.
pub(crate) const USAGE: u8 = 2;
/// The data directory can't be used: damaged, in use by another process, or of a newer version.
pub(crate) const DATA: u8 = 3;
/// The store failed while serving; a restart recovers.
pub(crate) const STORE_FAILED: u8 = 4;

/// Says on standard error what went wrong.
pub(crate) fn because(code: u8, why: impl std::fmt::Display) -> ExitCode {
    eprintln!("stockhold: {why}");
    ExitCode::from(code)
}
