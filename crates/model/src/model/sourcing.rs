//! Sourcing in the model: what was taken is a list of parts, and every sum is counted from it again.

use super::{Model, Record, invalid, unknown_sections};
use stockhold_domain::{
    Basket, CounterKey, Fulfilment, Hold, Instant, ItemKey, Label, Mode, Rejection, RequestedLine,
    ReservationId, Reserve, Shortage, Strategy, UnavailableUnits, UnitSelection,
};

/// Units of an item that a line takes.
struct Part {
    line: usize,
    item: ItemKey,
    units: u64,
    counted_by: Vec<CounterKey>,
}

/// What all lines take, and what they lack.
#[derive(Default)]
struct Taking {
    parts: Vec<Part>,
    short: Vec<Shortage>,
    taken: Vec<UnavailableUnits>,
    lacking: Vec<u64>,
}

impl Taking {
    fn of(&self, item: &ItemKey) -> u64 {
        self.parts.iter().filter(|part| part.item == *item).map(|part| part.units).sum()
    }

    fn counted(&self, key: &CounterKey) -> u64 {
        let here = self.parts.iter().filter(|part| part.counted_by.contains(key));
        here.map(|part| part.units).sum()
    }

    fn is_enough(&self, fulfilment: Fulfilment) -> bool {
        match fulfilment {
            Fulfilment::All => self.lacking.iter().all(|units| *units == 0),
            Fulfilment::Partial => !self.parts.is_empty(),
        }
    }
}

impl Model {
    /// A reserve of which some lines have a source.
    pub(super) fn reserve_from_sources(
        &mut self,
        id: ReservationId,
        asked: &Reserve,
        now: Instant,
    ) -> Result<Hold, Rejection> {
        let basket = &asked.basket;
        for n in 0..basket.lines().len() {
            let units = |key: &&ItemKey| self.stocked(key).is_some_and(|record| record.mode == Mode::Units);
            if basket.source(n).is_some() && basket.items_of(n).iter().any(|key| units(&key)) {
                return Err(invalid("/lines"));
            }
        }
        let mut placed = Vec::new();
        for (n, line) in basket.lines().iter().enumerate() {
            let stocked: Vec<_> =
                basket.items_of(n).iter().filter(|key| self.stocked(key).is_some()).collect();
            let sold = stocked.iter().find(|key| self.no_sale_of(key, now).is_none());
            let item = sold.or(stocked.first()).map_or(&line.item, |key| *key).clone();
            placed.push((RequestedLine { item, quantity: line.quantity }, basket.selection(n).cloned()));
        }
        if let Err(mut refusal) = self.expect_reservable(&placed, asked.ttl, now) {
            if let Rejection::UnknownItem(unknown) = &mut refusal {
                let all = std::mem::take(unknown);
                for key in all {
                    if !unknown.contains(&key) {
                        unknown.push(key);
                    }
                }
            }
            return Err(refusal);
        }
        let pairs = (0..basket.lines().len()).flat_map(|n| self.givers(basket, n, now));
        self.wanted(pairs.map(|key| (key, 1)).collect(), &asked.terms, asked.override_limits, &|_| true)?;
        if asked.fulfilment == Fulfilment::All && !asked.override_limits {
            let lines = basket.lines().iter().enumerate().filter(|(n, _)| basket.source(*n).is_none());
            let plain = lines.map(|(_, line)| (line.item.clone(), line.quantity)).collect();
            let wanted = self.wanted(plain, &asked.terms, false, &|_| true)?;
            self.check_limits(&wanted, &[], Fulfilment::All, false, now)?;
        }
        for key in basket.items().cloned().collect::<Vec<_>>() {
            if self.stocked(&key).is_some() {
                self.release_due(&key, now);
            }
        }
        let mut taking = self.take_from_sources(asked, !asked.override_limits, now);
        if !taking.is_enough(asked.fulfilment) && !asked.override_limits {
            taking = self.take_from_sources(asked, false, now);
            if taking.is_enough(asked.fulfilment) {
                let all = summed(&taking.parts);
                let wanted = self.wanted(all, &asked.terms, false, &|_| true)?;
                return Err(Rejection::LimitExceeded(self.exceeded(&wanted, &[])));
            }
        }
        if !taking.is_enough(asked.fulfilment) {
            return Err(if taking.taken.is_empty() {
                Rejection::InsufficientInventory(taking.short)
            } else {
                Rejection::UnitsUnavailable(taking.taken)
            });
        }
        self.reserve_parts(id, asked, &taking, now)
    }

    /// Reserves what was taken as a plain reserve, and shows what was requested of each line.
    fn reserve_parts(
        &mut self,
        id: ReservationId,
        asked: &Reserve,
        taking: &Taking,
        now: Instant,
    ) -> Result<Hold, Rejection> {
        let selected = |item: &ItemKey| {
            let n = asked.basket.lines().iter().position(|line| line.item == *item)?;
            Some((n, asked.basket.selection(n).cloned())).filter(|_| self.known(item).mode == Mode::Units)
        };
        let lines = summed(&taking.parts).into_iter().map(|(item, quantity)| {
            let (quantity, selection) = match selected(&item) {
                Some((n, selection)) => (asked.basket.lines()[n].quantity, selection),
                None => (quantity, None),
            };
            (RequestedLine { item, quantity }, selection)
        });
        let basket = Basket::with_selections(lines.collect()).map_err(|_| invalid("/lines"))?;
        let mut hold = self.reserve(id, &Reserve { basket, ..asked.clone() }, None, now)?;
        let mut lines = hold.lines.to_vec();
        for line in lines.iter_mut().filter(|line| line.units.is_none()) {
            // A line asks its first part for all that it lacks.
            for (n, lacking) in taking.lacking.iter().enumerate() {
                let first = taking.parts.iter().find(|part| part.line == n);
                if first.is_some_and(|part| part.item == line.item) {
                    line.requested += u32::try_from(*lacking).expect("within the limit");
                }
            }
        }
        hold.lines = lines.into();
        self.keep(&hold);
        Ok(hold)
    }

    fn stocked(&self, key: &ItemKey) -> Option<&Record> {
        self.records.iter().find(|record| record.key == *key)
    }

    /// The items that may give to a line: a plain line has its own, whatever holds for it.
    fn givers(&self, basket: &Basket, n: usize, now: Instant) -> Vec<ItemKey> {
        let sells = |key: &&ItemKey| {
            basket.source(n).is_none() || (self.stocked(key).is_some() && self.no_sale_of(key, now).is_none())
        };
        basket.items_of(n).iter().filter(sells).cloned().collect()
    }

    fn take_from_sources(&mut self, asked: &Reserve, limited: bool, now: Instant) -> Taking {
        let mut taking = Taking::default();
        let pool = pool_of(asked);
        for (n, line) in asked.basket.lines().iter().enumerate() {
            let mut places = self.givers(&asked.basket, n, now);
            let earlier: Vec<u64> = places.iter().map(|place| taking.of(place)).collect();
            let asked_places = places.clone();
            if self.known(&places[0]).mode == Mode::Units {
                self.take_units(asked, n, limited, &mut taking, now);
                continue;
            }
            let strategy = asked.basket.source(n).map(stockhold_domain::Source::strategy);
            if strategy == Some(Strategy::MostStock) {
                for place in &places {
                    while let Some((deadline, id)) = self.active(place).first().copied() {
                        if deadline > now {
                            break;
                        }
                        self.expire(id, now);
                    }
                }
                let there = |place: &ItemKey| (self.there(place, pool) - i128::from(taking.of(place))).max(0);
                places.sort_by_key(|place| -there(place));
            }
            let mut lacking = line.quantity;
            if strategy == Some(Strategy::Single) {
                let mut offers = Vec::new();
                for place in &places {
                    let units = self.ask(asked, place, line.quantity, &taking, limited, now);
                    offers.push((units, place.clone()));
                    if units == line.quantity {
                        break;
                    }
                }
                let most = offers.iter().map(|(units, _)| *units).max().expect("a place");
                let (units, place) = offers.into_iter().find(|(units, _)| *units == most).expect("a place");
                if units == line.quantity || asked.fulfilment == Fulfilment::Partial {
                    self.note(asked, n, &place, units, &mut taking);
                    lacking -= units;
                }
            } else {
                for place in &places {
                    if lacking > 0 {
                        let units = self.ask(asked, place, lacking, &taking, limited, now);
                        self.note(asked, n, place, units, &mut taking);
                        lacking -= units;
                    }
                }
            }
            taking.lacking.push(lacking);
            if lacking > 0 {
                for (place, earlier) in asked_places.iter().zip(earlier) {
                    let left = (self.available(&self.known(place), pool) - i128::from(earlier)).max(0);
                    taking.short.push(Shortage {
                        item: place.clone(),
                        requested: line.quantity,
                        available: u64::try_from(left).expect("units").min(line.quantity),
                        next_expiry_at: self.active(place).first().map(|(deadline, _)| *deadline),
                        unknown_sections: Vec::new(),
                        approximate: false,
                    });
                }
            }
        }
        taking
    }

    fn note(&self, asked: &Reserve, line: usize, item: &ItemKey, units: u64, taking: &mut Taking) {
        if units > 0 {
            let counted_by = self.counters_of(asked, item);
            taking.parts.push(Part { line, item: item.clone(), units, counted_by });
        }
    }

    fn counters_of(&self, asked: &Reserve, item: &ItemKey) -> Vec<CounterKey> {
        let wanted = self.wanted(vec![(item.clone(), 1)], &asked.terms, asked.override_limits, &|_| true);
        wanted.map_or(Vec::new(), |mut wanted| wanted.remove(0).keys)
    }

    /// The units that an item has beside those that it owes, without the allowance.
    fn there(&self, key: &ItemKey, pool: Option<&Label>) -> i128 {
        let record = self.known(key);
        let kept = i128::from(record.settings.safety_stock) + self.set_aside(&record);
        let general = (record.total - self.sold(key) - self.held(key) - kept).max(0);
        self.with_pool(&record, pool, general)
    }

    /// How many of these units an item can give, once due reservations that are in the way are expired.
    fn ask(
        &mut self,
        asked: &Reserve,
        item: &ItemKey,
        needed: u64,
        taking: &Taking,
        limited: bool,
        now: Instant,
    ) -> u64 {
        let most = if limited { self.ask_limits(asked, item, needed, taking, now) } else { u64::MAX };
        let wanted = i128::from(needed.min(most));
        let taken = i128::from(taking.of(item));
        while self.there(item, pool_of(asked)) - taken < wanted {
            match self.active(item).first().copied() {
                Some((deadline, id)) if deadline <= now => self.expire(id, now),
                _ => break,
            }
        }
        let left = (self.available(&self.known(item), pool_of(asked)) - taken).max(0);
        u64::try_from(left.min(wanted)).expect("no more than was asked for")
    }

    fn ask_limits(
        &mut self,
        asked: &Reserve,
        item: &ItemKey,
        needed: u64,
        taking: &Taking,
        now: Instant,
    ) -> u64 {
        let keys = self.counters_of(asked, item);
        let mut most = u64::MAX;
        for key in keys {
            let left = self.expire_for_limit(&key, needed, taking.counted(&key), now);
            most = most.min(left);
        }
        most
    }

    fn take_units(&mut self, asked: &Reserve, n: usize, limited: bool, taking: &mut Taking, now: Instant) {
        let line = &asked.basket.lines()[n];
        let choice: Option<&UnitSelection> = asked.basket.selection(n);
        let most =
            if limited { self.ask_limits(asked, &line.item, line.quantity, taking, now) } else { u64::MAX };
        let mut record = self.known(&line.item);
        let pool = pool_of(asked);
        while self.offer(&record, line, choice, pool).quantity < line.quantity {
            match self.blocking_hold(&record, line, choice, pool, now) {
                Some((deadline, id)) if deadline <= now => self.expire(id, now),
                _ => break,
            }
            // A unit that comes back leaves a pool that was released.
            record = self.known(&line.item);
        }
        let offered = self.offer(&record, line, choice, pool);
        let whole = offered.quantity == line.quantity;
        let usable = if whole || asked.fulfilment == Fulfilment::Partial { offered.quantity } else { 0 };
        if let Some(taken) = offered.taken.filter(|_| usable == 0) {
            taking.taken.push(taken);
        } else if usable == 0 {
            taking.short.push(Shortage {
                item: line.item.clone(),
                requested: line.quantity,
                available: offered.quantity,
                next_expiry_at: self.active(&line.item).first().map(|(deadline, _)| *deadline),
                unknown_sections: unknown_sections(&record, choice),
                approximate: false,
            });
        }
        let units = usable.min(most);
        self.note(asked, n, &line.item, units, taking);
        taking.lacking.push(line.quantity - units);
    }
}

/// The pool that a reserve draws from.
fn pool_of(asked: &Reserve) -> Option<&Label> {
    asked.terms.optional.as_ref()?.pool.as_ref()
}

/// The units of each item over parts, in the order in which items were first taken.
fn summed(parts: &[Part]) -> Vec<(ItemKey, u64)> {
    let mut sums: Vec<(ItemKey, u64)> = Vec::new();
    for part in parts {
        match sums.iter_mut().find(|(item, _)| *item == part.item) {
            Some((_, sum)) => *sum += part.units,
            None => sums.push((part.item.clone(), part.units)),
        }
    }
    sums
}
