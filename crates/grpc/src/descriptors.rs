//! The descriptors of the contract, compiled from the `.proto` files.

use prost_reflect::DescriptorPool;
use std::sync::LazyLock;

/// The descriptors of all `.proto` files, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

pub(crate) static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the descriptors are compiled in, and a test decodes them")]
    DescriptorPool::decode(DESCRIPTORS).expect("the compiled descriptors are valid")
});
