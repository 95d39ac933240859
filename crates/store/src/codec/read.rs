//! Decoding of records. The bytes are not trusted: any bytes give a record or an error.

use super::changes::hold_change;
use super::details::{details as read_details, line_details};
use super::limits::{limit, limit_effects};
use super::terms::optional_terms;
use super::write::END_OF_FIELDS;
use super::{EVENT_VERSION, units};
use core::fmt;
use std::sync::Arc;
use stockhold_domain::{
    Closing, Event, EventId, Fingerprint, Hold, HoldTerms, Instant, Item, ItemKey, KeyHash, KeyRecord,
    KeyTarget, Label, Line, Mode, Origin, Record, RecordChange, RecordKey, RecordKind, RecordValue,
    RequestId, ReservationId, ReserveTerms, Scope, Seconds, Status, StockChange, StockCounters, Trace,
    Transition, limits,
};

/// The bytes are not a record: what was being read, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// What was being read.
    pub what: &'static str,
    /// Bytes that were left when it failed.
    pub left: usize,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "damaged record: no valid {} with {} bytes to go", self.what, self.left)
    }
}

impl std::error::Error for DecodeError {}

type Read<T> = Result<T, DecodeError>;

/// A cache of item keys. A reader of many records of few items shares the keys instead of allocating texts again.
pub trait KnownKeys: fmt::Debug {
    /// The key of these texts, if the cache has it.
    fn find(&self, location: &str, sku: &str) -> Option<ItemKey>;
    /// Adds a key that the cache does not have.
    fn learn(&self, key: &ItemKey);
}

/// Bytes being read from the front.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    left: &'a [u8],
    keys: Option<&'a dyn KnownKeys>,
}

impl<'a> Reader<'a> {
    /// Over all of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes, keys: None }
    }

    /// The same, with keys from among these.
    pub fn sharing(bytes: &'a [u8], keys: &'a dyn KnownKeys) -> Self {
        Self { left: bytes, keys: Some(keys) }
    }

    /// Succeeds when nothing is left.
    pub fn finish(self) -> Read<()> {
        if self.left.is_empty() { Ok(()) } else { Err(self.bad("end")) }
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.left.len()
    }

    pub(super) fn bad(&self, what: &'static str) -> DecodeError {
        DecodeError { what, left: self.left.len() }
    }

    fn bytes(&mut self, count: usize, what: &'static str) -> Read<&'a [u8]> {
        let (head, tail) = self.left.split_at_checked(count).ok_or_else(|| self.bad(what))?;
        self.left = tail;
        Ok(head)
    }

    pub(super) fn byte(&mut self, what: &'static str) -> Read<u8> {
        self.bytes(1, what)?.first().copied().ok_or_else(|| self.bad(what))
    }

    /// An unsigned integer, in its shortest form only.
    pub fn u64(&mut self) -> Read<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte("integer")?;
            let part = u64::from(byte & 0x7f);
            if (part << shift) >> shift != part || (byte == 0 && shift > 0) {
                break;
            }
            value |= part << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.bad("integer"))
    }

    pub(super) fn u32(&mut self) -> Read<u32> {
        u32::try_from(self.u64()?).map_err(|_| self.bad("small integer"))
    }

    /// Reads a number whose field is left out when it is 0.
    pub(super) fn positive(&mut self) -> Read<u64> {
        let number = self.u64()?;
        if number > 0 { Ok(number) } else { Err(self.bad("number of an optional field")) }
    }

    /// [`Self::positive`] of at most 32 bits.
    pub(super) fn positive_u32(&mut self) -> Read<u32> {
        u32::try_from(self.positive()?).map_err(|_| self.bad("small integer"))
    }

    pub(super) fn i64(&mut self) -> Read<i64> {
        let zigzag = self.u64()?;
        Ok((zigzag >> 1).cast_signed() ^ -((zigzag & 1).cast_signed()))
    }

    /// An id.
    pub fn u128(&mut self) -> Read<u128> {
        let bytes = self.bytes(16, "id")?;
        Ok(bytes.iter().fold(0, |id, byte| (id << 8) | u128::from(*byte)))
    }

    /// A text.
    pub fn text(&mut self) -> Read<&'a str> {
        let bytes = self.raw_text()?;
        core::str::from_utf8(bytes).map_err(|_| self.bad("UTF-8"))
    }

    /// The bytes of a text, whatever they are.
    pub(super) fn raw_text(&mut self) -> Read<&'a [u8]> {
        let len = self.u64()?;
        let len = usize::try_from(len).map_err(|_| self.bad("text"))?;
        self.bytes(len, "text")
    }

    pub(super) fn flag(&mut self) -> Read<bool> {
        match self.byte("flag")? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.bad("flag")),
        }
    }

    pub(super) fn label(&mut self) -> Read<Label> {
        Label::new(self.text()?).map_err(|_| self.bad("label"))
    }

    pub(super) fn seconds(&mut self) -> Read<Seconds> {
        Seconds::new(self.u64()?).map_err(|_| self.bad("seconds"))
    }

    pub(super) fn instant(&mut self) -> Read<Instant> {
        self.i64().map(Instant::from_micros)
    }

    pub(super) fn item_key(&mut self) -> Read<ItemKey> {
        let (mut after, keys) = (self.clone(), self.keys);
        if let Some(known) = keys.and_then(|keys| keys.find(after.text().ok()?, after.text().ok()?)) {
            *self = after;
            return Ok(known);
        }
        let (location, sku) = (self.text()?, self.text()?);
        let key = ItemKey::from_texts(location, sku).map_err(|_| self.bad("label"))?;
        if let Some(keys) = keys {
            keys.learn(&key);
        }
        Ok(key)
    }

    pub(super) fn shared_text(&mut self) -> Read<Arc<str>> {
        self.text().map(Arc::from)
    }

    /// The optional fields of a record, in ascending order of their tags. `read` reads the value of the field with the given
    /// tag, and returns `false` for a tag that it does not know: a record of a newer build is refused, not misread.
    pub(super) fn fields(&mut self, mut read: impl FnMut(&mut Self, u8) -> Read<bool>) -> Read<()> {
        let mut last = END_OF_FIELDS;
        loop {
            let tag = self.byte("field")?;
            if tag == END_OF_FIELDS {
                return Ok(());
            }
            if tag <= last || !read(self, tag)? {
                return Err(self.bad("field"));
            }
            last = tag;
        }
    }

    /// Skips bytes.
    pub(super) fn skip(&mut self, count: usize) -> Read<()> {
        self.bytes(count, "record").map(drop)
    }

    pub(super) fn length(&mut self) -> Read<usize> {
        let bytes = self.bytes(4, "length")?;
        let length = bytes.iter().rev().fold(0_u32, |length, byte| (length << 8) | u32::from(*byte));
        usize::try_from(length).map_err(|_| self.bad("length"))
    }

    /// The number of lines of a hold or of an event, which also has the lines that it removes. It is bounded so that a damaged one
    /// reserves no memory.
    pub(super) fn lines(&mut self) -> Read<usize> {
        self.count(2 * limits::BASKET_LINES as u64)
    }

    pub(super) fn count(&mut self, most: u64) -> Read<usize> {
        let count = self.u64()?;
        usize::try_from(count).ok().filter(|_| count <= most).ok_or_else(|| self.bad("count"))
    }
}

/// Reads an event.
pub fn event(reader: &mut Reader<'_>) -> Read<Event> {
    if reader.byte("event version")? != EVENT_VERSION {
        return Err(reader.bad("event version"));
    }
    let (id, at) = (EventId::from_u128(reader.u128()?), reader.instant()?);
    let actor = reader.label()?;
    let request_id = match reader.byte("request id")? {
        0 => RequestId::Made(reader.u128()?),
        1 => RequestId::Given(reader.label()?),
        _ => return Err(reader.bad("request id")),
    };
    let (mut previous, mut trace, mut key_id) = (None, None, None);
    reader.fields(|reader, tag| {
        match tag {
            1 => previous = Some(EventId::from_u128(reader.u128()?)),
            2 => {
                let (trace_id, span_id) = (reader.u128()?, reader.u64()?);
                trace = Some(Trace { trace_id, span_id, flags: reader.byte("flags")? });
            }
            3 => key_id = Some(reader.u128()?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let transition = transition(reader)?;
    Ok(Event { id, at, origin: Origin { actor, key_id, request_id, trace }, previous, transition })
}

fn transition(reader: &mut Reader<'_>) -> Read<Transition> {
    let tag = reader.byte("transition")?;
    if let Some(change) = hold_change(reader, tag)? {
        let hold = hold(reader)?;
        let figures = hold.lines.iter().map(|_| figures(reader)).collect::<Read<_>>()?;
        let limits = match reader.byte("effects on limits")? {
            0 => None,
            1 => Some(Box::new(limit_effects(reader)?)),
            _ => return Err(reader.bad("effects on limits")),
        };
        return Ok(Transition::Hold { change, hold, figures, limits });
    }
    let change = match tag {
        16 => StockChange::Set,
        17 => {
            let (delta, reason, mut supply_id) = (reader.i64()?, reader.label()?, None);
            reader.fields(|reader, tag| {
                supply_id = Some(reader.label()?);
                Ok(tag == 1)
            })?;
            StockChange::Adjusted { delta, reason, supply_id }
        }
        18 => StockChange::UnitsAdded(units::added(reader)?.into()),
        19 => {
            let count = reader.count(limits::BASKET_UNITS)?;
            StockChange::UnitsRetired((0..count).map(|_| reader.label()).collect::<Read<_>>()?)
        }
        20 => StockChange::Deleted,
        21 => StockChange::PoolSet { pool: reader.label()? },
        22 => StockChange::PoolDeleted { pool: reader.label()? },
        23 => StockChange::PoolReleased { pool: reader.label()? },
        24 => {
            let mut pool = None;
            reader.fields(|reader, tag| {
                pool = Some(reader.label()?);
                Ok(tag == 1)
            })?;
            StockChange::UnitsPooled { pool, units: units::pooled(reader)?.into() }
        }
        32 => {
            let (scope, paused, mut reason) = (scope(reader)?, reader.flag()?, None);
            reader.fields(|reader, tag| {
                reason = Some(reader.label()?);
                Ok(tag == 1)
            })?;
            return Ok(Transition::Sale { scope, paused, reason });
        }
        64 => return Ok(Transition::Limit { limit: limit(reader)? }),
        48 => {
            let change = record_change(reader)?;
            return Ok(Transition::Record { change, record: record(reader)? });
        }
        _ => return Err(reader.bad("transition")),
    };
    Ok(Transition::Stock { change, item: item(reader)? })
}

/// Reads a hold.
pub fn hold(reader: &mut Reader<'_>) -> Read<Hold> {
    let id = ReservationId::from_u128(reader.u128()?);
    let length = reader.length()?;
    let before = reader.left();
    let hold = hold_body(reader, id)?;
    if before - reader.left() == length { Ok(hold) } else { Err(reader.bad("length of a hold")) }
}

/// Reads a hold if `wanted` says so of its id, and skips its bytes otherwise.
pub fn hold_if(reader: &mut Reader<'_>, wanted: impl FnOnce(ReservationId) -> bool) -> Read<Option<Hold>> {
    let mut ahead = reader.clone();
    if wanted(ReservationId::from_u128(ahead.u128()?)) {
        return hold(reader).map(Some);
    }
    let length = ahead.length()?;
    ahead.skip(length)?;
    *reader = ahead;
    Ok(None)
}

fn hold_body(reader: &mut Reader<'_>, id: ReservationId) -> Read<Hold> {
    let status = status(reader)?;
    let expires_at = reader.instant()?;
    let owner_id = reader.label()?;
    let (created_at, max_expires_at) = (reader.instant()?, reader.instant()?);
    let reserve = ReserveTerms { owner_id, optional: optional_terms(reader)? };
    let lines = lines(reader)?;
    let version = reader.u64()?;
    let last_event = EventId::from_u128(reader.u128()?);
    let (mut closing, mut details) = (None, None);
    reader.fields(|reader, tag| {
        match tag {
            1 => closing = Some(Box::new(read_closing(reader)?)),
            2 => details = Some(Box::new(read_details(reader)?)),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let terms = Arc::new(HoldTerms { reserve, created_at, max_expires_at });
    Ok(Hold { id, status, expires_at, terms, lines, closing, details, version, last_event })
}

pub(super) fn status(reader: &mut Reader<'_>) -> Read<Status> {
    Ok(match reader.byte("status")? {
        0 => Status::Active,
        1 => Status::Confirmed,
        2 => Status::Cancelled,
        3 => Status::Expired,
        _ => return Err(reader.bad("status")),
    })
}

fn read_closing(reader: &mut Reader<'_>) -> Read<Closing> {
    let mut closing = Closing { at: reader.instant()?, reason: None, order_id: None };
    reader.fields(|reader, tag| {
        match tag {
            1 => closing.reason = Some(reader.label()?),
            2 => closing.order_id = Some(reader.label()?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(closing)
}

fn lines(reader: &mut Reader<'_>) -> Read<Arc<[Line]>> {
    let count = reader.lines()?;
    // Most holds have one line. It then needs no list in between.
    if count == 1 {
        return Ok(Arc::new([line(reader)?]));
    }
    (0..count).map(|_| line(reader)).collect()
}

fn line(reader: &mut Reader<'_>) -> Read<Line> {
    let mut line = Line {
        item: reader.item_key()?,
        requested: reader.u32()?,
        quantity: reader.u32()?,
        fulfilled: 0,
        returned: reader.u32()?,
        sequence: reader.u64()?,
        units: None,
        details: None,
    };
    reader.fields(|reader, tag| {
        match tag {
            1 => line.units = Some(Arc::new(units::line_units(reader)?)),
            2 => line.fulfilled = reader.positive_u32()?,
            3 => line.details = Some(Box::new(line_details(reader)?)),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(line)
}

fn figures(reader: &mut Reader<'_>) -> Read<StockCounters> {
    Ok(StockCounters {
        total_units: reader.u64()?,
        confirmed_sold: reader.u64()?,
        fulfilled: reader.u64()?,
        held: reader.u64()?,
        held_under_payment: reader.u64()?,
        active: reader.u64()?,
        sequence: reader.u64()?,
        at: reader.instant()?,
    })
}

/// Reads an item.
pub fn item(reader: &mut Reader<'_>) -> Read<Item> {
    let key = reader.item_key()?;
    let mode = match reader.byte("mode")? {
        0 => Mode::Counted,
        1 => Mode::Units,
        _ => return Err(reader.bad("mode")),
    };
    let figures = figures(reader)?;
    let (version, paused, created_at) = (reader.u64()?, reader.flag()?, reader.instant()?);
    let settings = Arc::new(super::settings::settings(reader)?);
    let pools = super::pools::pools(reader)?;
    Ok(Item { key, mode, figures, settings, pools, version, paused, created_at })
}

fn scope(reader: &mut Reader<'_>) -> Read<Scope> {
    match reader.byte("scope")? {
        0 => Ok(Scope::Everything),
        1 => reader.label().map(Scope::Location),
        2 => reader.item_key().map(Scope::Item),
        _ => Err(reader.bad("scope")),
    }
}

/// Reads a used key.
pub fn key_record(reader: &mut Reader<'_>) -> Read<KeyRecord> {
    Ok(KeyRecord {
        hash: KeyHash(reader.u128()?),
        fingerprint: Fingerprint(reader.u128()?),
        target: match reader.byte("subject")? {
            0 => KeyTarget::Reservation(ReservationId::from_u128(reader.u128()?)),
            1 => KeyTarget::Item(reader.item_key()?),
            2 => KeyTarget::Record(record_key(reader)?),
            _ => return Err(reader.bad("subject")),
        },
        at: reader.instant()?,
    })
}

/// Reads a record.
pub fn record(reader: &mut Reader<'_>) -> Read<Record> {
    let (key, version) = (record_key(reader)?, reader.u64()?);
    let mut value = None;
    reader.fields(|reader, tag| {
        let bytes = reader.raw_text()?;
        value = Some(RecordValue::new(bytes).map_err(|_| reader.bad("value of a record"))?);
        Ok(tag == 1)
    })?;
    Ok(Record { key, version, value })
}

fn record_key(reader: &mut Reader<'_>) -> Read<RecordKey> {
    let kind = match reader.byte("kind of a record")? {
        0 => RecordKind::ApiKey,
        1 => RecordKind::SigningKey,
        2 => RecordKind::Sink,
        3 => RecordKind::Webhook,
        4 => RecordKind::WebhookProgress,
        5 => RecordKind::StockMaster,
        6 => RecordKind::Reconciliation,
        7 => RecordKind::Credentials,
        _ => return Err(reader.bad("kind of a record")),
    };
    Ok(RecordKey { kind, id: reader.label()? })
}

fn record_change(reader: &mut Reader<'_>) -> Read<RecordChange> {
    match reader.byte("change of a record")? {
        0 => Ok(RecordChange::Silent),
        1 => Ok(RecordChange::KeyCreated),
        2 => Ok(RecordChange::KeyRolled),
        3 => Ok(RecordChange::KeyRevoked),
        4 => Ok(RecordChange::SinkEventSkipped),
        5 => Ok(RecordChange::EndpointCreated),
        6 => Ok(RecordChange::EndpointChanged),
        7 => Ok(RecordChange::EndpointDeleted),
        8 => Ok(RecordChange::EndpointDisabled),
        9 => Ok(RecordChange::EndpointSecretRotated),
        10 => Ok(RecordChange::StockReconciled),
        _ => Err(reader.bad("change of a record")),
    }
}
