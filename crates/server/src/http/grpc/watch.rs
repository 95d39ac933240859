//! `WatchEvents`: the event stream of the HTTP API, whose events become messages. The checks of the stream are the same, while it
//! is open too.

use super::super::http2_path::{Http2Body, unsent_of_stream};
use super::super::stream::{CREDENTIAL_ENDED, EventStream};
use super::super::unsent::Unsent;
use super::commands::moved;
use super::messages::{Messages, Piece, put};
use super::unary::{FIRST_ERROR, read};
use super::{Call, add_metadata, credential_ended, deadline};
use bytes::BytesMut;
use hyper::Response;
use hyper::body::{Body, Incoming};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use stockhold_grpc::{AnswerError, Method, Status, code, event_answer, plain, position_answer};
use stockhold_service::Caller;

/// Answers a call of a caller who is known.
pub(super) async fn respond(
    call: Call,
    method: &'static Method,
    caller: Arc<Caller>,
    body: Incoming,
) -> Response<Http2Body> {
    let request = match read(&call, method, &caller, body).await {
        Ok(request) => request,
        Err(response) => return response,
    };
    let mut reply = call.answer(method, &request, Some(caller)).await;
    let Some(stream) = reply.stream.take().filter(|_| reply.status < FIRST_ERROR) else {
        return call.problem(&reply);
    };
    let (mut ends, headers) = (call.ends.clone(), call.head.headers.clone());
    let ended = async move {
        let moved = async {
            // An error would mean that the connection has ended.
            let _ = ends.wait_for(|ends| *ends).await;
            moved()
        };
        deadline::within(&headers, moved).await.unwrap_or_else(|status| status)
    };
    let events = EventMessages { method, stream, unsent: unsent_of_stream(), ended: Box::pin(ended) };
    let mut response = call.response(Http2Body::Messages(Messages::Events(Box::new(events))));
    add_metadata(&mut response, &reply);
    response
}

/// The messages of an event stream.
pub(crate) struct EventMessages {
    method: &'static Method,
    stream: Box<EventStream>,
    unsent: Unsent,
    /// The status with which the stream ends before its events do.
    ended: Pin<Box<dyn Future<Output = Status>>>,
}

impl EventMessages {
    pub(super) fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Piece> {
        loop {
            if let Poll::Ready(status) = self.ended.as_mut().poll(context) {
                return Poll::Ready(Piece::Status(Box::new(status)));
            }
            let Some(Ok(frame)) = ready!(Pin::new(&mut *self.stream).poll_frame(context)) else {
                return Poll::Ready(Piece::Status(Box::new(moved())));
            };
            let Ok(piece) = frame.into_data() else { continue };
            if &piece[..] == CREDENTIAL_ENDED {
                return Poll::Ready(Piece::Status(Box::new(credential_ended())));
            }
            match messages(self.method, &piece) {
                Ok(messages) if messages.is_empty() => {}
                Ok(messages) => {
                    return Poll::Ready(Piece::Messages(self.unsent.track(messages.freeze(), None)));
                }
                Err(error) => {
                    tracing::error!(%error, "an event can't be sent over gRPC");
                    let status = plain(code::INTERNAL, "An event can't be written as a message.");
                    return Poll::Ready(Piece::Status(Box::new(status)));
                }
            }
        }
    }
}

/// The messages of a piece of an event stream. The piece consists of whole blocks.
fn messages(method: &Method, piece: &[u8]) -> Result<BytesMut, AnswerError> {
    let mut out = BytesMut::new();
    let (mut position, mut event) = (None, None);
    for line in piece.split(|byte| *byte == b'\n') {
        if let Some(id) = line.strip_prefix(b"id: ") {
            position = std::str::from_utf8(id).ok().and_then(|id| id.parse().ok());
        } else if let Some(data) = line.strip_prefix(b"data: ") {
            event = Some(data);
        } else if line.is_empty()
            && let Some(position) = position.take()
        {
            match event.take() {
                Some(event) => put(&mut out, &event_answer(method, position, event)?),
                None => put(&mut out, &position_answer(method, position)),
            }
        }
    }
    Ok(out)
}
