//! `Commands` from clients that send a frame for each message.

use super::{RawGrpc, grpc_server, message, root_header};
use crate::grpc::block_on;
use crate::grpc::caller::Caller;
use bytes::{Buf, BytesMut};
use http_body_util::BodyExt;
use prost_reflect::prost::Message;
use serde_json::json;
use tempfile::TempDir;

/// The client writes as fast as it can, and never waits for a result.
#[test]
fn many_small_frames_are_read_as_fast_as_they_are_answered() {
    const COMMANDS: usize = 20_000;
    let dir = TempDir::new().unwrap();
    let (_server, address) = grpc_server(&dir, "");
    let results = block_on(async {
        let connection = RawGrpc::connect(&address).await;
        let key = root_header();
        let (pieces, answer) =
            connection.open("/stockhold.v1.Reservations/Commands", &[("authorization", key.as_str())]);
        let caller = Caller::new(&address);
        let command = caller.input("Commands", json!({ "set_stock": { "sku": "a", "total_units": 1 } }));
        let command = message(&command.encode_to_vec());
        assert!(command.len() < 32);
        for _ in 0..COMMANDS {
            pieces.send(command.clone()).unwrap();
        }
        drop(pieces);
        let mut body = answer.await.unwrap().into_body();
        let (mut read, mut results, mut status) = (BytesMut::new(), 0, None);
        while let Some(frame) = body.frame().await {
            match frame.unwrap().into_data() {
                Ok(data) => read.extend_from_slice(&data),
                Err(trailers) => status = trailers.into_trailers().unwrap().remove("grpc-status"),
            }
            while let Some(length) =
                read.get(1..5).map(|length| u32::from_be_bytes(length.try_into().unwrap()))
            {
                let whole = 5 + length as usize;
                if read.len() < whole {
                    break;
                }
                read.advance(whole);
                results += 1;
            }
        }
        assert_eq!(status.unwrap(), "0");
        results
    });
    assert_eq!(results, COMMANDS);
}
