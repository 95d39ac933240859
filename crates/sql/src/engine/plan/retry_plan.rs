//! What the attempts at a batch have learnt for the next attempt.

use crate::engine::db_error::DbError;
use crate::engine::options::BATCH_COMMANDS;
use crate::engine::state::{LoadedState, Shortfall};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stockhold_domain::{Instant, ItemKey, Label, NotLoaded, Resource, Unit, limits};

/// Deadlines of an item that are loaded at first: enough to say when a refused caller should look again.
pub(super) const SHALLOW: usize = 1;
/// Holds of an item that a batch expires at most.
pub(super) const EXPIRIES: usize = limits::EXPIRIES_PER_BATCH as usize;
/// Deadlines that are loaded once the first was not enough: a batch can't use up more, since each of them goes by an
/// expiry or by a command.
pub(super) const DEEP: usize = EXPIRIES + BATCH_COMMANDS + 1;
/// How far ahead of the last attempt's clock holds are brought that will fall due: several times what an attempt takes.
/// Doubled each time that it was not enough.
const LOOK_AHEAD_MICROS: i64 = 250_000;
/// Most doublings: a minute.
const LONGEST_LOOK: u32 = 8;
/// How often free units that others have locked are passed by before they are waited for, by their ids.
const PASSED_BY: u32 = 2;
/// How often the best available are planned again because somebody took one of them first. After that all that are free are
/// locked by their ids before they are planned over.
const RACES: u32 = 3;
/// All free units of an item.
pub(super) const ALL: usize = 1_000_001;
const _: () = assert!(ALL as u64 > limits::POOL_UNITS);
/// What attempts at a batch have learnt for the next one.
#[derive(Clone, Debug, Default)]
pub(crate) struct RetryPlan {
    pub(super) names: BTreeSet<Resource>,
    /// Items whose earliest deadline matters.
    pub(super) shallow: BTreeSet<ItemKey>,
    /// Items of which holds have to be expired, or may have to be: at most so many.
    pub(super) deep: BTreeMap<ItemKey, usize>,
    /// What the clock showed at the last attempt.
    pub(super) now: Option<Instant>,
    /// How often more had fallen due than was loaded.
    pub(super) surprises: u32,
    /// Items whose units have ids.
    pub(super) unit_items: BTreeSet<ItemKey>,
    /// Those of them whose own rows have to be locked.
    pub(super) items_to_lock: BTreeSet<ItemKey>,
    /// How many free units of them are needed at least.
    pub(super) free: BTreeMap<ItemKey, usize>,
    /// How many of the first free ones are locked by their ids, so that whoever else has locked them is waited for.
    pub(super) awaited: BTreeMap<ItemKey, usize>,
    /// How often free ones that others have locked were passed by.
    pub(super) passed_by: u32,
    /// Seat maps that a plan was made over,
    pub(crate) maps: BTreeMap<ItemKey, Arc<[Unit]>>,
    /// and what it named, which is now to be locked.
    pub(super) planned: BTreeSet<(ItemKey, Label)>,
    /// How often somebody took something of it first.
    pub(super) races: u32,
}

impl RetryPlan {
    /// Items that fell short lately: what falls due of them will be asked for.
    pub(crate) fn expect(&mut self, short: impl Iterator<Item = ItemKey>) {
        self.shallow.extend(short);
    }

    /// Items whose units are known to have ids.
    pub(crate) fn expect_unit_items(&mut self, unit_items: impl Iterator<Item = ItemKey>) {
        self.unit_items.extend(unit_items);
    }

    /// Items whose units have ids.
    pub(crate) fn unit_items(&self) -> impl Iterator<Item = &ItemKey> {
        self.unit_items.iter()
    }

    /// Has the rows of items locked that are else only read. Whether any of it was new.
    pub(crate) fn lock_item_rows(&mut self, items: impl Iterator<Item = ItemKey>) -> bool {
        let before = self.items_to_lock.len();
        self.items_to_lock.extend(items);
        self.items_to_lock.len() > before
    }

    /// Has deadlines loaded of items that fall short of so many units, and the holds of those of them that are due: all at once, where
    /// the rules would ask for one item at a time. Whether any of it was new.
    pub(crate) fn expect_expiries(
        &mut self,
        short: Vec<(&ItemKey, u64)>,
        state: &LoadedState,
        now: Instant,
    ) -> bool {
        let mut new = false;
        for (key, units) in short {
            new |= match state.due.get(key) {
                None => self.shallow.insert(key.clone()),
                // Each of them brings one at least.
                Some(window) if window.is_due(now) && !self.deep.contains_key(key) => {
                    self.load_more_deadlines(key, usize::try_from(units).unwrap_or(EXPIRIES).min(EXPIRIES))
                }
                Some(_) => false,
            };
        }
        new
    }

    /// Has so many of an item's due holds loaded. Whether those are more than before.
    fn load_more_deadlines(&mut self, key: &ItemKey, holds: usize) -> bool {
        let most = self.deep.entry(key.clone()).or_default();
        let more = *most < holds;
        *most = holds.max(*most);
        more
    }

    /// What was planned over seat maps is to be locked, and judged again.
    pub(crate) fn lock_planned_units(&mut self, state: &LoadedState) -> bool {
        let mut any = false;
        for (key, id) in state.units_to_lock() {
            any = true;
            self.planned.insert((key.clone(), id.clone()));
            if let Some(map) = state.unit_items.get(key).and_then(|unit_item| unit_item.map.as_ref()) {
                self.maps.insert(key.clone(), Arc::clone(map));
            }
        }
        any
    }

    /// Seat maps that no longer hold are read again, and nobody wants what was planned over them. Whether there are any.
    pub(crate) fn drop_stale_seat_maps(&mut self, state: &LoadedState) -> bool {
        let outdated: Vec<ItemKey> =
            state.stale_seat_maps().filter(|key| self.maps.contains_key(key)).cloned().collect();
        if outdated.is_empty() {
            return false;
        }
        self.races += 1;
        for key in outdated {
            self.maps.remove(&key);
            self.planned.retain(|(of, _)| *of != key);
            if self.races >= RACES {
                self.free.insert(key.clone(), ALL);
                self.awaited.insert(key, ALL);
            }
        }
        true
    }

    /// Takes in what the rules lacked. An error when it had been loaded, and would be missing for ever.
    pub(crate) fn learn(
        &mut self,
        missing: &NotLoaded,
        state: &LoadedState,
        now: Instant,
    ) -> Result<(), DbError> {
        self.now = Some(now);
        let mut new = match &missing.0 {
            Resource::Due(key) => {
                let seen = state.due.contains_key(key);
                if seen { self.load_more_deadlines(key, EXPIRIES) } else { self.shallow.insert(key.clone()) }
            }
            Resource::FreeUnits(key, most) => {
                self.request_free_units(key, *most, state);
                true
            }
            name => self.names.insert(name.clone()),
        };
        if let Resource::Hold(id) = missing.0 {
            self.surprises += 1;
            for (key, window) in &state.due {
                new |= window.shows(id) && self.load_more_deadlines(key, EXPIRIES);
            }
        }
        if new {
            Ok(())
        } else {
            Err(DbError::InvariantViolated(format!("loaded, and still missing: {:?}", missing.0)))
        }
    }

    fn request_free_units(&mut self, key: &ItemKey, most: u32, state: &LoadedState) {
        let most = usize::try_from(most).unwrap_or(ALL);
        let planned = state.unit_items.get(key).map_or(0, |unit_item| unit_item.free_requested);
        match state.shortage(key, u32::try_from(most).unwrap_or(u32::MAX)) {
            Some(Shortfall::LockedByOthers) => {
                self.passed_by += 1;
                if self.passed_by > PASSED_BY {
                    let awaited = self.awaited.entry(key.clone()).or_default();
                    *awaited = (*awaited).max(planned);
                }
            }
            Some(Shortfall::Horizon) | None => {
                let more = planned.saturating_mul(2).saturating_add(most).min(ALL);
                let free = self.free.entry(key.clone()).or_default();
                *free = (*free).max(more);
            }
        }
    }

    /// Takes in what a command turns out to name. Whether any of it was new.
    pub(crate) fn extend(&mut self, names: Vec<Resource>, now: Instant) -> bool {
        self.now = Some(now);
        let before = self.names.len();
        self.names.extend(names);
        self.names.len() > before
    }

    /// What falls due by then is brought as well: more does while the locks are waited for.
    pub(super) fn soon(&self, now: Instant) -> Instant {
        let ahead = LOOK_AHEAD_MICROS << self.surprises.min(LONGEST_LOOK);
        Instant::from_micros(now.micros().saturating_add(ahead))
    }

    /// Items that fell short.
    pub(crate) fn short(&self) -> impl Iterator<Item = &ItemKey> {
        self.shallow.iter().chain(self.deep.keys())
    }
}
