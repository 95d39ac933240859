//! Every limit of the rules, and the settings that an operator may move within them.

use crate::label::Label;
use crate::time::Seconds;
use alloc::vec::Vec;

/// Longest label (SKU, location, owner, …) in bytes.
pub const LABEL_BYTES: usize = 128;
/// Longest idempotency key in bytes.
pub const KEY_BYTES: usize = 255;
/// Longest metadata of a reservation or an item in bytes of compact JSON.
pub const METADATA_BYTES: usize = 2048;
/// Most units that one item of a basket may ask for; real wholesale lines reach 80,000.
pub const LINE_QUANTITY: u64 = 1_000_000;
/// Most lines in one basket; real wholesale baskets pass 1,000.
pub const BASKET_LINES: usize = 2_000;
/// Most units with ids that one line may take: each is written with every event of its reservation.
pub const LINE_UNITS: u64 = 10_000;
/// Most units with ids that one reservation may take over all its lines, for the same reason.
pub const BASKET_UNITS: u64 = 10_000;
/// Most units with ids that can be added at once.
pub const UNITS_AT_ONCE: usize = 10_000;
/// Longest value of a record, in bytes. A record is read and written as a whole.
pub const RECORD_BYTES: usize = 64 * 1024;
/// Bytes of a record's value that weigh as much in a batch as a line of a reservation, which is about as long.
pub const RECORD_BYTES_PER_LINE: usize = 128;
/// Most units with ids that an item can have: a stadium ten times over. More than that is counted stock.
pub const POOL_UNITS: u64 = 1_000_000;
/// Highest position of a unit: what a JSON number carries exactly.
pub const POSITION: u64 = (1 << 53) - 1;
/// Most attributes of a unit.
pub const ATTRIBUTES: usize = 16;
/// Most sections that best available may prefer.
pub const SECTIONS: usize = 100;
/// Most units that an item can have: sums over a whole catalogue stay far inside a `u64` and inside what a JSON
/// number carries exactly.
pub const TOTAL_UNITS: u64 = 1_000_000_000_000;
/// Shortest time to live of a hold, in seconds.
pub const TTL_MIN_SECONDS: u32 = 1;
/// Longest time to live that any setting may allow, in seconds (30 days).
pub const TTL_CEILING_SECONDS: u32 = 30 * 24 * 60 * 60;
/// Time to live where nobody says otherwise, in seconds.
pub const DEFAULT_TTL_SECONDS: u32 = 600;
/// Longest hold where nobody says otherwise, in seconds, extensions included.
pub const DEFAULT_MAX_HOLD_SECONDS: u32 = 1_800;
/// Most holds that one batch expires, so that a crowd of due holds stalls nobody.
pub const EXPIRIES_PER_BATCH: u32 = 256;
/// Lines of expired holds, and units with ids of theirs, after which a batch expires no more, so that a crowd of large
/// baskets stalls nobody either. The hold that reaches it goes in whole: a basket may be due alone, whatever its size.
pub const EXPIRED_LINES_PER_BATCH: u32 = 8_192;

const _: () = assert!(TTL_MIN_SECONDS <= DEFAULT_TTL_SECONDS);
const _: () = assert!(DEFAULT_TTL_SECONDS <= DEFAULT_MAX_HOLD_SECONDS);
const _: () = assert!(DEFAULT_MAX_HOLD_SECONDS <= TTL_CEILING_SECONDS);
const _: () = assert!(LINE_QUANTITY <= TOTAL_UNITS);
const _: () = assert!(LINE_UNITS <= LINE_QUANTITY && POOL_UNITS <= TOTAL_UNITS);
const _: () = assert!(LINE_UNITS <= BASKET_UNITS);
const _: () = assert!(LINE_QUANTITY * (BASKET_LINES as u64) < 1 << 53);

/// How long holds may last: the service's settings, and the locations that differ. An item's own settings stand
/// before both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldLimits {
    /// Time to live of a hold that names none.
    pub default_ttl: Seconds,
    /// Longest hold, extensions included.
    pub max_hold: Seconds,
    /// Locations with settings of their own: (location, default time to live, longest hold).
    pub locations: Vec<(Label, Option<Seconds>, Option<Seconds>)>,
}

impl Default for HoldLimits {
    fn default() -> Self {
        Self { default_ttl: Seconds::DEFAULT_TTL, max_hold: Seconds::DEFAULT_MAX_HOLD, locations: Vec::new() }
    }
}
