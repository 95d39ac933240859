//! What of a request is read before its route is asked: the body within its bound and time, and who is asking.

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName};
use std::time::Duration;
use stockhold_api::decode::{Invalid, is_json};
use stockhold_api::problem::Problem;
use stockhold_domain::{FieldError, Label, RequestId, Trace};

/// Longest wait for a body's end.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

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

/// The caller's name for the request, if it is one.
pub(super) fn request_id(headers: &HeaderMap) -> Option<RequestId> {
    let text = headers.get(REQUEST_ID)?.to_str().ok()?;
    Label::new(text).ok().map(RequestId::Given)
}

/// The caller's trace (<https://www.w3.org/TR/trace-context/#traceparent-header>); one that is not well formed is as
/// none, as the standard wants it.
pub(super) fn trace(headers: &HeaderMap) -> Option<Trace> {
    let text = headers.get(TRACEPARENT)?.to_str().ok()?;
    let mut parts = text.split('-');
    let (version, trace_id, span_id, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let lengths = (version.len(), trace_id.len(), span_id.len(), flags.len());
    let known_end = version != "00" || parts.next().is_none();
    if lengths != (2, 32, 16, 2) || version == "ff" || !known_end || text.bytes().any(|byte| byte == b'+') {
        return None;
    }
    u8::from_str_radix(version, 16).ok()?;
    let trace = Trace {
        trace_id: u128::from_str_radix(trace_id, 16).ok()?,
        span_id: u64::from_str_radix(span_id, 16).ok()?,
        flags: u8::from_str_radix(flags, 16).ok()?,
    };
    (trace.trace_id != 0 && trace.span_id != 0).then_some(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces() {
        let parse = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(TRACEPARENT, text.parse().unwrap());
            trace(&headers)
        };
        let good = parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        let expected = Trace {
            trace_id: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
            span_id: 0x00f0_67aa_0ba9_02b7,
            flags: 1,
        };
        assert_eq!(good, Some(expected));
        assert_eq!(parse("00-00000000000000000000000000000000-00f067aa0ba902b7-01"), None);
        assert_eq!(parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x"), None);
        assert_eq!(parse("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), None);
        assert_eq!(parse("00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), None);
    }
}
