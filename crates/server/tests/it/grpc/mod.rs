//! gRPC, against a running server.

mod access;
pub(crate) mod caller;
mod contract;
mod generated;
mod lifetime;
mod python;
mod streams;
mod tls;
mod unary;

use crate::support::{Server, free_port};
use std::path::Path;

/// A server with a listener of gRPC.
pub(crate) struct GrpcServer {
    pub(crate) server: Server,
    pub(crate) address: String,
    _dir: tempfile::TempDir,
}

impl GrpcServer {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// One with these environment variables.
    pub(crate) fn with(variables: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (server, address) = Self::on(dir.path(), variables);
        Self { server, address, _dir: dir }
    }

    fn on(dir: &Path, variables: &[(&str, &str)]) -> (Server, String) {
        let address = format!("127.0.0.1:{}", free_port());
        let mut all = variables.to_vec();
        all.push(("STOCKHOLD_GRPC_LISTEN", &address));
        (Server::with_variables(dir, "data", &all), address)
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
