//! Reading state, with locks and without.

use super::connect::{Answered, Connection};
use super::rows;
use super::script::Script;
use super::statements::{self, Lock, Part};
use crate::engine::{Free, Locked, Rows, Trouble, UnitRows, UnitWants, Wants, count, hold_from, key_from};
use mysql_async::Row;
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{Instant, Item, ItemKey, Mode, ReservationId, StockCounters};

/// What was read by a script, and the clock if it was asked for.
#[derive(Default)]
struct Loaded {
    now: Option<Instant>,
    rows: Rows,
    /// Reservations that were locked unread.
    free_holds: BTreeSet<ReservationId>,
}

impl Connection {
    /// Without locks, in one packet.
    pub(super) async fn load(&mut self, wants: &Wants) -> Result<Rows, Trouble> {
        let mut script = Script::new();
        let items: BTreeSet<ItemKey> = wants.all_items().cloned().collect();
        statements::items(&mut script, &items, Lock::None);
        statements::holds(&mut script, &wants.holds, Lock::None);
        for (number, item, most) in short_of_units(wants) {
            statements::free_units(&mut script, number, item, most);
        }
        rest(&mut script, wants);
        let answered = self.begin(&script).await?;
        let mut rows = loaded(answered, wants)?.rows;
        self.count_all(&mut rows.items).await?;
        Ok(rows)
    }

    /// Begins, locks, reads the clock, reads the state: separate statements in this order, in one packet. A statement sees what
    /// was committed before it began, so only one that comes after the locks sees what they waited for, and the clock shows a
    /// time at which the locks were held.
    pub(super) async fn lock_and_load(&mut self, wants: &Wants) -> Result<Locked, Trouble> {
        let mut script = Script::new();
        if !self.begun {
            statements::begin(&mut script, !wants.pauses.is_empty(), wants.sets_pauses);
        }
        statements::items(&mut script, &wants.items, Lock::Wait);
        statements::holds(&mut script, &wants.holds, Lock::Wait);
        named_units(&mut script, wants, Lock::Wait);
        for (number, item, most) in short_of_units(wants) {
            statements::lock_free_units(&mut script, number, item, most);
        }
        statements::clock(&mut script, &self.target.clock);
        statements::items(&mut script, &wants.seen, Lock::None);
        rest(&mut script, wants);
        let answered = self.begin(&script).await?;
        self.begun = false;
        let Loaded { now, rows, .. } = loaded(answered, wants)?;
        let now = now.ok_or_else(|| Trouble::Alarm("the clock shows nothing".to_owned()))?;
        // The serial is drawn by the row of events itself, when it is inserted: these locks are still held then.
        Ok(Locked { now, serial: 0, rows })
    }

    /// Locks those of the items, the reservations and the named units that nobody else has locked.
    pub(super) async fn lock_what_is_free(&mut self, wants: &Wants) -> Result<Free, Trouble> {
        let mut script = Script::new();
        statements::begin(&mut script, false, false);
        statements::items(&mut script, &wants.items, Lock::Skip);
        statements::free_holds(&mut script, &wants.holds);
        named_units(&mut script, wants, Lock::Skip);
        let answered = self.begin(&script).await?;
        self.begun = true;
        let Loaded { rows, free_holds, .. } = loaded(answered, wants)?;
        let named = |(item, units): (ItemKey, UnitRows)| {
            units.named.into_iter().map(move |unit| (item.clone(), unit.id))
        };
        Ok(Free {
            items: rows.items.into_iter().map(|item| item.key).collect(),
            holds: free_holds,
            units: rows.units.into_iter().flat_map(named).collect(),
        })
    }

    /// Gives items whose units have ids their figures.
    pub(super) async fn count_all(&mut self, items: &mut [Item]) -> Result<(), Trouble> {
        let mut units = BTreeMap::new();
        for item in items.iter().filter(|item| item.mode == Mode::Units) {
            units.insert(item.key.clone(), UnitWants::default());
        }
        if units.is_empty() {
            return Ok(());
        }
        let wants = Wants { units, ..Wants::default() };
        let mut script = Script::new();
        rest(&mut script, &wants);
        let found = loaded(self.begin(&script).await?, &wants)?.rows.units;
        for item in items {
            if let Some(rows) = found.get(&item.key) {
                count(item, &rows.figures);
            }
        }
        Ok(())
    }

    /// The clock, and the earliest deadlines of all.
    pub(super) async fn clock_and_due(&mut self, limit: usize) -> Result<(Instant, Rows), Trouble> {
        let mut script = Script::new();
        statements::clock(&mut script, &self.target.clock);
        statements::any_due(&mut script, limit);
        let Loaded { now, rows, .. } = loaded(self.begin(&script).await?, &Wants::default())?;
        Ok((now.ok_or_else(|| Trouble::Alarm("the clock shows nothing".to_owned()))?, rows))
    }
}

/// Locks units by their ids.
fn named_units(script: &mut Script<Part>, wants: &Wants, lock: Lock) {
    let named = wants.units.iter().enumerate().filter(|(_, (_, wanted))| !wanted.named.is_empty());
    for (number, (item, wanted)) in named {
        statements::named_units(script, number, item, &wanted.named, lock);
    }
}

/// Items that free units are asked for of, each with its number and how many.
fn short_of_units(wants: &Wants) -> impl Iterator<Item = (usize, &ItemKey, usize)> {
    let numbered = wants.units.iter().enumerate().map(|(number, (item, wanted))| (number, item, wanted.free));
    numbered.filter(|(_, _, most)| *most > 0)
}

/// What needs no lock of its own: items' locks, or the lock of the pauses, keep it as it is. Keys come last: halls are not
/// locked, and who sees that another has taken the last unit has to see the key that it was taken with.
fn rest(script: &mut Script<Part>, wants: &Wants) {
    statements::paused(script, &wants.pauses);
    statements::due(script, &wants.due);
    for (number, (item, wanted)) in wants.units.iter().enumerate() {
        statements::unit_figures(script, number, item);
        if wanted.last {
            statements::last_unit(script, number, item);
        }
        if wanted.map {
            statements::all_units(script, number, item);
        }
    }
    if let Some(depth) = wants.any_due {
        statements::any_due(script, depth);
    }
    statements::keys(script, &wants.keys);
}

fn loaded(answered: Vec<Answered<Part>>, wants: &Wants) -> Result<Loaded, Trouble> {
    let mut loaded = Loaded::default();
    let queues: Vec<&ItemKey> = wants.due.keys().collect();
    let empty = queues.iter().map(|key| ((*key).clone(), BTreeSet::new()));
    let mut due: BTreeMap<_, _> = empty.collect();
    let mut units: Vec<UnitRows> = wants.units.iter().map(|_| UnitRows::default()).collect();
    let found = &mut loaded.rows;
    for (part, answers) in answered {
        for row in &answers {
            match part {
                Part::Begin => {}
                Part::Items => found.items.push(rows::item(row)?),
                Part::Holds => found.holds.push(hold_from(rows::bytes(row, 0)?)?),
                Part::FreeHolds => {
                    loaded.free_holds.insert(rows::id(row, 0)?);
                }
                Part::Clock => loaded.now = Some(rows::instant(row, 0)?),
                Part::Paused => {
                    found.paused.insert(rows::text(row, 0)?.to_owned());
                }
                Part::Keys => found.keys.push(key_from(rows::bytes(row, 0)?)?),
                Part::Due => {
                    let number = usize::try_from(rows::figure(row, 0)?).ok();
                    let queue = number.and_then(|number| due.get_mut(*queues.get(number)?));
                    let queue = queue.ok_or_else(|| Trouble::Alarm("a deadline of no item".to_owned()))?;
                    queue.insert(rows::deadline(row, 1)?);
                }
                Part::NamedUnits(number) => of(&mut units, number)?.named.push(rows::unit(row)?),
                Part::FreeUnits(number) => of(&mut units, number)?.free.push(rows::unit(row)?),
                Part::AllUnits(number) => of(&mut units, number)?.map.push(rows::unit(row)?),
                Part::UnitFigures(number) => of(&mut units, number)?.figures = counted(row)?,
                Part::LastUnit(number) => {
                    let of_item = of(&mut units, number)?;
                    of_item.last_position = of_item.last_position.max(rows::figure(row, 0)?);
                }
                Part::AnyDue => {
                    found.any_due.insert(rows::deadline(row, 0)?);
                }
            }
        }
    }
    found.due = due;
    found.units = wants.units.keys().cloned().zip(units).collect();
    Ok(loaded)
}

fn of(units: &mut [UnitRows], number: usize) -> Result<&mut UnitRows, Trouble> {
    units.get_mut(number).ok_or_else(|| Trouble::Alarm("a unit of no item".to_owned()))
}

fn counted(row: &Row) -> Result<StockCounters, Trouble> {
    Ok(StockCounters {
        total_units: rows::figure(row, 0)?,
        held: rows::figure(row, 1)?,
        confirmed_sold: rows::figure(row, 2)?,
        at: rows::instant(row, 3)?,
        active: rows::figure(row, 4)?,
        sequence: 0,
    })
}
