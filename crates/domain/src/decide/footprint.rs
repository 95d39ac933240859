//! What a command may touch, as far as the state lets it be seen before it is decided.

use crate::choice::Choice;
use crate::command::{Command, Envelope, Returning, Want};
use crate::event::Subject;
use crate::id::ReservationId;
use crate::item::{Item, ItemKey, Mode};
use crate::label::Label;
use crate::limits::BASKET_UNITS;
use crate::state::{Name, Scope, State};
use crate::unit::{Unit, UnitStatus};
use alloc::vec::Vec;

/// Adds to `out` what the command may touch, as far as `state` lets it be seen: an id leads to its reservation, a
/// reservation to its items, a unit to the reservation that has it. A store loads what is new and asks again until
/// nothing is; what a command turns out to need beyond it (the other items of a hold that falls due) comes as
/// [`crate::Missing`] from deciding.
pub fn footprint<S: State>(state: &S, envelope: &Envelope, out: &mut Vec<Name>) {
    if let Some(key) = envelope.key_in_use() {
        out.push(Name::Key(key.hash));
        if let Ok(Some(record)) = state.key(key.hash) {
            match &record.subject {
                Subject::Reservation(id) => hold(state, *id, out),
                Subject::Item(key) => out.push(Name::Item(key.clone())),
            }
            return;
        }
    }
    match &envelope.command {
        Command::Reserve(reserve) => {
            out.push(Name::Pause(None));
            // A basket that goes beyond it is refused before any unit is looked at.
            let mut room = Some(BASKET_UNITS);
            for (number, want) in reserve.basket.wants().iter().enumerate() {
                location(&want.item, out);
                out.push(Name::Item(want.item.clone()));
                out.push(Name::Due(want.item.clone()));
                if let Ok(Some(Item { mode: Mode::Units, .. })) = state.item(&want.item) {
                    room = room.and_then(|room| room.checked_sub(want.quantity));
                    if room.is_some() {
                        units(state, want, reserve.basket.choice(number), out);
                    }
                }
            }
        }
        Command::Confirm(confirm) => hold(state, confirm.id, out),
        Command::Release(release) => hold(state, release.id, out),
        Command::Extend(extend) => hold(state, extend.id, out),
        Command::Return(returned) => {
            hold(state, returned.id, out);
            if let Returning::Lines(basket) = &returned.returning {
                out.extend(basket.wants().iter().map(|want| Name::Item(want.item.clone())));
            }
        }
        Command::SetStock(set) => out.push(Name::Item(set.item.clone())),
        Command::AdjustStock(adjust) => out.push(Name::Item(adjust.item.clone())),
        Command::AddUnits(add) => {
            out.push(Name::Item(add.item.clone()));
            out.push(Name::LastUnit(add.item.clone()));
            out.extend(add.units.iter().map(|unit| Name::Unit(add.item.clone(), unit.id.clone())));
        }
        Command::RetireUnit(retire) => {
            out.push(Name::Item(retire.item.clone()));
            unit(state, &retire.item, &retire.unit, out);
        }
        Command::SetSale(set) => match &set.scope {
            Scope::Everything => out.push(Name::Pause(None)),
            Scope::Location(location) => out.push(Name::Pause(Some(location.clone()))),
            Scope::Item(key) => out.push(Name::Item(key.clone())),
        },
        Command::Sweep => out.push(Name::AnyDue),
    }
}

fn units<S: State>(state: &S, want: &Want, choice: Option<&Choice>, out: &mut Vec<Name>) {
    match choice {
        None => {
            out.push(Name::FreeUnits(want.item.clone(), u32::try_from(want.quantity).unwrap_or(u32::MAX)));
        }
        Some(Choice::Named(ids)) => ids.iter().for_each(|id| unit(state, &want.item, id, out)),
        Some(Choice::Best(_)) => out.push(Name::SeatMap(want.item.clone())),
    }
}

/// A unit that has to be free, and the reservation that has it: it may be due.
fn unit<S: State>(state: &S, item: &ItemKey, id: &Label, out: &mut Vec<Name>) {
    out.push(Name::Unit(item.clone(), id.clone()));
    if let Ok(Some(Unit { status: UnitStatus::Held(holder), .. })) = state.unit(item, id) {
        out.push(Name::Hold(*holder));
    }
}

fn hold<S: State>(state: &S, id: ReservationId, out: &mut Vec<Name>) {
    out.push(Name::Hold(id));
    if let Ok(Some(hold)) = state.hold(id) {
        for line in &*hold.lines {
            out.push(Name::Item(line.item.clone()));
            out.extend(line.units().iter().map(|unit| Name::Unit(line.item.clone(), unit.id.clone())));
        }
    }
}

fn location(item: &ItemKey, out: &mut Vec<Name>) {
    if let Ok(location) = Label::new(item.location()) {
        out.push(Name::Pause(Some(location)));
    }
}
