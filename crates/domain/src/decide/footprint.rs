//! The resources that a command may touch, as far as they are known before it is decided.

use super::reacquire::basket_of;
use crate::basket::{Basket, RequestedLine};
use crate::command::{Command, Envelope, IfExpired, SaleSelection};
use crate::event::KeyTarget;
use crate::hold::{Line, Status};
use crate::id::ReservationId;
use crate::item::{Item, ItemKey, Mode};
use crate::label::Label;
use crate::limits::BASKET_UNITS;
use crate::state::{Resource, Scope, State};
use crate::unit::{Unit, UnitStatus};
use crate::unit_selection::UnitSelection;
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
        Command::Reserve(reserve) => basket(state, &reserve.basket, &[], out),
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
                let own = state.hold(amend.id).ok().flatten().map(|hold| &*hold.lines);
                basket(state, lines, own.unwrap_or_default(), out);
            }
        }
        Command::Transfer(transfer) => hold(state, transfer.id, out),
        Command::Split(split) => hold(state, split.id, out),
        Command::Merge(merge) => {
            hold(state, merge.id, out);
            merge.from.iter().for_each(|id| hold(state, *id, out));
        }
        Command::OpenPayment(open) => hold(state, open.id, out),
        Command::ClosePayment(close) => hold(state, close.id, out),
        Command::Fulfil(fulfil) => sale(state, fulfil.id, &fulfil.selection, out),
        Command::Return(returned) => sale(state, returned.id, &returned.selection, out),
        Command::SetStock(set) => out.push(Resource::Item(set.item.clone())),
        Command::AdjustStock(adjust) => out.push(Resource::Item(adjust.item.clone())),
        Command::DeleteItem(delete) => {
            out.push(Resource::Item(delete.item.clone()));
            out.push(Resource::Due(delete.item.clone()));
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
        Command::Sweep => out.push(Resource::AnyDue),
        Command::SetRecord(set) => out.push(Resource::Record(set.key.clone())),
    }
}

/// The lines that a command asks for. `own` are the lines of its own hold, whose units count as free.
fn basket<S: State>(state: &S, basket: &Basket, own: &[Line], out: &mut Vec<Resource>) {
    out.push(Resource::Pause(None));
    let own: BTreeMap<_, _> = own.iter().map(|line| (&line.item, line.quantity)).collect();
    // A basket above this limit is refused before any unit is read.
    let mut room = Some(BASKET_UNITS);
    for (number, line) in basket.lines().iter().enumerate() {
        location(&line.item, out);
        out.push(Resource::Item(line.item.clone()));
        out.push(Resource::Due(line.item.clone()));
        if let Ok(Some(Item { mode: Mode::Units, .. })) = state.item(&line.item) {
            room = room.and_then(|room| room.checked_sub(line.quantity));
            let own = own.get(&line.item).copied().unwrap_or(0);
            if room.is_some() {
                units(state, line, basket.selection(number), own, out);
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
                basket(state, &lines, &[], out);
            }
        }
        None => {}
    }
}

/// A confirmed reservation of which a command moves units.
fn sale<S: State>(state: &S, id: ReservationId, selection: &SaleSelection, out: &mut Vec<Resource>) {
    hold(state, id, out);
    if let SaleSelection::Lines(basket) = selection {
        out.extend(basket.lines().iter().map(|line| Resource::Item(line.item.clone())));
    }
}

fn units<S: State>(
    state: &S,
    line: &RequestedLine,
    selection: Option<&UnitSelection>,
    own: u32,
    out: &mut Vec<Resource>,
) {
    match selection {
        None => {
            let more = line.quantity.saturating_sub(u64::from(own));
            if more > 0 {
                out.push(Resource::FreeUnits(line.item.clone(), u32::try_from(more).unwrap_or(u32::MAX)));
            }
        }
        Some(UnitSelection::Named(ids)) => ids.iter().for_each(|id| unit(state, &line.item, id, out)),
        Some(UnitSelection::BestAvailable(_)) => out.push(Resource::SeatMap(line.item.clone())),
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
    }
}

fn location(item: &ItemKey, out: &mut Vec<Resource>) {
    if let Ok(location) = Label::new(item.location()) {
        out.push(Resource::Pause(Some(location)));
    }
}
