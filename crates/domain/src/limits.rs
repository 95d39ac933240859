//! Every limit of the rules, and the settings that an operator may choose within them.

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
/// Most locations that the source of one line may name.
pub const SOURCE_LOCATIONS: usize = 16;
/// Most items that the lines of one basket may name together when one of them has a source: a reserve locks all of them.
pub const SOURCE_PAIRS: usize = 4_096;
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
/// Most units with ids of one item: ten large stadiums. Use counted stock for more.
pub const ITEM_UNITS: u64 = 1_000_000;
/// Highest position of a unit: the largest whole number that JSON numbers represent exactly.
pub const POSITION: u64 = (1 << 53) - 1;
/// Most attributes of a unit.
pub const ATTRIBUTES: usize = 16;
/// Most sections that best available may prefer.
pub const SECTIONS: usize = 100;
/// Most units of an item. Sums over a whole catalogue stay far below `u64::MAX`, and each total is exact as a JSON
/// number.
pub const TOTAL_UNITS: u64 = 1_000_000_000_000;
/// Largest amount of a line or of a reservation, in the smallest unit of its currency: the largest whole number that JSON numbers represent
/// exactly.
pub const AMOUNT: u64 = (1 << 53) - 1;
/// Largest amount of one unit.
pub const UNIT_AMOUNT: u64 = 1_000_000_000_000;
/// Most discounts of one price.
pub const DISCOUNTS: usize = 16;
/// Most channels of one discount.
pub const DISCOUNT_CHANNELS: usize = 100;
/// Most deliveries that an item may expect.
pub const SUPPLIES: usize = 16;
/// Most pools of one item.
pub const POOLS: usize = 16;
/// Most units with ids that one batch takes out of released pools. The next batches take out the rest.
pub const UNPOOLED_PER_BATCH: u32 = 10_000;
/// Most names of former pools that an item remembers.
pub const FORMER_POOLS: usize = 64;
/// Most targets of one limit.
pub const LIMIT_TARGETS: usize = 1_000;
/// Most channels of one limit.
pub const LIMIT_CHANNELS: usize = 100;
/// Most limits. Each of them is in memory at every instance.
pub const LIMITS: usize = 10_000;
/// Shortest time to live of a hold, in seconds.
pub const TTL_MIN_SECONDS: u32 = 1;
/// Longest time to live that any setting may allow, in seconds (30 days).
pub const TTL_CEILING_SECONDS: u32 = 30 * 24 * 60 * 60;
/// Default time to live, in seconds.
pub const DEFAULT_TTL_SECONDS: u32 = 600;
/// Default longest hold, in seconds, extensions included.
pub const DEFAULT_MAX_HOLD_SECONDS: u32 = 1_800;
/// Default of the longest time, in seconds, for which payment windows may keep a reservation.
pub const DEFAULT_MAX_PAYMENT_SECONDS: u32 = 3_600;
/// Longest time, in seconds, that any setting may allow for payment windows (7 days).
pub const PAYMENT_CEILING_SECONDS: u32 = 7 * 24 * 60 * 60;
/// Default length of a payment window, in seconds.
pub const DEFAULT_PAYMENT_SECONDS: u32 = 900;
/// Seconds that a buyer gets at least after a payment window was closed, to try another payment.
pub const GRACE_AFTER_PAYMENT_SECONDS: u32 = 60;
/// Longest name that a payment provider gives to something, in bytes.
pub const PROVIDER_REF_BYTES: usize = 255;
/// Longest encrypted names of a payment provider, in bytes: two names, and what the encryption adds.
pub const SEALED_METHOD_BYTES: usize = 1_024;
/// Longest address that a provider sends a buyer back to, in bytes.
pub const RETURN_URL_BYTES: usize = 2_048;
/// Longest description of a payment, in bytes.
pub const PAYMENT_DESCRIPTION_BYTES: usize = 1_000;
/// Most amounts beside the lines of a checkout.
pub const EXTRA_AMOUNTS: usize = 16;
/// Most refunds of one reservation that wait for the provider.
pub const PENDING_REFUNDS: usize = 32;
/// How often a provider refuses a refund before it has failed.
pub const REFUND_REFUSALS: u32 = 10;
/// Most reservations that one merge takes in.
pub const MERGE_SOURCES: usize = 20;
/// Most related reservations of one kind that a reservation lists. Older ones are in the events only.
pub const RELATED_RESERVATIONS: usize = 100;
/// Most holds that one batch expires. It bounds the time of a batch when many holds are due.
pub const EXPIRIES_PER_BATCH: u32 = 256;
/// Lines and units with ids of expired holds after which a batch expires no further hold. It bounds the time of a
/// batch when large baskets are due. The hold that reaches the limit is still expired, because a single basket may be
/// larger than it.
pub const EXPIRED_LINES_PER_BATCH: u32 = 8_192;

const _: () = assert!(TTL_MIN_SECONDS <= DEFAULT_TTL_SECONDS);
const _: () = assert!(DEFAULT_TTL_SECONDS <= DEFAULT_MAX_HOLD_SECONDS);
const _: () = assert!(DEFAULT_MAX_HOLD_SECONDS <= TTL_CEILING_SECONDS);
const _: () = assert!(DEFAULT_PAYMENT_SECONDS <= DEFAULT_MAX_PAYMENT_SECONDS);
const _: () = assert!(DEFAULT_MAX_PAYMENT_SECONDS <= PAYMENT_CEILING_SECONDS);
const _: () = assert!(PAYMENT_CEILING_SECONDS <= TTL_CEILING_SECONDS);
const _: () = assert!(MERGE_SOURCES <= RELATED_RESERVATIONS);
const _: () = assert!(LINE_QUANTITY <= TOTAL_UNITS);
const _: () = assert!(LINE_UNITS <= LINE_QUANTITY && ITEM_UNITS <= TOTAL_UNITS);
const _: () = assert!(LINE_UNITS <= BASKET_UNITS);
const _: () = assert!(BASKET_LINES <= SOURCE_PAIRS && SOURCE_LOCATIONS <= SOURCE_PAIRS);
const _: () = assert!(LINE_QUANTITY * (BASKET_LINES as u64) < 1 << 53);
