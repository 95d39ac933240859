//! Pools in the model. What is drawn from them is counted from the reservations.

use super::{Model, Record, invalid};
use stockhold_domain::{
    DeletePool, Hold, Instant, ItemKey, Label, Line, LineDetails, LineUnit, LineUnits, Mode, Pool, PoolDraw,
    PoolSelection, PoolTerms, Pools, Rejection, Reply, Reserve, SetPool, SetUnitPool, Status, UnitStatus,
    limits,
};

/// A pool in the model.
#[derive(Clone, Debug)]
pub(super) struct PoolRecord {
    name: Label,
    terms: PoolTerms,
    used_at: Instant,
    released_at: Option<Instant>,
}

impl Model {
    /// Held and sold units of a pool.
    fn drawn(&self, key: &ItemKey, name: &Label) -> (u64, u64) {
        let (mut held, mut sold) = (0, 0);
        for hold in &self.holds {
            for line in hold.lines.iter().filter(|line| line.item == *key) {
                let units: u64 = line
                    .details()
                    .draws
                    .iter()
                    .filter(|draw| draw.pool == *name)
                    .map(|draw| u64::from(draw.units))
                    .sum();
                match hold.status {
                    Status::Active => held += units,
                    Status::Confirmed => sold += units,
                    Status::Cancelled | Status::Expired => {}
                }
            }
        }
        (held, sold)
    }

    fn free_in(&self, key: &ItemKey, pool: &PoolRecord) -> u64 {
        let (held, sold) = self.drawn(key, &pool.name);
        if pool.released_at.is_some() { 0 } else { self.units_of_pool(key, pool) - held - sold }
    }

    /// Units that a pool has, drawn ones included. Where units have ids, they are counted.
    fn units_of_pool(&self, key: &ItemKey, pool: &PoolRecord) -> u64 {
        let record = self.known(key);
        match record.mode {
            Mode::Counted => pool.terms.allocated,
            Mode::Units => {
                record.seats.iter().filter(|seat| seat.pool.as_ref() == Some(&pool.name)).count() as u64
            }
        }
    }

    /// Units of an item that its pools keep from general sale.
    pub(super) fn set_aside(&self, record: &Record) -> i128 {
        record.pools.iter().map(|pool| i128::from(self.free_in(&record.key, pool))).sum()
    }

    /// Units of all pools of an item, those that were drawn included.
    pub(super) fn allocated(&self, key: &ItemKey) -> i128 {
        self.pools_of(&self.known(key)).all().iter().map(|pool| i128::from(pool.terms.allocated)).sum()
    }

    pub(super) fn pools_of(&self, record: &Record) -> Pools {
        let shown = record.pools.iter().map(|pool| {
            let (held, sold) = self.drawn(&record.key, &pool.name);
            let allocated =
                if pool.released_at.is_some() { held + sold } else { self.units_of_pool(&record.key, pool) };
            Pool {
                name: pool.name.clone(),
                terms: PoolTerms { allocated, ..pool.terms.clone() },
                held,
                sold,
                used_at: pool.used_at,
                released_at: pool.released_at,
            }
        });
        Pools::new(shown.collect())
    }

    /// What a reserve with this pool can get, if it can get this many units of general stock.
    pub(super) fn with_pool(&self, record: &Record, pool: Option<&Label>, general: i128) -> i128 {
        match record.pools.iter().find(|known| Some(&known.name) == pool) {
            None => general,
            Some(pool) => {
                let free = i128::from(self.free_in(&record.key, pool));
                if gets_general(record, Some(&pool.name)) { free + general } else { free }
            }
        }
    }

    /// Refuses a reserve whose pool no item of it has or had.
    pub(super) fn expect_pool(&self, asked: &Reserve) -> Result<(), Rejection> {
        let Some(name) = asked.terms.optional.as_ref().and_then(|optional| optional.pool.as_ref()) else {
            return Ok(());
        };
        let has = |key: &ItemKey| {
            let record = self.records.iter().find(|record| record.key == *key);
            record.is_some_and(|record| record.pools.iter().any(|pool| pool.name == *name))
        };
        let known = asked.basket.items().any(has);
        if known { Ok(()) } else { Err(invalid("/pool")) }
    }

    /// Releases the pools of an item whose time has come, as a store does in a batch that comes before the answer.
    pub fn release_due(&mut self, key: &ItemKey, now: Instant) {
        let due = |pool: &PoolRecord| {
            let idle = pool.terms.idle_release.map(|time| pool.used_at.deadline(time));
            let times = [pool.terms.releases_at, idle];
            pool.released_at.is_none() && times.into_iter().flatten().any(|time| time <= now)
        };
        while let Some(place) = self.record(key).pools.iter().position(due) {
            self.end_pool(key, place, now);
        }
    }

    fn end_pool(&mut self, key: &ItemKey, place: usize, now: Instant) {
        let record = self.record(key);
        record.pools[place].released_at = Some(now);
        record.version += 1;
        let name = record.pools[place].name.clone();
        self.turn(key, now);
        self.empty_pool(key, &name, now);
        self.forget_former(key);
    }

    /// Makes the free units of a pool general stock.
    fn empty_pool(&mut self, key: &ItemKey, name: &Label, now: Instant) {
        let units = self.units(key).into_iter();
        let free = units.filter(|unit| unit.2 == UnitStatus::Available && unit.4.as_ref() == Some(name));
        let free: Vec<Label> = free.map(|unit| unit.0).collect();
        self.put_units(key, &free, None, now);
    }

    /// Moves free units into a pool or out of one.
    fn put_units(&mut self, key: &ItemKey, ids: &[Label], pool: Option<&Label>, now: Instant) {
        if ids.is_empty() {
            return;
        }
        let record = self.record(key);
        for seat in record.seats.iter_mut().filter(|seat| ids.contains(&seat.id)) {
            seat.pool = pool.cloned();
            seat.version += 1;
        }
        if let Some(pool) = record.pools.iter_mut().find(|known| Some(&known.name) == pool) {
            pool.used_at = now;
        }
        record.version += 1;
        self.turn(key, now);
        self.forget_former(key);
    }

    /// Units that come back leave a pool that was released meanwhile.
    pub(super) fn leave_ended_pools(&mut self, key: &ItemKey, units: &mut [LineUnit]) {
        let record = self.record(key);
        for unit in units {
            let pool = record.pools.iter().find(|pool| Some(&pool.name) == unit.pool.as_ref());
            if pool.is_none_or(|pool| pool.released_at.is_some()) {
                unit.pool = None;
                if let Some(seat) = record.seats.iter_mut().find(|seat| seat.id == unit.id) {
                    seat.pool = None;
                }
            }
        }
    }

    /// The units of a line, or those at some places, come back.
    pub(super) fn end_line(&mut self, line: &mut Line, places: Option<&[usize]>) {
        if line.units.is_none() {
            return;
        }
        let mut units = line.units().to_vec();
        for (place, unit) in units.iter_mut().enumerate() {
            if places.is_none_or(|places| places.contains(&place)) {
                self.leave_ended_pools(&line.item, std::slice::from_mut(unit));
            }
        }
        line.units = Some(LineUnits::new(units).into());
    }

    /// The units of a line are in the pools that the line says: a split and a merge move units of released pools.
    pub(super) fn enter_pools(&mut self, line: &Line) {
        for seat in &mut self.record(&line.item).seats {
            if let Some(unit) = line.units().iter().find(|unit| unit.id == seat.id) {
                seat.pool.clone_from(&unit.pool);
            }
        }
    }

    /// Items remember a bounded number of pools that have no unit any more.
    pub(super) fn forget_former(&mut self, key: &ItemKey) {
        loop {
            let pools = self.pools_of(&self.known(key));
            let former = pools.all().iter().filter(|pool| is_former(pool));
            let former: Vec<(Instant, Label)> =
                former.map(|pool| (pool.released_at.expect("released"), pool.name.clone())).collect();
            if former.len() <= limits::FORMER_POOLS {
                return;
            }
            let (_, oldest) = former.into_iter().min().expect("a former pool");
            self.record(key).pools.retain(|pool| pool.name != oldest);
        }
    }

    /// Releases what is due anywhere. Returns of how many items.
    pub(super) fn sweep_pools(&mut self, now: Instant) -> u32 {
        let mut released = 0;
        for key in self.records.iter().map(|record| record.key.clone()).collect::<Vec<_>>() {
            let before = self.known(&key).version;
            self.release_due(&key, now);
            released += u32::from(self.known(&key).version > before);
        }
        released
    }

    pub(super) fn set_pool(&mut self, asked: &SetPool, now: Instant) -> Result<Reply, Rejection> {
        if asked.allocated.is_some_and(|units| units > limits::TOTAL_UNITS) {
            return Err(invalid("/allocated"));
        }
        self.expect(&asked.item, asked.expected.as_ref())?;
        let Some(item) = self.item(&asked.item) else {
            return Err(Rejection::UnknownItem(vec![asked.item.clone()]));
        };
        if asked.allocated.is_some() != (item.mode == Mode::Counted) {
            return Err(invalid("/allocated"));
        }
        let there = item.pools.all().iter().find(|pool| pool.name == asked.pool);
        let terms = PoolTerms {
            allocated: asked.allocated.unwrap_or_else(|| there.map_or(0, |pool| pool.terms.allocated)),
            fallback: asked.fallback,
            releases_at: asked.releases_at,
            idle_release: asked.idle_release,
        };
        if there.is_some_and(|pool| pool.released_at.is_none() && pool.terms == terms) {
            return Ok(Reply::Item { item, created: false });
        }
        let over = asked.releases_at.is_some_and(|ends| ends <= now);
        if over
            && there
                .is_some_and(|pool| pool.released_at.is_some() && pool.terms.releases_at == asked.releases_at)
        {
            return Ok(Reply::Item { item, created: false });
        }
        let created = there.is_none_or(is_former);
        let many = item.pools.all().iter().filter(|pool| !is_former(pool)).count();
        if created && many >= limits::POOLS {
            return Err(Rejection::TooManyPools(asked.item.clone()));
        }
        self.release_due(&asked.item, now);
        loop {
            let record = self.known(&asked.item);
            let (held, sold) = self.drawn(&asked.item, &asked.pool);
            let mut others = record.clone();
            others.pools.retain(|pool| pool.name != asked.pool);
            let promised = self.held(&asked.item) + self.sold(&asked.item) + self.set_aside(&others);
            let drawn = i128::from(held + sold);
            let Some(wanted) = asked.allocated.map(i128::from) else { break };
            if wanted >= drawn && (wanted == drawn || promised + wanted - drawn <= record.total) {
                break;
            }
            match self.active(&asked.item).first().copied() {
                Some((deadline, id)) if deadline <= now => self.expire(id, now),
                _ => return Err(self.below_committed(&asked.item)),
            }
        }
        let record = self.record(&asked.item);
        record.pools.retain(|pool| pool.name != asked.pool);
        record.pools.push(PoolRecord { name: asked.pool.clone(), terms, used_at: now, released_at: None });
        record.pools.sort_by(|one, other| one.name.cmp(&other.name));
        record.version += 1;
        self.turn(&asked.item, now);
        self.forget_former(&asked.item);
        self.release_due(&asked.item, now);
        Ok(Reply::Item { item: self.item(&asked.item).expect("an item that exists"), created })
    }

    pub(super) fn delete_pool(&mut self, asked: &DeletePool, now: Instant) -> Result<Reply, Rejection> {
        self.expect(&asked.item, asked.expected.as_ref())?;
        if self.item(&asked.item).is_none() {
            return Err(Rejection::UnknownItem(vec![asked.item.clone()]));
        }
        let pools = &self.record(&asked.item).pools;
        let Some(place) = pools.iter().position(|pool| pool.name == asked.pool) else {
            return Err(Rejection::UnknownPool { item: asked.item.clone(), pool: asked.pool.clone() });
        };
        if pools[place].released_at.is_none() {
            self.end_pool(&asked.item, place, now);
        }
        Ok(Reply::Item { item: self.item(&asked.item).expect("an item that exists"), created: false })
    }

    pub(super) fn set_unit_pool(&mut self, asked: &SetUnitPool, now: Instant) -> Result<Reply, Rejection> {
        let (names, field, most) = match &asked.units {
            PoolSelection::Units(ids) => (ids, "units", limits::UNITS_AT_ONCE),
            PoolSelection::Sections(names) => (names, "sections", limits::SECTIONS),
        };
        if names.is_empty() || names.len() > most {
            return Err(invalid(&format!("/{field}")));
        }
        for (n, name) in names.iter().enumerate() {
            if names[..n].contains(name) {
                return Err(invalid(&format!("/{field}/{n}")));
            }
        }
        self.expect(&asked.item, asked.expected.as_ref())?;
        let Some(item) = self.item(&asked.item) else {
            return Err(Rejection::UnknownItem(vec![asked.item.clone()]));
        };
        if item.mode == Mode::Counted {
            return Err(Rejection::ModeMismatch { item: asked.item.clone(), mode: item.mode });
        }
        let pool =
            |item: &stockhold_domain::Item| item.pools.all().iter().find(|p| p.name == asked.pool).cloned();
        if !asked.puts_in && pool(&item).is_none() {
            return Err(Rejection::UnknownPool { item: asked.item.clone(), pool: asked.pool.clone() });
        }
        let is_full = |item: &stockhold_domain::Item| {
            item.pools.all().iter().filter(|pool| !is_former(pool)).count() >= limits::POOLS
        };
        if asked.puts_in && pool(&item).is_none_or(|pool| is_former(&pool)) && is_full(&item) {
            return Err(Rejection::TooManyPools(asked.item.clone()));
        }
        self.release_due(&asked.item, now);
        let ids = self.units_for_pool(asked)?;
        let target = asked.puts_in.then_some(&asked.pool);
        let moves = |model: &mut Self, id: &Label| {
            let seats = &model.record(&asked.item).seats;
            let pool = seats.iter().find(|seat| seat.id == *id).expect("a unit that exists").pool.clone();
            if asked.puts_in { pool.as_ref() != target } else { pool.as_ref() == Some(&asked.pool) }
        };
        let ids: Vec<Label> = ids.into_iter().filter(|id| moves(self, id)).collect();
        let holders = ids.iter().filter_map(|id| match self.unit_status(&asked.item, id) {
            UnitStatus::Held(holder) => self.hold(holder),
            _ => None,
        });
        let mut due: Vec<_> =
            holders.filter(|hold| hold.expires_at <= now).map(|hold| (hold.expires_at, hold.id)).collect();
        due.sort_unstable();
        due.dedup();
        for (_, id) in due {
            self.expire(id, now);
        }
        let ids: Vec<Label> = ids.into_iter().filter(|id| moves(self, id)).collect();
        for id in &ids {
            let status = self.unit_status(&asked.item, id);
            if status != UnitStatus::Available {
                return Err(Rejection::UnitInUse { item: asked.item.clone(), unit: id.clone(), status });
            }
        }
        let item = self.item(&asked.item).expect("an item that exists");
        let created = asked.puts_in && pool(&item).is_none_or(|pool| is_former(&pool));
        if created && is_full(&item) {
            return Err(Rejection::TooManyPools(asked.item.clone()));
        }
        if asked.puts_in && pool(&item).is_none_or(|pool| pool.released_at.is_some()) {
            let record = self.record(&asked.item);
            record.pools.retain(|pool| pool.name != asked.pool);
            record.pools.push(PoolRecord {
                name: asked.pool.clone(),
                terms: PoolTerms { allocated: 0, fallback: true, releases_at: None, idle_release: None },
                used_at: now,
                released_at: None,
            });
            record.pools.sort_by(|one, other| one.name.cmp(&other.name));
            record.version += 1;
            self.turn(&asked.item, now);
            self.forget_former(&asked.item);
        }
        self.put_units(&asked.item, &ids, target, now);
        Ok(Reply::Item { item: self.item(&asked.item).expect("an item that exists"), created })
    }

    /// The units that a command moves into or out of a pool, whether or not they are there already.
    fn units_for_pool(&mut self, asked: &SetUnitPool) -> Result<Vec<Label>, Rejection> {
        let seats = self.record(&asked.item).seats.clone();
        match &asked.units {
            PoolSelection::Units(ids) => {
                if let Some(unit) = ids.iter().find(|id| !seats.iter().any(|seat| seat.id == **id)) {
                    return Err(Rejection::UnknownUnit { item: asked.item.clone(), unit: unit.clone() });
                }
                Ok(ids.clone())
            }
            PoolSelection::Sections(names) => {
                let is_in =
                    |seat: &super::units::UnitRecord, name: &Label| seat.place.section.as_ref() == Some(name);
                for (n, name) in names.iter().enumerate() {
                    if !seats.iter().any(|seat| is_in(seat, name)) {
                        return Err(invalid(&format!("/sections/{n}")));
                    }
                }
                let of = |unit: &super::units::ShownUnit| {
                    seats.iter().any(|seat| seat.id == unit.0 && names.iter().any(|name| is_in(seat, name)))
                };
                let all: Vec<Label> =
                    self.units(&asked.item).into_iter().filter(of).map(|unit| unit.0).collect();
                if all.len() > limits::UNITS_AT_ONCE {
                    return Err(invalid("/sections"));
                }
                Ok(all)
            }
        }
    }

    /// What a line draws now that had some units and has others.
    pub(super) fn draw_line(&self, line: &mut Line, own: Option<&Line>, pool: Option<&Label>) {
        if line.units.is_some() {
            let draws = draws_of(line.units().iter().filter(|unit| !unit.returned));
            return set_draws(line, draws);
        }
        let had = own.map_or(0, |own| own.quantity);
        let mut draws = own.map(|own| kept(&own.details().draws, line.quantity)).unwrap_or_default();
        let record = self.known(&line.item);
        if let Some(pool) = record.pools.iter().find(|known| Some(&known.name) == pool) {
            let more = line.quantity.saturating_sub(had);
            let more = u64::from(more).min(self.free_in(&line.item, pool));
            let more = PoolDraw { pool: pool.name.clone(), units: u32::try_from(more).expect("few units") };
            draws = added(&draws, &[more]);
        }
        set_draws(line, draws);
    }

    /// Notes that units were drawn for a reservation.
    pub(super) fn note_draws(&mut self, before: &[Line], after: &[Line], now: Instant) {
        for line in after {
            let old = before.iter().find(|old| old.item == line.item);
            for draw in &line.details().draws {
                let had = old.and_then(|old| old.details().draws.iter().find(|one| one.pool == draw.pool));
                if draw.units > had.map_or(0, |one| one.units) {
                    let pools = &mut self.record(&line.item).pools;
                    pools.iter_mut().find(|pool| pool.name == draw.pool).expect("a pool").used_at = now;
                }
            }
        }
    }

    /// Sold units that were drawn are lost: their pools have fewer.
    pub(super) fn lose_drawn(&mut self, key: &ItemKey, lost: &[PoolDraw]) {
        for draw in lost {
            let pool = self.record(key).pools.iter_mut().find(|pool| pool.name == draw.pool);
            let pool = pool.expect("a pool from which units were drawn");
            pool.terms.allocated = pool.terms.allocated.saturating_sub(u64::from(draw.units));
        }
    }

    pub(super) fn below_committed(&self, key: &ItemKey) -> Rejection {
        let figures = self.item(key).expect("an item that exists").figures;
        Rejection::BelowCommitted {
            confirmed_sold: figures.confirmed_sold,
            held: figures.held,
            total_units: figures.total_units,
            set_aside: u64::try_from(self.set_aside(&self.known(key))).expect("a figure"),
        }
    }
}

/// The pool that a reservation draws from.
pub(super) fn pool_of(hold: &Hold) -> Option<Label> {
    hold.terms.reserve.optional.as_ref()?.pool.clone()
}

/// The draws of a line of which some units stay. The last pool loses first, after general stock.
pub(super) fn kept(draws: &[PoolDraw], units: u32) -> Vec<PoolDraw> {
    let mut kept = draws.to_vec();
    let all: u32 = draws.iter().map(|draw| draw.units).sum();
    let mut gone = all.saturating_sub(units);
    while gone > 0 {
        let last = kept.last_mut().expect("a draw");
        let less = last.units.min(gone);
        last.units -= less;
        gone -= less;
        if last.units == 0 {
            kept.pop();
        }
    }
    kept
}

/// The draws of a line of which some units stay. Where units have ids, `stays` says which.
pub(super) fn staying(line: &Line, units: u32, stays: &dyn Fn(&LineUnit) -> bool) -> Vec<PoolDraw> {
    if line.units.is_none() {
        return kept(&line.details().draws, units);
    }
    draws_of(line.units().iter().filter(|unit| !unit.returned && stays(unit)))
}

/// How many of these units were drawn from each pool.
fn draws_of<'a>(units: impl Iterator<Item = &'a LineUnit>) -> Vec<PoolDraw> {
    let mut draws = Vec::new();
    for pool in units.filter_map(|unit| unit.pool.clone()) {
        draws = added(&draws, &[PoolDraw { pool, units: 1 }]);
    }
    draws
}

/// General stock and the pools of a line's units, in the order in which they leave it.
pub(super) fn in_leaving_order(line: &Line) -> Vec<Option<Label>> {
    let mut pools: Vec<Label> = line.units().iter().filter_map(|unit| unit.pool.clone()).collect();
    pools.sort_unstable();
    pools.dedup();
    pools.reverse();
    std::iter::once(None).chain(pools.into_iter().map(Some)).collect()
}

/// Whether a pool was released and has no unit any more.
fn is_former(pool: &Pool) -> bool {
    pool.released_at.is_some() && pool.terms.allocated == 0
}

/// What of some draws is not among those that stay.
pub(super) fn missing(draws: &[PoolDraw], kept: &[PoolDraw]) -> Vec<PoolDraw> {
    let mut missing = Vec::new();
    for draw in draws {
        let stays: u32 = kept.iter().filter(|one| one.pool == draw.pool).map(|one| one.units).sum();
        if draw.units > stays {
            missing.push(PoolDraw { pool: draw.pool.clone(), units: draw.units - stays });
        }
    }
    missing
}

/// Two lists of draws as one, in order of the names.
pub(super) fn added(one: &[PoolDraw], other: &[PoolDraw]) -> Vec<PoolDraw> {
    let mut all = one.to_vec();
    for more in other.iter().filter(|more| more.units > 0) {
        match all.iter_mut().find(|draw| draw.pool == more.pool) {
            Some(draw) => draw.units += more.units,
            None => all.push(more.clone()),
        }
    }
    all.sort_by(|one, other| one.pool.cmp(&other.pool));
    all
}

pub(super) fn set_draws(line: &mut Line, draws: Vec<PoolDraw>) {
    let details = LineDetails { draws, ..line.details().clone() };
    line.details = (details != LineDetails::default()).then(|| Box::new(details));
}

/// Whether an item has or had a pool of this name.
pub(super) fn has_pool(record: &Record, name: &Label) -> bool {
    record.pools.iter().any(|pool| pool.name == *name)
}

/// Whether a reserve with this pool gets general stock of an item.
pub(super) fn gets_general(record: &Record, pool: Option<&Label>) -> bool {
    let pool = record.pools.iter().find(|known| Some(&known.name) == pool);
    pool.is_none_or(|pool| pool.released_at.is_some() || pool.terms.fallback)
}
