//! What happens to sold units in the model: they leave the shelf, and they come back.

use super::{Model, invalid};
use stockhold_domain::{
    Basket, Disposition, Fulfil, Hold, Instant, ItemKey, Label, Line, LineUnit, PoolDraw, Rejection, Return,
    ReturnFrom, SaleSelection, Status, UnitSelection,
};

/// Which sold units a command can move.
#[derive(Clone, Copy, PartialEq)]
enum Sold {
    OnShelf,
    WithBuyers,
    Both,
}

/// What a command moves of a line: how many units, and the places of those with ids.
type Moved = (u32, Vec<usize>);

impl Model {
    pub(super) fn fulfil(&mut self, asked: &Fulfil, now: Instant) -> Result<Hold, Rejection> {
        let mut hold = self.sold_hold(asked.id, now)?;
        let exceeds = |item: ItemKey, requested, unfulfilled| Rejection::FulfilExceedsSold {
            item,
            requested,
            unfulfilled,
        };
        let moved = select(&hold, &asked.selection, Sold::OnShelf, exceeds)?;
        for (line, (count, _)) in hold.lines.iter().zip(&moved) {
            self.expect_on_shelf(&line.item, *count)?;
        }
        let mut lines = hold.lines.to_vec();
        for (line, (count, places)) in lines.iter_mut().zip(moved).filter(|(_, (count, _))| *count > 0) {
            line.fulfilled += count;
            self.count_line_transition(line, now, Some(&places));
            change_units(line, &places, |unit| unit.fulfilled = true);
        }
        hold.lines = lines.into();
        hold.version += 1;
        self.keep(&hold);
        Ok(hold)
    }

    pub(super) fn return_units(&mut self, asked: &Return, now: Instant) -> Result<Hold, Rejection> {
        let hold = self.sold_hold(asked.id, now)?;
        self.return_sold(hold, asked, now)
    }

    /// Returns units of a confirmed reservation.
    pub(super) fn return_sold(
        &mut self,
        mut hold: Hold,
        asked: &Return,
        now: Instant,
    ) -> Result<Hold, Rejection> {
        let sold = match asked.from {
            None => Sold::Both,
            Some(ReturnFrom::Unfulfilled) => Sold::OnShelf,
            Some(ReturnFrom::Fulfilled) => Sold::WithBuyers,
        };
        let exceeds = |item: ItemKey, requested, sold| Rejection::ReturnExceedsSold { item, requested, sold };
        let moved = select(&hold, &asked.selection, sold, exceeds)?;
        if asked.disposition == Disposition::WriteOff {
            for (line, (count, places)) in hold.lines.iter().zip(&moved) {
                self.expect_on_shelf(&line.item, count - had_left(line, *count, places, sold))?;
            }
        }
        let mut lines = hold.lines.to_vec();
        let mut lost: Vec<(ItemKey, u32, Vec<Label>, Vec<PoolDraw>)> = Vec::new();
        for (line, (count, places)) in lines.iter_mut().zip(moved).filter(|(_, (count, _))| *count > 0) {
            line.fulfilled -= had_left(line, count, &places, sold);
            line.returned += count;
            let mut counted = line.details().counted.clone();
            for one in &mut counted {
                one.units = one.units.saturating_sub(count);
            }
            counted.retain(|one| one.units > 0);
            super::limits::set_counted(line, counted);
            let draws = line.details().draws.clone();
            let returned = |unit: &LineUnit| places.iter().any(|place| line.units()[*place].id == unit.id);
            let stays = super::pools::staying(line, line.quantity - line.returned, &|unit| !returned(unit));
            let missing = super::pools::missing(&draws, &stays);
            super::pools::set_draws(line, stays);
            self.count_line_transition(line, now, Some(&places));
            change_units(line, &places, |unit| unit.returned = true);
            self.end_line(line, Some(&places));
            let ids = places.iter().map(|place| line.units()[*place].id.clone()).collect();
            lost.push((line.item.clone(), count, ids, missing));
        }
        hold.lines = lines.into();
        hold.version += 1;
        self.keep(&hold);
        if asked.disposition == Disposition::WriteOff {
            for (item, count, ids, drawn) in lost {
                self.lose_drawn(&item, &drawn);
                let record = self.record(&item);
                record.total -= i128::from(count);
                record.seats.retain(|seat| !ids.contains(&seat.id));
                record.version += 1;
                self.turn(&item, now);
            }
        }
        Ok(hold)
    }

    /// Units that leave an item have to be on the shelf.
    fn expect_on_shelf(&self, key: &ItemKey, count: u32) -> Result<(), Rejection> {
        if count == 0 {
            return Ok(());
        }
        let figures = self.item(key).expect("an item with sales").figures;
        let (requested, on_hand) = (u64::from(count), figures.total_units - figures.fulfilled);
        if requested > on_hand {
            return Err(Rejection::ExceedsOnHand { item: key.clone(), requested, on_hand });
        }
        Ok(())
    }

    pub(super) fn sold_hold(
        &mut self,
        id: stockhold_domain::ReservationId,
        now: Instant,
    ) -> Result<Hold, Rejection> {
        let hold = self.found(id, now)?;
        let uncaptured = hold.order_status() == Some(stockhold_domain::OrderStatus::Authorized);
        if let Some(payment) = hold.details().payment.as_ref().filter(|_| uncaptured) {
            return Err(super::payments::in_progress(&hold, payment));
        }
        if hold.status == Status::Confirmed { Ok(hold) } else { Err(Rejection::ReservationNotConfirmed(id)) }
    }

    /// Sold units of an item that have left the shelf.
    pub(super) fn fulfilled(&self, key: &ItemKey) -> u64 {
        let sold = self.holds.iter().filter(|hold| hold.status == Status::Confirmed);
        let lines = sold.flat_map(|hold| hold.lines.iter().filter(|line| line.item == *key));
        lines.map(|line| u64::from(line.fulfilled)).sum()
    }

    /// Held units of an item whose payment is under way.
    pub(super) fn held_under_payment(&self, key: &ItemKey) -> u64 {
        let active = self.holds.iter().filter(|hold| hold.status == Status::Active);
        let paying = active.filter(|hold| super::payments::open_payment(hold).is_some());
        let lines = paying.flat_map(|hold| hold.lines.iter().filter(|line| line.item == *key));
        lines.map(|line| u64::from(line.quantity)).sum()
    }

    /// The total that a count of the shelf leads to.
    pub(super) fn counted_total(&self, asked: &stockhold_domain::SetStock) -> Result<Option<u64>, Rejection> {
        let Some(count) = asked.shelf else { return Ok(asked.total_units) };
        match (self.item(&asked.item), count.fulfilled_seen) {
            (Some(_), None) => Err(invalid("/fulfilled_units_seen")),
            (Some(_), Some(seen)) => Ok(Some(count.on_hand + seen)),
            (None, _) => Ok(Some(count.on_hand)),
        }
    }
}

/// How many of the units that come back had left the shelf.
fn had_left(line: &Line, count: u32, places: &[usize], sold: Sold) -> u32 {
    let on_shelf = line.quantity - line.returned - line.fulfilled;
    match (line.units.is_some(), sold) {
        (true, _) => {
            let had_left = places.iter().filter(|place| line.units()[**place].fulfilled);
            u32::try_from(had_left.count()).expect("few units")
        }
        (false, Sold::OnShelf) => 0,
        (false, Sold::WithBuyers) => count,
        (false, Sold::Both) => count.saturating_sub(on_shelf),
    }
}

fn change_units(line: &mut Line, places: &[usize], change: impl Fn(&mut LineUnit)) {
    if line.units.is_some() {
        let mut units = line.units().to_vec();
        for place in places {
            change(&mut units[*place]);
        }
        line.units = Some(stockhold_domain::LineUnits::new(units).into());
    }
}

fn is_in(sold: Sold, unit: &LineUnit) -> bool {
    let side = if unit.fulfilled { Sold::WithBuyers } else { Sold::OnShelf };
    !unit.returned && (sold == Sold::Both || sold == side)
}

/// Units of a line that a command can move.
fn left(sold: Sold, line: &Line) -> u32 {
    match sold {
        Sold::OnShelf => line.quantity - line.returned - line.fulfilled,
        Sold::WithBuyers => line.fulfilled,
        Sold::Both => line.quantity - line.returned,
    }
}

fn select(
    hold: &Hold,
    selection: &SaleSelection,
    sold: Sold,
    exceeds: impl Fn(ItemKey, u64, u64) -> Rejection,
) -> Result<Vec<Moved>, Rejection> {
    let lines = &hold.lines;
    let first = &lines[0];
    // How many units of each line, and their ids if the command names them.
    let wanted: Vec<(u64, Option<Vec<Label>>)> = match selection {
        SaleSelection::All => {
            let all: Vec<u64> = lines.iter().map(|line| u64::from(left(sold, line))).collect();
            if all.iter().sum::<u64>() == 0 {
                return Err(exceeds(first.item.clone(), first.quantity.into(), 0));
            }
            all.into_iter().map(|count| (count, None)).collect()
        }
        SaleSelection::Lines(basket) => {
            for one in basket.lines() {
                if !lines.iter().any(|line| line.item == one.item) {
                    return Err(exceeds(one.item.clone(), one.quantity, 0));
                }
            }
            lines.iter().map(|line| of_basket(basket, line)).collect()
        }
        SaleSelection::Units(ids) => {
            for (n, id) in ids.iter().enumerate() {
                let had = lines.iter().filter(|line| line.units().iter().any(|unit| unit.id == *id));
                if had.count() > 1 {
                    return Err(invalid(&format!("/units/{n}")));
                }
            }
            let has = |line: &Line, id: &Label| line.units().iter().any(|u| u.id == *id && is_in(sold, u));
            if ids.is_empty() || ids.iter().any(|id| !lines.iter().any(|line| has(line, id))) {
                return Err(exceeds(first.item.clone(), ids.len() as u64, left(sold, first).into()));
            }
            let of = |line: &Line| ids.iter().filter(|id| has(line, id)).cloned().collect::<Vec<Label>>();
            lines.iter().map(|line| (of(line).len() as u64, Some(of(line)))).collect()
        }
    };
    let mut moved = Vec::new();
    for (line, (count, named)) in lines.iter().zip(wanted) {
        let units = line.units();
        let can = |place: &usize| is_in(sold, &units[*place]);
        let mut places: Vec<usize> = (0..units.len()).filter(can).collect();
        if let Some(ids) = &named {
            places.retain(|place| ids.contains(&units[*place].id));
        }
        let lacks = named.is_some_and(|ids| ids.len() != places.len());
        if count > u64::from(left(sold, line)) || lacks {
            return Err(exceeds(line.item.clone(), count, left(sold, line).into()));
        }
        // From the shelf first, then from buyers. Of both, general stock first, then the pool that comes last by its name.
        let pools = super::pools::in_leaving_order(line);
        let rank = |place: usize| pools.iter().position(|pool| *pool == units[place].pool);
        places.sort_by_key(|place| (units[*place].fulfilled, rank(*place), *place));
        places.truncate(usize::try_from(count).expect("no more than a line has"));
        places.sort_unstable();
        moved.push((u32::try_from(count).expect("no more than a line has"), places));
    }
    Ok(moved)
}

fn of_basket(basket: &Basket, line: &Line) -> (u64, Option<Vec<Label>>) {
    for (n, one) in basket.lines().iter().enumerate() {
        if one.item == line.item {
            return match basket.selection(n) {
                Some(UnitSelection::Named(ids)) => (one.quantity, Some(ids.clone())),
                _ => (one.quantity, None),
            };
        }
    }
    (0, None)
}
