//! Records from bytes. Nothing about the bytes is trusted: whatever they are, they give a record or an error.

use super::units;
use super::write::WITH_UNITS;
use core::fmt;
use std::sync::Arc;
use stockhold_domain::{
    Closing, Event, EventId, Extras, Fingerprint, Hold, HoldChange, Instant, Item, ItemKey, KeyHash,
    KeyRecord, KeyTarget, Label, Line, Mode, Origin, RequestId, ReservationId, Scope, Seconds, Settings,
    Status, StockChange, StockCounters, Terms, Trace, Transition, limits,
};

/// Bytes that are no record: what was being read, and where.
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

/// Keys of items that are known: whoever reads many records of few items shares them, and makes no texts that are thrown away.
pub trait KnownKeys: fmt::Debug {
    /// The key of these texts, if it is known.
    fn find(&self, location: &str, sku: &str) -> Option<ItemKey>;
    /// Has a key known that is not.
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

    pub(super) fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<Option<T>> {
        if self.flag()? { read(self).map(Some) } else { Ok(None) }
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

    fn seconds(&mut self) -> Read<Seconds> {
        Seconds::new(self.u64()?).map_err(|_| self.bad("seconds"))
    }

    fn instant(&mut self) -> Read<Instant> {
        self.i64().map(Instant::from_micros)
    }

    fn item_key(&mut self) -> Read<ItemKey> {
        let (mut after, keys) = (self.clone(), self.keys);
        if let Some(known) = keys.and_then(|keys| keys.find(after.text().ok()?, after.text().ok()?)) {
            *self = after;
            return Ok(known);
        }
        let key = ItemKey::new(&self.label()?, &self.label()?);
        if let Some(keys) = keys {
            keys.learn(&key);
        }
        Ok(key)
    }

    fn shared_text(&mut self) -> Read<Arc<str>> {
        self.text().map(Arc::from)
    }

    /// A count of things of at least one byte each, bounded so that a damaged one reserves no memory.
    pub(super) fn lines(&mut self) -> Read<usize> {
        self.count(limits::BASKET_LINES as u64)
    }

    pub(super) fn count(&mut self, most: u64) -> Read<usize> {
        let count = self.u64()?;
        usize::try_from(count).ok().filter(|_| count <= most).ok_or_else(|| self.bad("count"))
    }
}

/// Reads an event.
pub fn event(reader: &mut Reader<'_>) -> Read<Event> {
    Ok(Event {
        id: EventId::from_u128(reader.u128()?),
        at: reader.instant()?,
        origin: origin(reader)?,
        previous: reader.option(Reader::u128)?.map(EventId::from_u128),
        transition: transition(reader)?,
    })
}

fn origin(reader: &mut Reader<'_>) -> Read<Origin> {
    Ok(Origin {
        actor: reader.label()?,
        request_id: match reader.byte("request id")? {
            0 => RequestId::Made(reader.u128()?),
            1 => RequestId::Given(reader.label()?),
            _ => return Err(reader.bad("request id")),
        },
        trace: reader.option(|reader| {
            Ok(Trace { trace_id: reader.u128()?, span_id: reader.u64()?, flags: reader.byte("flags")? })
        })?,
    })
}

fn transition(reader: &mut Reader<'_>) -> Read<Transition> {
    let change = match reader.byte("transition")? {
        0 => HoldChange::Created,
        1 => HoldChange::Extended,
        2 => HoldChange::Confirmed,
        3 => HoldChange::Cancelled,
        4 => HoldChange::Expired,
        5 => {
            let count = reader.lines()?;
            let quantities = (0..count).map(|_| reader.u32()).collect::<Read<_>>()?;
            HoldChange::Returned { quantities, units: Box::default(), reason: reader.label()? }
        }
        6 => {
            let count = reader.lines()?;
            let quantities = (0..count).map(|_| reader.u32()).collect::<Read<_>>()?;
            let units = units::back(reader)?;
            if units.is_empty() {
                return Err(reader.bad("units that came back"));
            }
            HoldChange::Returned { quantities, units, reason: reader.label()? }
        }
        16 => return Ok(Transition::Stock { change: StockChange::Set, item: item(reader)? }),
        17 => {
            let change = StockChange::Adjusted { delta: reader.i64()?, reason: reader.label()? };
            return Ok(Transition::Stock { change, item: item(reader)? });
        }
        18 => {
            let change = StockChange::UnitsAdded(units::added(reader)?.into());
            return Ok(Transition::Stock { change, item: item(reader)? });
        }
        19 => {
            let change = StockChange::UnitRetired(reader.label()?);
            return Ok(Transition::Stock { change, item: item(reader)? });
        }
        32 => {
            return Ok(Transition::Sale {
                scope: scope(reader)?,
                paused: reader.flag()?,
                reason: reader.option(Reader::label)?,
            });
        }
        _ => return Err(reader.bad("transition")),
    };
    let hold = hold(reader)?;
    let figures = hold.lines.iter().map(|_| figures(reader)).collect::<Read<_>>()?;
    Ok(Transition::Hold { change, hold, figures })
}

/// Reads a hold. What it has is passed by in `skip.rs`, in the same order.
pub fn hold(reader: &mut Reader<'_>) -> Read<Hold> {
    let id = ReservationId::from_u128(reader.u128()?);
    let status = reader.byte("status")?;
    let named = status & WITH_UNITS != 0;
    Ok(Hold {
        id,
        status: match status & !WITH_UNITS {
            0 => Status::Active,
            1 => Status::Confirmed,
            2 => Status::Cancelled,
            3 => Status::Expired,
            _ => return Err(reader.bad("status")),
        },
        expires_at: reader.instant()?,
        terms: Arc::new(terms(reader)?),
        lines: lines(reader, named)?,
        closing: reader.option(|reader| {
            Ok(Box::new(Closing {
                at: reader.instant()?,
                reason: reader.option(Reader::label)?,
                order_id: reader.option(Reader::label)?,
            }))
        })?,
        last_event: EventId::from_u128(reader.u128()?),
    })
}

fn terms(reader: &mut Reader<'_>) -> Read<Terms> {
    Ok(Terms {
        owner_id: reader.label()?,
        created_at: reader.instant()?,
        max_expires_at: reader.instant()?,
        extras: reader.option(|reader| {
            Ok(Box::new(Extras {
                channel: reader.option(Reader::label)?,
                customer_id: reader.option(Reader::label)?,
                session_id: reader.option(Reader::label)?,
                metadata: reader.option(Reader::shared_text)?,
            }))
        })?,
    })
}

fn lines(reader: &mut Reader<'_>, named: bool) -> Read<Arc<[Line]>> {
    let count = reader.lines()?;
    let mut line = || {
        Ok(Line {
            item: reader.item_key()?,
            requested: reader.u32()?,
            quantity: reader.u32()?,
            returned: reader.u32()?,
            sequence: reader.u64()?,
            units: if named { units::line_units(reader)?.map(Arc::new) } else { None },
        })
    };
    // Most have one, which then needs no list in between.
    let lines: Arc<[Line]> =
        if count == 1 { Arc::new([line()?]) } else { (0..count).map(|_| line()).collect::<Read<_>>()? };
    if named && lines.iter().all(|line| line.units.is_none()) {
        return Err(reader.bad("line with units"));
    }
    Ok(lines)
}

fn figures(reader: &mut Reader<'_>) -> Read<StockCounters> {
    Ok(StockCounters {
        total_units: reader.u64()?,
        confirmed_sold: reader.u64()?,
        held: reader.u64()?,
        active: reader.u64()?,
        sequence: reader.u64()?,
        at: reader.instant()?,
    })
}

/// Reads an item.
pub fn item(reader: &mut Reader<'_>) -> Read<Item> {
    Ok(Item {
        key: reader.item_key()?,
        mode: match reader.byte("mode")? {
            0 => Mode::Counted,
            1 => Mode::Units,
            _ => return Err(reader.bad("mode")),
        },
        figures: figures(reader)?,
        settings: Arc::new(Settings {
            safety_stock: reader.u64()?,
            default_ttl: reader.option(Reader::seconds)?,
            max_hold: reader.option(Reader::seconds)?,
            metadata: reader.option(Reader::shared_text)?,
        }),
        version: reader.u64()?,
        paused: reader.flag()?,
        created_at: reader.instant()?,
    })
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
            _ => return Err(reader.bad("subject")),
        },
        at: reader.instant()?,
    })
}
