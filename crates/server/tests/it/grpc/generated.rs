//! The descriptor set and the Rust client are committed. They have to be those of the `.proto` files.

use crate::clients::{installed, repository};
use crate::support::said;
use prost::Message;
use prost_reflect::prost_types::FileDescriptorSet;
use ring::digest::{SHA256, digest};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use stockhold_grpc::DESCRIPTORS;

const AGAIN: &str = "run `cargo xtask grpc`, and commit what it writes";

#[test]
fn the_descriptor_set_is_that_of_the_proto_files() {
    let names = fs::read_dir(repository("proto/stockhold/v1")).unwrap().map(|file| file.unwrap().file_name());
    let mut files: Vec<_> = names
        .map(|name| format!("stockhold/v1/{}", name.to_str().unwrap()))
        .filter(|name| Path::new(name).extension().is_some_and(|end| end == "proto"))
        .collect();
    files.sort();
    let dir = tempfile::tempdir().unwrap();
    let compiled = dir.path().join("descriptors.bin");
    // As the generator does.
    let mut command = Command::new(installed("python/bin/python"));
    command.args(["-m", "grpc_tools.protoc", "--include_imports", "--include_source_info"]);
    command.arg(format!("--proto_path={}", repository("proto").display()));
    command.arg(format!("--descriptor_set_out={}", compiled.display()));
    let output = command.args(files).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let decoded = |bytes: &[u8]| FileDescriptorSet::decode(bytes).unwrap();
    let (committed, compiled) = (decoded(DESCRIPTORS), decoded(&fs::read(compiled).unwrap()));
    // The sets are too long to be shown.
    assert!(committed == compiled, "descriptors.bin is not that of the .proto files: {AGAIN}");
}

#[test]
fn the_rust_client_is_that_of_the_descriptor_set() {
    let client = repository("crates/grpc-client/src/generated").join("stockhold.v1.rs");
    let client = fs::read_to_string(client).unwrap();
    let hash = digest(&SHA256, DESCRIPTORS).as_ref().iter().fold(String::new(), |mut hash, byte| {
        let _ = write!(hash, "{byte:02x}");
        hash
    });
    let first = client.lines().next().unwrap();
    assert!(first.contains(&hash), "the client is from other descriptors than {hash}: {AGAIN}\n{first}");
}
