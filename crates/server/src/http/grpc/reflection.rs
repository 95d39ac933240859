//! The standard service for reflection, in both of its versions: what services and messages there are. It shows what the published
//! `.proto` files show, so it needs no credential, as the OpenAPI document needs none. Each request counts against the rate limit of
//! its address, and waits for it.

use super::super::admission::bounds::{IDLE_TIMEOUT, OPEN_MESSAGE_BYTES};
use super::super::http2_path::{Http2Body, unsent_of_stream};
use super::super::unsent::Unsent;
use super::body::MessageReader;
use super::messages::{Messages, Piece, framed};
use super::{Call, no_place};
use hyper::Response;
use hyper::body::Incoming;
use prost::Message;
use prost_reflect::{DescriptorPool, FileDescriptor};
use std::cell::Cell;
use std::sync::LazyLock;
use stockhold_grpc::{DESCRIPTORS, Status, code, plain};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{
    ErrorResponse, ExtensionNumberResponse, FileDescriptorResponse, ListServiceResponse,
    ServerReflectionRequest, ServerReflectionResponse, ServiceResponse,
};
use tonic_reflection::pb::{v1, v1alpha};

/// Both versions have the same messages, under other names.
const METHODS: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// All that is described.
static POOL: LazyLock<Result<DescriptorPool, String>> = LazyLock::new(|| {
    let mut pool = DescriptorPool::new();
    let sets = [
        DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        v1::FILE_DESCRIPTOR_SET,
        v1alpha::FILE_DESCRIPTOR_SET,
    ];
    for set in sets {
        pool.decode_file_descriptor_set(set).map_err(|error| error.to_string())?;
    }
    Ok(pool)
});

pub(super) fn is_for(path: &str) -> bool {
    METHODS.contains(&path)
}

/// Answers a call: a stream of requests.
pub(super) fn respond(call: Call, body: Incoming) -> Response<Http2Body> {
    let pool = match &*POOL {
        Ok(pool) => pool,
        Err(error) => {
            tracing::error!(error, "the descriptors of gRPC can't be read");
            return call.refused(&plain(code::INTERNAL, "The descriptors can't be read."));
        }
    };
    let place = match call.worker.admission.open_streams.take(call.unauthenticated()) {
        Ok(place) => place,
        Err(full) => return call.refused(&no_place("streams without a credential", full)),
    };
    let (sender, pieces) = mpsc::channel(1);
    let response = call.response(Http2Body::Messages(Messages::Fed(pieces)));
    let unsent = unsent_of_stream();
    tokio::task::spawn_local(async move {
        let mut ends = call.ends.clone();
        let status = tokio::select! {
            status = answer_all(&call, pool, body, &unsent, &sender) => status,
            () = sender.closed() => return,
            _ = ends.wait_for(|ends| *ends) => super::commands::moved(),
        };
        drop(place);
        // A client that is gone reads no status.
        let _ = sender.send(Piece::Status(Box::new(status))).await;
    });
    response
}

/// Answers requests until the last one: the status after them.
async fn answer_all(
    call: &Call,
    pool: &DescriptorPool,
    body: Incoming,
    unsent: &Unsent,
    sender: &mpsc::Sender<Piece>,
) -> Status {
    let mut reader = MessageReader::new(call, body, OPEN_MESSAGE_BYTES, call.unauthenticated());
    let mut is_first = true;
    loop {
        let message = match timeout(IDLE_TIMEOUT, reader.next()).await {
            Ok(Ok(Some(message))) => message,
            Ok(Ok(None)) => return plain(code::OK, ""),
            Ok(Err(status)) => return status,
            Err(_) => return plain(code::DEADLINE_EXCEEDED, "No request has come for too long."),
        };
        let Ok(request) = ServerReflectionRequest::decode(message) else {
            return plain(code::INVALID_ARGUMENT, "The message is not a ServerReflectionRequest.");
        };
        // The first request is counted as the call.
        if !is_first {
            wait_for_allowance(call).await;
        }
        is_first = false;
        reader.release();
        let answer = framed(&answer(pool, request).encode_to_vec());
        let mut budget = call.worker.admission.memory.guard(call.unauthenticated());
        if !budget.grow(answer.len()) {
            return plain(code::RESOURCE_EXHAUSTED, "The server has too much to do. Try again later.");
        }
        if sender.send(Piece::Messages(unsent.track(answer, Some(budget)))).await.is_err() {
            return plain(code::UNAVAILABLE, "The client is gone.");
        }
    }
}

/// Counts a request against the rate limit of its address, as soon as that allows it.
async fn wait_for_allowance(call: &Call) {
    while let Err(refused) = call.worker.count_open_request(&call.head.borrow(), &Cell::default()).await
        && let Some(verdict) = refused.rate
    {
        sleep(verdict.status.retry_after).await;
    }
}

fn answer(pool: &DescriptorPool, request: ServerReflectionRequest) -> ServerReflectionResponse {
    let answered = match request.message_request.as_ref() {
        Some(MessageRequest::FileByFilename(name)) => file(pool.get_file_by_name(name)),
        Some(MessageRequest::FileContainingSymbol(name)) => file(file_of_symbol(pool, name)),
        // No message has an extension.
        Some(MessageRequest::FileContainingExtension(_)) => not_found(),
        Some(MessageRequest::AllExtensionNumbersOfType(name)) => match pool.get_message_by_name(name) {
            Some(message) => MessageResponse::AllExtensionNumbersResponse(ExtensionNumberResponse {
                base_type_name: message.full_name().to_owned(),
                extension_number: message
                    .extensions()
                    .map(|extension| extension.number().cast_signed())
                    .collect(),
            }),
            None => not_found(),
        },
        Some(MessageRequest::ListServices(_)) => {
            let service =
                pool.services().map(|service| ServiceResponse { name: service.full_name().to_owned() });
            MessageResponse::ListServicesResponse(ListServiceResponse { service: service.collect() })
        }
        None => error(code::INVALID_ARGUMENT, "The request asks for nothing."),
    };
    ServerReflectionResponse {
        valid_host: request.host.clone(),
        original_request: Some(request),
        message_response: Some(answered),
    }
}

/// The file that declares a message, an enumeration, a service, or a part of one of them.
fn file_of_symbol(pool: &DescriptorPool, name: &str) -> Option<FileDescriptor> {
    let whole = |name: &str| {
        let message = pool.get_message_by_name(name).map(|message| message.parent_file());
        let enumeration = || pool.get_enum_by_name(name).map(|enumeration| enumeration.parent_file());
        let service = || pool.get_service_by_name(name).map(|service| service.parent_file());
        message.or_else(enumeration).or_else(service)
    };
    whole(name).or_else(|| {
        let (parent, part) = name.rsplit_once('.')?;
        let message = pool.get_message_by_name(parent);
        let has_field = message.is_some_and(|message| {
            message.get_field_by_name(part).is_some() || message.oneofs().any(|oneof| oneof.name() == part)
        });
        let service = pool.get_service_by_name(parent);
        let has_method = service.is_some_and(|service| service.methods().any(|method| method.name() == part));
        let enumeration = pool.get_enum_by_name(parent);
        let has_value = enumeration.is_some_and(|enumeration| enumeration.get_value_by_name(part).is_some());
        (has_field || has_method || has_value).then(|| whole(parent)).flatten()
    })
}

fn file(found: Option<FileDescriptor>) -> MessageResponse {
    found.map_or_else(not_found, |file| {
        let file_descriptor_proto = vec![file.encode_to_vec()];
        MessageResponse::FileDescriptorResponse(FileDescriptorResponse { file_descriptor_proto })
    })
}

fn not_found() -> MessageResponse {
    error(code::NOT_FOUND, "The server does not have it.")
}

fn error(error_code: i32, what: &str) -> MessageResponse {
    MessageResponse::ErrorResponse(ErrorResponse { error_code, error_message: what.to_owned() })
}
