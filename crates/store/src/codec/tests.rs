//! Records of every shape: what is written is read back, and damaged bytes are an error or
//! another record, never a panic and never the same record.

use super::any::Any;
use super::{
    DecodeError, KnownKeys, Reader, event, hold, hold_if, item, key_record, put_event, put_hold, put_item,
    put_key_record, put_record, put_text, put_u64, put_u128, put_unit, record, unit,
};
use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::Arc;
use stockhold_domain::{Hold, Item, ItemKey, KeyRecord, KeyTarget, Line, limits};
use stockhold_model::Random;

/// Records of each kind.
const RECORDS: u64 = 40;
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
