//! Refusals: a problem becomes a `google.rpc.Status`.

use crate::descriptors::POOL;
use crate::fault::Fault;
use prost::Message;
use prost_reflect::{DeserializeOptions, DynamicMessage, FieldDescriptor, ReflectMessage};
use stockhold_api::problem::Reason;
use stockhold_api::wire::Problem;
use tonic_types::pb::Status as RpcStatus;
use tonic_types::pb::{BadRequest, ErrorInfo, RetryInfo, bad_request::FieldViolation};

/// The domain of all reasons.
const DOMAIN: &str = "stockhold";
/// The prefix of the types of details.
const TYPES: &str = "type.googleapis.com/";
/// Longest problem in bytes whose lists are sent. A status is a part of the headers, and clients take only about 8 KiB of them.
const MAX_PROBLEM_BYTES: usize = 2 * 1024;
const PROBLEM: &str = "stockhold.v1.Problem";
const ERROR_INFO: &str = "google.rpc.ErrorInfo";
const BAD_REQUEST: &str = "google.rpc.BadRequest";
const RETRY_INFO: &str = "google.rpc.RetryInfo";

/// The status of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The code of gRPC.
    pub code: i32,
    /// What happened.
    pub message: String,
    /// An encoded `google.rpc.Status`, for the metadata `grpc-status-details-bin`; empty without details.
    pub details: Vec<u8>,
}

/// The codes of gRPC (<https://grpc.io/docs/guides/status-codes/>).
pub mod code {
    #![allow(missing_docs, reason = "the codes are those of gRPC")]
    pub const OK: i32 = 0;
    pub const UNKNOWN: i32 = 2;
    pub const INVALID_ARGUMENT: i32 = 3;
    pub const DEADLINE_EXCEEDED: i32 = 4;
    pub const NOT_FOUND: i32 = 5;
    pub const PERMISSION_DENIED: i32 = 7;
    pub const RESOURCE_EXHAUSTED: i32 = 8;
    pub const FAILED_PRECONDITION: i32 = 9;
    pub const OUT_OF_RANGE: i32 = 11;
    pub const UNIMPLEMENTED: i32 = 12;
    pub const INTERNAL: i32 = 13;
    pub const UNAVAILABLE: i32 = 14;
    pub const UNAUTHENTICATED: i32 = 16;
}

/// The code of a reason.
fn code_of(reason: Reason) -> i32 {
    match (reason, reason.status()) {
        (Reason::PositionOutOfRange, _) => code::OUT_OF_RANGE,
        (Reason::UnknownRoute, _) | (_, 405) => code::UNIMPLEMENTED,
        (_, 400 | 415 | 422) => code::INVALID_ARGUMENT,
        (_, 401) => code::UNAUTHENTICATED,
        (_, 403 | 421) => code::PERMISSION_DENIED,
        (_, 404) => code::NOT_FOUND,
        (_, 408) => code::DEADLINE_EXCEEDED,
        (_, 402 | 409 | 412) => code::FAILED_PRECONDITION,
        (_, 413 | 429 | 431) => code::RESOURCE_EXHAUSTED,
        (_, 502 | 503) => code::UNAVAILABLE,
        _ => code::INTERNAL,
    }
}

/// A status without details.
pub fn plain(code: i32, message: impl Into<String>) -> Status {
    Status { code, message: message.into(), details: Vec::new() }
}

/// The status of a message that is no request of its method.
pub fn of_fault(fault: &Fault, request_id: &str) -> Status {
    let what = if fault.pointer.is_empty() { "The message" } else { fault.pointer.as_str() };
    let problem = serde_json::json!({
        "type": "/problems/invalid_request",
        "title": Reason::InvalidRequest.title(),
        "status": Reason::InvalidRequest.status(),
        "detail": format!("{what} {}.", fault.detail),
        "reason": Reason::InvalidRequest.name(),
        "retryable": false,
        "request_id": request_id,
        "errors": [{ "in": "body", "pointer": fault.pointer, "detail": fault.detail }],
    });
    of_problem(problem.to_string().as_bytes(), None)
}

/// The status of a problem, as the HTTP API writes it, with its `Retry-After` in seconds.
pub fn of_problem(json: &[u8], retry_after: Option<u64>) -> Status {
    let Ok(problem) = serde_json::from_slice::<Problem>(json) else {
        return plain(code::INTERNAL, "The server's answer can't be read.");
    };
    let code = Reason::from_name(&problem.reason).map_or(code::UNKNOWN, code_of);
    let info = ErrorInfo {
        reason: problem.reason.clone(),
        domain: DOMAIN.to_owned(),
        metadata: [("retryable", problem.retryable.to_string()), ("request_id", problem.request_id.clone())]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
    };
    let mut details = vec![any(ERROR_INFO, info.encode_to_vec())];
    details.extend(typed(json));
    if !problem.errors.is_empty() {
        let violations = problem.errors.iter().map(|error| FieldViolation {
            field: field(&error.pointer).to_owned(),
            description: error.detail.clone(),
            ..FieldViolation::default()
        });
        let bad = BadRequest { field_violations: violations.collect() };
        details.push(any(BAD_REQUEST, bad.encode_to_vec()));
    }
    if let Some(seconds) = retry_after.and_then(|seconds| i64::try_from(seconds).ok()) {
        let delay = prost_reflect::prost_types::Duration { seconds, nanos: 0 };
        let retry = RetryInfo { retry_delay: Some(delay) };
        details.push(any(RETRY_INFO, retry.encode_to_vec()));
    }
    let status = RpcStatus { code, message: problem.detail.clone(), details };
    Status { code, message: problem.detail, details: status.encode_to_vec() }
}

/// The problem as a message.
fn typed(json: &[u8]) -> Option<prost_reflect::prost_types::Any> {
    let descriptor = POOL.get_message_by_name(PROBLEM)?;
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    let mut json = serde_json::Deserializer::from_slice(json);
    let mut message = DynamicMessage::deserialize_with_options(descriptor, &mut json, &options).ok()?;
    if message.encoded_len() > MAX_PROBLEM_BYTES {
        let lists: Vec<_> = message.descriptor().fields().filter(FieldDescriptor::is_list).collect();
        for list in lists {
            message.clear_field(&list);
        }
    }
    Some(any(PROBLEM, message.encode_to_vec()))
}

fn any(name: &str, value: Vec<u8>) -> prost_reflect::prost_types::Any {
    prost_reflect::prost_types::Any { type_url: format!("{TYPES}{name}"), value }
}

/// The field that a pointer of the HTTP API names.
fn field(pointer: &str) -> &str {
    match pointer {
        "/If-Match" => "expected_version",
        "/If-None-Match" => "create_only",
        "/Idempotency-Key" => "idempotency_key",
        other => other.strip_prefix('/').unwrap_or(other),
    }
}
