//! The descriptors of the contract. `cargo xtask grpc` compiles them from the `.proto` files, so that no build has to.

use prost_reflect::DescriptorPool;
use std::sync::LazyLock;

/// The descriptors of all `.proto` files, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");

pub(crate) static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    #[expect(
        clippy::expect_used,
        reason = "the descriptors are part of the program, and a test decodes them"
    )]
    DescriptorPool::decode(DESCRIPTORS).expect("the compiled descriptors are valid")
});
