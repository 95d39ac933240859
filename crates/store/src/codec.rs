//! The bytes that events, keys, holds and items become, the same in every store.
//!
//! Integers are LEB128 (signed ones zigzag), ids 16 bytes big-endian, texts a length and UTF-8, optional values a byte
//! and the value. A record says nothing of its version: what holds it does. Decoding never panics and never trusts a
//! length; bytes that are left over are an error.

mod read;
mod write;

pub use read::{DecodeError, Reader, event, hold, item, key_record};
pub use write::{put_command, put_event, put_hold, put_item, put_key_record, put_text, put_u64, put_u128};

#[cfg(test)]
mod tests;
