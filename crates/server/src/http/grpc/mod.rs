//! gRPC over HTTP/2. Each method is a twin of a route: its request becomes the request of the route, which is answered as all
//! others are, with the same checks of the caller, and the answer becomes a message. Nothing here decides what a caller may do.

mod body;
mod commands;
mod deadline;
mod health;
mod messages;
mod reflection;
mod unary;
mod watch;

pub(super) use messages::Messages;

use super::admission::Holder;
use super::admission::places::NoPlace;
use super::authorize;
use super::general_path::client_address;
use super::http2_path::Http2Body;
use super::listeners::Peer;
use super::reply::Reply;
use super::request_error::RequestError;
use super::request_head::RequestHead;
use super::route::{Route, RouteError};
use super::unsent::Unsent;
use super::worker::Worker;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use stockhold_api::problem::Problem;
use stockhold_domain::RequestId;
use stockhold_grpc::{HttpRequest, Kind, Method, Status, code, of_problem, plain};
use stockhold_service::Caller;
use tokio::sync::watch as signal;

const CONTENT: &str = "application/grpc";
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// The metadata that a call may have. All else that HTTP reads from headers is a field of the message.
const METADATA: [&str; 5] = ["authorization", "idempotency-key", "x-request-id", "traceparent", "origin"];
/// Headers of an answer that are metadata too.
const ANSWER_METADATA: [&str; 3] = ["ratelimit", "ratelimit-policy", "retry-after"];

/// Whether a request is a call.
pub(super) fn is_call(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let Some(rest) = kind.strip_prefix(CONTENT.as_bytes()) else { return false };
    matches!(rest.first(), None | Some(b'+' | b';'))
}

/// The answer to a request that is none, on the listener of gRPC.
pub(super) fn not_a_call() -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    response
}

/// What a call works with.
struct Call {
    worker: Rc<Worker>,
    /// The answers of the connection, except streams.
    unsent: Unsent,
    /// Becomes true when the connection has to end.
    ends: signal::Receiver<bool>,
    head: OwnedHead,
    request_id: RequestId,
    begun: Instant,
}

/// Answers a call.
pub(super) async fn respond(
    worker: &Rc<Worker>,
    unsent: &Unsent,
    peer: Peer,
    ends: signal::Receiver<bool>,
    request: Request<Incoming>,
) -> Response<Http2Body> {
    let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes().to_vec());
    let head = OwnedHead::new(worker, peer, request.uri().path(), authority, request.headers().clone());
    let request_id = worker.name(&head.borrow());
    let (worker, unsent) = (Rc::clone(worker), unsent.clone());
    let call = Call { worker, unsent, ends, request_id, begun: Instant::now(), head };
    if call.head.headers.get("grpc-encoding").is_some_and(|encoding| encoding != "identity") {
        return call
            .refused(&plain(code::UNIMPLEMENTED, "Messages can't be compressed: send them as they are."));
    }
    if health::is_for(&call.head.path) || call.worker.grpc_reflection && reflection::is_for(&call.head.path) {
        if let Err(refused) = call.count_address().await {
            return refused;
        }
        if health::is_for(&call.head.path) {
            return health::respond(call, request.into_body()).await;
        }
        return reflection::respond(call, request.into_body());
    }
    let body = request.into_body();
    let Some(method) = Method::find(&call.head.path) else {
        let nothing = async |_: &Caller| Ok(Vec::new());
        let head = call.head.borrow();
        let unknown = Err(RouteError::UnknownPath);
        let reply = call.worker.answer(&head, unknown, nothing, &call.request_id, call.begun).await;
        return call.problem(&reply);
    };
    let caller = match call.worker.authenticate(&call.head.borrow()).await {
        Ok(caller) => caller,
        Err(error) => return call.problem(&call.refusal(Some(method), error)),
    };
    match method.kind {
        Kind::Unary => unary::respond(call, method, caller, body).await,
        Kind::Commands => commands::respond(call, method, &caller, body).await,
        Kind::Events => watch::respond(call, method, caller, body).await,
    }
}

impl Call {
    /// Answers the request of a route for a caller who is known.
    async fn answer(&self, method: &Method, request: &HttpRequest, caller: Option<Arc<Caller>>) -> Reply {
        let mut head = self.head.borrow();
        head.method = method.route.spec().method.name();
        head.path = &request.path;
        head.query = request.query.as_deref();
        if let Some(if_match) = &request.if_match {
            head.header("if-match", if_match.as_bytes());
        }
        if request.create_only {
            head.header("if-none-match", b"*");
        }
        if let Some(key) = &request.idempotency_key {
            head.header("idempotency-key", key.as_bytes());
        }
        head.now = self.worker.clocks.wall.now();
        let [first, second] = &request.parameters;
        let route = Route { id: method.route, parameters: [first, second] };
        let body = async |_: &Caller| Ok::<_, Problem>(request.body.as_slice());
        self.worker.answer_caller(&head, Ok(route), body, &self.request_id, self.begun, caller).await
    }

    /// The reply to a call that is refused before its route is asked.
    fn refusal(&self, method: Option<&Method>, error: RequestError) -> Reply {
        let route = method.map(|method| Route { id: method.route, parameters: ["", ""] });
        let (found, head) = (route.ok_or(RouteError::UnknownPath), self.head.borrow());
        self.worker.finish(&head, found, Err(error), &self.request_id, self.begun, &Cell::default())
    }

    /// Counts a call that needs no credential against the rate limit of its address.
    async fn count_address(&self) -> Result<(), Response<Http2Body>> {
        let counted = self.worker.count_open_request(&self.head.borrow(), &Cell::default()).await;
        counted.map_err(|error| self.problem(&self.refusal(None, error)))
    }

    /// Whom the work of the call is counted for.
    fn holder(&self, caller: &Caller) -> Holder {
        self.worker.holder(caller, self.head.client())
    }

    /// The same for a call that needs no credential.
    fn unauthenticated(&self) -> Holder {
        self.worker.unauthenticated(self.head.client())
    }

    /// The answer with the status of a problem.
    fn problem(&self, reply: &Reply) -> Response<Http2Body> {
        let mut response = self.refused(&status_of(reply));
        add_metadata(&mut response, reply);
        response
    }

    /// The answer with a status and without a message.
    fn refused(&self, status: &Status) -> Response<Http2Body> {
        let mut response = self.response(Http2Body::Whole(None));
        response.headers_mut().extend(trailers(status));
        response
    }

    /// An answer whose status is in its body.
    fn response(&self, body: Http2Body) -> Response<Http2Body> {
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(CONTENT));
        if let Ok(id) = HeaderValue::try_from(self.request_id.to_string()) {
            headers.insert(REQUEST_ID, id);
        }
        response
    }
}

/// The status of a stream for which there is no place.
fn no_place(what: &str, full: NoPlace) -> Status {
    let why = match full {
        NoPlace::All(most) => format!("{most} {what} are open, which is the limit. Try again later."),
        NoPlace::OfHolder(most) => {
            format!("The caller has {most} {what}, which is the limit for one. End some of them.")
        }
    };
    plain(code::RESOURCE_EXHAUSTED, &why)
}

/// The status of a stream whose credential does not count any more.
fn credential_ended() -> Status {
    plain(code::UNAUTHENTICATED, "The credential of the stream is not valid any more.")
}

/// The status of a reply that is a problem.
fn status_of(reply: &Reply) -> Status {
    let retry_after = reply.headers.iter().find(|(name, _)| *name == "retry-after");
    of_problem(&reply.body, retry_after.and_then(|(_, seconds)| seconds.parse().ok()))
}

fn add_metadata(response: &mut Response<Http2Body>, reply: &Reply) {
    let headers = response.headers_mut();
    if reply.replayed {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    for (name, value) in reply.headers.iter().filter(|(name, _)| ANSWER_METADATA.contains(name)) {
        if let Ok(value) = HeaderValue::try_from(&**value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

/// The trailers of a status.
fn trailers(status: &Status) -> HeaderMap {
    let code = tonic::Code::from_i32(status.code);
    let details = bytes::Bytes::copy_from_slice(&status.details);
    let mut headers = HeaderMap::new();
    // It fails for a message or details that no header can have, and both are escaped.
    let _ = tonic::Status::with_details(code, status.message.as_str(), details).add_header(&mut headers);
    headers
}

/// The head of a call.
struct OwnedHead {
    path: String,
    /// `:authority`, which is what `Host` is to HTTP/1.1.
    authority: Option<Vec<u8>>,
    headers: HeaderMap,
    head: RequestHead<'static>,
}

impl OwnedHead {
    fn new(worker: &Worker, peer: Peer, path: &str, authority: Option<Vec<u8>>, headers: HeaderMap) -> Self {
        let head = RequestHead {
            method: "POST",
            is_multiplexed: true,
            now: worker.clocks.wall.now(),
            client: Some(client_address(worker, peer.address, &headers)),
            ..RequestHead::default()
        };
        Self { path: path.to_owned(), authority, headers, head }
    }

    /// The caller's address.
    fn client(&self) -> IpAddr {
        authorize::client_address(&self.head)
    }

    fn borrow(&self) -> RequestHead<'_> {
        let mut head = RequestHead { path: &self.path, ..self.head.clone() };
        if let Some(authority) = &self.authority {
            head.header("host", authority);
        }
        for (name, value) in self.headers.iter().filter(|(name, _)| METADATA.contains(&name.as_str())) {
            head.header(name.as_str(), value.as_bytes());
        }
        head
    }
}
