//! Units with ids in the model. The status of a unit is not stored: it is found among the reservations each time.

use super::pools::{gets_general, has_pool};
use super::{Model, Record, invalid};
use stockhold_domain::{
    AddUnits, BestAvailable, Hold, Instant, ItemKey, Label, LineUnit, Mode, Place, Rejection, Reply,
    RequestedLine, ReservationId, RetireUnit, Status, UnavailableUnits, UnitSelection, UnitStatus, limits,
};

/// A unit in the model.
#[derive(Clone, Debug)]
pub(super) struct UnitRecord {
    pub(super) id: Label,
    pub(super) place: Place,
    pub(super) version: u64,
    /// The pool that it is set aside for. It keeps it while it is held or sold.
    pub(super) pool: Option<Label>,
}

/// What a reservation can have of an item while its lines are changed.
#[derive(Clone, Debug)]
pub(super) struct OwnUnits {
    pub(super) item: ItemKey,
    /// Units that it can have, its own included.
    pub(super) all: i128,
    /// Of these, units of general stock.
    pub(super) general: i128,
    /// The units that it has.
    pub(super) ids: Vec<Label>,
}

/// A unit of a line that gets it.
pub(super) fn granted(record: &Record, id: Label) -> LineUnit {
    let seat = record.seats.iter().find(|seat| seat.id == id).expect("a unit that exists");
    LineUnit { pool: seat.pool.clone(), id, version: 0, fulfilled: false, returned: false }
}

/// A unit as a store shows it: its id, its place, its status, its version and its pool.
pub type ShownUnit = (Label, Place, UnitStatus, u64, Option<Label>);

impl UnitRecord {
    fn order(&self) -> (u64, &Label) {
        (self.place.position, &self.id)
    }
}

/// What is available for a requested line.
pub(super) struct Offer {
    pub(super) quantity: u64,
    pub(super) units: Option<Vec<Label>>,
    pub(super) taken: Option<UnavailableUnits>,
}

impl Model {
    /// The status of a unit: the active or confirmed reservation that has it. There is at most one.
    pub(super) fn unit_status(&self, key: &ItemKey, id: &Label) -> UnitStatus {
        for hold in &self.holds {
            for line in hold.lines.iter().filter(|line| line.item == *key) {
                let has = |unit: &LineUnit| unit.id == *id && !unit.returned;
                if line.units().iter().any(has) {
                    match hold.status {
                        Status::Active => return UnitStatus::Held(hold.id),
                        Status::Confirmed if line.units().iter().any(|unit| has(unit) && unit.fulfilled) => {
                            return UnitStatus::Fulfilled(hold.id);
                        }
                        Status::Confirmed => return UnitStatus::Sold(hold.id),
                        Status::Cancelled | Status::Expired => {}
                    }
                }
            }
        }
        UnitStatus::Available
    }

    /// The units of an item in claim order, with their status.
    pub fn units(&self, key: &ItemKey) -> Vec<ShownUnit> {
        let seats = self.records.iter().find(|record| record.key == *key).map(|record| &record.seats);
        let mut seats: Vec<&UnitRecord> = seats.into_iter().flatten().collect();
        seats.sort_by_key(|seat| seat.order());
        let shown = seats.into_iter();
        let show = |s: &UnitRecord| {
            (s.id.clone(), s.place.clone(), self.unit_status(key, &s.id), s.version, s.pool.clone())
        };
        shown.map(show).collect()
    }

    pub(super) fn add_units(&mut self, asked: &AddUnits, now: Instant) -> Result<Reply, Rejection> {
        self.expect_named(&asked.item)?;
        if asked.units.is_empty() || asked.units.len() > limits::UNITS_AT_ONCE {
            return Err(invalid("/units"));
        }
        for (n, unit) in asked.units.iter().enumerate() {
            if asked.units[..n].iter().any(|before| before.id == unit.id) {
                return Err(invalid(&format!("/units/{n}/unit_id")));
            }
            if unit.attributes.all().len() > limits::ATTRIBUTES {
                return Err(invalid(&format!("/units/{n}/attributes")));
            }
        }
        let mut seats = self.record(&asked.item).seats.clone();
        let before = seats.len();
        for (n, unit) in asked.units.iter().enumerate() {
            if let Some(known) = seats[..before].iter().find(|seat| seat.id == unit.id) {
                let same = Place {
                    position: unit.position.unwrap_or(known.place.position),
                    section: unit.section.clone(),
                    row: unit.row.clone(),
                    number: unit.number.clone(),
                    attributes: unit.attributes.clone(),
                };
                if same != known.place {
                    return Err(invalid(&format!("/units/{n}")));
                }
                continue;
            }
            let highest = seats.iter().map(|seat| seat.place.position).max().unwrap_or(0);
            let position = unit.position.unwrap_or(highest + 1);
            if position > limits::POSITION {
                return Err(invalid(&format!("/units/{n}/position")));
            }
            seats.push(UnitRecord {
                id: unit.id.clone(),
                place: Place {
                    position,
                    section: unit.section.clone(),
                    row: unit.row.clone(),
                    number: unit.number.clone(),
                    attributes: unit.attributes.clone(),
                },
                version: 1,
                pool: None,
            });
        }
        let added = seats.len() - before;
        if added > 0 {
            if seats.len() as u64 > limits::ITEM_UNITS {
                return Err(invalid("/units"));
            }
            self.changed_units(&asked.item, seats, now);
        }
        let count = |number: usize| u32::try_from(number).expect("no more than a command has");
        let item = self.item(&asked.item).expect("an item that exists");
        Ok(Reply::Units { item, added: count(added), unchanged: count(asked.units.len() - added) })
    }

    pub(super) fn retire_unit(&mut self, asked: &RetireUnit, now: Instant) -> Result<Reply, Rejection> {
        self.expect_named(&asked.item)?;
        let (item, unit) = (asked.item.clone(), asked.unit.clone());
        if let UnitStatus::Held(holder) = self.unit_status(&item, &unit)
            && self.hold(holder).is_some_and(|hold| hold.expires_at <= now)
        {
            self.expire(holder, now);
        }
        let mut seats = self.record(&item).seats.clone();
        let before = seats.len();
        seats.retain(|seat| seat.id != unit);
        if seats.len() == before {
            return Err(Rejection::UnknownUnit { item, unit });
        }
        let status = self.unit_status(&item, &unit);
        if status != UnitStatus::Available {
            return Err(Rejection::UnitInUse { item, unit, status });
        }
        self.changed_units(&item, seats, now);
        Ok(Reply::Item { item: self.item(&item).expect("an item that exists"), created: false })
    }

    fn changed_units(&mut self, key: &ItemKey, seats: Vec<UnitRecord>, now: Instant) {
        let record = self.record(key);
        record.total = seats.len() as i128;
        record.seats = seats;
        record.version += 1;
        record.at = now;
    }

    fn expect_named(&self, key: &ItemKey) -> Result<(), Rejection> {
        match self.records.iter().find(|record| record.key == *key) {
            None => Err(Rejection::UnknownItem(vec![key.clone()])),
            Some(record) if record.mode == Mode::Counted => {
                Err(Rejection::ModeMismatch { item: key.clone(), mode: record.mode })
            }
            Some(_) => Ok(()),
        }
    }

    /// Counts a transition of a line's units: of all of them, or of those at some places.
    pub(super) fn count_unit_transitions(
        &mut self,
        key: &ItemKey,
        units: &mut [LineUnit],
        places: Option<&[usize]>,
    ) {
        for (n, unit) in units.iter_mut().enumerate() {
            if places.is_none_or(|places| places.contains(&n)) {
                let seat = self.record(key).seats.iter_mut().find(|seat| seat.id == unit.id);
                let seat = seat.expect("a unit that exists");
                seat.version += 1;
                unit.version = seat.version;
            }
        }
    }

    /// What is available for a requested line.
    pub(super) fn offer(
        &self,
        record: &Record,
        requested_line: &RequestedLine,
        choice: Option<&UnitSelection>,
        pool: Option<&Label>,
    ) -> Offer {
        let most = self.available(record, pool).min(i128::from(requested_line.quantity));
        let quantity = u64::try_from(most).expect("no more than was asked for");
        if record.mode == Mode::Counted {
            return Offer { quantity, units: None, taken: None };
        }
        let most = usize::try_from(most).expect("no more than was asked for");
        let mut taken = Vec::new();
        let plain = BestAvailable::default();
        let units = match choice {
            None => self.pick(record, &plain, requested_line.quantity, most, pool),
            Some(UnitSelection::Named(ids)) => {
                let free = self.free_units(record, pool, true);
                let seat = |id: &Label| free.iter().find(|seat| seat.id == *id);
                taken.extend(ids.iter().filter(|id| seat(id).is_none()).cloned());
                let mut general = self.most_general(record, pool);
                let mut picked = Vec::new();
                for seat in ids.iter().filter_map(seat) {
                    if seat.pool.is_some() {
                        picked.push(seat.id.clone());
                    } else if general.is_none_or(|left| left > 0) {
                        general = general.map(|left| left - 1);
                        picked.push(seat.id.clone());
                    }
                }
                picked.truncate(most);
                picked
            }
            Some(UnitSelection::BestAvailable(best)) => {
                self.pick(record, best, requested_line.quantity, most, pool)
            }
        };
        let taken = (!taken.is_empty()).then(|| {
            let exists = |id: &Label| record.seats.iter().any(|seat| seat.id == *id);
            let unknown = taken.iter().filter(|id| !exists(id)).cloned().collect();
            let deadline = |id: &Label| match self.unit_status(&record.key, id) {
                UnitStatus::Held(holder) => self.hold(holder).map(|hold| hold.expires_at),
                _ => None,
            };
            let deadlines: Option<Vec<Instant>> = taken.iter().map(deadline).collect();
            let next_expiry_at = deadlines.and_then(|deadlines| deadlines.into_iter().min());
            UnavailableUnits { item: record.key.clone(), units: taken, unknown, next_expiry_at }
        });
        Offer { quantity: units.len() as u64, units: Some(units), taken }
    }

    /// The reservation whose end would help a line that does not fit, due or not.
    pub(super) fn blocking_hold(
        &self,
        record: &Record,
        requested_line: &RequestedLine,
        choice: Option<&UnitSelection>,
        pool: Option<&Label>,
        now: Instant,
    ) -> Option<(Instant, ReservationId)> {
        if let Some(UnitSelection::Named(ids)) = choice {
            let holders = ids.iter().filter_map(|id| match self.unit_status(&record.key, id) {
                UnitStatus::Held(holder) => self.hold(holder),
                _ => None,
            });
            let due = holders.filter(|hold: &Hold| hold.expires_at <= now);
            if let Some((_, id)) = due.map(|hold| (hold.expires_at, hold.id)).min() {
                return Some((now, id));
            }
            if self.available(record, pool) >= i128::from(requested_line.quantity) {
                return None;
            }
        }
        self.active(&requested_line.item).first().copied()
    }

    // Best available.

    /// The units of the reservation that is being changed.
    pub(super) fn own_units(&self, key: &ItemKey) -> Option<&OwnUnits> {
        self.amending.iter().find(|own| own.item == *key)
    }

    /// Most units of general stock that a line may have, its own included. `None` if it keeps what it has and gets no more.
    fn most_general(&self, record: &Record, pool: Option<&Label>) -> Option<i128> {
        let own = self.own_units(&record.key).map(|own| own.general);
        gets_general(record, pool).then(|| own.unwrap_or_else(|| self.available(record, None)))
    }

    /// Free units in claim order: those that the line has, those of the pool and, if asked for, general stock as far as the line may get
    /// it.
    fn free_units<'r>(&self, record: &'r Record, pool: Option<&Label>, general: bool) -> Vec<&'r UnitRecord> {
        let own = |id: &Label| self.own_units(&record.key).is_some_and(|own| own.ids.contains(id));
        let general = general && gets_general(record, pool);
        let known = pool.filter(|name| has_pool(record, name));
        let is_for_it = |seat: &&UnitRecord| {
            let of_pool = match &seat.pool {
                None => general,
                Some(pool) => known == Some(pool),
            };
            of_pool || own(&seat.id)
        };
        let mut free: Vec<&UnitRecord> = record
            .seats
            .iter()
            .filter(|seat| self.unit_status(&record.key, &seat.id) == UnitStatus::Available)
            .filter(is_for_it)
            .collect();
        free.sort_by_key(|seat| seat.order());
        free
    }

    /// The units for a line that does not name them: from its pool alone if that suffices, else from general stock too.
    fn pick(
        &self,
        record: &Record,
        best: &BestAvailable,
        wanted: u64,
        count: usize,
        pool: Option<&Label>,
    ) -> Vec<Label> {
        let together = best.adjacent || best.min_together.is_some();
        let from = |free: Vec<&UnitRecord>, count: usize| {
            if together {
                pick_adjacent(record, best, &free, wanted, count)
            } else {
                matching(&free, best).into_iter().flatten().take(count).map(|seat| seat.id.clone()).collect()
            }
        };
        let all = self.free_units(record, pool, true);
        let in_pool = self.free_units(record, pool, false);
        if pool.is_none_or(|name| !has_pool(record, name)) {
            return from(all, count);
        }
        let mut found: Vec<Label> = from(in_pool.clone(), count);
        let Some(most) = self.most_general(record, pool).filter(|_| found.len() < count) else {
            return found;
        };
        let most = usize::try_from(most).expect("a number of units");
        let is_general = |id: &&Label| record.seats.iter().any(|seat| seat.id == **id && seat.pool.is_none());
        if together {
            let both: Vec<Label> = from(all, count);
            let fits = both.iter().filter(is_general).count() <= most;
            return if fits && both.len() > found.len() { both } else { found };
        }
        let more = (count - found.len()).min(most.saturating_sub(found.iter().filter(is_general).count()));
        let general = all.into_iter().filter(|seat| !in_pool.iter().any(|other| other.id == seat.id));
        found.extend(from(general.collect(), more));
        found
    }
}

/// Free units that fit the request, section by section in the order of preference.
fn matching<'r>(free: &[&'r UnitRecord], best: &BestAvailable) -> Vec<Vec<&'r UnitRecord>> {
    let mut free = free.to_vec();
    free.retain(|seat| seat.place.attributes.include(&best.attributes));
    if best.sections.is_empty() {
        return vec![free];
    }
    let mut names: Vec<&Label> = Vec::new();
    for name in &best.sections {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let of = |name: &&Label| {
        free.iter().filter(|seat| seat.place.section.as_ref() == Some(*name)).copied().collect()
    };
    names.iter().map(of).collect()
}

fn pick_adjacent(
    record: &Record,
    best: &BestAvailable,
    free: &[&UnitRecord],
    wanted: u64,
    count: usize,
) -> Vec<Label> {
    let wanted = usize::try_from(wanted).expect("within the limit");
    let least = best.min_together.map(|k| (k as usize).clamp(1, wanted));
    let free: Vec<&UnitRecord> = free
        .iter()
        .map(|seat| record.seats.iter().find(|known| known.id == seat.id).expect("a unit that exists"))
        .collect();
    let sections = matching(&free, best);
    for count in (least.unwrap_or(1)..=count).rev() {
        for section in &sections {
            if let Some(found) = best_run(record, section, &free, count) {
                return ids(&found);
            }
        }
        let Some(least) = least else { continue };
        let all: Vec<&UnitRecord> = sections.iter().flatten().copied().collect();
        for section in sections.iter().chain([&all]) {
            if let Some(found) = split_into_runs(record, section, &free, count, least) {
                return ids(&found);
            }
        }
    }
    Vec::new()
}

fn ids(seats: &[&UnitRecord]) -> Vec<Label> {
    seats.iter().map(|seat| seat.id.clone()).collect()
}

/// The adjacent seat, with the next higher or lower position.
fn neighbour_of<'r>(record: &'r Record, seat: &UnitRecord, rising: bool) -> Option<&'r UnitRecord> {
    let same_row =
        |other: &&UnitRecord| other.place.section == seat.place.section && other.place.row == seat.place.row;
    let mut row: Vec<&UnitRecord> = record.seats.iter().filter(same_row).collect();
    row.sort_by_key(|seat| seat.order());
    if !rising {
        row.reverse();
    }
    let at = row.iter().position(|other| other.id == seat.id)?;
    let next = *row.get(at + 1)?;
    (next.place.position.abs_diff(seat.place.position) == 1).then_some(next)
}

fn has(seats: &[&UnitRecord], seat: &UnitRecord) -> bool {
    seats.iter().any(|other| other.id == seat.id)
}

/// Adjacent seats from one on, as long as they are among `some`.
fn run_from<'r>(record: &'r Record, first: &'r UnitRecord, some: &[&UnitRecord]) -> Vec<&'r UnitRecord> {
    let mut run = vec![first];
    while let Some(next) = neighbour_of(record, run[run.len() - 1], true).filter(|next| has(some, next)) {
        run.push(next);
    }
    run
}

/// How many single free seats are left beside a run that is taken.
fn single_units_left(record: &Record, free: &[&UnitRecord], run: &[&UnitRecord]) -> usize {
    let alone = |edge: &UnitRecord, rising: bool| {
        let neighbour = neighbour_of(record, edge, rising).filter(|seat| has(free, seat));
        neighbour.is_some_and(|seat| neighbour_of(record, seat, rising).is_none_or(|next| !has(free, next)))
    };
    usize::from(alone(run[0], false)) + usize::from(alone(run[run.len() - 1], true))
}

/// This many adjacent seats, with the fewest single seats left, and of those the first in claim order.
fn best_run<'r>(
    record: &'r Record,
    wanted: &[&'r UnitRecord],
    free: &[&UnitRecord],
    count: usize,
) -> Option<Vec<&'r UnitRecord>> {
    let runs = wanted.iter().map(|first| run_from(record, first, wanted));
    let fitting = runs.filter(|run| run.len() >= count).map(|mut run| {
        run.truncate(count);
        run
    });
    fitting.min_by_key(|run| (single_units_left(record, free, run), run[0].place.position, run[0].id.clone()))
}

/// This many seats in as few runs as possible, the longest first and none shorter than `least`. The last run is placed
/// like a single one.
fn split_into_runs<'r>(
    record: &'r Record,
    wanted: &[&'r UnitRecord],
    free: &[&UnitRecord],
    count: usize,
    least: usize,
) -> Option<Vec<&'r UnitRecord>> {
    let begins =
        |seat: &&&UnitRecord| neighbour_of(record, seat, false).is_none_or(|before| !has(wanted, before));
    let mut runs: Vec<Vec<&UnitRecord>> =
        wanted.iter().filter(begins).map(|first| run_from(record, first, wanted)).collect();
    runs.retain(|run| run.len() >= least);
    runs.sort_by_key(|run| (usize::MAX - run.len(), run[0].place.position, run[0].id.clone()));
    let mut pieces: Vec<Vec<&UnitRecord>> = Vec::new();
    let mut left = count;
    while left > runs.first()?.len() {
        let run = runs.remove(0);
        left -= run.len();
        pieces.push(run);
    }
    // The last run must be long enough, so the runs before it become shorter if needed.
    let mut lacks = least.saturating_sub(left);
    left = left.max(least);
    for piece in pieces.iter_mut().rev() {
        while lacks > 0 && piece.len() > least {
            piece.pop();
            lacks -= 1;
        }
    }
    if lacks > 0 {
        return None;
    }
    let rest: Vec<&UnitRecord> = runs.into_iter().flatten().collect();
    pieces.push(best_run(record, &rest, free, left)?);
    Some(pieces.into_iter().flatten().collect())
}
