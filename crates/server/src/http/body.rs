//! Reads the body of a request within its size limit, its time limit and the memory budget: all of them on the general path, and
//! long ones on the fast path.

use super::admission::bounds::BODY_TIMEOUT;
use super::admission::memory::BudgetGuard;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use std::io::ErrorKind;
use std::pin::pin;
use stockhold_api::decode::is_json;
use stockhold_api::problem::Problem;
use stockhold_store::Failure;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// The error text for a body that ends early.
pub(super) const ENDED: &str = "ended before it was complete, or was not framed as HTTP wants it";

/// Smallest growth of a buffer for a long body, in bytes.
const GROW: usize = 64 * 1024;

/// A body, and the memory that it reserves until it is dropped.
pub(super) struct CountedBody {
    bytes: Vec<u8>,
    _budget: BudgetGuard,
}

impl CountedBody {
    /// No bytes.
    pub(super) fn empty(budget: BudgetGuard) -> Self {
        Self { bytes: Vec::new(), _budget: budget }
    }
}

impl AsRef<[u8]> for CountedBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a body of at most `limit` bytes. A body that is not empty must be JSON.
pub(super) async fn body(
    headers: &HeaderMap,
    body: Incoming,
    limit: usize,
    mut budget: BudgetGuard,
) -> Result<CountedBody, Problem> {
    if body.is_end_stream() {
        return Ok(CountedBody::empty(budget));
    }
    let said = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if said.is_some_and(|said| said > limit as u64) {
        return Err(Problem::too_large(limit));
    }
    if let Some(encoding) = headers.get(CONTENT_ENCODING)
        && encoding != "identity"
    {
        return Err(Problem::compressed(&String::from_utf8_lossy(encoding.as_bytes())));
    }
    if let Some(kind) = headers.get(CONTENT_TYPE)
        && !is_json(kind.as_bytes())
    {
        return Err(Problem::unsupported_media_type(&String::from_utf8_lossy(kind.as_bytes())));
    }
    let read = async {
        let (mut body, mut read) = (pin!(body), Vec::new());
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| Problem::unreadable(ENDED))?.into_data() else { continue };
            if read.len() + data.len() > limit {
                return Err(Problem::too_large(limit));
            }
            if !budget.grow(data.len()) {
                return Err(Problem::from(&Failure::Overloaded));
            }
            read.extend_from_slice(&data);
        }
        Ok(CountedBody { bytes: read, _budget: budget })
    };
    tokio::time::timeout(BODY_TIMEOUT, read).await.unwrap_or_else(|_| Err(Problem::late()))
}

/// Reads a body of `length` bytes from a connection of plain HTTP. `begun` is what of it was read before.
pub(super) async fn long_body(
    stream: &TcpStream,
    begun: &[u8],
    length: usize,
    mut budget: BudgetGuard,
) -> Result<CountedBody, Problem> {
    let ends = Instant::now() + BODY_TIMEOUT;
    let mut bytes = begun.to_vec();
    let mut filled = bytes.len();
    if !budget.grow(filled) {
        return Err(Problem::from(&Failure::Overloaded));
    }
    while filled < length {
        if filled == bytes.len() {
            // The buffer grows with the received data and not with the announced length.
            let more = (length - filled).min(filled.max(GROW));
            if !budget.grow(more) {
                return Err(Problem::from(&Failure::Overloaded));
            }
            bytes.resize(filled + more, 0);
        }
        let readable = timeout_at(ends, stream.readable()).await.map_err(|_| Problem::late())?;
        let room = bytes.get_mut(filled..).unwrap_or_default();
        match readable.and_then(|()| stream.try_read(room)) {
            Ok(count @ 1..) => filled += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => return Err(Problem::unreadable(ENDED)),
        }
    }
    Ok(CountedBody { bytes, _budget: budget })
}
