//! Recognizes plain requests, and finds their parts in the bytes that were read. A request that is in any way
//! ambiguous is not plain.

use super::document::accepts_gzip;
use super::listeners::Peer;
use super::request_head::{RequestHead, SingleHeader};
use super::route::Route;
use std::ops::Range;
use stockhold_api::decode::{BODY_BYTES, is_json};
use stockhold_api::routes::RouteId;
use stockhold_domain::Instant;
use stockhold_service::{ForwardedHeader, TrustedProxies};

/// Methods of plain requests.
const METHODS: [&str; 5] = ["POST", "GET", "DELETE", "PUT", "PATCH"];
/// The path of the event stream. It is compared before the route is matched.
const EVENT_STREAM: &[u8] = RouteId::StreamEvents.spec().path.as_bytes();
/// Characters that no valid URL has unescaped. Such requests are left to hyper.
const ODD: [char; 5] = ['#', '`', '<', '>', '"'];
/// Most headers of a plain request.
const HEADERS: usize = 32;

/// Why bytes do not begin with the head of a plain request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotPlain {
    /// The head is not complete.
    Incomplete,
    /// It is no plain request.
    Other,
}

/// The parts of a plain request, as ranges of the bytes.
#[derive(Default)]
pub(super) struct PlainRequest {
    /// Length of the head.
    pub(super) head: usize,
    /// Length of the body.
    pub(super) body: usize,
    pub(super) method: &'static str,
    path: Range<usize>,
    query: Option<Range<usize>>,
    request_id: Option<Range<usize>>,
    idempotency_key: Option<Range<usize>>,
    if_match: Option<Range<usize>>,
    if_none_match: Option<Range<usize>>,
    traceparent: Option<Range<usize>>,
    host: Option<Range<usize>>,
    accept_encoding: Option<Range<usize>>,
    origin: Option<Range<usize>>,
    authorization: Option<Range<usize>>,
    /// The one forwarding header that may be read.
    forwarded: Option<Range<usize>>,
}

impl PlainRequest {
    /// Parses the beginning of the bytes.
    pub(super) fn find(bytes: &[u8], forwarded: Option<ForwardedHeader>) -> Result<Self, NotPlain> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(bytes) {
            Ok(httparse::Status::Complete(head)) => {
                Self::of(bytes, head, &request, forwarded).ok_or(NotPlain::Other)
            }
            Ok(httparse::Status::Partial) => Err(NotPlain::Incomplete),
            Err(_) => Err(NotPlain::Other),
        }
    }

    /// `None` when the request is not plain.
    fn of(
        bytes: &[u8],
        head: usize,
        request: &httparse::Request<'_, '_>,
        forwarded: Option<ForwardedHeader>,
    ) -> Option<Self> {
        if request.version != Some(1) {
            return None;
        }
        let method = METHODS.into_iter().find(|method| request.method == Some(*method))?;
        let plain = |path: &&str| path.starts_with('/') && path.is_ascii() && !path.contains(ODD);
        let target = request.path.filter(plain)?;
        let place = |part: &[u8]| {
            let from = part.as_ptr().addr() - bytes.as_ptr().addr();
            from..from + part.len()
        };
        let mut plain = Self { head, method, path: place(target.as_bytes()), ..Self::default() };
        if let Some((path, query)) = target.split_once('?') {
            (plain.path, plain.query) = (place(path.as_bytes()), Some(place(query.as_bytes())));
        }
        let mut length = None;
        for header in request.headers.iter() {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            // A repeated header is left to hyper.
            let once =
                |slot: &mut Option<Range<usize>>| slot.replace(place(header.value)).is_none().then_some(());
            match header.name.len() {
                14 if is("content-length") => {
                    let digits = header.value.iter().all(u8::is_ascii_digit);
                    (length.is_none() && digits).then_some(())?;
                    length = Some(std::str::from_utf8(header.value).ok()?.parse::<usize>().ok()?);
                }
                12 if is("content-type") => is_json(header.value).then_some(())?,
                10 if is("connection") => header.value.eq_ignore_ascii_case(b"keep-alive").then_some(())?,
                4 if is("host") => once(&mut plain.host)?,
                15 if is("idempotency-key") => once(&mut plain.idempotency_key)?,
                15 if is("accept-encoding") => plain.accept_encoding = Some(place(header.value)),
                12 if is("x-request-id") => once(&mut plain.request_id)?,
                11 if is("traceparent") => once(&mut plain.traceparent)?,
                8 if is("if-match") => once(&mut plain.if_match)?,
                13 if is("if-none-match") => once(&mut plain.if_none_match)?,
                6 if is("origin") => once(&mut plain.origin)?,
                13 if is("authorization") => once(&mut plain.authorization)?,
                17 if is("transfer-encoding") => return None,
                16 if is("content-encoding") => return None,
                16 if is("stripe-signature") => return None,
                6 if is("expect") => return None,
                7 if is("upgrade") => return None,
                _ if forwarded.is_some_and(|header| is(header.name())) => once(&mut plain.forwarded)?,
                _ => {}
            }
        }
        plain.body = length.unwrap_or(0);
        // Only a few routes take the longest bodies. hyper refuses bodies that are too long.
        let fits = plain.body <= BODY_BYTES
            || plain.route(bytes).is_some_and(|route| plain.body <= route.body().limit());
        // hyper writes event streams.
        let answered = bytes.get(plain.path.clone()) != Some(EVENT_STREAM);
        (fits && answered).then_some(plain)
    }

    fn route<'a>(&self, bytes: &'a [u8]) -> Option<Route<'a>> {
        let path = bytes.get(self.path.clone()).and_then(|path| std::str::from_utf8(path).ok())?;
        Route::find(self.method, path).ok()
    }

    /// The head of the request from `peer`, read at this instant.
    pub(super) fn request_head<'a>(
        &self,
        bytes: &'a [u8],
        peer: Peer,
        proxies: &TrustedProxies,
        now: Instant,
    ) -> RequestHead<'a> {
        let part = |range: &Range<usize>| bytes.get(range.clone()).unwrap_or_default();
        let text = |range: &Range<usize>| std::str::from_utf8(part(range)).ok();
        let once = |range: &Option<Range<usize>>| {
            range.as_ref().map_or(SingleHeader::Absent, |range| SingleHeader::Value(part(range)))
        };
        RequestHead {
            method: self.method,
            path: text(&self.path).unwrap_or_default(),
            query: self.query.as_ref().and_then(text),
            request_id: self.request_id.as_ref().and_then(text),
            idempotency_key: once(&self.idempotency_key),
            if_match: once(&self.if_match),
            if_none_match: once(&self.if_none_match),
            traceparent: self.traceparent.as_ref().and_then(text),
            host: once(&self.host),
            accepts_gzip: self.accept_encoding.as_ref().is_some_and(|range| accepts_gzip(part(range))),
            origin: once(&self.origin),
            last_event_id: SingleHeader::Absent,
            authorization: once(&self.authorization),
            provider_signature: SingleHeader::Absent,
            client: Some(proxies.client_address(peer.address, self.forwarded.iter().map(part))),
            is_preflight: false,
            listener: peer.listener,
            needs_host: true,
            is_multiplexed: false,
            now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_plain() {
        let find =
            |text: &str| PlainRequest::find(text.as_bytes(), None).map(|plain| (plain.head, plain.body));
        let head = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
        assert_eq!(find(head), Ok((head.len(), 0)));
        assert_eq!(find(&head[..head.len() - 1]), Err(NotPlain::Incomplete));
        assert_eq!(find(&head.replace("1.1", "1.0")), Err(NotPlain::Other));
        assert_eq!(find(&head.replace("GET", "HEAD")), Err(NotPlain::Other));
        for target in ["/a`b", "/<a>", "/a?b=<c", "/a#b"] {
            assert_eq!(find(&head.replacen('/', target, 1)), Err(NotPlain::Other), "{target}");
        }
        assert_eq!(find(&head.replace("Host: h", "Host: h\r\nHost: h")), Err(NotPlain::Other));
        assert_eq!(find(&head.replace("Host", "Expect")), Err(NotPlain::Other));
        let long = |path: &str, length: usize| {
            find(&format!("POST {path} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n")).map(|(_, body)| body)
        };
        assert_eq!(long("/v1/sale/pause", BODY_BYTES), Ok(BODY_BYTES));
        assert_eq!(long("/v1/sale/pause", BODY_BYTES + 1), Err(NotPlain::Other));
        assert_eq!(long("/v1/commands", 8 << 20), Ok(8 << 20));
        assert_eq!(long("/v1/commands", (8 << 20) + 1), Err(NotPlain::Other));
    }

    /// For any bytes: a plain request lies within them, and hyper would read it in the same way.
    #[test]
    fn bytes_that_are_nearly_right() {
        fn parse(bytes: &[u8]) {
            let peer = Peer { address: [127, 0, 0, 1].into(), listener: None, is_grpc: false };
            let Ok(plain) = PlainRequest::find(bytes, None) else { return };
            let head = bytes.get(..plain.head).expect("a head within the bytes");
            // Empty lines may come before a request.
            assert!(head.ends_with(b"\n") && head.trim_ascii_start().starts_with(plain.method.as_bytes()));
            let mut headers = [httparse::EMPTY_HEADER; HEADERS];
            let mut request = httparse::Request::new(&mut headers);
            request.parse(head).expect("a head that is whole");
            let named = |name: &str| {
                let found = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
                found.map(|header| header.value).collect::<Vec<_>>()
            };
            assert_eq!(named("transfer-encoding"), Vec::<&[u8]>::new());
            let length = match named("content-length").as_slice() {
                [] => 0,
                [one] => std::str::from_utf8(one).unwrap().parse().unwrap(),
                more => panic!("{} lengths", more.len()),
            };
            assert_eq!(plain.body, length);
            let request_head =
                plain.request_head(bytes, peer, &TrustedProxies::default(), Instant::from_micros(0));
            let target = request.path.unwrap();
            assert_eq!(request_head.path, target.split('?').next().unwrap());
            assert_eq!(request_head.query, target.split_once('?').map(|(_, query)| query));
        }
        let examples = [
            "GET /v1/inventory/a%2Fb?location=hub HTTP/1.1\r\nHost: h\r\nX-Request-Id: r\r\n\r\n",
            "POST /v1/inventory/a/reserve HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n\
             Content-Length: 16\r\nIdempotency-Key: \"k\"\r\n\r\n{\"owner_id\":\"o\"}",
            "DELETE /v1/reservations/x?reason=no HTTP/1.1\r\nconnection: keep-alive\r\nIf-Match: \"3\"\r\n\r\n",
            "PUT /v1/inventory/a HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
        ];
        let examples = examples.map(|text| text.as_bytes().to_vec());
        stockhold_conformance::mutate::mutate(("plain head", parse), &examples, 40_000);
    }

    #[test]
    fn a_stream_is_seen_by_its_path() {
        let path = std::str::from_utf8(EVENT_STREAM).unwrap();
        assert_eq!(Route::find("GET", path).map(|route| route.id), Ok(RouteId::StreamEvents));
        assert!(PlainRequest::find(format!("GET {path}?after=1 HTTP/1.1\r\n\r\n").as_bytes(), None).is_err());
        assert!(PlainRequest::find(format!("GET {path}s HTTP/1.1\r\n\r\n").as_bytes(), None).is_ok());
    }
}
