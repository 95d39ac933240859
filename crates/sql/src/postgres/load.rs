//! What a batch may touch: found, locked, and only then read.
//!
//! What is read before the locks says what to lock and nothing else. Locks are taken in one order for every instance:
//! pauses, items, reservations, each sorted by its key. Key rows need none: they never change, and who inserts one first
//! is decided by the primary key, which makes the second wait for the first.

use super::BATCH_COMMANDS;
use super::connect::Connection;
use super::rows::{self, HoldArrays, ItemArrays, KeyArrays};
use super::slice::{Entry, Slice, Window};
use super::stop::Stop;
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{
    Command, Envelope, Instant, ItemKey, Missing, Name, ReservationId, Scope, footprint, limits,
};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

/// Deadlines of an item that are loaded at first: enough to say when a refused caller should look again.
const SHALLOW: usize = 1;
/// Deadlines that are loaded once the first was not enough: a batch can't use up more, since each of them goes by an
/// expiry or by a command.
const DEEP: usize = limits::EXPIRIES_PER_BATCH as usize + BATCH_COMMANDS + 1;

/// What attempts at a batch have learnt for the next one.
#[derive(Debug, Default)]
pub(super) struct Plan {
    names: BTreeSet<Name>,
    /// Items of which holds have to be expired, or may have to be.
    deep: BTreeSet<ItemKey>,
}

impl Plan {
    /// Takes in what the rules lacked. An error when it had been loaded, and would be missing for ever.
    pub(super) fn learn(&mut self, missing: &Missing, slice: &Slice) -> Result<(), Stop> {
        let mut new = match &missing.0 {
            Name::Due(key) => self.deep.insert(key.clone()),
            name => self.names.insert(name.clone()),
        };
        if let Name::Hold(id) = missing.0 {
            for (key, window) in &slice.due {
                new |= window.shows(id) && self.deep.insert(key.clone());
            }
        }
        if new { Ok(()) } else { Err(Stop::Damaged(format!("loaded, and still missing: {:?}", missing.0))) }
    }
}

/// What one attempt locks and loads.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// Of each command, in the batch's order.
    pub(super) of_command: Vec<Vec<Name>>,
    all: BTreeSet<Name>,
    /// Pauses that need a row so that there is one to lock.
    pauses_to_make: BTreeSet<String>,
    /// Whether a command of the batch sets a pause.
    sets_pauses: bool,
}

/// Finds out what to lock, by reading without any lock. Ends because every round adds names, and what they lead to ends
/// at items: key → reservation → items; deadlines → reservations → items.
pub(super) async fn needs(connection: &Connection, batch: &[&Envelope], plan: &Plan) -> Result<Needs, Stop> {
    let mut sketch = Slice::default();
    loop {
        let mut needs = Needs::default();
        needs.all.extend(plan.names.iter().cloned());
        needs.all.extend(plan.deep.iter().cloned().map(Name::Due));
        for envelope in batch {
            needs.add(&sketch, envelope);
        }
        let mut fallen_due: Vec<ReservationId> = Vec::new();
        if let Some(now) = sketch_time(connection, &sketch).await? {
            let windows = sketch.due.values().chain(&sketch.any_due);
            fallen_due
                .extend(windows.flat_map(|w| w.fallen_due(now).take(limits::EXPIRIES_PER_BATCH as usize)));
        }
        needs.all.extend(fallen_due.into_iter().map(Name::Hold));
        let holds: Vec<_> = sketch.holds.values().filter_map(|entry| entry.before.as_ref()).collect();
        let lines = holds.iter().flat_map(|hold| &*hold.lines);
        needs.all.extend(lines.map(|line| Name::Item(line.item.clone())));
        if !extend_sketch(connection, &needs, plan, &mut sketch).await? {
            return Ok(needs);
        }
    }
}

impl Needs {
    fn add(&mut self, sketch: &Slice, envelope: &Envelope) {
        let mut names = Vec::new();
        footprint(sketch, envelope, &mut names);
        match &envelope.command {
            Command::SetStock(set) => {
                self.pauses_to_make.insert(set.item.location().to_owned());
            }
            Command::SetSale(set) => {
                self.sets_pauses = true;
                if let Scope::Location(location) = &set.scope {
                    self.pauses_to_make.insert(Slice::pause_key(Some(location)));
                }
            }
            _ => {}
        }
        self.all.extend(names.iter().cloned());
        self.of_command.push(names);
    }

    fn items(&self) -> impl Iterator<Item = &ItemKey> {
        self.all.iter().filter_map(|name| if let Name::Item(key) = name { Some(key) } else { None })
    }

    fn holds(&self) -> impl Iterator<Item = ReservationId> {
        self.all.iter().filter_map(|name| if let Name::Hold(id) = name { Some(*id) } else { None })
    }

    fn keys(&self) -> impl Iterator<Item = stockhold_domain::KeyHash> {
        self.all.iter().filter_map(|name| if let Name::Key(hash) = name { Some(*hash) } else { None })
    }

    fn pauses(&self) -> BTreeSet<String> {
        let pause = |name: &Name| match name {
            Name::Pause(location) => Some(Slice::pause_key(location.as_ref())),
            _ => None,
        };
        self.all.iter().filter_map(pause).collect()
    }

    /// Items whose deadlines are needed, and how many of each.
    fn due<'a>(&'a self, plan: &'a Plan) -> impl Iterator<Item = (&'a ItemKey, usize)> {
        self.all.iter().filter_map(|name| match name {
            Name::Due(key) => Some((key, if plan.deep.contains(key) { DEEP } else { SHALLOW })),
            _ => None,
        })
    }

    fn any_due(&self) -> bool {
        self.all.contains(&Name::AnyDue)
    }
}

/// The clock, when the sketch has deadlines to compare with it. What is due is judged again under the locks.
async fn sketch_time(connection: &Connection, sketch: &Slice) -> Result<Option<Instant>, Stop> {
    if sketch.due.is_empty() && sketch.any_due.is_none() {
        return Ok(None);
    }
    let row = connection.client.query_one(&connection.statements.clock, &[]).await?;
    Ok(Some(Instant::from_micros(row.try_get(0)?)))
}

/// Reads what leads further and has not been read. Whether there was anything.
async fn extend_sketch(
    connection: &Connection,
    needs: &Needs,
    plan: &Plan,
    sketch: &mut Slice,
) -> Result<bool, Stop> {
    let holds: Vec<_> = needs.holds().filter(|id| !sketch.holds.contains_key(id)).collect();
    let keys: Vec<_> = needs.keys().filter(|hash| !sketch.keys.contains_key(hash)).collect();
    let deep = needs.due(plan).filter(|(key, depth)| *depth == DEEP && !sketch.due.contains_key(*key));
    let deep: Vec<_> = deep.collect();
    let any_due = needs.any_due() && sketch.any_due.is_none();
    if holds.is_empty() && keys.is_empty() && deep.is_empty() && !any_due {
        return Ok(false);
    }
    for id in &holds {
        sketch.holds.insert(*id, Entry::loaded(None));
    }
    for hash in &keys {
        sketch.keys.insert(*hash, Entry::loaded(None));
    }
    let (hold_arrays, key_arrays) = (HoldArrays::new(holds.into_iter()), KeyArrays::new(keys.into_iter()));
    let (holds, keys, due, any) = tokio::try_join!(
        biased;
        read_holds(connection, &hold_arrays),
        read_keys(connection, &key_arrays),
        read_due(connection, &deep),
        read_any_due(connection, any_due),
    )?;
    fill_holds(sketch, &holds)?;
    fill_keys(sketch, &keys)?;
    sketch.due.extend(due);
    sketch.any_due = sketch.any_due.take().or(any);
    Ok(true)
}

/// Begins, locks, reads the clock, reads the state: separate statements in this order, sent together. A statement sees
/// what was committed before it began, so only one that comes after the locks sees what they waited for, and the clock
/// shows a time at which the locks were held.
pub(super) async fn lock_and_load(
    connection: &Connection,
    needs: &Needs,
    plan: &Plan,
) -> Result<(Instant, Slice), Stop> {
    let Connection { client, statements, .. } = connection;
    let pauses: Vec<String> = needs.pauses().into_iter().collect();
    let pauses_to_make: Vec<&String> = needs.pauses_to_make.iter().collect();
    let lock_pauses = if needs.sets_pauses { &statements.lock_pauses } else { &statements.share_pauses };
    let items = ItemArrays::new(needs.items());
    let ItemArrays { buckets, locations, skus, keys: item_keys } = &items;
    let holds = HoldArrays::new(needs.holds());
    let keys = KeyArrays::new(needs.keys());
    let due: Vec<_> = needs.due(plan).collect();

    let ((), _, _, _, _, clock, pause_rows, item_rows, hold_rows, key_rows, due_windows, any_due) = tokio::try_join!(
        biased;
        async { client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await.map_err(Stop::from) },
        query(connection, &statements.make_pauses, pauses_to_make.len(), vec![&pauses_to_make]),
        query(connection, lock_pauses, pauses.len(), vec![&pauses]),
        query(connection, &statements.lock_items, buckets.len(), vec![buckets, locations, skus]),
        query(connection, &statements.lock_holds, holds.ids.len(), vec![&holds.buckets, &holds.ids]),
        query(connection, &statements.clock, 1, vec![]),
        query(connection, &statements.read_pauses, pauses.len(), vec![&pauses]),
        query(connection, &statements.read_items, buckets.len(), vec![buckets, locations, skus]),
        read_holds(connection, &holds),
        read_keys(connection, &keys),
        read_due(connection, &due),
        read_any_due(connection, needs.any_due()),
    )?;

    let clock = clock.first().ok_or_else(|| Stop::Damaged("the clock shows nothing".to_owned()))?;
    let now = Instant::from_micros(clock.try_get(0)?);
    let mut slice = Slice { due: due_windows, any_due, ..Slice::default() };
    slice.pauses.extend(pauses.into_iter().map(|location| (location, Entry::loaded(None))));
    for row in &pause_rows {
        slice.pauses.insert(row.try_get(0)?, Entry::loaded(Some(row.try_get(1)?)));
    }
    slice.items.extend(item_keys.iter().map(|key| ((*key).clone(), Entry::loaded(None))));
    for row in &item_rows {
        let item = rows::item(row)?;
        slice.items.insert(item.key.clone(), Entry::loaded(Some(item)));
    }
    slice.holds.extend(needs.holds().map(|id| (id, Entry::loaded(None))));
    fill_holds(&mut slice, &hold_rows)?;
    slice.keys.extend(needs.keys().map(|hash| (hash, Entry::loaded(None))));
    fill_keys(&mut slice, &key_rows)?;
    Ok((now, slice))
}

/// Runs a statement over arrays, unless they are empty.
async fn query(
    connection: &Connection,
    statement: &Statement,
    count: usize,
    arrays: Vec<&(dyn ToSql + Sync)>,
) -> Result<Vec<Row>, Stop> {
    if count == 0 {
        return Ok(Vec::new());
    }
    Ok(connection.client.query(statement, &arrays).await?)
}

pub(super) async fn read_items(connection: &Connection, items: &ItemArrays<'_>) -> Result<Vec<Row>, Stop> {
    let ItemArrays { buckets, locations, skus, .. } = items;
    query(connection, &connection.statements.read_items, buckets.len(), vec![buckets, locations, skus]).await
}

pub(super) async fn read_holds(connection: &Connection, holds: &HoldArrays) -> Result<Vec<Row>, Stop> {
    let HoldArrays { buckets, ids } = holds;
    query(connection, &connection.statements.read_holds, ids.len(), vec![buckets, ids]).await
}

async fn read_keys(connection: &Connection, keys: &KeyArrays) -> Result<Vec<Row>, Stop> {
    let KeyArrays { buckets, hashes } = keys;
    query(connection, &connection.statements.read_keys, hashes.len(), vec![buckets, hashes]).await
}

async fn read_due(
    connection: &Connection,
    items: &[(&ItemKey, usize)],
) -> Result<BTreeMap<ItemKey, Window>, Stop> {
    let depths: BTreeMap<&ItemKey, usize> = items.iter().copied().collect();
    let arrays = ItemArrays::new(depths.keys().copied());
    let depth = |key: &ItemKey| depths.get(key).copied().unwrap_or(SHALLOW);
    let wanted: Vec<i64> =
        arrays.keys.iter().map(|key| i64::try_from(depth(key)).unwrap_or(i64::MAX)).collect();
    let ItemArrays { buckets, locations, skus, keys } = &arrays;
    let statement = &connection.statements.read_due;
    let rows = query(connection, statement, buckets.len(), vec![buckets, locations, skus, &wanted]).await?;

    let mut deadlines = vec![BTreeSet::new(); keys.len()];
    for row in &rows {
        let number: i64 = row.try_get("number")?;
        let of_item = usize::try_from(number - 1).ok().and_then(|number| deadlines.get_mut(number));
        let of_item = of_item.ok_or_else(|| Stop::Damaged("a deadline of no item".to_owned()))?;
        of_item.insert(rows::deadline(row)?);
    }
    let windows = keys.iter().zip(deadlines);
    Ok(windows.map(|(key, deadlines)| ((*key).clone(), Window::new(deadlines, depth(key)))).collect())
}

async fn read_any_due(connection: &Connection, wanted: bool) -> Result<Option<Window>, Stop> {
    if !wanted {
        return Ok(None);
    }
    let depth = i64::try_from(DEEP).unwrap_or(i64::MAX);
    let rows = connection.client.query(&connection.statements.read_any_due, &[&depth]).await?;
    let deadlines = rows.iter().map(rows::deadline).collect::<Result<_, _>>()?;
    Ok(Some(Window::new(deadlines, DEEP)))
}

fn fill_holds(slice: &mut Slice, rows: &[Row]) -> Result<(), Stop> {
    for row in rows {
        let hold = rows::hold(row)?;
        slice.holds.insert(hold.id, Entry::loaded(Some(hold)));
    }
    Ok(())
}

fn fill_keys(slice: &mut Slice, rows: &[Row]) -> Result<(), Stop> {
    for row in rows {
        let record = rows::key_record(row)?;
        slice.keys.insert(record.hash, Entry::loaded(Some(record)));
    }
    Ok(())
}
