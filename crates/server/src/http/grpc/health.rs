//! The standard service for health checks. It needs no credential, as the checks of the admin listener need none.

use super::super::admission::bounds::{BODY_TIMEOUT, OPEN_MESSAGE_BYTES};
use super::super::http2_path::{Http2Body, unsent_of_stream};
use super::super::worker::Worker;
use super::body::MessageReader;
use super::messages::{Messages, Piece, framed};
use super::{Call, no_place};
use hyper::Response;
use hyper::body::Incoming;
use prost::Message;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stockhold_grpc::{SERVICES, code, plain};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

const CHECK: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";
/// How often a watch looks for a change.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(super) fn is_for(path: &str) -> bool {
    matches!(path, CHECK | WATCH)
}

pub(super) async fn respond(call: Call, body: Incoming) -> Response<Http2Body> {
    let mut reader = MessageReader::new(&call, body, OPEN_MESSAGE_BYTES, call.unauthenticated());
    let message = match timeout(BODY_TIMEOUT, reader.only()).await {
        Ok(Ok(message)) => message,
        Ok(Err(status)) => return call.refused(&status),
        Err(_) => {
            return call.refused(&plain(code::DEADLINE_EXCEEDED, "The request did not arrive in time."));
        }
    };
    let Ok(request) = HealthCheckRequest::decode(message) else {
        return call.refused(&plain(code::INVALID_ARGUMENT, "The message is not a HealthCheckRequest."));
    };
    let is_known = request.service.is_empty() || SERVICES.contains(&&*request.service);
    if call.head.path == WATCH {
        return watch(call, is_known);
    }
    if !is_known {
        return call.refused(&plain(code::NOT_FOUND, "The server has no such service."));
    }
    let messages = Messages::one(&encoded(status(&call.worker)), &call.unsent, None);
    call.response(Http2Body::Messages(messages))
}

/// Sends the status, and then each change of it.
fn watch(call: Call, is_known: bool) -> Response<Http2Body> {
    let place = match call.worker.admission.open_streams.take(call.unauthenticated()) {
        Ok(place) => place,
        Err(full) => return call.refused(&no_place("streams without a credential", full)),
    };
    let (sender, pieces) = mpsc::channel(1);
    let response = call.response(Http2Body::Messages(Messages::Fed(pieces)));
    let unsent = unsent_of_stream();
    tokio::task::spawn_local(async move {
        let mut ends = call.ends.clone();
        let mut told = None;
        let changes = async {
            loop {
                let now = if is_known { status(&call.worker) } else { ServingStatus::ServiceUnknown };
                if told != Some(now) {
                    told = Some(now);
                    let message = unsent.track(framed(&encoded(now)), None);
                    if sender.send(Piece::Messages(message)).await.is_err() {
                        return;
                    }
                }
                sleep(POLL_INTERVAL).await;
            }
        };
        tokio::select! {
            () = changes => {}
            () = sender.closed() => {}
            _ = ends.wait_for(|ends| *ends) => {}
        }
        drop(place);
        // A client that is gone reads no status.
        let _ = sender.send(Piece::Status(Box::new(super::commands::moved()))).await;
    });
    response
}

fn status(worker: &Worker) -> ServingStatus {
    if worker.draining.load(Ordering::Relaxed) || worker.store.fatal_error().is_some() {
        ServingStatus::NotServing
    } else {
        ServingStatus::Serving
    }
}

fn encoded(status: ServingStatus) -> Vec<u8> {
    HealthCheckResponse { status: status.into() }.encode_to_vec()
}
