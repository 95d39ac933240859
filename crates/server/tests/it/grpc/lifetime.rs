//! Deadlines, long messages, the age of connections, health, and reflection.

use super::caller::Caller;
use super::{GrpcServer, block_on};
use serde_json::json;
use std::process::Command;
use tokio_stream::StreamExt;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

#[test]
fn a_deadline_ends_a_stream_of_events() {
    let server = GrpcServer::start();
    block_on(async {
        let caller = Caller::new(&server.address).with("grpc-timeout", "300m");
        let mut events = caller.watch("WatchEvents", json!({})).await.unwrap();
        let ended = loop {
            if let Err(status) = events.message().await {
                break status;
            }
        };
        assert_eq!(ended.code(), Code::DeadlineExceeded, "{ended:?}");
    });
}

#[test]
fn a_message_that_is_too_long_is_refused() {
    let server = GrpcServer::start();
    block_on(async {
        let caller = Caller::new(&server.address);
        let long = "x".repeat(2 << 20);
        let lines = json!([{ "sku": long }]);
        let status = caller.call("Reserve", json!({ "owner_id": "o", "lines": lines })).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
        caller.call("ListItems", json!({})).await.unwrap();
    });
}

#[test]
fn an_old_connection_ends_and_its_streams_say_so() {
    let server = GrpcServer::with(&[("STOCKHOLD_MAX_CONNECTION_AGE", "1s")]);
    block_on(async {
        let caller = Caller::new(&server.address);
        let mut events = caller.watch("WatchEvents", json!({})).await.unwrap();
        let ended = loop {
            if let Err(status) = events.message().await {
                break status;
            }
        };
        assert_eq!(ended.code(), Code::Unavailable, "{ended:?}");
        assert!(ended.message().contains("connection"), "{ended:?}");
        // The client connects again by itself.
        caller.call("ListItems", json!({})).await.unwrap();
    });
}

#[test]
fn health_says_that_the_server_drains() {
    let mut server = GrpcServer::with(&[("STOCKHOLD_ROOT_KEY", "a-root-key-that-is-long-enough-for-a-test")]);
    block_on(async {
        let mut health = HealthClient::new(Caller::new(&server.address).channel());
        for service in ["", "stockhold.v1.Reservations"] {
            let request = HealthCheckRequest { service: service.to_owned() };
            let status = health.check(request).await.unwrap().into_inner().status();
            assert_eq!(status, ServingStatus::Serving);
        }
        let other = health.check(HealthCheckRequest { service: "other".to_owned() }).await.unwrap_err();
        assert_eq!(other.code(), Code::NotFound);
        let mut watched = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
        assert_eq!(watched.next().await.unwrap().unwrap().status(), ServingStatus::Serving);
        let process = server.server.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
        assert_eq!(watched.next().await.unwrap().unwrap().status(), ServingStatus::NotServing);
        assert_eq!(watched.next().await.unwrap().unwrap_err().code(), Code::Unavailable);
    });
    assert!(server.server.terminate().success());
}

#[test]
fn reflection_lists_the_services() {
    let server = GrpcServer::start();
    block_on(async {
        let mut client = ServerReflectionClient::new(Caller::new(&server.address).channel());
        let ask = |message_request| ServerReflectionRequest {
            host: String::new(),
            message_request: Some(message_request),
        };
        let asks = [
            ask(MessageRequest::ListServices(String::new())),
            ask(MessageRequest::FileContainingSymbol("stockhold.v1.Reservations".to_owned())),
        ];
        let mut answers = client.server_reflection_info(tokio_stream::iter(asks)).await.unwrap().into_inner();
        let first = answers.next().await.unwrap().unwrap().message_response;
        let Some(MessageResponse::ListServicesResponse(list)) = first else { panic!("{first:?}") };
        let names: Vec<_> = list.service.iter().map(|service| &*service.name).collect();
        for name in [
            "stockhold.v1.Reservations",
            "stockhold.v1.Inventory",
            "stockhold.v1.Events",
            "grpc.health.v1.Health",
        ] {
            assert!(names.contains(&name), "{names:?}");
        }
        let second = answers.next().await.unwrap().unwrap().message_response;
        assert!(matches!(second, Some(MessageResponse::FileDescriptorResponse(_))), "{second:?}");
    });
}
