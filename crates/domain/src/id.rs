//! What reservations, events, keys and requests are called. None is drawn here: random bits and time are given by whoever has
//! them.

use crate::item::ItemKey;
use crate::label::Label;
use crate::time::Instant;
use core::fmt;

/// Number of buckets that reservations are spread over, after their first item.
pub const BUCKETS: u16 = 1 << BUCKET_BITS;
const BUCKET_BITS: u32 = 10;

/// A `UUIDv7` (RFC 9562) with the bucket of the reservation's first item in the last ten of its random bits: sorts by
/// the time it was made, and tells where its rows live without a look-up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationId(u128);

/// A `UUIDv7` that names an event. It is written with the event; the event's position is given at the commit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(u128);

/// Digest of an idempotency key with its principal and operation: what a stored key is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub u128);

/// Digest of a parsed request and of the version of its form: tells a repeated request from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub u128);

/// What one request is called in logs, answers and events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestId {
    /// Made here; shown as a UUID.
    Made(u128),
    /// Given by the caller.
    Given(Label),
}

const VERSION: u128 = 0x7 << 76;
const VERSION_MASK: u128 = 0xf << 76;
const VARIANT: u128 = 0b10 << 62;
const VARIANT_MASK: u128 = 0b11 << 62;
const TIME_BITS: u32 = 48;
/// Random bits in which the id of a reservation's expiry differs from the reservation's own.
const EXPIRY: u128 = 0x2aaa_aaaa_aaaa_aaaa;
const _: () = assert!(EXPIRY & (VERSION_MASK | VARIANT_MASK) == 0 && EXPIRY >> (128 - TIME_BITS) == 0);

fn uuid_v7(now: Instant, random: u128) -> u128 {
    let millis = u128::from(now.millis().unsigned_abs()) & ((1 << TIME_BITS) - 1);
    let tail = random & ((1 << (128 - TIME_BITS)) - 1);
    (millis << (128 - TIME_BITS)) | (tail & !VERSION_MASK & !VARIANT_MASK) | VERSION | VARIANT
}

/// The bucket of an item: FNV-1a over location, a zero byte and SKU (neither can contain one), modulo [`BUCKETS`].
pub fn bucket_of(item: &ItemKey) -> u16 {
    let bytes = item.location().bytes().chain([0]).chain(item.sku().bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    #[expect(clippy::cast_possible_truncation, reason = "ten bits")]
    let bucket = (hash % u64::from(BUCKETS)) as u16;
    bucket
}

impl ReservationId {
    /// Makes an id from the time, random bits and the first item's bucket.
    pub fn new(now: Instant, random: u128, bucket: u16) -> Self {
        let bucket = u128::from(bucket % BUCKETS);
        Self((uuid_v7(now, random) >> BUCKET_BITS << BUCKET_BITS) | bucket)
    }

    /// Takes the 128 bits of any UUID: ids of callers are looked up, not judged.
    pub const fn from_u128(bits: u128) -> Self {
        Self(bits)
    }

    /// The 128 bits, big-endian order sorts by time.
    pub const fn as_u128(self) -> u128 {
        self.0
    }

    /// The bucket of the first item.
    pub fn bucket(self) -> u16 {
        #[expect(clippy::cast_possible_truncation, reason = "ten bits")]
        let bucket = (self.0 % u128::from(BUCKETS)) as u16;
        bucket
    }
}

impl EventId {
    /// Makes an id from the time and random bits.
    pub fn new(now: Instant, random: u128) -> Self {
        Self(uuid_v7(now, random))
    }

    /// The id of the event that expires a reservation. A hold expires once and whatever command comes across it makes it
    /// so, which may be many holds a command: their events' ids follow from theirs.
    pub const fn of_expiry(id: ReservationId) -> Self {
        Self(id.0 ^ EXPIRY)
    }

    /// Takes the 128 bits.
    pub const fn from_u128(bits: u128) -> Self {
        Self(bits)
    }

    /// The 128 bits.
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

fn fmt_uuid(bits: u128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let part = |shift: u32, digits: u32| (bits >> shift) & ((1 << (digits * 4)) - 1);
    write!(
        f,
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        part(96, 8),
        part(80, 4),
        part(64, 4),
        part(48, 4),
        part(0, 12)
    )
}

impl fmt::Display for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_uuid(self.0, f)
    }
}

impl fmt::Debug for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_uuid(self.0, f)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_uuid(self.0, f)
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_uuid(self.0, f)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Made(bits) => fmt_uuid(*bits, f),
            Self::Given(text) => fmt::Display::fmt(text, f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;

    #[test]
    fn ids_are_version_seven_carry_their_bucket_and_sort_by_time() {
        let early = ReservationId::new(Instant::from_millis(1_700_000_000_000), u128::MAX, 1_023);
        let late = ReservationId::new(Instant::from_millis(1_700_000_000_001), 0, 7);
        assert_eq!(early.to_string(), "018bcfe5-6800-7fff-bfff-ffffffffffff");
        assert_eq!(late.to_string(), "018bcfe5-6801-7000-8000-000000000007");
        assert!(early < late);
        assert_eq!((early.bucket(), late.bucket()), (1_023, 7));
    }

    fn key(location: &str, sku: &str) -> ItemKey {
        ItemKey::new(&Label::new(location).unwrap(), &Label::new(sku).unwrap())
    }

    #[test]
    fn an_item_stays_in_its_bucket() {
        // Rows were written under these: another number would lose them.
        for (location, sku, bucket) in [
            ("default", "x", 518),
            ("hub", "ticket-1", 50),
            ("zürich", "hall/9", 319),
            ("a", "bc", 291),
            ("ab", "c", 103),
        ] {
            assert_eq!(bucket_of(&key(location, sku)), bucket, "{location} {sku}");
        }
    }

    #[test]
    fn buckets_tell_location_from_sku() {
        assert_ne!(bucket_of(&key("a", "bc")), bucket_of(&key("ab", "c")));
        assert!(bucket_of(&key("default", "x")) < BUCKETS);
    }

    #[test]
    fn the_id_of_an_expiry_is_another_uuid_of_the_same_time() {
        let id = ReservationId::new(Instant::from_millis(5), u128::MAX, 3);
        let expiry = EventId::of_expiry(id).as_u128();
        assert_ne!(expiry, id.as_u128());
        assert_eq!(expiry >> 64, id.as_u128() >> 64);
        assert_eq!(expiry & VARIANT_MASK, VARIANT);
    }

    #[test]
    fn expiries_of_two_reservations_have_two_ids() {
        let expiry = |bits| EventId::of_expiry(ReservationId::from_u128(bits)).as_u128();
        assert_eq!(
            expiry(0x018b_cfe5_6800_7fff_bfff_ffff_ffff_ffff),
            0x018b_cfe5_6800_7fff_9555_5555_5555_5555
        );
        assert_eq!(
            expiry(0x018b_cfe5_6801_7000_8000_0000_0000_0007),
            0x018b_cfe5_6801_7000_aaaa_aaaa_aaaa_aaad
        );
        // They differ where the reservations do.
        let id = 0x018b_cfe5_6801_7000_8000_0000_0000_0007;
        assert!((0..62).all(|bit| expiry(id ^ (1 << bit)) == expiry(id) ^ (1 << bit)));
    }

    #[test]
    fn ids_read_as_uuids_for_programs_and_people() {
        let bits = 0x018b_cfe5_6801_7000_8000_0000_0000_0007;
        let text = "018bcfe5-6801-7000-8000-000000000007";
        let (reservation, event) = (ReservationId::from_u128(bits), EventId::from_u128(bits));
        assert_eq!((reservation.to_string().as_str(), format!("{reservation:?}").as_str()), (text, text));
        assert_eq!((event.to_string().as_str(), format!("{event:?}").as_str()), (text, text));
        assert_eq!(RequestId::Made(bits).to_string(), text);
        assert_eq!(RequestId::Given(Label::new("order 7").unwrap()).to_string(), "order 7");
    }
}
