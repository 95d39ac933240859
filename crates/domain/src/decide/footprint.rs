//! What a command may touch, as far as the state lets it be seen before it is decided.

use crate::choice::Choice;
use crate::command::{Command, Envelope, Returning, Want};
use crate::event::Subject;
use crate::id::ReservationId;
use crate::item::{Item, ItemKey, Mode};
use crate::label::Label;
use crate::limits::BASKET_UNITS;
use crate::state::{Name, Scope, State};
use alloc::vec::Vec;

/// Adds to `out` what the command may touch, as far as `state` lets it be seen: an id leads to its reservation, a
/// reservation to its items. A store loads what is new and asks again until nothing is; what a command turns out to
/// need beyond it (the other items of a hold that falls due) comes as [`crate::Missing`] from deciding.
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
                        units(want, reserve.basket.choice(number), out);
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
            out.push(Name::Unit(retire.item.clone(), retire.unit.clone()));
        }
        Command::SetSale(set) => match &set.scope {
            Scope::Everything => out.push(Name::Pause(None)),
            Scope::Location(location) => out.push(Name::Pause(Some(location.clone()))),
            Scope::Item(key) => out.push(Name::Item(key.clone())),
        },
        Command::Sweep => out.push(Name::AnyDue),
    }
}

fn units(want: &Want, choice: Option<&Choice>, out: &mut Vec<Name>) {
    match choice {
        None => {
            out.push(Name::FreeUnits(want.item.clone(), u32::try_from(want.quantity).unwrap_or(u32::MAX)));
        }
        Some(Choice::Named(ids)) => {
            out.extend(ids.iter().map(|id| Name::Unit(want.item.clone(), id.clone())));
        }
        Some(Choice::Best(_)) => out.push(Name::SeatMap(want.item.clone())),
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
