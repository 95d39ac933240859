//! The trace of a history: a hash over all answers and commits, in order. Two runs of one history have the same trace.

use std::fmt;
use std::io::Write;

/// The hash of a history so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace(blake3::Hasher);

/// The final hash of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceHash(u64);

impl Trace {
    /// Adds a text to the hash.
    pub(crate) fn note(&mut self, what: fmt::Arguments<'_>) {
        writeln!(self.0, "{what}").expect("a hasher takes everything");
    }

    /// The hash.
    pub(crate) fn hash(&self) -> TraceHash {
        let bytes = self.0.finalize();
        TraceHash(bytes.as_bytes().iter().take(8).fold(0, |bits, byte| (bits << 8) | u64::from(*byte)))
    }
}

impl fmt::Display for TraceHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
