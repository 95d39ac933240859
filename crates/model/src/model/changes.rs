//! The commands that change a reservation while it is active, in the model: amend, transfer, split and merge.

use super::limits::{self, LimitsLeft, Wanted};
use super::units::Offer;
use super::{Model, Record, invalid, prices};
use stockhold_domain::{
    Amend, Basket, Closing, Fulfilment, Hold, HoldTerms, Instant, ItemKey, Label, Line, LineCount, LineUnit,
    LineUnits, Merge, Mode, Patch, Precondition, Rejection, RequestedLine, ReservationId, ReserveTerms,
    Shortage, Split, Status, UnitSelection, limits as bounds,
};

impl Model {
    /// A reservation that may be changed, or the refusal: another version than expected, ended, or a payment under way.
    pub(super) fn changeable(
        &mut self,
        id: ReservationId,
        expected: Option<&Precondition>,
        now: Instant,
    ) -> Result<Hold, Rejection> {
        let hold = self.found(id, now)?;
        let as_expected = match expected {
            None | Some(Precondition::Exists) => true,
            Some(Precondition::Absent) => false,
            Some(Precondition::VersionIn(versions)) => versions.contains(&hold.version),
        };
        if !as_expected {
            return Err(Rejection::PreconditionFailed { version: Some(hold.version) });
        }
        if hold.status != Status::Active {
            return Err(super::holds::over(&hold));
        }
        super::payments::without_payment(hold)
    }

    pub(super) fn amend(&mut self, asked: &Amend, now: Instant) -> Result<Hold, Rejection> {
        let hold = self.changeable(asked.id, asked.expected.as_ref(), now)?;
        let cap = hold.terms.max_expires_at;
        if asked.ttl.is_some() && hold.expires_at >= cap {
            return Err(Rejection::ExtensionLimit { max_expires_at: cap });
        }
        let mut after = hold.clone();
        let mut brought: Option<Instant> = None;
        let mut same_lines = None;
        if let Some(basket) = &asked.basket {
            self.check_added(&hold, basket, now)?;
            let (wanted, mut limits_left) = self.check_amended(&hold, basket, asked, now)?;
            let lines =
                self.amended_lines(&hold, basket, asked.fulfilment, now, &wanted, &mut limits_left)?;
            for line in lines.iter().filter(|line| !has_item(&hold, &line.item)) {
                let of_item = now.deadline(self.max_hold(&self.known(&line.item)));
                brought = Some(brought.map_or(of_item, |earliest| earliest.min(of_item)));
            }
            let is_same = lines.len() == hold.lines.len()
                && lines.iter().all(|line| {
                    let same = |old: &&Line| {
                        old.item == line.item
                            && (old.requested, old.quantity) == (line.requested, line.quantity)
                            && ids_of(old).len() == ids_of(line).len()
                            && ids_of(old).iter().all(|id| ids_of(line).contains(id))
                    };
                    hold.lines.iter().any(|old| same(&old))
                });
            if is_same {
                same_lines = Some(lines);
            } else {
                after.lines = lines.into();
            }
        }
        if let Some(ttl) = asked.ttl {
            after.expires_at = after.expires_at.max(now.deadline(ttl).min(cap));
        }
        // Only a line that comes in brings an earlier deadline. Time after a closed payment window may pass the cap.
        let cap = brought.map_or(cap, |earliest| earliest.min(cap));
        after.expires_at = brought.map_or(after.expires_at, |earliest| earliest.min(after.expires_at));
        let mut optional = hold.terms.reserve.optional.as_deref().cloned().unwrap_or_default();
        match &asked.metadata {
            Patch::Keep => {}
            Patch::Clear => optional.metadata = None,
            Patch::Set(metadata) => optional.metadata = Some(metadata.clone()),
        }
        let reserve = ReserveTerms::new(hold.terms.reserve.owner_id.clone(), optional);
        after.terms = HoldTerms { reserve, created_at: hold.terms.created_at, max_expires_at: cap }.into();
        if after == hold {
            return Ok(hold);
        }
        if let Some(lines) = same_lines {
            // The order of the lines and of their units follows the request when anything else changes.
            after.lines = lines.into();
        }
        let lines = self.move_lines(&hold, &after.lines, now);
        self.note_draws(&hold.lines, &lines, now);
        after.lines = lines.into();
        after.version += 1;
        self.keep(&after);
        Ok(after)
    }

    /// What limits say to an amend: the counters of what it adds, and what limits leave for its lines.
    fn check_amended(
        &mut self,
        hold: &Hold,
        basket: &Basket,
        asked: &Amend,
        now: Instant,
    ) -> Result<(Vec<Wanted>, Option<LimitsLeft>), Rejection> {
        let own = |item: &ItemKey| hold.lines.iter().find(|own| own.item == *item);
        let had = |item: &ItemKey| own(item).map_or(0, |own| u64::from(own.quantity));
        let lines = basket.lines().iter();
        let added = lines.map(|line| (line.item.clone(), line.quantity.saturating_sub(had(&line.item))));
        let wanted = self.wanted(added.collect(), &hold.terms.reserve, asked.override_limits, &|_| true)?;
        let mut returned = Vec::new();
        for line in &*hold.lines {
            let stays = basket.lines().iter().find(|one| one.item == line.item).map_or(0, |one| one.quantity);
            let lost = u64::from(line.quantity).saturating_sub(stays);
            returned.extend(limits::given_back(line, u32::try_from(lost).expect("few units")));
        }
        let limits_left =
            self.check_limits(&wanted, &returned, asked.fulfilment, asked.override_limits, now)?;
        Ok((wanted, limits_left))
    }

    /// What refuses lines that add to a reservation, apart from stock.
    fn check_added(&self, hold: &Hold, basket: &Basket, now: Instant) -> Result<(), Rejection> {
        let lines: Vec<(usize, &RequestedLine)> = basket.lines().iter().enumerate().collect();
        let record = |key: &ItemKey| self.records.iter().find(|record| record.key == *key);
        for (n, line) in &lines {
            let counted = record(&line.item).is_some_and(|record| record.mode == Mode::Counted);
            if counted && basket.selection(*n).is_some() {
                return Err(Rejection::ModeMismatch { item: line.item.clone(), mode: Mode::Counted });
            }
        }
        let is_unknown = |line: &&RequestedLine| record(&line.item).is_none();
        let unknown: Vec<ItemKey> =
            basket.lines().iter().filter(is_unknown).map(|line| line.item.clone()).collect();
        if !unknown.is_empty() {
            return Err(Rejection::UnknownItem(unknown));
        }
        let adds = |n: usize, line: &RequestedLine| {
            let Some(own) = hold.lines.iter().find(|own| own.item == line.item) else { return true };
            match basket.selection(n) {
                None => line.quantity > u64::from(own.quantity),
                Some(UnitSelection::Named(ids)) => ids.iter().any(|id| !ids_of(own).contains(&id)),
                Some(UnitSelection::BestAvailable(_)) => true,
            }
        };
        let added: Vec<&RequestedLine> =
            lines.iter().filter(|(n, line)| adds(*n, line)).map(|(_, line)| *line).collect();
        for line in &added {
            if let Some(refusal) = self.no_sale_of(&line.item, now) {
                return Err(refusal);
            }
        }
        let has_units = |key: &ItemKey| record(key).is_some_and(|record| record.mode == Mode::Units);
        for line in &added {
            let limit = if has_units(&line.item) { bounds::LINE_UNITS } else { bounds::LINE_QUANTITY };
            if line.quantity > limit {
                let item = Some(line.item.clone());
                return Err(Rejection::QuantityLimit { item, requested: line.quantity, limit });
            }
        }
        let requested: u64 =
            basket.lines().iter().filter(|line| has_units(&line.item)).map(|line| line.quantity).sum();
        if added.iter().any(|line| has_units(&line.item)) && requested > bounds::BASKET_UNITS {
            return Err(Rejection::QuantityLimit { item: None, requested, limit: bounds::BASKET_UNITS });
        }
        Ok(())
    }

    /// The lines after an amend. The reservation's own units count as free, so they are looked for in a shop without it.
    fn amended_lines(
        &mut self,
        hold: &Hold,
        basket: &Basket,
        fulfilment: Fulfilment,
        now: Instant,
        wanted: &[Wanted],
        limits_left: &mut Option<LimitsLeft>,
    ) -> Result<Vec<Line>, Rejection> {
        let pool = super::pools::pool_of(hold);
        let pool = pool.as_ref();
        for (n, line) in basket.lines().iter().enumerate() {
            let choice = basket.selection(n);
            let own = hold.lines.iter().find(|own| own.item == line.item).map_or(0, |own| own.quantity);
            self.release_due(&line.item, now);
            loop {
                let without = self.without(hold);
                let record = without.known(&line.item);
                let is_served = without.offer(&record, line, choice, pool).quantity >= line.quantity;
                if is_served && !self.would_be_late(line, own, pool) {
                    break;
                }
                match without.blocking_hold(&record, line, choice, pool, now) {
                    Some((deadline, id)) if deadline <= now => self.expire(id, now),
                    _ => break,
                }
            }
        }
        let channel = hold.terms.reserve.channel();
        let without = self.without(hold);
        let (mut lines, mut short, mut taken) = (Vec::new(), Vec::new(), Vec::new());
        for (n, line) in basket.lines().iter().enumerate() {
            let (record, choice) = (without.known(&line.item), basket.selection(n));
            let mut offered = without.offer(&record, line, choice, pool);
            let own = hold.lines.iter().find(|own| own.item == line.item);
            let had = own.map_or(0, |own| own.quantity);
            let in_stock = offered.quantity;
            clip_amended(&mut offered, own, &wanted[n], had, limits_left);
            if let Some(units) = offered.taken {
                taken.push(units);
            } else if in_stock < line.quantity {
                short.push(Shortage {
                    item: line.item.clone(),
                    requested: line.quantity,
                    available: in_stock,
                    next_expiry_at: self.active(&line.item).first().map(|(deadline, _)| *deadline),
                    unknown_sections: super::unknown_sections(&record, choice),
                    approximate: false,
                });
            }
            if offered.quantity > 0 {
                let units = offered.units.map(|ids| match (choice, own) {
                    (None, Some(own)) => self.any_of(&self.known(&line.item), own, ids.len(), pool),
                    _ => ids,
                });
                let mut granted = granted(&record, line, own, offered.quantity, units);
                granted.details = self.late_units(&line.item, own, granted.quantity, pool);
                let before = own.map(|own| own.details().counted.clone()).unwrap_or_default();
                limits::count_line(&mut granted, &before, had, &wanted[n].keys);
                self.draw_line(&mut granted, own, pool);
                let staying = own.map(|own| (own, prices::staying_units(own, &granted)));
                self.price_line(&mut granted, staying, channel, now)?;
                lines.push(granted);
            }
        }
        let enough = match fulfilment {
            Fulfilment::All => short.is_empty() && taken.is_empty(),
            Fulfilment::Partial => !lines.is_empty(),
        };
        match (enough, taken.is_empty()) {
            (true, _) => {
                prices::expect_one_currency(lines.iter(), "/lines")?;
                Ok(lines)
            }
            (false, false) => Err(Rejection::UnitsUnavailable(taken)),
            (false, true) => Err(Rejection::InsufficientInventory(short)),
        }
    }

    /// A line that asks for a number of units. It keeps its own: those of pools before general stock, and the first in claim order. It
    /// takes the first free ones, of the pool before general stock.
    fn any_of(&self, record: &Record, own: &Line, count: usize, pool: Option<&Label>) -> Vec<Label> {
        let units = self.units(&record.key);
        let mut kept: Vec<Label> = Vec::new();
        for from in super::pools::in_leaving_order(own).iter().rev() {
            let is_own = |id: &Label| own.units().iter().any(|unit| unit.id == *id && unit.pool == *from);
            kept.extend(units.iter().map(|unit| unit.0.clone()).filter(is_own));
        }
        kept.truncate(count);
        let mut all: Vec<Label> =
            own.units().iter().map(|unit| unit.id.clone()).filter(|id| kept.contains(id)).collect();
        let free = units.iter().filter(|unit| unit.2 == stockhold_domain::UnitStatus::Available);
        let of = |from: Option<&Label>| -> Vec<Label> {
            free.clone().filter(|unit| unit.4.as_ref() == from).map(|unit| unit.0.clone()).collect()
        };
        let of_pool = pool.map(|pool| of(Some(pool))).unwrap_or_default();
        all.extend(of_pool.into_iter().chain(of(None)).take(count - kept.len()));
        all
    }

    /// The same shop as if a reservation had never been made. All of its units are free there, even when the safety stock was raised
    /// since: an amend that shrinks always works.
    fn without(&self, hold: &Hold) -> Self {
        let mut without = self.clone();
        without.holds.retain(|other| other.id != hold.id);
        let pool = super::pools::pool_of(hold);
        for line in &*hold.lines {
            let record = self.known(&line.item);
            without.amending.push(super::units::OwnUnits {
                item: line.item.clone(),
                all: self.available(&record, pool.as_ref()) + i128::from(line.quantity),
                general: self.available(&record, None)
                    + line.units().iter().filter(|unit| unit.pool.is_none()).count() as i128,
                ids: ids_of(line).into_iter().cloned().collect(),
            });
        }
        without
    }

    pub(super) fn known(&self, key: &ItemKey) -> Record {
        self.records.iter().find(|record| record.key == *key).expect("an item that exists").clone()
    }

    /// Counts the transitions by which a reservation's lines become others, and returns these with their counts. Lines that are gone
    /// give their units back.
    fn move_lines(&mut self, before: &Hold, after: &[Line], now: Instant) -> Vec<Line> {
        for old in before.lines.iter().filter(|old| !after.iter().any(|line| line.item == old.item)) {
            self.turn(&old.item, now);
            let all: Vec<Label> = old.units().iter().map(|unit| unit.id.clone()).collect();
            self.raise_versions(&old.item, &all);
            self.leave_ended_pools(&old.item, &mut old.units().to_vec());
        }
        let mut moved = Vec::new();
        for line in after {
            let old = before.lines.iter().find(|old| old.item == line.item);
            let mut line = line.clone();
            line.sequence = match old {
                Some(old) if old.quantity == line.quantity => old.sequence,
                _ => self.turn(&line.item, now),
            };
            self.record(&line.item).at = now;
            if line.units.is_some() {
                let (was, is) = (old.map(ids_of).unwrap_or_default(), ids_of(&line));
                let left: Vec<Label> =
                    was.iter().filter(|id| !is.contains(*id)).map(|id| (*id).clone()).collect();
                let came: Vec<Label> =
                    is.iter().filter(|id| !was.contains(*id)).map(|id| (*id).clone()).collect();
                self.raise_versions(&line.item, &left);
                let mut free: Vec<LineUnit> = old.map(|old| old.units().to_vec()).unwrap_or_default();
                free.retain(|unit| left.contains(&unit.id));
                self.leave_ended_pools(&line.item, &mut free);
                self.raise_versions(&line.item, &came);
                self.enter_pools(&line);
                let record = self.known(&line.item);
                let version = |id: &Label| {
                    record.seats.iter().find(|seat| seat.id == *id).expect("a unit that exists").version
                };
                let units =
                    line.units().iter().map(|unit| LineUnit { version: version(&unit.id), ..unit.clone() });
                line.units = Some(LineUnits::new(units.collect()).into());
            }
            moved.push(line);
        }
        moved
    }

    fn raise_versions(&mut self, key: &ItemKey, ids: &[Label]) {
        for seat in &mut self.record(key).seats {
            seat.version += u64::from(ids.contains(&seat.id));
        }
    }

    pub(super) fn split(
        &mut self,
        new: ReservationId,
        asked: &Split,
        now: Instant,
    ) -> Result<Hold, Rejection> {
        let hold = self.changeable(asked.id, asked.expected.as_ref(), now)?;
        let exceeds = |line: &RequestedLine, held: u32| {
            let (item, requested) = (line.item.clone(), line.quantity);
            Err(Rejection::SplitExceedsHeld { item, requested, held: u64::from(held) })
        };
        for line in asked.lines.lines() {
            if !has_item(&hold, &line.item) {
                return exceeds(line, 0);
            }
        }
        let (mut left, mut parts): (Vec<Line>, Vec<Line>) = (Vec::new(), Vec::new());
        for line in &*hold.lines {
            let requested = asked.lines.lines().iter().enumerate().find(|(_, one)| one.item == line.item);
            let Some((n, one)) = requested else {
                left.push(line.clone());
                continue;
            };
            let all = line.units().to_vec();
            let go: Vec<LineUnit> = match asked.lines.selection(n) {
                Some(UnitSelection::Named(ids)) => {
                    if ids.iter().any(|id| !ids_of(line).contains(&id)) {
                        return exceeds(one, line.quantity);
                    }
                    all.iter().filter(|unit| ids.contains(&unit.id)).cloned().collect()
                }
                _ => {
                    let mut leaving: Vec<LineUnit> = Vec::new();
                    for from in super::pools::in_leaving_order(line) {
                        leaving.extend(all.iter().filter(|unit| unit.pool == from).cloned());
                    }
                    leaving.truncate(usize::try_from(one.quantity).expect("small"));
                    all.iter().filter(|unit| leaving.contains(unit)).cloned().collect()
                }
            };
            if one.quantity > u64::from(line.quantity) {
                return exceeds(one, line.quantity);
            }
            let count = u32::try_from(one.quantity).expect("no more than a line has");
            let stay = all.iter().filter(|unit| !go.contains(unit)).cloned().collect();
            let with = |units: Vec<LineUnit>| line.units.as_ref().map(|_| LineUnits::new(units).into());
            let (late, late_that_stay) = super::backorders::split_late(line, count);
            let counted = &line.details().counted;
            parts.push(Line {
                requested: count,
                quantity: count,
                units: with(go.clone()),
                details: late,
                ..line.clone()
            });
            let of_part = counted.iter().map(|one| LineCount { units: one.units.min(count), ..one.clone() });
            limits::set_counted(parts.last_mut().expect("a part"), of_part.collect());
            let draws = &line.details().draws;
            let stays = super::pools::staying(line, line.quantity - count, &|unit| !go.contains(unit));
            let gone = super::pools::missing(draws, &stays);
            super::pools::set_draws(parts.last_mut().expect("a part"), gone);
            let price = line.details().price.as_ref();
            let of_part = price.map(|price| prices::part(price, count, line.quantity));
            let of_rest = price.zip(of_part.as_ref()).map(|(all, part)| prices::remainder(all, part));
            prices::set_price(parts.last_mut().expect("a part"), of_part);
            if count < line.quantity {
                left.push(Line {
                    requested: line.requested - count,
                    quantity: line.quantity - count,
                    units: with(stay),
                    details: late_that_stay,
                    ..line.clone()
                });
                let left = left.last_mut().expect("a line");
                limits::count_line(left, counted, line.quantity, &[]);
                super::pools::set_draws(left, stays);
                prices::set_price(left, of_rest);
            }
        }
        if left.is_empty() {
            return Err(invalid("/lines"));
        }
        let mut rest = hold.clone();
        rest.lines = self.move_lines(&hold, &left, now).into();
        rest.version += 1;
        rest.details.get_or_insert_default().split_into.push(new);
        self.keep(&rest);
        let mut part = hold.clone();
        part.id = new;
        part.version = 1;
        part.details = None;
        let details = part.details.get_or_insert_default();
        details.split_from = Some(hold.id);
        details.first_payment_at = hold.details().first_payment_at;
        let (reserve, max_expires_at) = (hold.terms.reserve.clone(), hold.terms.max_expires_at);
        part.terms = HoldTerms { reserve, created_at: now, max_expires_at }.into();
        let nothing = Hold { lines: Vec::new().into(), ..hold };
        part.lines = self.move_lines(&nothing, &parts, now).into();
        self.holds.push(part.clone());
        Ok(part)
    }

    pub(super) fn merge(&mut self, asked: &Merge, now: Instant) -> Result<Hold, Rejection> {
        if asked.from.is_empty() || asked.from.len() > bounds::MERGE_SOURCES {
            return Err(invalid("/from"));
        }
        for (n, id) in asked.from.iter().enumerate() {
            if *id == asked.id || asked.from[..n].contains(id) {
                return Err(invalid(&format!("/from/{n}")));
            }
        }
        for id in std::iter::once(&asked.id).chain(&asked.from) {
            if self.hold(*id).is_none() {
                return Err(Rejection::UnknownReservation(*id));
            }
        }
        let hold = self.changeable(asked.id, asked.expected.as_ref(), now)?;
        let mut sources = Vec::new();
        for id in &asked.from {
            sources.push(self.changeable(*id, None, now)?);
        }
        let mut lines = hold.lines.to_vec();
        let mut cap = hold.terms.max_expires_at;
        let mut deadline = hold.expires_at;
        let mut first_payment = hold.details().first_payment_at;
        for source in &sources {
            cap = cap.min(source.terms.max_expires_at);
            // The deadline of a source stands when it is past the source's cap, as after a closed payment window.
            deadline = deadline.min(source.terms.max_expires_at.max(source.expires_at));
            first_payment = match (first_payment, source.details().first_payment_at) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            for more in &*source.lines {
                match lines.iter_mut().find(|line| line.item == more.item) {
                    None => lines.push(more.clone()),
                    Some(line) => {
                        let draws = super::pools::added(&line.details().draws, &more.details().draws);
                        let both = prices::of_both(line, more);
                        line.details = super::backorders::add_late(line, more);
                        super::pools::set_draws(line, draws);
                        prices::set_price(line, both);
                        line.requested += more.requested;
                        line.quantity += more.quantity;
                        let units = line.units().iter().chain(more.units()).cloned().collect();
                        line.units = line.units.as_ref().map(|_| LineUnits::new(units).into());
                    }
                }
            }
        }
        if lines.len() > bounds::BASKET_LINES {
            return Err(invalid("/from"));
        }
        for line in &lines {
            let limit = if line.units.is_some() { bounds::LINE_UNITS } else { bounds::LINE_QUANTITY };
            if u64::from(line.quantity) > limit {
                let item = Some(line.item.clone());
                return Err(Rejection::QuantityLimit { item, requested: line.quantity.into(), limit });
            }
        }
        let requested: u64 = lines.iter().map(|line| line.units().len() as u64).sum();
        if requested > bounds::BASKET_UNITS {
            return Err(Rejection::QuantityLimit { item: None, requested, limit: bounds::BASKET_UNITS });
        }
        let all = hold.lines.iter().chain(sources.iter().flat_map(|source| &*source.lines));
        prices::expect_one_currency(all, "/from")?;
        let own = |item: &ItemKey| hold.lines.iter().find(|own| own.item == *item);
        let had = |item: &ItemKey| own(item).map_or(0, |own| own.quantity);
        let added = lines.iter().map(|line| (line.item.clone(), u64::from(line.quantity - had(&line.item))));
        let wanted = self.wanted(added.collect(), &hold.terms.reserve, asked.override_limits, &|_| true)?;
        let mut returned = Vec::new();
        for line in sources.iter().flat_map(|source| &*source.lines) {
            returned.extend(limits::given_back(line, line.quantity));
        }
        self.expect_limits(&wanted, &returned, asked.override_limits)?;
        for (line, wanted) in lines.iter_mut().zip(&wanted) {
            let before = own(&line.item).map(|own| own.details().counted.clone()).unwrap_or_default();
            limits::count_line(line, &before, had(&line.item), &wanted.keys);
        }
        for mut source in sources {
            let mut closed = source.lines.to_vec();
            for line in &mut closed {
                self.count_line_transition(line, now, None);
                self.end_line(line, None);
            }
            source.lines = closed.into();
            source.status = Status::Cancelled;
            source.version += 1;
            let reason = Some(Label::new("merged").expect("a label"));
            source.closing = Some(Box::new(Closing { at: now, reason, order_id: None }));
            source.details.get_or_insert_default().merged_into = Some(hold.id);
            self.keep(&source);
        }
        let mut after = hold.clone();
        after.lines = self.move_lines(&hold, &lines, now).into();
        after.version += 1;
        after.expires_at = deadline;
        let (reserve, created_at) = (hold.terms.reserve.clone(), hold.terms.created_at);
        after.terms = HoldTerms { reserve, created_at, max_expires_at: cap }.into();
        let details = after.details.get_or_insert_default();
        details.merged_from.extend(&asked.from);
        details.first_payment_at = first_payment;
        self.keep(&after);
        Ok(after)
    }
}

/// Clips the units of an amended line to what limits leave: first those that it has already, then new ones.
fn clip_amended(
    offered: &mut Offer,
    own: Option<&Line>,
    wanted: &Wanted,
    had: u32,
    limits_left: &mut Option<LimitsLeft>,
) {
    if let (Some(own), Some(units)) = (own, &mut offered.units) {
        let (kept, came): (Vec<Label>, Vec<Label>) =
            units.drain(..).partition(|id| ids_of(own).contains(&id));
        units.extend(kept.into_iter().chain(came));
    }
    limits::clip(offered, wanted, u64::from(had), limits_left);
}

fn has_item(hold: &Hold, key: &ItemKey) -> bool {
    hold.lines.iter().any(|line| line.item == *key)
}

fn ids_of(line: &Line) -> Vec<&Label> {
    line.units().iter().map(|unit| &unit.id).collect()
}

/// A line that gets this many units: first those that it has already, then new ones.
fn granted(
    record: &Record,
    line: &RequestedLine,
    own: Option<&Line>,
    quantity: u64,
    units: Option<Vec<Label>>,
) -> Line {
    let is_own = |id: &Label| own.is_some_and(|own| ids_of(own).contains(&id));
    let units = units.map(|ids| {
        let (kept, came): (Vec<Label>, Vec<Label>) = ids.into_iter().partition(is_own);
        let unit = |id| super::units::granted(record, id);
        LineUnits::new(kept.into_iter().chain(came).map(unit).collect()).into()
    });
    Line {
        item: line.item.clone(),
        requested: u32::try_from(line.quantity).expect("within the limit"),
        quantity: u32::try_from(quantity).expect("within the limit"),
        fulfilled: 0,
        returned: 0,
        sequence: 0,
        units,
        details: None,
    }
}
