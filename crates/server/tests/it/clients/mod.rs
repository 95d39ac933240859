//! Clients, against a running server.

mod curl;
mod grpc;
mod grpc_proxy;
mod proxy;
mod python;
mod rust;
mod scenarios;
mod typescript;

use std::path::{Path, PathBuf};

/// A directory of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path).canonicalize().unwrap()
}

/// What `scripts/servers` has installed.
pub(crate) fn installed(path: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository("target"), PathBuf::from);
    let found = target.join("servers").join(path);
    assert!(found.exists(), "{} is not installed: run scripts/servers", found.display());
    found
}
