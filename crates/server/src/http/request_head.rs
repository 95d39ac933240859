//! The parts of a request's head that the answer depends on. Both paths fill it, so both give the same answers.

use super::document::accepts_gzip;
use std::net::IpAddr;
use stockhold_api::decode::Invalid;
use stockhold_api::profiles::Profile;
use stockhold_domain::{Instant, Label, RequestId, Trace};

/// The head of a request. All values are as they were received.
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a request")]
#[derive(Clone, Debug, Default)]
pub(super) struct RequestHead<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) query: Option<&'a str>,
    pub(super) request_id: Option<&'a str>,
    pub(super) idempotency_key: SingleHeader<'a>,
    pub(super) if_match: SingleHeader<'a>,
    pub(super) if_none_match: SingleHeader<'a>,
    pub(super) traceparent: Option<&'a str>,
    pub(super) host: SingleHeader<'a>,
    pub(super) origin: SingleHeader<'a>,
    pub(super) last_event_id: SingleHeader<'a>,
    pub(super) authorization: SingleHeader<'a>,
    /// The signature of a webhook of a payment provider.
    pub(super) provider_signature: SingleHeader<'a>,
    /// The caller's address, behind trusted proxies. Only tests have none.
    pub(super) client: Option<IpAddr>,
    /// The profile that the connection's listener serves alone; `None` on the API's listener.
    pub(super) listener: Option<Profile>,
    /// Whether a browser asks what a page of another origin may do.
    pub(super) is_preflight: bool,
    /// Whether exactly one `Host` header is required, as in HTTP/1.1 (RFC 9112, 3.2).
    pub(super) needs_host: bool,
    /// Whether the connection may have many requests at a time, as in HTTP/2.
    pub(super) is_multiplexed: bool,
    /// Whether the last `Accept-Encoding` header allows gzip.
    pub(super) accepts_gzip: bool,
    /// The wall time when it was read. The wall clock is read once for each request.
    pub(super) now: Instant,
}

/// A header that may be given once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SingleHeader<'a> {
    #[default]
    Absent,
    Value(&'a [u8]),
    Repeated,
}

impl<'a> SingleHeader<'a> {
    /// The value. A repeated header is an error, because nobody knows which value was intended.
    pub(super) fn value(self, pointer: &'static str) -> Result<Option<&'a [u8]>, Invalid> {
        match self {
            Self::Absent => Ok(None),
            Self::Value(value) => Ok(Some(value)),
            Self::Repeated => {
                let detail = "is given twice: give one".to_owned();
                Err(Invalid::header(pointer, detail))
            }
        }
    }

    fn add(&mut self, value: &'a [u8]) {
        *self = if *self == Self::Absent { Self::Value(value) } else { Self::Repeated };
    }
}

impl<'a> RequestHead<'a> {
    /// Adds a header, if it is one of these.
    pub(super) fn header(&mut self, name: &str, value: &'a [u8]) {
        let text = || std::str::from_utf8(value).ok();
        if name.eq_ignore_ascii_case("idempotency-key") {
            self.idempotency_key.add(value);
        } else if name.eq_ignore_ascii_case("x-request-id") {
            self.request_id = text();
        } else if name.eq_ignore_ascii_case("if-match") {
            self.if_match.add(value);
        } else if name.eq_ignore_ascii_case("if-none-match") {
            self.if_none_match.add(value);
        } else if name.eq_ignore_ascii_case("traceparent") {
            self.traceparent = text();
        } else if name.eq_ignore_ascii_case("accept-encoding") {
            self.accepts_gzip = accepts_gzip(value);
        } else if name.eq_ignore_ascii_case("host") {
            self.host.add(value);
        } else if name.eq_ignore_ascii_case("origin") {
            self.origin.add(value);
        } else if name.eq_ignore_ascii_case("last-event-id") {
            self.last_event_id.add(value);
        } else if name.eq_ignore_ascii_case("authorization") {
            self.authorization.add(value);
        } else if name.eq_ignore_ascii_case("stripe-signature") {
            self.provider_signature.add(value);
        } else if name.eq_ignore_ascii_case("access-control-request-method") {
            self.is_preflight = self.method == "OPTIONS";
        }
    }

    /// The profile in whose shape an error is answered, also when there is no route.
    pub(super) fn profile(&self) -> Option<Profile> {
        self.listener.or_else(|| Profile::of_path(self.path))
    }

    /// The caller's request id, if it is valid.
    pub(super) fn given_request_id(&self) -> Option<RequestId> {
        // Only ids that a response header can repeat.
        let text = self.request_id.filter(|text| text.is_ascii())?;
        Label::new(text).ok().map(RequestId::Given)
    }

    /// The caller's trace (<https://www.w3.org/TR/trace-context/#traceparent-header>). A malformed one is ignored, as
    /// the standard requires.
    pub(super) fn trace(&self) -> Option<Trace> {
        let text = self.traceparent?;
        let mut parts = text.split('-');
        let (version, trace_id, span_id, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let lengths = (version.len(), trace_id.len(), span_id.len(), flags.len());
        let known_end = version != "00" || parts.next().is_none();
        if lengths != (2, 32, 16, 2) || version == "ff" || !known_end || text.contains('+') {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces() {
        let parse = |text| RequestHead { traceparent: Some(text), ..RequestHead::default() }.trace();
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

    #[test]
    fn headers_that_count() {
        let mut head = RequestHead::default();
        head.header("IDEMPOTENCY-key", b"a");
        assert_eq!(head.idempotency_key, SingleHeader::Value(b"a"));
        head.header("Idempotency-Key", b"a");
        assert_eq!(head.idempotency_key, SingleHeader::Repeated);
        head.header("X-Request-Id", "caf\u{e9}".as_bytes());
        assert_eq!(head.given_request_id(), None);
        head.header("X-Request-Id", b"r-1");
        assert_eq!(head.given_request_id().unwrap().to_string(), "r-1");
    }
}
