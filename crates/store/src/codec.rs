//! The bytes that events, keys, holds and items become, the same in every store.
//!
//! Integers are LEB128 (signed ones zigzag), ids 16 bytes big-endian, texts a length and UTF-8, optional values a byte
//! and the value. What is new (units with ids) has tags of its own, so that records of counted stock are as they always
//! were. A record says nothing of its version: what holds it does. Decoding never panics and never trusts a
//! length; bytes that are left over are an error.

mod read;
mod skip;
mod units;
mod write;

pub use read::{DecodeError, KnownKeys, Reader, event, hold, item, key_record};
pub use skip::hold_if;
pub use units::{attributes, has_units, put_attributes, put_unit, unit};
pub use write::{put_command, put_event, put_hold, put_item, put_key_record, put_text, put_u64, put_u128};

#[cfg(test)]
mod tests;
