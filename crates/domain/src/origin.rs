//! The caller of a command, as its events name it.

use crate::id::RequestId;
use crate::label::Label;

/// The caller of a command. It is written into the command's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The principal.
    pub actor: Label,
    /// The API key that the caller used, if it used one.
    pub key_id: Option<u128>,
    /// The request's id.
    pub request_id: RequestId,
    /// The caller's trace.
    pub trace: Option<Trace>,
}

/// A W3C trace context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Trace id.
    pub trace_id: u128,
    /// Parent span id.
    pub span_id: u64,
    /// Flags.
    pub flags: u8,
}
