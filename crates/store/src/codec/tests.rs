//! Records of every shape, made at random from a seed: what is written is read back, and damaged bytes are an error or
//! another record, never a panic and never the same record.

use super::{
    DecodeError, KnownKeys, Reader, event, hold, hold_if, item, key_record, put_event, put_hold, put_item,
    put_key_record, put_record, put_text, put_u64, put_u128, put_unit, record, unit,
};
use crate::random::Random;
use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::Arc;
use stockhold_domain::{
    Attribute, Attributes, Closing, Disposition, Event, EventId, Fingerprint, Hold, HoldChange, HoldDetails,
    HoldTerms, Instant, Item, ItemKey, KeyHash, KeyRecord, KeyTarget, Label, Line, LineChange, LineDetails,
    LineUnit, LineUnits, Mode, MovedUnits, OptionalTerms, Origin, Parties, Payment, PaymentState, Place,
    Record, RecordChange, RecordKey, RecordKind, RecordValue, RequestId, ReservationId, ReserveTerms, Scope,
    Seconds, Settings, Status, StockChange, StockCounters, Supply, Trace, Transition, Unit, UnitStatus,
    limits,
};

/// Records of each kind.
const RECORDS: u64 = 40;

/// Makes records.
struct Any(Random);

impl Any {
    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.0.one_in(2).then(|| make(self))
    }

    /// Numbers of every length, both ends among them.
    fn number(&mut self) -> u64 {
        match self.0.below(8) {
            0 => 0,
            1 => u64::MAX,
            _ => self.0.bits() >> self.0.below(64),
        }
    }

    fn small(&mut self) -> u32 {
        u32::try_from(self.number() >> 32).unwrap()
    }

    fn instant(&mut self) -> Instant {
        Instant::from_micros(self.number().cast_signed())
    }

    fn text(&mut self, longest: u64) -> String {
        let letters = ['a', 'Z', ' ', '0', 'é', '🦀', '\u{301}', '"'];
        let len = usize::try_from(self.0.below(longest)).unwrap();
        let mut text: String = (0..=len).map(|_| self.0.pick(&letters)).collect();
        while text.len() > len + 1 {
            text.pop();
        }
        if text.is_empty() { "x".to_owned() } else { text }
    }

    fn label(&mut self) -> Label {
        let longest = if self.0.one_in(8) { limits::LABEL_BYTES as u64 } else { 12 };
        Label::new(&self.text(longest)).unwrap()
    }

    fn item_key(&mut self) -> ItemKey {
        ItemKey::new(&self.label(), &self.label())
    }

    fn seconds(&mut self) -> Seconds {
        Seconds::new(1 + self.0.below(u64::from(limits::TTL_CEILING_SECONDS))).unwrap()
    }

    fn metadata(&mut self) -> Arc<str> {
        self.text(100).into()
    }

    fn figures(&mut self) -> StockCounters {
        StockCounters {
            total_units: self.number(),
            confirmed_sold: self.number(),
            fulfilled: self.number(),
            held: self.number(),
            held_under_payment: self.number(),
            active: self.number(),
            sequence: self.number(),
            at: self.instant(),
        }
    }

    fn item(&mut self) -> Item {
        Item {
            key: self.item_key(),
            mode: self.0.pick(&[Mode::Counted, Mode::Units]),
            figures: self.figures(),
            settings: Arc::new(Settings {
                safety_stock: self.number(),
                oversell_allowance: self.number(),
                sale_starts_at: self.maybe(Self::instant),
                sale_ends_at: self.maybe(Self::instant),
                incoming: (0..self.0.below(3)).map(|_| self.supply()).collect(),
                default_ttl: self.maybe(Self::seconds),
                max_hold: self.maybe(Self::seconds),
                max_payment: self.maybe(Self::seconds),
                metadata: self.maybe(Self::metadata),
            }),
            version: self.number(),
            paused: self.0.one_in(2),
            created_at: self.instant(),
        }
    }

    fn line(&mut self) -> Line {
        Line {
            item: self.item_key(),
            requested: self.small(),
            quantity: self.small(),
            fulfilled: if self.0.one_in(2) { 0 } else { self.small() },
            returned: self.small(),
            sequence: self.number(),
            units: None,
            details: self.maybe(Self::line_details).and_then(LineDetails::some),
        }
    }

    fn line_details(&mut self) -> LineDetails {
        LineDetails { backordered: self.small(), promised_at: self.maybe(Self::instant) }
    }

    fn supply(&mut self) -> Supply {
        Supply { id: self.label(), quantity: self.number(), available_from: self.instant() }
    }

    fn line_units(&mut self) -> LineUnits {
        LineUnits::new((0..=self.0.below(5)).map(|_| self.line_unit()).collect())
    }

    fn line_unit(&mut self) -> LineUnit {
        LineUnit {
            id: self.label(),
            version: self.number(),
            fulfilled: self.0.one_in(3),
            returned: self.0.one_in(3),
        }
    }

    fn reservation(&mut self) -> ReservationId {
        ReservationId::from_u128(self.0.wide_bits())
    }

    fn details(&mut self) -> HoldDetails {
        let list = |any: &mut Self| (0..any.0.below(3)).map(|_| any.reservation()).collect();
        HoldDetails {
            payment: self.maybe(|any| Payment {
                id: any.label(),
                state: any.0.pick(&[
                    PaymentState::Open,
                    PaymentState::Closed,
                    PaymentState::Lapsed,
                    PaymentState::Completed,
                ]),
                until: any.instant(),
                deadline_before: any.instant(),
            }),
            first_payment_at: self.maybe(Self::instant),
            split_from: self.maybe(Self::reservation),
            split_into: list(self),
            merged_from: list(self),
            merged_into: self.maybe(Self::reservation),
            replaces: self.maybe(Self::reservation),
            replaced_by: self.maybe(Self::reservation),
            transfers: u32::try_from(self.0.below(3)).unwrap(),
        }
    }

    fn line_changes(&mut self, hold: &Hold) -> Box<[LineChange]> {
        let change = |any: &mut Self| LineChange {
            quantity_before: any.small(),
            kept: any.small(),
            released: (0..any.0.below(3)).map(|_| any.line_unit()).collect(),
        };
        hold.lines.iter().map(|_| change(self)).collect()
    }

    fn moved(&mut self, hold: &Hold) -> Box<[MovedUnits]> {
        let moved = |any: &mut Self| MovedUnits {
            quantity: any.small(),
            places: (0..any.0.below(3)).map(|_| any.small()).collect(),
        };
        hold.lines.iter().map(|_| moved(self)).collect()
    }

    fn hold_change(&mut self, hold: &Hold) -> HoldChange {
        match self.0.below(16) {
            0 => HoldChange::Created,
            1 => HoldChange::Extended,
            2 => HoldChange::Confirmed,
            3 => HoldChange::Cancelled,
            4 => HoldChange::Expired,
            5 => HoldChange::CreatedBySplit,
            6 => HoldChange::MergedAway,
            7 => HoldChange::Replaced,
            8 => HoldChange::Amended { lines: self.line_changes(hold) },
            9 => HoldChange::Split { lines: self.line_changes(hold), into: self.reservation() },
            10 => HoldChange::Merged {
                lines: self.line_changes(hold),
                from: (0..self.0.below(4)).map(|_| self.reservation()).collect(),
            },
            11 => HoldChange::Transferred {
                from: Box::new(Parties {
                    owner_id: self.label(),
                    customer_id: self.maybe(Self::label),
                    session_id: self.maybe(Self::label),
                }),
            },
            12 => HoldChange::PaymentOpened { prolonged: self.0.one_in(2) },
            13 => HoldChange::PaymentClosed { reason: self.maybe(Self::label) },
            14 => HoldChange::Fulfilled { lines: self.moved(hold) },
            _ => HoldChange::Returned {
                lines: self.moved(hold),
                fulfilled: hold.lines.iter().map(|_| self.small()).collect(),
                disposition: self.0.pick(&[Disposition::Restock, Disposition::WriteOff]),
                reason: self.label(),
            },
        }
    }

    fn place(&mut self) -> Place {
        let count = if self.0.one_in(2) { 0 } else { self.0.below(4) };
        let named = (0..count).map(|_| {
            let value = match self.0.below(3) {
                0 => Attribute::Flag(self.0.one_in(2)),
                1 => Attribute::Number(self.number().cast_signed()),
                _ => Attribute::Text(self.label()),
            };
            (self.label(), value)
        });
        Place {
            attributes: Attributes::new(named.collect()),
            position: self.number(),
            section: self.maybe(Self::label),
            row: self.maybe(Self::label),
            number: self.maybe(Self::label),
        }
    }

    fn unit(&mut self) -> Unit {
        let id = ReservationId::from_u128(self.0.wide_bits());
        Unit {
            id: self.label(),
            place: self.place(),
            status: self.0.pick(&[
                UnitStatus::Available,
                UnitStatus::Held(id),
                UnitStatus::Sold(id),
                UnitStatus::Fulfilled(id),
            ]),
            version: self.number(),
        }
    }

    fn added(&mut self) -> Unit {
        Unit { status: UnitStatus::Available, version: 1, ..self.unit() }
    }

    fn hold(&mut self) -> Hold {
        let lines = if self.0.one_in(50) { 40 } else { self.0.below(4) };
        Hold {
            id: ReservationId::from_u128(self.0.wide_bits()),
            status: self.0.pick(&[Status::Active, Status::Confirmed, Status::Cancelled, Status::Expired]),
            expires_at: self.instant(),
            terms: Arc::new(HoldTerms {
                reserve: ReserveTerms::new(
                    self.label(),
                    OptionalTerms {
                        channel: self.maybe(Self::label),
                        customer_id: self.maybe(Self::label),
                        session_id: self.maybe(Self::label),
                        metadata: self.maybe(Self::metadata),
                    },
                ),
                created_at: self.instant(),
                max_expires_at: self.instant(),
            }),
            lines: {
                // Most have counted lines alone, some are mixed.
                let named = self.0.one_in(3);
                let line = |any: &mut Self| {
                    let units = if named && any.0.one_in(2) { Some(any.line_units()) } else { None };
                    Line { units: units.map(Arc::new), ..any.line() }
                };
                (0..lines).map(|_| line(self)).collect()
            },
            closing: self.maybe(|any| {
                let (reason, order_id) = (any.maybe(Self::label), any.maybe(Self::label));
                Box::new(Closing { at: any.instant(), reason, order_id })
            }),
            details: self.maybe(|any| Box::new(any.details())),
            version: self.number(),
            last_event: EventId::from_u128(self.0.wide_bits()),
        }
    }

    fn record_key(&mut self) -> RecordKey {
        RecordKey { kind: self.0.pick(&RecordKind::ALL), id: self.label() }
    }

    fn record(&mut self) -> Record {
        let longest = if self.0.one_in(8) { limits::RECORD_BYTES as u64 + 1 } else { 40 };
        let value = self.maybe(|any| {
            let bytes: Vec<u8> = (0..any.0.below(longest)).map(|_| any.0.byte()).collect();
            RecordValue::new(&bytes).unwrap()
        });
        Record { key: self.record_key(), version: self.number(), value }
    }

    fn transition(&mut self) -> Transition {
        match self.0.below(5) {
            4 => {
                let change = self.0.pick(&[
                    RecordChange::Silent,
                    RecordChange::KeyCreated,
                    RecordChange::KeyRolled,
                    RecordChange::KeyRevoked,
                ]);
                Transition::Record { change, record: self.record() }
            }
            0 => {
                let change = match self.0.below(5) {
                    0 => StockChange::Set,
                    3 => StockChange::Deleted,
                    1 => StockChange::UnitsAdded((0..self.0.below(5)).map(|_| self.added()).collect()),
                    2 => StockChange::UnitsRetired((0..self.0.below(4)).map(|_| self.label()).collect()),
                    _ => StockChange::Adjusted {
                        delta: self.number().cast_signed(),
                        reason: self.label(),
                        supply_id: self.maybe(Self::label),
                    },
                };
                Transition::Stock { change, item: self.item() }
            }
            1 => Transition::Sale {
                scope: match self.0.below(3) {
                    0 => Scope::Everything,
                    1 => Scope::Location(self.label()),
                    _ => Scope::Item(self.item_key()),
                },
                paused: self.0.one_in(2),
                reason: self.maybe(Self::label),
            },
            _ => {
                let hold = self.hold();
                let change = self.hold_change(&hold);
                let figures = hold.lines.iter().map(|_| self.figures()).collect();
                Transition::Hold { change, hold, figures }
            }
        }
    }

    fn event(&mut self) -> Event {
        let request_id = match self.0.below(2) {
            0 => RequestId::Made(self.0.wide_bits()),
            _ => RequestId::Given(self.label()),
        };
        let trace = self.maybe(|any| Trace {
            trace_id: any.0.wide_bits(),
            span_id: any.number(),
            flags: any.0.byte(),
        });
        Event {
            id: EventId::from_u128(self.0.wide_bits()),
            at: self.instant(),
            origin: Origin {
                actor: self.label(),
                key_id: self.maybe(|any| any.0.wide_bits()),
                request_id,
                trace,
            },
            previous: self.maybe(|any| EventId::from_u128(any.0.wide_bits())),
            transition: self.transition(),
        }
    }

    fn key_record(&mut self) -> KeyRecord {
        KeyRecord {
            hash: KeyHash(self.0.wide_bits()),
            fingerprint: Fingerprint(self.0.wide_bits()),
            target: match self.0.below(3) {
                2 => KeyTarget::Record(self.record_key()),
                0 => KeyTarget::Reservation(ReservationId::from_u128(self.0.wide_bits())),
                _ => KeyTarget::Item(self.item_key()),
            },
            at: self.instant(),
        }
    }
}

/// How one kind of record is made, written and read.
struct Kind<T> {
    make: fn(&mut Any) -> T,
    put: fn(&mut Vec<u8>, &T),
    read: fn(&mut Reader<'_>) -> Result<T, DecodeError>,
}

impl<T: Debug + PartialEq> Kind<T> {
    fn each(&self, check: impl Fn(&Self, &T, &[u8], &mut Random)) {
        for seed in 0..RECORDS {
            let mut any = Any(Random::new(seed));
            let record = (self.make)(&mut any);
            let mut bytes = Vec::new();
            (self.put)(&mut bytes, &record);
            check(self, &record, &bytes, &mut any.0);
        }
    }

    /// Reads all of it.
    fn read(&self, bytes: &[u8]) -> Result<T, DecodeError> {
        self.read_by(Reader::new(bytes))
    }

    fn read_by(&self, mut reader: Reader<'_>) -> Result<T, DecodeError> {
        let record = (self.read)(&mut reader)?;
        reader.finish()?;
        Ok(record)
    }
}

/// Runs one generic check over every kind of record.
macro_rules! for_every_kind {
    ($check:expr) => {
        Kind { make: Any::event, put: put_event, read: event }.each($check);
        Kind { make: Any::hold, put: put_hold, read: hold }.each($check);
        Kind { make: Any::item, put: put_item, read: item }.each($check);
        Kind { make: Any::record, put: put_record, read: record }.each($check);
        Kind { make: Any::unit, put: put_unit, read: unit }.each($check);
        Kind { make: Any::key_record, put: put_key_record, read: key_record }.each($check);
    };
}

#[test]
fn what_is_written_is_read_back() {
    for_every_kind!(|kind, record, bytes, _| {
        assert_eq!(kind.read(bytes).as_ref(), Ok(record));
    });
}

/// Keys in a list.
#[derive(Debug, Default)]
struct Listed(RefCell<Vec<ItemKey>>);

impl KnownKeys for Listed {
    fn find(&self, location: &str, sku: &str) -> Option<ItemKey> {
        let is_it = |key: &&ItemKey| (key.location(), key.sku()) == (location, sku);
        self.0.borrow().iter().find(is_it).cloned()
    }

    fn learn(&self, key: &ItemKey) {
        assert_eq!(self.find(key.location(), key.sku()), None, "it is known");
        self.0.borrow_mut().push(key.clone());
    }
}

#[test]
fn whoever_knows_keys_reads_the_same() {
    for_every_kind!(|kind, record, bytes, random| {
        let keys = Listed::default();
        for _ in 0..2 {
            assert_eq!(kind.read_by(Reader::sharing(bytes, &keys)).as_ref(), Ok(record));
        }
        let mut damaged = bytes.to_vec();
        for (at, byte) in bytes.iter().enumerate() {
            damaged[at] = byte ^ (random.byte() | 1);
            let shared = kind.read_by(Reader::sharing(&damaged, &keys));
            assert_eq!(shared, kind.read(&damaged), "byte {at} of {bytes:?}");
            damaged[at] = *byte;
        }
    });
}

#[test]
fn keys_of_the_same_texts_are_one() {
    let mut any = Any(Random::new(1));
    let (item, keys) = (any.item(), Listed::default());
    let mut bytes = Vec::new();
    put_item(&mut bytes, &item);
    let text = || item_of(&bytes, &keys).key.sku().as_ptr();
    assert_eq!(text(), text());
}

fn item_of(bytes: &[u8], keys: &Listed) -> Item {
    item(&mut Reader::sharing(bytes, keys)).unwrap()
}

#[test]
fn records_follow_each_other() {
    let mut any = Any(Random::new(1));
    let (first, second) = (any.event(), any.event());
    let mut bytes = Vec::new();
    put_event(&mut bytes, &first);
    put_event(&mut bytes, &second);
    let mut reader = Reader::new(&bytes);
    assert_eq!(event(&mut reader), Ok(first));
    assert_eq!(event(&mut reader), Ok(second));
    assert_eq!(reader.finish(), Ok(()));
}

#[test]
fn a_hold_that_is_not_wanted_is_passed_by() {
    let kind = Kind { make: Any::hold, put: put_hold, read: hold };
    kind.each(|_, record, bytes, _| {
        let followed = [bytes, &[7]].concat();
        for wanted in [true, false] {
            let mut reader = Reader::new(&followed);
            let read = hold_if(&mut reader, |id| {
                assert_eq!(id, record.id);
                wanted
            });
            assert_eq!(read, Ok(wanted.then(|| record.clone())));
            assert_eq!(reader.u64(), Ok(7), "it ends where the next begins");
        }
        for len in 0..bytes.len() {
            let cut = hold_if(&mut Reader::new(&bytes[..len]), |_| false);
            assert!(cut.is_err(), "{len} of {} bytes", bytes.len());
        }
    });
    for seed in 0..RECORDS * 50 {
        let mut random = Random::new(seed);
        let bytes: Vec<u8> = (0..random.below(400)).map(|_| random.byte() >> random.below(8)).collect();
        // Whatever the bytes are, it ends.
        drop(hold_if(&mut Reader::new(&bytes), |_| false));
    }
}

#[test]
fn a_record_that_is_cut_short_is_an_error() {
    for_every_kind!(|kind, _, bytes, _| {
        for len in 0..bytes.len() {
            assert!(kind.read(&bytes[..len]).is_err(), "{len} of {} bytes", bytes.len());
        }
    });
}

#[test]
fn bytes_that_are_left_over_are_an_error() {
    for_every_kind!(|kind, _, bytes, random| {
        let longer = [bytes, &[random.byte()]].concat();
        assert!(kind.read(&longer).is_err());
    });
}

#[test]
fn a_changed_byte_never_reads_as_the_same_record() {
    for_every_kind!(|kind, record, bytes, random| {
        let mut damaged = bytes.to_vec();
        for (at, byte) in bytes.iter().enumerate() {
            for flip in [1, 0x80, 0xff, 1 << random.below(8), random.byte() | 1] {
                damaged[at] = byte ^ flip;
                assert_ne!(kind.read(&damaged).as_ref(), Ok(record), "byte {at} of {bytes:?}");
            }
            damaged[at] = *byte;
        }
    });
}

#[test]
fn random_bytes_are_an_error_or_a_record_and_never_a_panic() {
    for_every_kind!(|kind, _, _, random| {
        for _ in 0..50 {
            let len = random.below(400);
            let bytes: Vec<u8> = (0..len).map(|_| random.byte() >> random.below(8)).collect();
            if let Ok(record) = kind.read(&bytes) {
                let mut again = Vec::new();
                (kind.put)(&mut again, &record);
                assert_eq!(again, bytes, "what reads as a record is what it is written as");
            }
        }
    });
}

#[test]
fn a_length_that_can_t_be_is_not_believed() {
    for huge in [1 << 20, u64::from(u32::MAX), u64::MAX] {
        let mut bytes = Vec::new();
        put_u128(&mut bytes, 1);
        put_u64(&mut bytes, 2);
        put_u64(&mut bytes, huge);
        assert!(event(&mut Reader::new(&bytes)).is_err(), "an actor of {huge} bytes");
        assert!(Reader::new(&bytes[17..]).text().is_err(), "a text of {huge} bytes");
    }
    let mut any = Any(Random::new(1));
    let lines: Arc<[Line]> = (0..=2 * limits::BASKET_LINES).map(|_| any.line()).collect();
    let mut bytes = Vec::new();
    put_hold(&mut bytes, &Hold { lines, ..any.hold() });
    assert!(hold(&mut Reader::new(&bytes)).is_err(), "more lines than an event can have");
}

#[test]
fn texts_are_utf_8_and_labels_are_labels() {
    let mut bytes = Vec::new();
    put_text(&mut bytes, "é");
    assert_eq!(Reader::new(&bytes).text(), Ok("é"));
    assert!(Reader::new(&[1, 0xc3]).text().is_err(), "half a character");
    let mut any = Any(Random::new(1));
    let record = KeyRecord { target: KeyTarget::Item(any.item_key()), ..any.key_record() };
    let mut bytes = Vec::new();
    put_key_record(&mut bytes, &record);
    // Past both digests, the subject's byte and the location's length: the location's first letter.
    let letter = 16 + 16 + 1 + 1;
    bytes[letter] = b'\n';
    assert!(key_record(&mut Reader::new(&bytes)).is_err(), "a label with a control character");
}
