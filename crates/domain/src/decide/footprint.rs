//! The resources that a command may touch, as far as they are known before it is decided.

use super::reacquire::basket_of;
use super::transfer::transferred;
use crate::basket::Basket;
use crate::command::{Command, Envelope, IfExpired};
use crate::event::KeyTarget;
use crate::hold::{Line, ReserveTerms, Status};
use crate::id::ReservationId;
use crate::item::{Item, ItemKey, Mode};
use crate::label::Label;
use crate::limit::CounterKey;
use crate::limits::{BASKET_UNITS, UNITS_AT_ONCE, UNPOOLED_PER_BATCH};
use crate::payment_command::{Refund, RefundSelection};
use crate::pool::Pool;
use crate::sale_selection::SaleSelection;
use crate::scope::Scope;
use crate::state::{Resource, State};
use crate::unit::{Unit, UnitStatus};
use crate::unit_selection::{PoolSelection, UnitSelection};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Adds the resources that the command may touch to `out`, as far as `state` has loaded what leads to them: an id
/// leads to its reservation, a reservation to its items, a unit to the reservation that has it. A store loads what is
/// new and calls again until nothing is new. Resources beyond that, such as the other items of a hold that falls due,
/// are reported by [`decide`](crate::decide) as [`crate::NotLoaded`].
pub fn footprint<S: State>(state: &S, envelope: &Envelope, out: &mut Vec<Resource>) {
    if let Some(key) = envelope.key_in_use() {
        out.push(Resource::Key(key.hash));
        if let Ok(Some(record)) = state.key(key.hash) {
            match &record.target {
                KeyTarget::Reservation(id) => hold(state, *id, out),
                KeyTarget::Item(key) => out.push(Resource::Item(key.clone())),
                KeyTarget::Record(key) => out.push(Resource::Record(key.clone())),
            }
            return;
        }
    }
    match &envelope.command {
        Command::Reserve(reserve) => {
            basket(state, &reserve.basket, &[], reserve.terms.pool(), out);
            counters(state, reserve.basket.items(), &reserve.terms, out);
        }
        Command::Confirm(confirm) => {
            hold(state, confirm.id, out);
            if confirm.if_expired == IfExpired::Reacquire {
                reacquired(state, confirm.id, out);
            }
        }
        Command::Release(release) => hold(state, release.id, out),
        Command::Extend(extend) => hold(state, extend.id, out),
        Command::Amend(amend) => {
            hold(state, amend.id, out);
            if let Some(lines) = &amend.basket {
                let known = state.hold(amend.id).ok().flatten();
                let own = known.map(|hold| &*hold.lines).unwrap_or_default();
                basket(state, lines, own, known.and_then(|hold| hold.terms.reserve.pool()), out);
                counters_of(state, amend.id, lines.lines().iter().map(|line| &line.item), out);
            }
        }
        Command::Transfer(transfer) => {
            hold(state, transfer.id, out);
            if let Ok(Some(known)) = state.hold(transfer.id) {
                let terms = transferred(&known.terms.reserve, transfer);
                counters(state, known.lines.iter().map(|line| &line.item), &terms, out);
            }
        }
        Command::Split(split) => hold(state, split.id, out),
        Command::Merge(merge) => {
            hold(state, merge.id, out);
            for id in &merge.from {
                hold(state, *id, out);
                if let Ok(Some(source)) = state.hold(*id) {
                    counters_of(state, merge.id, source.lines.iter().map(|line| &line.item), out);
                }
            }
        }
        Command::OpenPayment(open) => hold(state, open.id, out),
        Command::ClosePayment(close) => hold(state, close.id, out),
        Command::StartCheckout(start) => hold(state, start.id, out),
        Command::AdvancePayment(advance) => payment(state, advance.id, out),
        Command::Refund(refund) => refunded(state, refund, out),
        Command::Fulfil(fulfil) => sale(state, fulfil.id, &fulfil.selection, out),
        Command::Return(returned) => sale(state, returned.id, &returned.selection, out),
        Command::SetStock(set) => out.push(Resource::Item(set.item.clone())),
        Command::AdjustStock(adjust) => out.push(Resource::Item(adjust.item.clone())),
        Command::DeleteItem(delete) => {
            out.push(Resource::Item(delete.item.clone()));
            out.push(Resource::Due(delete.item.clone()));
        }
        Command::SetPool(set) => {
            out.push(Resource::Item(set.item.clone()));
            out.push(Resource::Due(set.item.clone()));
        }
        Command::DeletePool(delete) => {
            out.push(Resource::Item(delete.item.clone()));
            if let Ok(Some(item @ Item { mode: Mode::Units, .. })) = state.item(&delete.item)
                && let Some(pool) = item.pools.get(&delete.pool)
            {
                free_units(&item.key, Some(&pool.name), pool.free().min(UNPOOLED_PER_BATCH.into()), out);
            }
        }
        Command::SetUnitPool(set) => {
            out.push(Resource::Item(set.item.clone()));
            match &set.units {
                PoolSelection::Units(ids) => ids.iter().for_each(|id| unit(state, &set.item, id, out)),
                PoolSelection::Sections(names) => sections(state, &set.item, names, out),
            }
        }
        Command::AddUnits(add) => {
            out.push(Resource::Item(add.item.clone()));
            out.push(Resource::LastUnit(add.item.clone()));
            out.extend(add.units.iter().map(|unit| Resource::Unit(add.item.clone(), unit.id.clone())));
        }
        Command::RetireUnit(retire) => {
            out.push(Resource::Item(retire.item.clone()));
            unit(state, &retire.item, &retire.unit, out);
        }
        Command::SetSale(set) => match &set.scope {
            Scope::Everything => out.push(Resource::Pause(None)),
            Scope::Location(location) => out.push(Resource::Pause(Some(location.clone()))),
            Scope::Item(key) => out.push(Resource::Item(key.clone())),
        },
        Command::Sweep => out.extend([Resource::AnyDue, Resource::AnyRelease]),
        Command::SetRecord(set) => out.push(Resource::Record(set.key.clone())),
        Command::SetLimit(_) | Command::DeleteLimit(_) => out.push(Resource::Limits),
    }
}

/// The counters of units that a reservation with these terms gets of items.
fn counters<'a, S: State>(
    state: &S,
    items: impl Iterator<Item = &'a ItemKey>,
    terms: &ReserveTerms,
    out: &mut Vec<Resource>,
) {
    out.push(Resource::Limits);
    let Ok(limits) = state.limits() else { return };
    if limits.is_empty() {
        return;
    }
    let channel = terms.optional.as_ref().and_then(|optional| optional.channel.as_ref());
    for (limit, said) in items.flat_map(|item| limits.matching(item, channel)) {
        if let Some(subject) = terms.subject(said.per) {
            let (limit, generation) = (limit.id.clone(), limit.generation);
            out.push(Resource::Counter(CounterKey { limit, generation, subject }));
        }
    }
}

/// The same, for an existing reservation.
fn counters_of<'a, S: State>(
    state: &S,
    id: ReservationId,
    items: impl Iterator<Item = &'a ItemKey>,
    out: &mut Vec<Resource>,
) {
    if let Ok(Some(known)) = state.hold(id) {
        counters(state, items, &known.terms.reserve, out);
    }
}

/// The lines that a command asks for. `own` are the lines of its own hold, whose units count as free. `pool` is the pool that they draw
/// from before general stock.
fn basket<S: State>(state: &S, basket: &Basket, own: &[Line], pool: Option<&Label>, out: &mut Vec<Resource>) {
    out.push(Resource::Pause(None));
    let own: BTreeMap<_, _> = own.iter().map(|line| (&line.item, line.quantity)).collect();
    // A basket above this limit is refused before any unit is read.
    let mut room = Some(BASKET_UNITS);
    for (number, line) in basket.lines().iter().enumerate() {
        for item in basket.items_of(number) {
            location(item, out);
            out.push(Resource::Item(item.clone()));
            out.push(Resource::Due(item.clone()));
        }
        // A line with a source takes no units with ids.
        if basket.source(number).is_some() {
            continue;
        }
        if let Ok(Some(item @ Item { mode: Mode::Units, .. })) = state.item(&line.item) {
            room = room.and_then(|room| room.checked_sub(line.quantity));
            let own = own.get(&line.item).copied().unwrap_or(0);
            if room.is_some() {
                let more = line.quantity.saturating_sub(u64::from(own));
                match basket.selection(number) {
                    None => free_units_of(item, pool, more, out),
                    Some(selection) => chosen_units(state, &line.item, selection, out),
                }
            }
        }
    }
}

/// What a confirm of an expired reservation may need: the reservation that took its units again, or what a reserve would need.
fn reacquired<S: State>(state: &S, id: ReservationId, out: &mut Vec<Resource>) {
    let Ok(Some(expired)) = state.hold(id) else { return };
    match expired.details().replaced_by {
        Some(id) => hold(state, id, out),
        None if matches!(expired.status, Status::Active | Status::Expired) => {
            if let Some(lines) = basket_of(expired) {
                basket(state, &lines, &[], expired.terms.reserve.pool(), out);
                counters_of(state, id, lines.lines().iter().map(|line| &line.item), out);
            }
        }
        None => {}
    }
}

/// What a step of a payment may touch. Money that comes late takes the units of an expired hold again.
fn payment<S: State>(state: &S, id: ReservationId, out: &mut Vec<Resource>) {
    hold(state, id, out);
    if state.hold(id).ok().flatten().is_some_and(|known| known.status == Status::Expired) {
        reacquired(state, id, out);
    }
}

/// What a refund may touch.
fn refunded<S: State>(state: &S, refund: &Refund, out: &mut Vec<Resource>) {
    match &refund.selection {
        RefundSelection::Rest | RefundSelection::Amount(_) => hold(state, refund.id, out),
        RefundSelection::Lines { selection, .. } => sale(state, refund.id, selection, out),
    }
}

/// A confirmed reservation of which a command moves units.
fn sale<S: State>(state: &S, id: ReservationId, selection: &SaleSelection, out: &mut Vec<Resource>) {
    hold(state, id, out);
    if let SaleSelection::Lines(basket) = selection {
        out.extend(basket.lines().iter().map(|line| Resource::Item(line.item.clone())));
    }
}

/// Free units that a line without a selection gets: of the pool as far as it goes, then of general stock.
fn free_units_of(item: &Item, pool: Option<&Label>, more: u64, out: &mut Vec<Resource>) {
    let pool = pool.and_then(|name| item.pools.get(name));
    let of_pool = pool.map_or(0, |pool| pool.free().min(more));
    free_units(&item.key, pool.map(|pool| &pool.name), of_pool, out);
    if pool.is_none_or(Pool::falls_back) {
        free_units(&item.key, None, more - of_pool, out);
    }
}

fn free_units(item: &ItemKey, pool: Option<&Label>, count: u64, out: &mut Vec<Resource>) {
    if count > 0 {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        out.push(Resource::FreeUnits(item.clone(), pool.cloned(), count));
    }
}

fn chosen_units<S: State>(state: &S, item: &ItemKey, selection: &UnitSelection, out: &mut Vec<Resource>) {
    match selection {
        UnitSelection::Named(ids) => ids.iter().for_each(|id| unit(state, item, id, out)),
        UnitSelection::BestAvailable(_) => out.push(Resource::SeatMap(item.clone())),
    }
}

/// All units of sections, and the reservations that hold them. More of them than a command may name are refused before any is read.
fn sections<S: State>(state: &S, item: &ItemKey, names: &[Label], out: &mut Vec<Resource>) {
    out.push(Resource::SeatMap(item.clone()));
    let Ok(Some(unit_index)) = state.unit_index(item) else { return };
    let units: Vec<&Unit> = unit_index.of_sections(names).take(UNITS_AT_ONCE + 1).collect();
    if units.len() <= UNITS_AT_ONCE {
        for known in units {
            unit(state, item, &known.id, out);
        }
    }
}

/// A unit that has to be free, and the reservation that holds it, because that may be due.
fn unit<S: State>(state: &S, item: &ItemKey, id: &Label, out: &mut Vec<Resource>) {
    out.push(Resource::Unit(item.clone(), id.clone()));
    if let Ok(Some(Unit { status: UnitStatus::Held(holder), .. })) = state.unit(item, id) {
        out.push(Resource::Hold(*holder));
    }
}

fn hold<S: State>(state: &S, id: ReservationId, out: &mut Vec<Resource>) {
    out.push(Resource::Hold(id));
    if let Ok(Some(hold)) = state.hold(id) {
        for line in &*hold.lines {
            out.push(Resource::Item(line.item.clone()));
            out.extend(line.units().iter().map(|unit| Resource::Unit(line.item.clone(), unit.id.clone())));
        }
        let counted = || hold.lines.iter().flat_map(|line| &line.details().counted);
        if counted().next().is_some() {
            out.push(Resource::Limits);
            out.extend(counted().map(|count| Resource::Counter(count.key.clone())));
        }
    }
}

fn location(item: &ItemKey, out: &mut Vec<Resource>) {
    if let Ok(location) = Label::new(item.location()) {
        out.push(Resource::Pause(Some(location)));
    }
}
