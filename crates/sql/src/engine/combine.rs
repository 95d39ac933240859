//! Which commands go into which batch. Pure: it knows neither connections nor clocks.
//!
//! Commands that are about the same items wait for each other and go together; no two batches in flight share an item or an
//! idempotency key, except that [`LANES`] of them may claim units of one hall. Nobody overtakes whoever waits for the same
//! item. Unrelated commands are put together only as far as connections are scarce.

use super::batch::Tries;
use super::known::Held;
use super::options::BATCH_LINES;
use super::post::Owed;
use super::slice::Slice;
use super::wants::{Asked, Plan, named_hold};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use stockhold_domain::{
    Command, ItemKey, KeyHash, RequestedLine, ReservationId, Resource, UnitSelection, footprint, limits,
};

/// Batches in flight that may claim units of one hall: they lock different ones, as those of two instances do, and while one
/// is being written and synced the next is decided.
pub(super) const LANES: usize = 2;
/// A bit for each.
const ALL_LANES: u8 = (1 << LANES) - 1;

/// What a batch may touch, and no other batch of this instance while it is in flight.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    pub(super) items: HashSet<ItemKey>,
    pub(super) keys: HashSet<KeyHash>,
    /// Those of the items that are halls of which units are claimed and nothing else is done: others may do the same,
    shared: HashSet<ItemKey>,
    /// in another lane.
    pub(super) lane: usize,
}

impl Claims {
    fn meets(&self, other: &Self) -> bool {
        fn shares<T: Eq + std::hash::Hash>(a: &HashSet<T>, b: &HashSet<T>) -> bool {
            let (few, many) = if a.len() < b.len() { (a, b) } else { (b, a) };
            few.iter().any(|one| many.contains(one))
        }
        shares(&self.items, &other.items) || shares(&self.keys, &other.keys)
    }

    /// Of one command, as far as the items of the reservation that it names are known.
    fn of(asked: &Asked) -> Self {
        let mut claims = Self { shared: asked.only_claims_of().cloned().collect(), ..Self::default() };
        claims.items.extend(asked.held.iter().flat_map(|held| held.items.iter().cloned()));
        let mut names = Vec::new();
        footprint(&Slice::default(), &asked.envelope, &mut names);
        for name in names {
            match name {
                Resource::Item(item) => {
                    claims.items.insert(item);
                }
                Resource::Key(hash) => {
                    claims.keys.insert(hash);
                }
                Resource::Hold(_)
                | Resource::Due(_)
                | Resource::AnyDue
                | Resource::Pause(_)
                | Resource::Unit(..)
                | Resource::FreeUnits(..)
                | Resource::LastUnit(_)
                | Resource::SeatMap(_) => {}
            }
        }
        claims
    }

    /// Of whoever does anything with these items.
    pub(super) fn all_of(items: HashSet<ItemKey>) -> Self {
        Self { items, ..Self::default() }
    }

    pub(super) fn add(&mut self, other: &Self) {
        for item in &other.items {
            let new = self.items.insert(item.clone());
            if !other.shared.contains(item) {
                self.shared.remove(item);
            } else if new {
                self.shared.insert(item.clone());
            }
        }
        self.keys.extend(&other.keys);
    }
}

/// What batches in flight have claimed.
#[derive(Default)]
struct Busy {
    items: HashMap<ItemKey, Lanes>,
    keys: HashSet<KeyHash>,
}

/// How an item is claimed.
enum Lanes {
    Alone,
    /// In which of the lanes, as bits.
    Shared(u8),
}

impl Busy {
    /// The lanes that are free for all of the claims, as bits: none when something is in the way.
    fn free_lanes(&self, claims: &Claims) -> u8 {
        if claims.keys.iter().any(|key| self.keys.contains(key)) {
            return 0;
        }
        claims.items.iter().fold(ALL_LANES, |free, item| match self.items.get(item) {
            None => free,
            Some(Lanes::Shared(taken)) if claims.shared.contains(item) => free & !taken,
            Some(_) => 0,
        })
    }

    fn add(&mut self, claims: &Claims) {
        for item in &claims.items {
            let taken = self.items.entry(item.clone()).or_insert(Lanes::Shared(0));
            match taken {
                Lanes::Shared(taken) if claims.shared.contains(item) => *taken |= 1 << claims.lane,
                taken => *taken = Lanes::Alone,
            }
        }
        self.keys.extend(&claims.keys);
    }

    fn remove(&mut self, claims: &Claims) {
        for item in &claims.items {
            match self.items.get_mut(item) {
                Some(Lanes::Shared(taken)) if *taken != 1 << claims.lane => *taken &= !(1 << claims.lane),
                _ => {
                    self.items.remove(item);
                }
            }
        }
        for key in &claims.keys {
            self.keys.remove(key);
        }
    }
}

/// Who is told.
pub(super) enum Teller {
    /// Whoever asked for one command.
    One(Owed),
    /// The sequence of this number; the commands' numbers within it.
    Sequence(u64, Vec<usize>),
}

/// Commands that go together into whatever batch takes them: one, or the next of a sequence.
pub(super) struct Unit {
    pub(super) asked: Vec<Asked>,
    pub(super) teller: Teller,
    pub(super) claims: Claims,
    pub(super) lines: usize,
    /// How many of them still count as waiting.
    pub(super) counted: usize,
}

impl Unit {
    pub(super) fn new(asked: Vec<Asked>, teller: Teller, counted: usize) -> Self {
        let all = |mut all: Claims, one| {
            all.add(&one);
            all
        };
        let claims = asked.iter().map(Claims::of).reduce(all).unwrap_or_default();
        let mut unit = Self { asked, teller, claims, lines: 0, counted };
        unit.count_lines();
        unit
    }

    /// The sequence that it is of.
    pub(super) fn sequence(&self) -> Option<u64> {
        match &self.teller {
            Teller::One(_) => None,
            Teller::Sequence(number, _) => Some(*number),
        }
    }

    /// Reservations that commands name and whose items are not known.
    pub(super) fn unresolved(&self) -> impl Iterator<Item = ReservationId> {
        let unknown = self.asked.iter().filter(|asked| asked.held.is_none());
        unknown.filter_map(|asked| named_hold(&asked.envelope.command))
    }

    /// Fills in what is known by now; what is not does not exist.
    pub(super) fn resolve(&mut self, held_by: impl Fn(ReservationId) -> Option<Held>) {
        for asked in self.asked.iter_mut().filter(|asked| asked.held.is_none()) {
            let held = named_hold(&asked.envelope.command).and_then(&held_by).unwrap_or_default();
            self.claims.add(&Claims::all_of(held.items.iter().cloned().collect()));
            asked.held = Some(held);
        }
        self.count_lines();
    }

    fn count_lines(&mut self) {
        self.lines = self.asked.iter().map(Asked::lines).sum();
    }
}

impl Asked {
    /// Lines that it makes or rewrites.
    pub(super) fn lines(&self) -> usize {
        lines_of(&self.envelope.command, self.held.as_ref(), &self.halls)
    }

    /// Halls of which it claims units, by number or by name. The best of them are planned, and whoever else claims some then is
    /// in the way.
    fn only_claims_of(&self) -> impl Iterator<Item = &ItemKey> {
        let basket = match &self.envelope.command {
            Command::Reserve(reserve) => Some(&reserve.basket),
            _ => None,
        };
        let planned = move |n| {
            basket.is_some_and(|basket| matches!(basket.selection(n), Some(UnitSelection::BestAvailable(_))))
        };
        let wants = basket.into_iter().flat_map(stockhold_domain::Basket::lines).enumerate();
        let claimed = wants.filter(move |(n, want)| self.halls.contains(&want.item) && !planned(*n));
        claimed.map(|(_, want)| &want.item)
    }
}

/// Lines that a command makes or rewrites, a unit with an id being one more. `held` is what the reservation that it names has,
/// which goes all together; one while that is not known. `halls` are those items that are known to have units with ids.
pub(super) fn lines_of(command: &Command, held: Option<&Held>, halls: &HashSet<ItemKey>) -> usize {
    match command {
        Command::Reserve(reserve) => {
            let lines = reserve.basket.lines().iter().enumerate().map(|(n, want)| {
                match reserve.basket.selection(n) {
                    Some(UnitSelection::Named(ids)) => 1 + ids.len(),
                    Some(UnitSelection::BestAvailable(_)) => 1 + units_of(want),
                    None if halls.contains(&want.item) => 1 + units_of(want),
                    None => 1,
                }
            });
            lines.sum()
        }
        Command::AddUnits(add) => 1 + add.units.len(),
        _ => held.map_or(1, |held| held.lines().max(1)),
    }
}

/// Units that a wish may have where they have ids.
fn units_of(want: &RequestedLine) -> usize {
    usize::try_from(want.quantity.min(limits::LINE_UNITS)).unwrap_or(usize::MAX)
}

/// How many of these go into one batch, by their lines: one at least, since a larger basket comes alone.
pub(super) fn fitting(lines: impl Iterator<Item = usize>) -> usize {
    let sums = lines.scan(0, |sum, lines| {
        *sum += lines;
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= BATCH_LINES).count().max(1)
}

/// What a batch is about.
pub(super) enum Task {
    /// Commands.
    Commands(Vec<Unit>),
    /// Overdue reservations with their items; whether locks of others are waited for.
    Sweep { due: Vec<(ReservationId, Held)>, waits: bool },
}

/// What goes into one transaction.
pub(super) struct Batch {
    pub(super) task: Task,
    pub(super) claims: Arc<Claims>,
    pub(super) plan: Plan,
    pub(super) tries: Tries,
}

impl Batch {
    /// Its commands.
    pub(super) fn asked(&self) -> impl Iterator<Item = &Asked> {
        let units = match &self.task {
            Task::Commands(units) => units.as_slice(),
            Task::Sweep { .. } => &[],
        };
        units.iter().flat_map(|unit| &unit.asked)
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Combiner {
    /// Batches whose items are known, ahead of all others.
    ready: VecDeque<Batch>,
    /// In the order they came.
    waiting: VecDeque<Unit>,
    /// Those that were found to wait for something in flight: looked at again when something has landed.
    parked: Vec<Unit>,
    parked_claims: Claims,
    busy: Busy,
    /// Most commands in one batch.
    most: usize,
}

impl Combiner {
    pub(super) fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Commands that have come.
    pub(super) fn add(&mut self, unit: Unit) {
        self.waiting.push_back(unit);
    }

    /// Commands that go on in the next batch, ahead of those that came after them.
    pub(super) fn put_back(&mut self, units: Vec<Unit>) {
        for unit in units.into_iter().rev() {
            self.waiting.push_front(unit);
        }
    }

    /// A batch that goes as it is, ahead of all that wait.
    pub(super) fn add_batch(&mut self, batch: Batch) {
        self.ready.push_back(batch);
    }

    /// Whether something in flight touches one of these items.
    pub(super) fn is_busy(&self, item: &ItemKey) -> bool {
        self.busy.items.contains_key(item)
    }

    /// Commands that are not known to wait for something in flight.
    pub(super) fn free_units(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.waiting.is_empty() && self.parked.is_empty()
    }

    /// A batch that can go now, if there is one; its claims are busy from here on. Commands that share no item are put
    /// together up to `share` of them.
    pub(super) fn take(&mut self, share: usize) -> Option<Batch> {
        let (mut batch, lanes) = match self.take_ready() {
            Some(batch) => batch,
            None => self.combine(share)?,
        };
        Arc::make_mut(&mut batch.claims).lane = usize::try_from(lanes.trailing_zeros()).unwrap_or_default();
        self.busy.add(&batch.claims);
        Some(batch)
    }

    /// The first that can go, and the lanes that are free for it.
    fn take_ready(&mut self) -> Option<(Batch, u8)> {
        let mut blocked = Claims::default();
        let (place, lanes) = self.ready.iter().enumerate().find_map(|(place, batch)| {
            let lanes = self.busy.free_lanes(&batch.claims);
            if lanes != 0 && !batch.claims.meets(&blocked) {
                return Some((place, lanes));
            }
            blocked.add(&batch.claims);
            None
        })?;
        Some((self.ready.remove(place)?, lanes))
    }

    fn combine(&mut self, share: usize) -> Option<(Batch, u8)> {
        // Whoever waits with its items known goes first, so nobody may start on these.
        let mut blocked = Claims::default();
        self.ready.iter().for_each(|batch| blocked.add(&batch.claims));
        let (mut units, mut claims, mut commands, mut lines) = (Vec::new(), Claims::default(), 0, 0);
        let (mut left, mut open) = (VecDeque::new(), ALL_LANES);
        while let Some(unit) = self.waiting.pop_front() {
            // Whoever waits for one that is not parked is not parked either: what is comes back ahead of all others.
            let waits = unit.claims.meets(&blocked);
            let free = if waits { 0 } else { self.busy.free_lanes(&unit.claims) };
            if !waits && (free == 0 || unit.claims.meets(&self.parked_claims)) {
                self.parked_claims.add(&unit.claims);
                self.parked.push(unit);
                continue;
            }
            let count = unit.asked.len();
            let fits = commands + count <= self.most && lines + unit.lines <= BATCH_LINES;
            let wanted = commands < share || unit.claims.meets(&claims);
            if open & free != 0 && (units.is_empty() || (fits && wanted)) {
                open &= free;
                (commands, lines) = (commands + count, lines + unit.lines);
                claims.add(&unit.claims);
                units.push(unit);
            } else {
                blocked.add(&unit.claims);
                left.push_back(unit);
            }
            if commands >= self.most {
                break;
            }
        }
        left.append(&mut self.waiting);
        self.waiting = left;
        if units.is_empty() {
            return None;
        }
        let task = Task::Commands(units);
        let claims = Arc::new(claims);
        Some((Batch { task, claims, plan: Plan::default(), tries: Tries::default() }, open))
    }

    /// Adds to a batch whose items are locked by now what has come for them since and what the batch `takes`; its keys are busy
    /// from here on. Answers with how many of it counted as waiting.
    pub(super) fn top_up(&mut self, batch: &mut Batch, takes: impl Fn(&Asked) -> bool) -> usize {
        let Task::Commands(units) = &mut batch.task else { return 0 };
        let mut claims = Claims::clone(&batch.claims);
        let mut commands: usize = units.iter().map(|unit| unit.asked.len()).sum();
        let mut lines: usize = units.iter().map(|unit| unit.lines).sum();
        // Nobody overtakes whoever waits for the same.
        let mut blocked = Claims::default();
        self.ready.iter().for_each(|batch| blocked.add(&batch.claims));
        self.parked_claims = Claims::default();
        let mut counted = 0;
        let mut others =
            core::mem::take(&mut self.parked).into_iter().chain(core::mem::take(&mut self.waiting));
        while commands < self.most
            && let Some(mut unit) = others.next()
        {
            let fits = commands + unit.asked.len() <= self.most && lines + unit.lines <= BATCH_LINES;
            let covered = unit.claims.items.is_subset(&claims.items)
                && unit.claims.keys.is_disjoint(&self.busy.keys)
                && unit.asked.iter().all(&takes);
            if fits && covered && !unit.claims.meets(&blocked) {
                (commands, lines) = (commands + unit.asked.len(), lines + unit.lines);
                counted += core::mem::take(&mut unit.counted);
                claims.add(&unit.claims);
                self.busy.keys.extend(&unit.claims.keys);
                units.push(unit);
            } else {
                blocked.add(&unit.claims);
                self.waiting.push_back(unit);
            }
        }
        self.waiting.extend(others);
        batch.claims = Arc::new(claims);
        counted
    }

    /// What a batch had claimed is free again.
    pub(super) fn landed(&mut self, claims: &Claims) {
        self.busy.remove(claims);
        self.parked_claims = Claims::default();
        let parked = core::mem::take(&mut self.parked);
        self.put_back(parked);
    }

    /// Everything that waits, to be answered otherwise.
    pub(super) fn drain(&mut self) -> (Vec<Batch>, Vec<Unit>) {
        self.parked_claims = Claims::default();
        let units = self.parked.drain(..).chain(self.waiting.drain(..));
        (self.ready.drain(..).collect(), units.collect())
    }
}

#[cfg(test)]
#[path = "combine_tests.rs"]
mod tests;
