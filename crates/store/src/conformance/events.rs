//! What a store has committed, event by event: nothing else than what was answered, and all of it.

use super::case_context::{CaseContext, Checked, SECOND};
use super::maker::{
    adjust, confirm_as, extend, pause, release, reserve, reserve_for, resume, return_of, set_stock,
};
use super::{Case, World, case};
use crate::model::{NaiveState, audit};
use std::collections::BTreeMap;
use stockhold_domain::{Event, EventId, HoldChange, ItemKey, ReservationId, Scope, StockChange, Transition};

pub(super) const CASES: &[Case] = &[
    case("every transition is one event, in order, with what things are after it", one_each),
    case("positions are dense from 1, over restarts", dense),
    case("state is the fold of events", fold),
    case("each event of a reservation names the one before it", chained),
    case("what changes nothing, a refusal or a replay, is no event", nothing_happened),
    case("sequences of an item run through its events without a gap", gapless),
    case("an event says who asked", origin),
];

/// A bit of everything: two items, five reservations, every kind of transition.
fn everything(stage: &mut CaseContext<'_>) -> Checked<(ItemKey, ItemKey)> {
    let a = stage.stocked("a", 5)?;
    let b = stage.stocked("b", 5)?;
    let sold = stage.hold(reserve(&[(&a, 2), (&b, 1)]))?;
    stage.pass(SECOND);
    stage.hold(extend(sold.id, 900))?;
    stage.hold(confirm_as(sold.id, "o1"))?;
    stage.hold(return_of(sold.id, &[(&a, 1)]))?;
    let freed = stage.hold(reserve(&[(&b, 2)]))?;
    stage.hold(release(freed.id))?;
    stage.world.restart();
    let due = stage.hold(reserve_for(1, &[(&a, 4), (&b, 4)]))?;
    stage.at(due.expires_at);
    stage.hold(reserve(&[(&b, 3)]))?;
    stage.item(adjust(&a, 3))?;
    let scope = Scope::Item(a.clone());
    stage.done(pause(&scope))?;
    stage.done(resume(&scope))?;
    stage.item(set_stock(&b, 6))?;
    Ok((a, b))
}

/// One word for what an event says.
fn word(event: &Event) -> &'static str {
    match &event.transition {
        Transition::Hold { change, .. } => match change {
            HoldChange::Created => "created",
            HoldChange::Extended => "extended",
            HoldChange::Confirmed => "confirmed",
            HoldChange::Cancelled => "cancelled",
            HoldChange::Expired => "expired",
            HoldChange::Returned { .. } => "returned",
        },
        Transition::Stock { change: StockChange::Set, .. } => "set",
        Transition::Stock { change: StockChange::Adjusted { .. }, .. } => "adjusted",
        Transition::Stock { change: StockChange::UnitsAdded(_), .. } => "units added",
        Transition::Stock { change: StockChange::UnitRetired(_), .. } => "unit retired",
        Transition::Sale { .. } => "sale",
    }
}

fn one_each(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let (a, b) = everything(&mut stage)?;
    let expected = [
        "set",
        "set",
        "created",
        "extended",
        "confirmed",
        "returned",
        "created",
        "cancelled",
        "created",
        "expired",
        "created",
        "adjusted",
        "set",
    ];
    let events = stage.events_of(&[&a, &b]);
    let words: Vec<_> = events.iter().map(word).collect();
    ensure_eq!(words, expected, "events");
    let sales = stage.world.events().into_iter().filter(
        |row| matches!(&row.event.transition, Transition::Sale { scope: Scope::Item(key), .. } if *key == a),
    );
    ensure_eq!(sales.count(), 2, "events of the sale");
    Ok(())
}

fn dense(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    everything(&mut stage)?;
    stage.world.restart();
    stage.stocked("c", 1)?;
    let rows = stage.world.events();
    for (n, row) in (1..).zip(&rows) {
        ensure_eq!(row.position, n, "position of event number {n}");
    }
    let mut ids: Vec<EventId> = rows.iter().map(|row| row.event.id).collect();
    ids.sort_unstable();
    ids.dedup();
    ensure_eq!(ids.len(), rows.len(), "every event has an id of its own");
    Ok(())
}

fn fold(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let (a, b) = everything(&mut stage)?;
    for _ in 0..2 {
        let events: Vec<Event> = stage.world.events().into_iter().map(|row| row.event).collect();
        let folded = NaiveState::fold(&events, []);
        audit(&folded)?;
        for key in [&a, &b] {
            ensure_eq!(Some(&stage.shown(key)?), folded.items.get(key), "{key:?}");
        }
        let ours = |hold: &&stockhold_domain::Hold| hold.lines.iter().any(|l| l.item == a || l.item == b);
        let holds: Vec<_> = folded.holds.values().filter(ours).collect();
        ensure_eq!(holds.len(), 4, "reservations");
        for hold in holds {
            ensure_eq!(&stage.kept(hold.id)?, hold, "reservation {}", hold.id);
        }
        stage.world.restart();
    }
    Ok(())
}

fn chained(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let (a, b) = everything(&mut stage)?;
    let mut newest: BTreeMap<ReservationId, EventId> = BTreeMap::new();
    for event in stage.events_of(&[&a, &b]) {
        match &event.transition {
            Transition::Hold { hold, .. } => {
                ensure_eq!(event.previous, newest.get(&hold.id).copied(), "previous of {}", word(&event));
                ensure_eq!(hold.last_event, event.id, "the reservation's latest event is this one");
                newest.insert(hold.id, event.id);
            }
            _ => ensure_eq!(event.previous, None, "previous of {}", word(&event)),
        }
    }
    for (id, event) in newest {
        ensure_eq!(stage.kept(id)?.last_event, event, "the latest event of {id}");
    }
    Ok(())
}

fn nothing_happened(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 1)?;
    let envelope = stage.maker.keyed("k", reserve(&[(&item, 1)]));
    let id = envelope.fresh.reservation;
    stage.send(envelope.clone())?;
    stage.hold(confirm_as(id, "o1"))?;
    stage.sweep()?;
    let before = stage.world.events().len();
    let replay = stage.maker.again(&envelope);
    stage.send(replay)?;
    for command in [
        reserve(&[(&item, 1)]),
        confirm_as(id, "o1"),
        confirm_as(id, "o2"),
        release(id),
        extend(id, 60),
        set_stock(&item, 1),
        set_stock(&item, 0),
        resume(&Scope::Item(item.clone())),
        return_of(id, &[(&item, 2)]),
        stockhold_domain::Command::Sweep,
    ] {
        stage.run(command)?;
    }
    stage.world.restart();
    ensure_eq!(stage.world.events().len(), before, "events");
    Ok(())
}

fn gapless(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let (a, b) = everything(&mut stage)?;
    for key in [a, b] {
        let mut sequence = 0;
        let mut at = None;
        for event in stage.events_of(&[&key]) {
            let (moves, after) = match &event.transition {
                Transition::Hold { change, hold, figures } => {
                    let line = hold.lines.iter().position(|line| line.item == key).unwrap_or_default();
                    let moves = match change {
                        HoldChange::Extended => 0,
                        HoldChange::Returned { quantities, .. } => u64::from(quantities[line] > 0),
                        _ => 1,
                    };
                    (moves, figures[line])
                }
                Transition::Stock { item, .. } => (1, item.figures),
                Transition::Sale { .. } => continue,
            };
            sequence += moves;
            ensure_eq!(after.sequence, sequence, "sequence of {key:?} after {}", word(&event));
            ensure!(Some(after.at) >= at, "{key:?} ran backwards at {}", word(&event));
            at = Some(after.at);
        }
        ensure_eq!(stage.shown(&key)?.figures.sequence, sequence, "sequence of {key:?}");
    }
    Ok(())
}

fn origin(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 1)?;
    let envelope = stage.maker.keyed_for("shop 7", "k", reserve(&[(&item, 1)]));
    let (id, origin) = (envelope.fresh.event, envelope.origin.clone());
    stage.send(envelope)?;
    let events = stage.events_of(&[&item]);
    let Some(event) = events.last() else { return Err("no event".to_owned()) };
    ensure_eq!((event.id, &event.origin), (id, &origin), "id and origin of a reserve");
    ensure_eq!(event.at, stage.now(), "when it was decided");
    Ok(())
}
