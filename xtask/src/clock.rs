//! The wall clock, for what has to be compared with instants in answers. Never for measuring: that is `Instant`'s work.

use std::time::SystemTime;

/// Milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the harness stands outside of the store, like any client")]
pub(crate) fn wall_millis() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
