//! The messages and the clients of the gRPC API as Rust types, for programs that call it. `cargo xtask grpc` makes them from the
//! `.proto` files. The server does not use them: it works with the descriptors alone.

/// The package `stockhold.v1`.
pub mod v1 {
    #![allow(
        missing_docs,
        unreachable_pub,
        clippy::pedantic,
        clippy::all,
        reason = "generated from the .proto files"
    )]
    include!("generated/stockhold.v1.rs");
}
