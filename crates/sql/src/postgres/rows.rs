//! How rows become values and values become arrays. A row that makes no sense is damage, said aloud and never guessed
//! around.

use super::citus::Layout;
use super::params::Params;
use crate::engine::{DbError, Deadline, Release, attributes_from, key_bucket, pools_from, settings_from};
use std::collections::BTreeSet;
use std::sync::Arc;
use stockhold_domain::{
    Instant, Item, ItemKey, KeyHash, Label, Mode, Place, Record, RecordKey, RecordKind, RecordValue,
    ReservationId, Status, StockCounters, Unit, UnitStatus, bucket_of,
};
use tokio_postgres::Row;
use uuid::Uuid;

/// Keys of items as the arrays that statements take.
#[derive(Default)]
pub(super) struct ItemKeys<'a> {
    buckets: Vec<i16>,
    locations: Vec<&'a str>,
    skus: Vec<&'a str>,
}

impl<'a> ItemKeys<'a> {
    pub(super) fn of(keys: impl Iterator<Item = &'a ItemKey>) -> Self {
        let mut all = Self::default();
        keys.for_each(|key| all.push(key));
        all
    }

    pub(super) fn push(&mut self, key: &'a ItemKey) {
        self.push_in(bucket_of(key), key);
    }

    fn push_in(&mut self, bucket: u16, key: &'a ItemKey) {
        self.buckets.push(column(bucket));
        self.locations.push(key.location());
        self.skus.push(key.sku());
    }

    pub(super) fn len(&self) -> usize {
        self.buckets.len()
    }

    pub(super) fn params(&self) -> Params<'_> {
        vec![&self.buckets, &self.locations, &self.skus]
    }
}

/// Keys of items in the order of the table's primary key.
pub(super) struct ItemArrays<'a> {
    pub(super) keys: Vec<&'a ItemKey>,
    arrays: ItemKeys<'a>,
    /// The place of each in `keys`, from 1: what a row of an answer says of whose it is.
    numbers: Vec<i64>,
}

impl<'a> ItemArrays<'a> {
    pub(super) fn new(keys: impl Iterator<Item = &'a ItemKey>) -> Self {
        let mut sorted: Vec<_> = keys.map(|key| (bucket_of(key), key)).collect();
        sorted.sort_unstable();
        let mut arrays = ItemKeys::default();
        for (bucket, key) in &sorted {
            arrays.push_in(*bucket, key);
        }
        let keys: Vec<_> = sorted.into_iter().map(|(_, key)| key).collect();
        let numbers = (1..).take(keys.len()).collect();
        Self { keys, arrays, numbers }
    }

    pub(super) fn params(&self) -> Params<'_> {
        self.arrays.params()
    }

    /// With the number of each.
    pub(super) fn numbered(&self) -> Params<'_> {
        let mut params = self.params();
        params.push(&self.numbers);
        params
    }

    /// With so many wanted of each, and the number of each.
    pub(super) fn wanted<'b>(&'b self, wanted: &'b Vec<i64>) -> Params<'b> {
        let mut params = self.params();
        params.push(wanted);
        params.push(&self.numbers);
        params
    }
}

/// Ids of reservations as the arrays that statements take, in the order of the primary key.
pub(super) struct HoldArrays {
    pub(super) buckets: Vec<i16>,
    pub(super) ids: Vec<Uuid>,
}

impl HoldArrays {
    pub(super) fn new(ids: &BTreeSet<ReservationId>) -> Self {
        let mut sorted: Vec<_> = ids.iter().map(|id| (id.bucket(), *id)).collect();
        sorted.sort_unstable();
        Self {
            buckets: sorted.iter().map(|(bucket, _)| column(*bucket)).collect(),
            ids: sorted.iter().map(|(_, id)| uuid(*id)).collect(),
        }
    }

    pub(super) fn params(&self) -> Params<'_> {
        vec![&self.buckets, &self.ids]
    }
}

/// Digests of keys as the arrays that statements take.
pub(super) struct KeyArrays {
    pub(super) buckets: Vec<i16>,
    pub(super) hashes: Vec<Vec<u8>>,
}

impl KeyArrays {
    pub(super) fn new<'a>(hashes: impl Iterator<Item = &'a KeyHash>) -> Self {
        let mut sorted: Vec<_> = hashes.map(|hash| (key_bucket(*hash), hash)).collect();
        sorted.sort_unstable();
        Self {
            buckets: sorted.iter().map(|(bucket, _)| column(*bucket)).collect(),
            hashes: sorted.iter().map(|(_, hash)| hash.0.to_be_bytes().to_vec()).collect(),
        }
    }

    /// On Citus, a key may be in any bucket.
    pub(super) fn params(&self, layout: Layout) -> Params<'_> {
        match layout {
            Layout::OneServer => vec![&self.buckets, &self.hashes],
            Layout::Citus => vec![&self.hashes],
        }
    }
}

/// Names of records as arrays, in their order.
#[derive(Default)]
pub(super) struct RecordArrays<'a> {
    pub(super) kinds: Vec<&'static str>,
    pub(super) ids: Vec<&'a str>,
}

impl<'a> RecordArrays<'a> {
    pub(super) fn new(keys: impl Iterator<Item = &'a RecordKey>) -> Self {
        let (kinds, ids) = keys.map(|key| (key.kind.name(), key.id.as_str())).unzip();
        Self { kinds, ids }
    }

    pub(super) fn params(&self) -> Params<'_> {
        vec![&self.kinds, &self.ids]
    }
}

/// A bucket as its column has it.
pub(super) fn column(bucket: u16) -> i16 {
    bucket.cast_signed()
}

pub(super) fn uuid(id: ReservationId) -> Uuid {
    Uuid::from_u128(id.as_u128())
}

/// A figure as its column has it: limits keep real ones far inside.
pub(super) fn stored(figure: u64) -> Result<i64, DbError> {
    i64::try_from(figure)
        .map_err(|_| DbError::InvariantViolated(format!("the figure {figure} does not fit its column")))
}

/// A number of rows as a statement takes it.
pub(super) fn rows(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) fn status(status: Status) -> i16 {
    match status {
        Status::Active => 0,
        Status::Confirmed => 1,
        Status::Cancelled => 2,
        Status::Expired => 3,
    }
}

pub(super) fn mode(mode: Mode) -> i16 {
    match mode {
        Mode::Counted => 0,
        Mode::Units => 1,
    }
}

pub(super) fn figure(row: &Row, column: &str) -> Result<u64, DbError> {
    let value: i64 = row.try_get(column)?;
    u64::try_from(value).map_err(|_| DbError::InvariantViolated(format!("an item's {column} is {value}")))
}

pub(super) fn instant(row: &Row, column: &str) -> Result<Instant, DbError> {
    Ok(Instant::from_micros(row.try_get(column)?))
}

pub(super) fn label(row: &Row, column: &str) -> Result<Label, DbError> {
    let text: &str = row.try_get(column)?;
    Label::new(text).map_err(|error| DbError::InvariantViolated(format!("an item's {column} {error}")))
}

/// An item from its row.
pub(super) fn item(row: &Row) -> Result<Item, DbError> {
    Ok(Item {
        key: ItemKey::new(&label(row, "location")?, &label(row, "sku")?),
        mode: match row.try_get::<_, i16>("mode")? {
            0 => Mode::Counted,
            1 => Mode::Units,
            other => return Err(DbError::InvariantViolated(format!("an item's mode is {other}"))),
        },
        figures: StockCounters {
            total_units: figure(row, "total_units")?,
            confirmed_sold: figure(row, "confirmed_sold")?,
            fulfilled: figure(row, "fulfilled")?,
            held: figure(row, "held")?,
            held_under_payment: figure(row, "held_under_payment")?,
            active: figure(row, "active")?,
            sequence: figure(row, "sequence")?,
            at: instant(row, "decided_at")?,
        },
        settings: Arc::new(settings_from(row.try_get("settings")?, figure(row, "oversell_allowance")?)?),
        pools: pools_from(row.try_get("pools")?)?,
        version: figure(row, "version")?,
        paused: row.try_get("paused")?,
        created_at: instant(row, "created_at")?,
    })
}

fn some_label(row: &Row, column: &str) -> Result<Option<Label>, DbError> {
    let text: Option<&str> = row.try_get(column)?;
    let wrong = |error| DbError::InvariantViolated(format!("a unit's {column} {error}"));
    text.map(|text| Label::new(text).map_err(wrong)).transpose()
}

/// A record from its row.
pub(super) fn record(row: &Row) -> Result<Record, DbError> {
    let damaged = |what: &dyn core::fmt::Display| DbError::InvariantViolated(format!("a record's {what}"));
    let kind: &str = row.try_get("kind")?;
    let kind = RecordKind::from_name(kind).ok_or_else(|| damaged(&format_args!("kind is {kind}")))?;
    let value: Option<&[u8]> = row.try_get("value")?;
    let value = value.map(RecordValue::new).transpose();
    Ok(Record {
        key: RecordKey { kind, id: label(row, "id")? },
        version: figure(row, "version")?,
        value: value.map_err(|error| damaged(&format_args!("value {error}")))?,
    })
}

/// A unit from its row.
pub(super) fn unit(row: &Row) -> Result<Unit, DbError> {
    let with: Option<Uuid> = row.try_get("reservation")?;
    let status: i16 = row.try_get("status")?;
    Ok(Unit {
        id: label(row, "id")?,
        place: Place {
            position: figure(row, "position")?,
            section: some_label(row, "section")?,
            row: some_label(row, "seat_row")?,
            number: some_label(row, "seat_number")?,
            attributes: attributes_from(row.try_get("attributes")?)?,
        },
        status: match (status, with.map(|id| ReservationId::from_u128(id.as_u128()))) {
            (0 | FREE_IN_POOL, None) => UnitStatus::Available,
            (1, Some(id)) => UnitStatus::Held(id),
            (2, Some(id)) => UnitStatus::Sold(id),
            (3, Some(id)) => UnitStatus::Fulfilled(id),
            other => {
                return Err(DbError::InvariantViolated(format!(
                    "a unit's status and reservation are {other:?}"
                )));
            }
        },
        version: figure(row, "version")?,
        pool: some_label(row, "pool")?,
    })
}

/// A unit that is available in a pool only. General claims do not meet it in their index.
const FREE_IN_POOL: i16 = 4;

/// Where a unit stands, as its column has it.
pub(super) fn standing(unit: &Unit) -> i16 {
    match unit.status {
        UnitStatus::Available if unit.pool.is_some() => FREE_IN_POOL,
        UnitStatus::Available => 0,
        UnitStatus::Held(_) => 1,
        UnitStatus::Sold(_) => 2,
        UnitStatus::Fulfilled(_) => 3,
    }
}

/// A deadline from its row.
pub(super) fn deadline(row: &Row) -> Result<Deadline, DbError> {
    Ok((instant(row, "expires_at")?, id(row)?))
}

/// The parameters of "after this deadline"; `None` is before all deadlines.
pub(super) fn after(deadline: Option<Deadline>) -> (i64, Uuid) {
    deadline.map_or((i64::MIN, Uuid::nil()), |(due, reservation)| (due.micros(), uuid(reservation)))
}

/// A release of a pool from its row.
pub(super) fn release(row: &Row) -> Result<Release, DbError> {
    let key = ItemKey::new(&label(row, "location")?, &label(row, "sku")?);
    Ok((instant(row, "pool_release_at")?, key))
}

/// The parameters of "after this release"; `None` is before all of them.
pub(super) fn after_release(release: Option<&Release>) -> (i64, &str, &str) {
    release.map_or((i64::MIN, "", ""), |(due, key)| (due.micros(), key.location(), key.sku()))
}

/// A reservation's id.
pub(super) fn id(row: &Row) -> Result<ReservationId, DbError> {
    let id: Uuid = row.try_get("id")?;
    Ok(ReservationId::from_u128(id.as_u128()))
}
