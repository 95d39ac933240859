//! Compiles the `.proto` files: a descriptor set for the server, and Rust types for clients.

use prost::Message;
use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

const FILES: [&str; 3] =
    ["stockhold/v1/reservations.proto", "stockhold/v1/inventory.proto", "stockhold/v1/events.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo::rerun-if-changed={}", root.display());
    let descriptors = protox::compile(FILES, [&root])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    if env::var_os("CARGO_FEATURE_CLIENT").is_some() {
        tonic_prost_build::configure().build_server(false).compile_fds(descriptors)?;
    }
    Ok(())
}
