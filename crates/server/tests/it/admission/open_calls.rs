//! Health and reflection of gRPC, which need no credential.

use super::{MANY, PROXIES, RawGrpc, grpc_server, message, metric, prefix, status_of};
use crate::grpc::block_on;
use crate::grpc::caller::Caller;
use bytes::Bytes;
use prost_reflect::DescriptorPool;
use prost_reflect::prost::Message;
use stockhold_grpc::DESCRIPTORS;
use tempfile::TempDir;
use tokio_stream::StreamExt;
use tonic::Code;
use tonic::metadata::MetadataValue;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1alpha::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1alpha::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1alpha::server_reflection_response::MessageResponse;
use tonic_reflection::pb::{v1, v1alpha};

const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const CHECK: &str = "/grpc.health.v1.Health/Check";
const RESOURCE_EXHAUSTED: &str = "8";
const DEADLINE_EXCEEDED: &str = "4";

#[test]
fn long_and_endless_messages_hold_no_memory() {
    const LONG: usize = 4 << 20;
    let dir = TempDir::new().unwrap();
    let (server, address) = grpc_server(&dir, "");
    block_on(async {
        let connection = RawGrpc::connect(&address).await;
        let mut endless = Vec::new();
        for path in [REFLECTION, CHECK] {
            // Announced as long as the HTTP/2 window takes, and never ended.
            for _ in 0..40 {
                let (pieces, answer) = connection.open(path, &[]);
                pieces.send(prefix(LONG - 64).freeze()).unwrap();
                let _ = pieces.send(Bytes::from(vec![b'x'; 64 << 10]));
                assert_eq!(status_of(answer.await.unwrap()).await, RESOURCE_EXHAUSTED, "{path}");
            }
            let (pieces, answer) = connection.open(path, &[]);
            pieces.send(prefix(1_000).freeze()).unwrap();
            endless.push((pieces, answer));
        }
        assert!(metric(&server, "stockhold_bytes_in_flight") < 1 << 20);
        for (pieces, answer) in endless {
            assert_eq!(status_of(answer.await.unwrap()).await, DEADLINE_EXCEEDED);
            drop(pieces);
        }
    });
    assert_eq!(metric(&server, "stockhold_bytes_in_flight"), 0);
}

#[test]
fn calls_count_against_their_address() {
    let dir = TempDir::new().unwrap();
    let (_server, address) = grpc_server(&dir, PROXIES);
    block_on(async {
        let connection = RawGrpc::connect(&address).await;
        let call = async |client: &str, path: &str| {
            let (pieces, answer) = connection.open(path, &[("x-forwarded-for", client)]);
            drop(pieces);
            status_of(answer.await.unwrap()).await
        };
        for (n, path) in [CHECK, REFLECTION].into_iter().enumerate() {
            let client = format!("203.0.113.{n}");
            let mut refused = 0;
            for _ in 0..60 {
                refused += usize::from(call(&client, path).await == RESOURCE_EXHAUSTED);
            }
            assert!(refused > 20, "{refused} of 60 calls of {path} were refused");
            assert_ne!(call("203.0.113.99", path).await, RESOURCE_EXHAUSTED);
        }
    });
}

#[test]
fn an_address_has_a_part_of_the_watches() {
    let dir = TempDir::new().unwrap();
    let (_server, address) = grpc_server(&dir, &format!("{PROXIES}{MANY}"));
    block_on(async {
        let mut health = HealthClient::new(Caller::new(&address).channel());
        let mut watch = async |client: &'static str| {
            let mut request = tonic::Request::new(HealthCheckRequest::default());
            request.metadata_mut().insert("x-forwarded-for", MetadataValue::from_static(client));
            let mut watched = health.watch(request).await?.into_inner();
            watched.next().await.unwrap()?;
            Ok::<_, tonic::Status>(watched)
        };
        // A connection has 100 streams at most.
        let mut open = Vec::new();
        for _ in 0..64 {
            open.push(watch("2001:db8::1").await.unwrap());
        }
        let refused = watch("2001:db8::2").await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
        open.push(watch("2001:db8:0:1::1").await.unwrap());
        open.truncate(1);
        let freed = async {
            while let Err(status) = watch("2001:db8::2").await {
                assert_eq!(status.code(), Code::ResourceExhausted);
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        freed.await;
    });
}

#[test]
fn reflection_can_be_turned_off() {
    let dir = TempDir::new().unwrap();
    let (_server, address) = grpc_server(&dir, "grpc_reflection = false\n");
    block_on(async {
        let connection = RawGrpc::connect(&address).await;
        let (pieces, answer) = connection.open(REFLECTION, &[]);
        drop(pieces);
        // The answer to a method that the server does not have.
        let unknown = connection.open("/grpc.reflection.v1.ServerReflection/Other", &[]).1;
        assert_eq!(status_of(answer.await.unwrap()).await, status_of(unknown.await.unwrap()).await);
    });
}

#[test]
fn both_versions_of_reflection_answer() {
    let dir = TempDir::new().unwrap();
    let (_server, address) = grpc_server(&dir, "");
    block_on(async {
        let mut client = ServerReflectionClient::new(Caller::new(&address).channel());
        let file = DescriptorPool::decode(DESCRIPTORS).unwrap().files().next().unwrap();
        let ask = |message_request| v1alpha::ServerReflectionRequest {
            host: "test".to_owned(),
            message_request: Some(message_request),
        };
        let asks = [
            MessageRequest::ListServices(String::new()),
            MessageRequest::FileContainingSymbol("stockhold.v1.Inventory.GetItem".to_owned()),
            MessageRequest::FileContainingSymbol("stockhold.v1.Unknown".to_owned()),
            MessageRequest::FileByFilename(file.name().to_owned()),
        ];
        let answers = client.server_reflection_info(tokio_stream::iter(asks.map(ask))).await.unwrap();
        let answers: Vec<_> = answers.into_inner().map(|answer| answer.unwrap()).collect().await;
        assert_eq!(answers[0].original_request.as_ref().unwrap().host, "test");
        let kinds = answers.iter().map(|answer| match answer.message_response.as_ref().unwrap() {
            MessageResponse::ListServicesResponse(list) => format!("{} services", list.service.len().min(3)),
            MessageResponse::FileDescriptorResponse(files) => {
                format!("{} file", files.file_descriptor_proto.len())
            }
            MessageResponse::ErrorResponse(error) => format!("error {}", error.error_code),
            MessageResponse::AllExtensionNumbersResponse(numbers) => panic!("{numbers:?}"),
        });
        assert_eq!(kinds.collect::<Vec<_>>(), ["3 services", "1 file", "error 5", "1 file"]);

        // The newer version has the same messages.
        let connection = RawGrpc::connect(&address).await;
        let (pieces, answer) = connection.open(REFLECTION, &[]);
        let request = v1::ServerReflectionRequest::decode(
            &*ask(MessageRequest::ListServices(String::new())).encode_to_vec(),
        );
        pieces.send(message(&request.unwrap().encode_to_vec())).unwrap();
        drop(pieces);
        assert_eq!(status_of(answer.await.unwrap()).await, "0");
    });
}
