//! A body off a connection of hyper's: within its bound and its time.

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use std::time::Duration;
use stockhold_api::decode::{Invalid, is_json};
use stockhold_api::problem::Problem;
use stockhold_domain::FieldError;

/// Longest wait for a body's end.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads a body of at most `limit` bytes, which has to be JSON if it is anything.
pub(super) async fn body(headers: &HeaderMap, body: Incoming, limit: usize) -> Result<Bytes, Problem> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let said = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if said.is_some_and(|said| said > limit as u64) {
        return Err(Problem::too_large(limit));
    }
    if let Some(encoding) = headers.get(CONTENT_ENCODING)
        && encoding != "identity"
    {
        let found = format!("Content-Encoding: {}", String::from_utf8_lossy(encoding.as_bytes()));
        return Err(Problem::unsupported_media_type(&found));
    }
    if let Some(kind) = headers.get(CONTENT_TYPE)
        && !is_json(kind.as_bytes())
    {
        return Err(Problem::unsupported_media_type(&String::from_utf8_lossy(kind.as_bytes())));
    }
    match tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, limit).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Problem::too_large(limit)),
        Ok(Err(_)) => Err(incomplete("ended before it was complete, or was not framed as HTTP wants it")),
        Err(_) => Err(incomplete("did not arrive in time")),
    }
}

fn incomplete(detail: &str) -> Problem {
    let error = FieldError { pointer: "".into(), detail: detail.to_owned() };
    Invalid { errors: vec![error] }.into()
}
