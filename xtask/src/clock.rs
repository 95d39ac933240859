//! The wall clock, for what has to be compared with instants in answers. Never for measuring: that is `Instant`'s work.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

static AHEAD_MILLIS: AtomicU64 = AtomicU64::new(0);

/// The latest that a server's clock can show, in milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the harness stands outside of the store, like any client")]
pub(crate) fn wall_millis() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    millis.saturating_add(AHEAD_MILLIS.load(Ordering::Relaxed))
}

/// Whether servers are started with a wall clock that was set back, so that their time stands still for a while.
static STANDS_STILL: AtomicBool = AtomicBool::new(false);

/// Sets whether the time of servers may stand still.
pub(crate) fn set_time_may_stand_still(may: bool) {
    STANDS_STILL.store(may, Ordering::Relaxed);
}

/// Whether the time of servers may stand still.
pub(crate) fn time_may_stand_still() -> bool {
    STANDS_STILL.load(Ordering::Relaxed)
}

/// Servers are, or were, started while their wall clock was ahead by so many seconds: what they commit then floors their
/// time for good.
pub(crate) fn servers_are_ahead(seconds: u64) {
    AHEAD_MILLIS.store(seconds.saturating_mul(1_000), Ordering::Relaxed);
}
