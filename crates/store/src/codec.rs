//! The bytes of events, keys, holds and items, the same in every store.
//!
//! Integers are LEB128 (signed ones zigzag), ids 16 bytes big-endian, texts a length and UTF-8. A record begins with its
//! mandatory fields in a fixed order. Its optional fields follow as pairs of a tag and a value, in ascending order of tags,
//! ended by a 0. So a new optional field is a new tag and no new format, and a record has exactly one encoding. An event
//! begins with [`EVENT_VERSION`]. Decoding never panics and never trusts a length; left-over bytes and unknown tags are
//! errors.

mod changes;
mod charges;
mod command;
mod details;
mod limits;
mod pools;
mod prices;
mod read;
mod settings;
mod terms;
mod units;
mod write;

pub use command::put_command;
pub use limits::{
    counter, counter_key, limit, put_counter, put_counter_key, put_limit, put_subject, subject,
};
pub use pools::{pools, put_pools};
pub use read::{DecodeError, KnownKeys, Reader, event, hold, hold_if, item, key_record, record};
pub use settings::{put_settings, settings};
pub use units::{attributes, put_attributes, put_unit, unit};
pub use write::{put_event, put_hold, put_item, put_key_record, put_record, put_text, put_u64, put_u128};

/// The version that events are written with. It changes only when a mandatory field changes.
pub const EVENT_VERSION: u8 = 2;

#[cfg(test)]
mod any;
#[cfg(test)]
mod integer_tests;
#[cfg(test)]
mod tests;
