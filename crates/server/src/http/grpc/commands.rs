//! `Commands`: a stream of commands. Commands that have arrived together are executed as one `POST /v1/commands`. Nothing is read
//! while results wait to be sent, so a client that does not read is not read either.

use super::super::credential_watch::CredentialWatch;
use super::super::http2_path::{Http2Body, unsent_of_stream};
use super::super::unsent::Unsent;
use super::body::MessageReader;
use super::messages::{Messages, Piece, put};
use super::unary::{FIRST_ERROR, defect};
use super::{Call, credential_ended, deadline, no_place, status_of};
use bytes::BytesMut;
use hyper::Response;
use hyper::body::Incoming;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;
use stockhold_api::decode::{BASKET_BODY_BYTES, COMMANDS, COMMANDS_BODY_BYTES};
use stockhold_grpc::{CommandResults, Commands, HttpRequest, Method, Status, code, of_fault, plain};
use stockhold_service::Caller;
use tokio::sync::mpsc;

/// Most commands that are executed together.
const COMMANDS_AT_ONCE: usize = 256;
const _: () = assert!(COMMANDS_AT_ONCE <= COMMANDS);
/// Bytes of commands after which no further one is added.
const BYTES_AT_ONCE: usize = 1024 * 1024;
const _: () = assert!(BYTES_AT_ONCE + BASKET_BODY_BYTES <= COMMANDS_BODY_BYTES);
/// Bytes of results after which a piece is sent.
const PIECE_BYTES: usize = 64 * 1024;

/// Answers a call. Its caller is checked again with each batch, and while it waits for the next one.
pub(super) async fn respond(
    mut call: Call,
    method: &'static Method,
    caller: &Arc<Caller>,
    body: Incoming,
) -> Response<Http2Body> {
    let route = super::super::route::Route { id: method.route, parameters: ["", ""] };
    if let Err(error) = call.worker.check_route(route, caller).await {
        return call.problem(&call.refusal(Some(method), error));
    }
    let holder = call.holder(caller);
    let place = match call.worker.admission.command_streams.take(holder.clone()) {
        Ok(place) => place,
        Err(full) => return call.refused(&no_place("calls of Commands", full)),
    };
    let (sender, pieces) = mpsc::channel(1);
    let response = call.response(Http2Body::Messages(Messages::Fed(pieces)));
    let unsent = unsent_of_stream();
    tokio::task::spawn_local(async move {
        let mut ends = call.ends.clone();
        let mut reader = MessageReader::new(&call, body, BASKET_BODY_BYTES, holder);
        let (worker, credential) = (Rc::clone(&call.worker), CredentialWatch::of(&call.head.borrow()));
        let headers = std::mem::take(&mut call.head.headers);
        call.head.headers = headers.clone();
        let work = async {
            loop {
                let Some((commands, last)) = gather(&call, method, &mut reader, &mut ends).await else {
                    return plain(code::OK, "");
                };
                if let Err(status) = execute(&mut call, method, commands, &unsent, &sender).await {
                    return status;
                }
                if let Some(status) = last {
                    return status;
                }
                reader.release();
            }
        };
        let status = tokio::select! {
            status = deadline::within(&headers, work) => status.unwrap_or_else(|status| status),
            () = credential.ended(&worker) => credential_ended(),
            () = sender.closed() => return,
        };
        drop(place);
        // A client that is gone reads no status.
        let _ = sender.send(Piece::Status(Box::new(status))).await;
    });
    response
}

/// Commands that have arrived, and the status with which the stream ends after them. `None` after the last command.
async fn gather(
    call: &Call,
    method: &Method,
    reader: &mut MessageReader,
    ends: &mut tokio::sync::watch::Receiver<bool>,
) -> Option<(Commands, Option<Status>)> {
    let mut commands = Commands::default();
    let mut next = tokio::select! {
        next = reader.next() => next,
        _ = ends.wait_for(|ends| *ends) => Err(moved()),
    };
    loop {
        let message = match next {
            Ok(Some(message)) => message,
            Ok(None) if commands.count() == 0 => return None,
            Ok(None) => return Some((commands, Some(plain(code::OK, "")))),
            Err(status) => return Some((commands, Some(status))),
        };
        if let Err(fault) = commands.add(method, &message) {
            let status = of_fault(&fault, &call.request_id.to_string());
            return Some((commands, Some(status)));
        }
        if commands.count() >= COMMANDS_AT_ONCE || commands.bytes() >= BYTES_AT_ONCE {
            return Some((commands, None));
        }
        let mut arrived = pin!(reader.next());
        let polled = poll_fn(|context| Poll::Ready(arrived.as_mut().poll(context))).await;
        next = match polled {
            Poll::Ready(next) => next,
            Poll::Pending => return Some((commands, None)),
        };
    }
}

/// Executes commands and sends their results. Fails with the status that ends the stream.
async fn execute(
    call: &mut Call,
    method: &Method,
    commands: Commands,
    unsent: &Unsent,
    sender: &mpsc::Sender<Piece>,
) -> Result<(), Status> {
    if commands.count() == 0 {
        return Ok(());
    }
    call.begun = Instant::now();
    let request = HttpRequest {
        path: method.route.spec().path.to_owned(),
        body: commands.into_body(),
        ..HttpRequest::default()
    };
    let reply = call.answer(method, &request, None).await;
    if reply.status >= FIRST_ERROR {
        return Err(status_of(&reply));
    }
    let results =
        CommandResults::read(&reply.body).map_err(|error| defect(call, method, &error.to_string()))?;
    let mut piece = BytesMut::new();
    for message in results.messages(method) {
        put(&mut piece, &message.map_err(|error| defect(call, method, &error.to_string()))?);
        if piece.len() >= PIECE_BYTES {
            send(&mut piece, unsent, sender).await?;
        }
    }
    if piece.is_empty() { Ok(()) } else { send(&mut piece, unsent, sender).await }
}

async fn send(piece: &mut BytesMut, unsent: &Unsent, sender: &mpsc::Sender<Piece>) -> Result<(), Status> {
    let piece = unsent.track(piece.split().freeze(), None);
    sender.send(Piece::Messages(piece)).await.map_err(|_| plain(code::UNAVAILABLE, "The client is gone."))
}

/// The status of a stream whose connection has to end.
pub(super) fn moved() -> Status {
    plain(
        code::UNAVAILABLE,
        "The connection ends: the server stops, or the connection is old. Connect again and continue.",
    )
}
