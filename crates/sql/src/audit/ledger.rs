//! Folds events into the state of every item, and checks that each event follows from the ones before. It uses only what an event says
//! and not the rules that made it. Uses memory for every item and every unit with an id, not for reservations and events.
//!
//! Where units have ids, two instances may change one item at the same time without seeing each other's events. So the counters of such
//! an item are summed up here, and the counters in the events are not compared. The transitions of each unit follow one another.

use super::ItemBalance;
use crate::engine::pools_of_row;
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{
    CounterEffect, Event, Hold, HoldChange, Item, ItemKey, Label, Limit, LimitCounters, LimitSet, Line, Mode,
    Pool, Pools, Record, RecordKey, Scope, Status, StockChange, StockCounters, Transition, UnitMove,
    UnitStatus, moved,
};
use stockhold_store::ledger::{is_oversold, item_violations, line_violations, record_violations};

/// The state of every item that the events lead to.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Every item as it is after the events so far.
    pub(super) items: BTreeMap<ItemKey, ItemAccount>,
    /// Pauses by location; the empty one stands for everything.
    pub(super) pauses: BTreeMap<String, bool>,
    /// Records as events left them, deleted ones included.
    pub(super) records: BTreeMap<RecordKey, Record>,
    /// Those of them that an archive tells of, without their values.
    pub(super) without_values: BTreeSet<RecordKey>,
    /// Limits as events left them, deleted ones included.
    pub(super) limits: LimitSet,
    /// What limits count, as events left it.
    pub(super) counters: LimitCounters,
    /// Events so far that are about reservations.
    pub(super) of_holds: u64,
    /// Whether events have left that units came with: one that is not known may be there.
    pub(super) partial: bool,
    /// Items that were deleted; some have been made again since.
    pub(super) deleted: BTreeSet<ItemKey>,
    /// What does not follow, since it was last taken.
    pub(super) findings: Vec<String>,
}

/// One item, and what its reservations come to.
#[derive(Clone, Debug)]
pub(super) struct ItemAccount {
    pub(super) item: Item,
    /// Whether the store has it.
    pub(super) seen: bool,
    /// The pools that the store has of it.
    pub(super) stored_pools: Pools,
    /// Units and reservations that are active.
    pub(super) held: u64,
    pub(super) active: u64,
    /// Units sold, less returns; what has left included.
    pub(super) sold: u64,
    /// Units that were drawn from pools, by the names of these; what has left included.
    pub(super) drawn: BTreeMap<Label, DrawnUnits>,
    /// Units with ids, each with its version.
    pub(super) units: BTreeMap<Label, (UnitStatus, u64)>,
}

/// Units that reservations drew from a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DrawnUnits {
    /// By active reservations.
    pub(super) held: u64,
    /// Sold, less returns.
    pub(super) sold: u64,
}

impl ItemAccount {
    fn new(item: Item, sold: u64) -> Self {
        let (drawn, units) = (BTreeMap::new(), BTreeMap::new());
        let stored_pools = Pools::default();
        Self { item, seen: false, stored_pools, held: 0, active: 0, sold, drawn, units }
    }

    /// Takes the pools of an event of a reservation. Where units have ids, another instance may have changed what is said of a pool
    /// meanwhile, so only the times of draws are taken.
    fn take_pools(&mut self, pools: &Pools) {
        if self.item.mode == Mode::Counted {
            self.item.pools = pools.clone();
            return;
        }
        self.item.pools = with_draws(&self.item.pools, pools);
    }

    /// Adds what a line of a reservation with this status drew from pools.
    pub(super) fn add_draws(&mut self, status: Status, line: &Line) {
        for draw in &line.details().draws {
            let drawn = self.drawn.entry(draw.pool.clone()).or_default();
            match status {
                Status::Active => drawn.held += u64::from(draw.units),
                Status::Confirmed => drawn.sold += u64::from(draw.units),
                Status::Cancelled | Status::Expired => {}
            }
        }
    }
}

impl Ledger {
    /// Opens an item's account where events that have left stopped.
    pub(super) fn open(&mut self, ItemBalance { item, sold, pool_sales }: ItemBalance) {
        let mut account = ItemAccount::new(item, sold);
        let sales = |(pool, sold)| (pool, DrawnUnits { held: 0, sold });
        account.drawn.extend(pool_sales.into_iter().map(sales));
        self.items.insert(account.item.key.clone(), account);
    }

    /// Takes the next event.
    pub(super) fn take(&mut self, event: &Event) {
        match &event.transition {
            Transition::Hold { change, hold, figures, limits } => {
                self.of_holds += 1;
                for (key, counter) in limits.iter().flat_map(|effects| &*effects.counters) {
                    self.counters.put(key.clone(), *counter);
                }
                if *change == HoldChange::Expired && event.at < hold.expires_at {
                    self.findings.push(format!("reservation {} expired before its deadline", hold.id));
                }
                if figures.len() != hold.lines.len() {
                    self.findings.push(format!("an event of reservation {} lacks figures", hold.id));
                }
                for ((line, after), at) in hold.lines.iter().zip(figures).zip(0..) {
                    self.line(change, hold, line, at, *after);
                    let pools = limits.as_ref().and_then(|effects| effects.pools_of(at));
                    if let (Some(pools), Some(account)) = (pools, self.items.get_mut(&line.item)) {
                        account.take_pools(pools);
                    }
                }
            }
            Transition::Stock { change, item } => {
                self.stock(change, item);
                if *change == StockChange::Deleted {
                    self.items.remove(&item.key);
                    self.deleted.insert(item.key.clone());
                }
            }
            Transition::Sale { scope, paused, .. } => {
                let location = match scope {
                    Scope::Everything => String::new(),
                    Scope::Location(location) => location.as_str().to_owned(),
                    Scope::Item(key) => {
                        match self.items.get_mut(key) {
                            Some(account) => account.item.paused = *paused,
                            None => self.findings.push(format!("{key:?} was paused and is not there")),
                        }
                        return;
                    }
                };
                self.pauses.insert(location, *paused);
            }
            Transition::Limit { limit } => self.limit(limit),
            Transition::Record { record, .. } => {
                self.without_values.remove(&record.key);
                let before = self.records.insert(record.key.clone(), record.clone());
                if before.is_some() || !self.partial {
                    self.findings.extend(record_violations(before.as_ref(), record));
                }
            }
        }
    }

    /// Checks a change of a limit against the limit before it.
    fn limit(&mut self, limit: &Limit) {
        let before = self.limits.get(&limit.id);
        let follows = match before {
            Some(before) => limit.version == before.version + 1,
            None => self.partial || limit.version == 1,
        };
        let goes_on = before.is_some_and(|before| before.generation == limit.generation);
        if !follows || !(goes_on || limit.generation == limit.version || before.is_none()) {
            self.findings.push(format!("limit {:?} does not follow from the one before it", limit.id));
        }
        self.counters.on_change(limit);
        self.limits.put(limit.clone());
    }

    /// Checks the counters of one line's item after a transition of a reservation.
    fn line(&mut self, change: &HoldChange, hold: &Hold, line: &Line, at: usize, after: StockCounters) {
        if change.effect(hold, line, at) == CounterEffect::default() && self.is_other(line) {
            return;
        }
        let Some(account) = self.items.get_mut(&line.item) else {
            self.findings.push(format!("reservation {} names {:?}, which is not there", hold.id, line.item));
            return;
        };
        if line.units.is_some() {
            self.units(change, hold, line, at, after);
            return;
        }
        let before = core::mem::replace(&mut account.item.figures, after);
        let allowance = account.item.settings.oversell_allowance;
        self.findings.extend(line_violations(change, hold, line, at, &before, &after, allowance));
    }

    /// Whether a line belongs to an item that was deleted after the reservation had ended.
    fn is_other(&self, line: &Line) -> bool {
        let mode = self.items.get(&line.item).map(|account| account.item.mode);
        mode.is_none_or(|mode| (mode == Mode::Units) != line.units.is_some())
    }

    /// Checks the units of one line, and adds the effect of the transition to the counters of the item.
    fn units(&mut self, change: &HoldChange, hold: &Hold, line: &Line, number: usize, said: StockCounters) {
        let Some(account) = self.items.get_mut(&line.item) else { return };
        let mut count = 0;
        for UnitMove { unit, before: from, after } in moved(change, hold, line, number) {
            count += 1;
            let before = account.units.insert(unit.id.clone(), (after, unit.version));
            let follows = match before {
                Some((status, version)) => status == from && version + 1 == unit.version,
                None => self.partial,
            };
            if !follows {
                self.findings.push(format!(
                    "{:?}: {change:?} of {} moves unit {:?} to version {} from {before:?}",
                    line.item, hold.id, unit.id, unit.version
                ));
            }
        }
        let effect = change.effect(hold, line, number);
        if count != moved_units(change, line, number) {
            self.findings
                .push(format!("reservation {} has another number of units of {:?}", hold.id, line.item));
        }
        let figures = &mut account.item.figures;
        let at = figures.at.max(said.at);
        match figures.after(&effect) {
            Some(after) => *figures = StockCounters { at, ..after },
            None => self
                .findings
                .push(format!("{:?}: {change:?} of {} does not follow from {figures:?}", line.item, hold.id)),
        }
        // Units with ids are never oversold.
        if is_oversold(figures, 0) {
            self.findings.push(format!("{:?} is oversold: {figures:?}", line.item));
        }
    }

    /// Checks a change of an item whose units have ids. Its counters are those that were summed up here.
    fn unit_item(&mut self, change: &StockChange, item: &Item) {
        let partial = self.partial;
        let Some(account) = self.items.get_mut(&item.key) else {
            self.findings.extend(item_violations(change, None, item));
            if item.figures.total_units != 0 {
                self.findings.push(format!("{:?}: {change:?} begins it with units", item.key));
            }
            let item = Item { pools: pools_of_row(item), ..item.clone() };
            self.items.insert(item.key.clone(), ItemAccount::new(item, 0));
            return;
        };
        let units_follow = match change {
            StockChange::Set
            | StockChange::Adjusted { .. }
            | StockChange::Deleted
            | StockChange::PoolSet { .. }
            | StockChange::PoolDeleted { .. }
            | StockChange::PoolReleased { .. } => true,
            StockChange::UnitsPooled { units, .. } => units.iter().fold(true, |follows, unit| {
                let after = (UnitStatus::Available, unit.version);
                match account.units.insert(unit.id.clone(), after) {
                    Some((status, version)) => {
                        follows && status == UnitStatus::Available && version + 1 == unit.version
                    }
                    None => follows && partial,
                }
            }),
            StockChange::UnitsAdded(units) => units.iter().fold(true, |follows, unit| {
                let before = account.units.insert(unit.id.clone(), (unit.status, unit.version));
                follows && before.is_none()
            }),
            StockChange::UnitsRetired(ids) => {
                ids.iter().fold(true, |follows, id| match account.units.remove(id) {
                    Some((status, _)) => follows && status == UnitStatus::Available,
                    None => follows && partial,
                })
            }
        };
        let before = account.item.figures;
        let figures = StockCounters {
            total_units: item.figures.total_units,
            at: before.at.max(item.figures.at),
            ..before
        };
        let pools = with_draws(&pools_of_row(item), &account.item.pools);
        let after = Item { figures, pools, ..item.clone() };
        let set_total = *change == StockChange::Set && figures.total_units != before.total_units;
        let adjusted = matches!(change, StockChange::Adjusted { .. });
        if !units_follow || set_total || adjusted || item.figures.sequence != 0 {
            self.findings.push(format!("{:?}: {change:?} does not follow from its units", item.key));
        }
        self.findings.extend(item_violations(change, Some(&account.item), &after));
        account.item = after;
    }

    fn stock(&mut self, change: &StockChange, item: &Item) {
        if item.mode == Mode::Units {
            self.unit_item(change, item);
            return;
        }
        let before = match self.items.get_mut(&item.key) {
            Some(account) => Some(core::mem::replace(&mut account.item, item.clone())),
            None => {
                self.items.insert(item.key.clone(), ItemAccount::new(item.clone(), 0));
                None
            }
        };
        self.findings.extend(item_violations(change, before.as_ref(), item));
    }
}

/// Pools with the latest times of draws of both.
fn with_draws(pools: &Pools, others: &Pools) -> Pools {
    let latest = |pool: &Pool| {
        let other = others.get(&pool.name).map_or(pool.used_at, |other| other.used_at);
        Pool { used_at: pool.used_at.max(other), ..pool.clone() }
    };
    Pools::new(pools.all().iter().map(latest).collect())
}

/// The number of units with ids that a transition moves, by what it says of a line.
fn moved_units(change: &HoldChange, line: &Line, number: usize) -> i64 {
    match change {
        HoldChange::Created
        | HoldChange::CreatedBySplit
        | HoldChange::Confirmed
        | HoldChange::Cancelled
        | HoldChange::MergedAway
        | HoldChange::Expired => i64::from(line.quantity),
        HoldChange::Amended { lines }
        | HoldChange::Split { lines, .. }
        | HoldChange::Merged { lines, .. } => lines.get(number).map_or(0, |change| {
            let kept = i64::from(change.kept);
            (i64::from(change.quantity_before) - kept) + (i64::from(line.quantity) - kept)
        }),
        HoldChange::Fulfilled { lines } | HoldChange::Returned { lines, .. } => {
            lines.get(number).map_or(0, |moved| i64::from(moved.quantity))
        }
        HoldChange::Transferred { .. }
        | HoldChange::Extended
        | HoldChange::PaymentOpened { .. }
        | HoldChange::PaymentClosed { .. }
        | HoldChange::PaymentAdvanced { .. }
        | HoldChange::Replaced => 0,
    }
}
