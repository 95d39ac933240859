//! What tells two runs apart: a hash over everything that was answered and committed, in order.

use std::fmt;
use std::io::Write;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace(blake3::Hasher);

/// The hash of a history. Equal for two runs of the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceHash(u64);

impl Trace {
    /// Takes something in.
    pub(crate) fn note(&mut self, what: fmt::Arguments<'_>) {
        writeln!(self.0, "{what}").expect("a hasher takes everything");
    }

    /// What it has come to.
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
