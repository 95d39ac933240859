//! What the commands of a batch changed, written at once: arrays, one statement per table. The commit is not done here.

use super::connect::Connection;
use super::rows::{self, column, stored, uuid};
use super::slice::{Entry, Slice};
use super::stop::Stop;
use stockhold_domain::{Effects, Event, Hold, Item, KeyRecord, Status, bucket_of};
use stockhold_store::codec;
use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// Sends every write of the batch in one go.
pub(super) async fn write(connection: &Connection, slice: &Slice, effects: &Effects) -> Result<(), Stop> {
    let s = &connection.statements;
    let (new_items, old_items) = split(slice.items.values());
    let (new_items, old_items) = (ItemRows::new(&new_items)?, ItemRows::new(&old_items)?);
    let (new_holds, old_holds) = split(slice.holds.values());
    let (gone, come) = line_rows(slice);
    let (new_holds, old_holds) = (HoldRows::new(&new_holds), HoldRows::new(&old_holds));
    let keys = KeyRows::new(&effects.keys);
    let sales = slice.pauses.iter().filter_map(|(location, entry)| Some((location, entry.after?)));
    let (locations, paused): (Vec<&String>, Vec<bool>) = sales.unzip();
    let events = EventsRow::new(&effects.events)?;

    tokio::try_join!(
        biased;
        rows_written(connection, &s.insert_items, new_items.buckets.len(), new_items.params()),
        rows_written(connection, &s.update_items, old_items.buckets.len(), old_items.params()),
        rows_written(connection, &s.insert_holds, new_holds.ids.len(), new_holds.params()),
        rows_written(connection, &s.update_holds, old_holds.ids.len(), old_holds.params()),
        rows_written(connection, &s.delete_lines, gone.ids.len(), gone.params(false)),
        rows_written(connection, &s.insert_lines, come.ids.len(), come.params(true)),
        rows_written(connection, &s.update_pauses, locations.len(), vec![&locations, &paused]),
        rows_written(connection, &s.insert_keys, keys.hashes.len(), keys.params()),
        rows_written(connection, &s.insert_events, events.rows(), events.params()),
    )?;
    Ok(())
}

/// Runs a statement that has to write exactly `count` rows: another number is an assertion that failed.
async fn rows_written(
    connection: &Connection,
    statement: &Statement,
    count: usize,
    arrays: Vec<&(dyn ToSql + Sync)>,
) -> Result<(), Stop> {
    if count == 0 {
        return Ok(());
    }
    let written = connection.client.execute(statement, &arrays).await?;
    if usize::try_from(written) == Ok(count) {
        return Ok(());
    }
    Err(Stop::Damaged(format!("{count} rows were to be written and {written} were")))
}

/// What is new, and what replaces a row.
fn split<'a, T: 'a>(entries: impl Iterator<Item = &'a Entry<T>>) -> (Vec<&'a T>, Vec<&'a T>) {
    let mut new = Vec::new();
    let mut old = Vec::new();
    for Entry { before, after } in entries {
        if let Some(after) = after {
            let list = if before.is_some() { &mut old } else { &mut new };
            list.push(after);
        }
    }
    (new, old)
}

#[derive(Default)]
struct ItemRows<'a> {
    buckets: Vec<i16>,
    locations: Vec<&'a str>,
    skus: Vec<&'a str>,
    modes: Vec<i16>,
    total_units: Vec<i64>,
    confirmed_sold: Vec<i64>,
    held: Vec<i64>,
    active: Vec<i64>,
    sequences: Vec<i64>,
    decided_at: Vec<i64>,
    safety_stock: Vec<String>,
    default_ttls: Vec<Option<i64>>,
    max_holds: Vec<Option<i64>>,
    metadata: Vec<Option<&'a [u8]>>,
    versions: Vec<i64>,
    paused: Vec<bool>,
    created_at: Vec<i64>,
}

impl<'a> ItemRows<'a> {
    fn new(items: &[&'a Item]) -> Result<Self, Stop> {
        let mut rows = Self::default();
        // By key: two instances that insert the same new items have to wait for each other in one order.
        let mut items: Vec<_> = items.iter().map(|item| (bucket_of(&item.key), *item)).collect();
        items.sort_by(|a, b| (a.0, &a.1.key).cmp(&(b.0, &b.1.key)));
        for (bucket, Item { key, mode, figures, settings, version, paused, created_at }) in items {
            rows.buckets.push(column(bucket));
            rows.locations.push(key.location());
            rows.skus.push(key.sku());
            rows.modes.push(rows::mode(*mode));
            rows.total_units.push(stored(figures.total_units)?);
            rows.confirmed_sold.push(stored(figures.confirmed_sold)?);
            rows.held.push(stored(figures.held)?);
            rows.active.push(stored(figures.active)?);
            rows.sequences.push(stored(figures.sequence)?);
            rows.decided_at.push(figures.at.micros());
            rows.safety_stock.push(settings.safety_stock.to_string());
            rows.default_ttls.push(settings.default_ttl.map(|seconds| i64::from(seconds.get())));
            rows.max_holds.push(settings.max_hold.map(|seconds| i64::from(seconds.get())));
            rows.metadata.push(settings.metadata.as_deref().map(str::as_bytes));
            rows.versions.push(stored(*version)?);
            rows.paused.push(*paused);
            rows.created_at.push(created_at.micros());
        }
        Ok(rows)
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![
            &self.buckets,
            &self.locations,
            &self.skus,
            &self.modes,
            &self.total_units,
            &self.confirmed_sold,
            &self.held,
            &self.active,
            &self.sequences,
            &self.decided_at,
            &self.safety_stock,
            &self.default_ttls,
            &self.max_holds,
            &self.metadata,
            &self.versions,
            &self.paused,
            &self.created_at,
        ]
    }
}

struct HoldRows {
    buckets: Vec<i16>,
    ids: Vec<Uuid>,
    statuses: Vec<i16>,
    expires_at: Vec<i64>,
    bodies: Vec<Vec<u8>>,
}

impl HoldRows {
    fn new(holds: &[&Hold]) -> Self {
        let body = |hold: &&Hold| {
            let mut bytes = Vec::new();
            codec::put_hold(&mut bytes, hold);
            bytes
        };
        Self {
            buckets: holds.iter().map(|hold| column(hold.id.bucket())).collect(),
            ids: holds.iter().map(|hold| uuid(hold.id)).collect(),
            statuses: holds.iter().map(|hold| rows::status(hold.status)).collect(),
            expires_at: holds.iter().map(|hold| hold.expires_at.micros()).collect(),
            bodies: holds.iter().map(body).collect(),
        }
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![&self.buckets, &self.ids, &self.statuses, &self.expires_at, &self.bodies]
    }
}

/// Lines that are in the queue of deadlines, or were.
#[derive(Default)]
struct LineRows<'a> {
    buckets: Vec<i16>,
    locations: Vec<&'a str>,
    skus: Vec<&'a str>,
    expires_at: Vec<i64>,
    ids: Vec<Uuid>,
    quantities: Vec<i64>,
}

impl<'a> LineRows<'a> {
    fn add(&mut self, hold: &'a Hold) {
        for line in &*hold.lines {
            self.buckets.push(column(bucket_of(&line.item)));
            self.locations.push(line.item.location());
            self.skus.push(line.item.sku());
            self.expires_at.push(hold.expires_at.micros());
            self.ids.push(uuid(hold.id));
            self.quantities.push(i64::from(line.quantity));
        }
    }

    /// Quantities only where a row is made: they are no part of the key.
    fn params(&self, quantities: bool) -> Vec<&(dyn ToSql + Sync)> {
        let mut params: Vec<&(dyn ToSql + Sync)> =
            vec![&self.buckets, &self.locations, &self.skus, &self.expires_at, &self.ids];
        if quantities {
            params.push(&self.quantities);
        }
        params
    }
}

/// The lines that leave the queue, and those that enter it. A hold that keeps its deadline does neither.
fn line_rows(slice: &Slice) -> (LineRows<'_>, LineRows<'_>) {
    let (mut gone, mut come) = (LineRows::default(), LineRows::default());
    let queued = |hold: &&Hold| hold.status == Status::Active;
    for Entry { before, after } in slice.holds.values() {
        let Some(after) = after else { continue };
        let before = before.as_ref().filter(queued);
        let after = Some(after).filter(queued);
        if before.map(|hold| hold.expires_at) != after.map(|hold| hold.expires_at) {
            if let Some(before) = before {
                gone.add(before);
            }
            if let Some(after) = after {
                come.add(after);
            }
        }
    }
    (gone, come)
}

struct KeyRows {
    buckets: Vec<i16>,
    hashes: Vec<Vec<u8>>,
    used_at: Vec<i64>,
    bodies: Vec<Vec<u8>>,
}

impl KeyRows {
    fn new(records: &[KeyRecord]) -> Self {
        // By key, for the same reason as items.
        let mut records: Vec<_> =
            records.iter().map(|record| (rows::key_bucket(record.hash), record)).collect();
        records.sort_by_key(|(bucket, record)| (*bucket, record.hash));
        let body = |(_, record): &(i16, &KeyRecord)| {
            let mut bytes = Vec::new();
            codec::put_key_record(&mut bytes, record);
            bytes
        };
        Self {
            buckets: records.iter().map(|(bucket, _)| *bucket).collect(),
            hashes: records.iter().map(|(_, record)| record.hash.0.to_be_bytes().to_vec()).collect(),
            used_at: records.iter().map(|(_, record)| record.at.micros()).collect(),
            bodies: records.iter().map(body).collect(),
        }
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![&self.buckets, &self.hashes, &self.used_at, &self.bodies]
    }
}

/// The batch's events as the one row that they become, one after the other.
struct EventsRow {
    bucket: i16,
    count: i64,
    body: Vec<u8>,
}

impl EventsRow {
    fn new(events: &[Event]) -> Result<Self, Stop> {
        let mut body = Vec::new();
        for event in events {
            codec::put_event(&mut body, event);
        }
        // Any bucket would do; that of an event's id spreads the rows.
        let bucket =
            events.first().map_or(0, |event| event.id.as_u128() % u128::from(stockhold_domain::BUCKETS));
        let bucket = i16::try_from(bucket).unwrap_or(0);
        Ok(Self { bucket, count: stored(events.len() as u64)?, body })
    }

    fn rows(&self) -> usize {
        usize::from(self.count > 0)
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![&self.bucket, &self.count, &self.body]
    }
}
