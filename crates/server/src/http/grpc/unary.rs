//! Methods with one request and one answer.

use super::super::admission::bounds::BODY_TIMEOUT;
use super::super::http2_path::Http2Body;
use super::super::request_error::RequestError;
use super::body::MessageReader;
use super::messages::Messages;
use super::{Call, add_metadata, deadline};
use hyper::Response;
use hyper::body::Incoming;
use std::sync::Arc;
use stockhold_api::problem::Problem;
use stockhold_grpc::{HttpRequest, Method, Status, answer, of_fault, request};
use stockhold_service::Caller;
use tokio::time::timeout;

/// Answers a call of a caller who is known.
pub(super) async fn respond(
    call: Call,
    method: &'static Method,
    caller: Arc<Caller>,
    body: Incoming,
) -> Response<Http2Body> {
    let work = async {
        match read(&call, method, &caller, body).await {
            Ok(request) => served(&call, method, &request, caller).await,
            Err(response) => response,
        }
    };
    let ended = deadline::within(&call.head.headers, work).await;
    ended.unwrap_or_else(|status| call.refused(&status))
}

/// The HTTP request that a call stands for.
pub(super) async fn read(
    call: &Call,
    method: &Method,
    caller: &Caller,
    body: Incoming,
) -> Result<HttpRequest, Response<Http2Body>> {
    let limit = method.route.spec().body.limit();
    let mut reader = MessageReader::new(call, body, limit, call.holder(caller));
    let message = match timeout(BODY_TIMEOUT, reader.only()).await {
        Ok(Ok(message)) => message,
        Ok(Err(status)) => return Err(call.refused(&status)),
        Err(_) => return Err(call.problem(&call.refusal(Some(method), Problem::late().into()))),
    };
    request(method, &message).map_err(|fault| call.refused(&of_fault(&fault, &call.request_id.to_string())))
}

async fn served(
    call: &Call,
    method: &Method,
    request: &HttpRequest,
    caller: Arc<Caller>,
) -> Response<Http2Body> {
    let mut reply = call.answer(method, request, Some(caller)).await;
    if reply.status >= FIRST_ERROR {
        return call.problem(&reply);
    }
    match answer(method, &reply.body) {
        Ok(message) => {
            let messages = Messages::one(&message, &call.unsent, reply.budget.take());
            let mut response = call.response(Http2Body::Messages(messages));
            add_metadata(&mut response, &reply);
            response
        }
        Err(error) => call.refused(&defect(call, method, &error.to_string())),
    }
}

/// The lowest status of an error.
pub(super) const FIRST_ERROR: u16 = 400;

/// The status of an answer that can't be written.
pub(super) fn defect(call: &Call, method: &Method, why: &str) -> Status {
    super::status_of(&call.refusal(Some(method), RequestError::internal(why)))
}
