//! What is admitted: connections, streams, and the bytes of long requests and long answers. Everything has a bound for the whole
//! server, for one principal, and for callers without a known credential, so that nobody takes all of it from the others. All kinds of
//! connections use it: HTTP/1, HTTP/2, gRPC and the admin listener. Its figures are in `bounds.rs`.
//!
//! A short request on HTTP/1 costs no lock and no allocation here.

pub(crate) mod bounds;
pub(crate) mod connections;
mod examined;
mod holder;
pub(crate) mod memory;
pub(crate) mod places;

pub(crate) use examined::Examined;
pub(crate) use holder::Holder;

use memory::MemoryBudget;
use places::Places;
use std::sync::Arc;

/// What all workers share.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    pub(crate) memory: MemoryBudget,
    /// Event streams, of HTTP and of gRPC.
    pub(crate) event_streams: Arc<Places>,
    /// Calls of `Commands`.
    pub(crate) command_streams: Arc<Places>,
    /// Streams that need no credential: watches of health, and reflection.
    pub(crate) open_streams: Arc<Places>,
}

impl Default for Admission {
    fn default() -> Self {
        Self {
            memory: MemoryBudget::default(),
            event_streams: Places::new(bounds::EVENT_STREAMS),
            command_streams: Places::new(bounds::COMMAND_STREAMS),
            open_streams: Places::new(bounds::OPEN_STREAMS),
        }
    }
}
