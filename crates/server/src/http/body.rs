//! Reads the body of a request on the general path, within its size limit, its time limit and the memory budget.

use super::limits::BODY_TIMEOUT;
use super::memory_budget::BudgetGuard;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use std::pin::pin;
use stockhold_api::decode::is_json;
use stockhold_api::problem::Problem;
use stockhold_store::Failure;

/// The error text for a body that ends early.
pub(super) const ENDED: &str = "ended before it was complete, or was not framed as HTTP wants it";

/// Reads a body of at most `limit` bytes. A body that is not empty must be JSON.
pub(super) async fn body(
    headers: &HeaderMap,
    body: Incoming,
    limit: usize,
    budget: &mut BudgetGuard,
) -> Result<Vec<u8>, Problem> {
    if body.is_end_stream() {
        return Ok(Vec::new());
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
        Ok(read)
    };
    tokio::time::timeout(BODY_TIMEOUT, read).await.unwrap_or_else(|_| Err(Problem::late()))
}
