//! Committed events: exactly what was answered.

use super::case_context::{CaseContext, Checked, SECOND};
use super::{Case, World, case};
use std::collections::BTreeMap;
use stockhold_domain::{Event, EventId, HoldChange, ItemKey, ReservationId, Scope, StockChange, Transition};
use stockhold_model::maker::{
    adjust, confirm_as, extend, pause, release, reserve, reserve_for, resume, return_of, set_stock,
};
use stockhold_model::{NaiveState, audit};

pub(super) const CASES: &[Case] = &[
    case("every transition is one event, in order, with the state after it", one_each),
    case("event positions are dense from 1, over restarts", dense),
    case("state is the fold of events", fold),
    case("each event of a reservation names the one before it", chained),
    case("a refusal, a replay and a command without effect write no event", nothing_happened),
    case("the sequences in an item's events have no gap", gapless),
    case("an event has the origin of its request", origin),
];

/// Two items and five reservations with every kind of transition.
fn everything(case: &mut CaseContext<'_>) -> Checked<(ItemKey, ItemKey)> {
    let a = case.create_item("a", 5)?;
    let b = case.create_item("b", 5)?;
    let sold = case.hold(reserve(&[(&a, 2), (&b, 1)]))?;
    case.advance(SECOND);
    case.hold(extend(sold.id, 900))?;
    case.hold(confirm_as(sold.id, "o1"))?;
    case.hold(return_of(sold.id, &[(&a, 1)]))?;
    let freed = case.hold(reserve(&[(&b, 2)]))?;
    case.hold(release(freed.id))?;
    case.world.restart();
    let due = case.hold(reserve_for(1, &[(&a, 4), (&b, 4)]))?;
    case.set_clock(due.expires_at);
    case.hold(reserve(&[(&b, 3)]))?;
    case.item(adjust(&a, 3))?;
    let scope = Scope::Item(a.clone());
    case.expect_done(pause(&scope))?;
    case.expect_done(resume(&scope))?;
    case.item(set_stock(&b, 6))?;
    Ok((a, b))
}

/// A short text for an event.
fn word(event: &Event) -> &'static str {
    match &event.transition {
        Transition::Hold { change, .. } => match change {
            HoldChange::Created => "created",
            HoldChange::Extended => "extended",
            HoldChange::Confirmed => "confirmed",
            HoldChange::Cancelled => "cancelled",
            HoldChange::Expired => "expired",
            HoldChange::Amended { .. } => "amended",
            HoldChange::Transferred { .. } => "transferred",
            HoldChange::Split { .. } => "split",
            HoldChange::CreatedBySplit => "created by a split",
            HoldChange::Merged { .. } => "merged",
            HoldChange::MergedAway => "merged away",
            HoldChange::PaymentOpened { .. } => "payment opened",
            HoldChange::PaymentClosed { .. } => "payment closed",
            HoldChange::PaymentAdvanced { .. } => "payment advanced",
            HoldChange::Replaced => "replaced",
            HoldChange::Fulfilled { .. } => "fulfilled",
            HoldChange::Returned { .. } => "returned",
        },
        Transition::Stock { change: StockChange::Set, .. } => "set",
        Transition::Stock { change: StockChange::Adjusted { .. }, .. } => "adjusted",
        Transition::Stock { change: StockChange::UnitsAdded(_), .. } => "units added",
        Transition::Stock { change: StockChange::UnitsRetired(_), .. } => "unit retired",
        Transition::Stock { change: StockChange::Deleted, .. } => "deleted",
        Transition::Stock { change: StockChange::PoolSet { .. }, .. } => "pool set",
        Transition::Stock { change: StockChange::PoolDeleted { .. }, .. } => "pool deleted",
        Transition::Stock { change: StockChange::PoolReleased { .. }, .. } => "pool released",
        Transition::Stock { change: StockChange::UnitsPooled { .. }, .. } => "units pooled",
        Transition::Sale { .. } => "sale",
        Transition::Limit { .. } => "limit",
        Transition::Record { .. } => "record",
    }
}

fn one_each(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, b) = everything(&mut case)?;
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
    let events = case.events_of(&[&a, &b]);
    let words: Vec<_> = events.iter().map(word).collect();
    ensure_eq!(words, expected, "events");
    let sales = case.world.events().into_iter().filter(
        |row| matches!(&row.event.transition, Transition::Sale { scope: Scope::Item(key), .. } if *key == a),
    );
    ensure_eq!(sales.count(), 2, "events of the sale");
    Ok(())
}

fn dense(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    everything(&mut case)?;
    case.world.restart();
    case.create_item("c", 1)?;
    let rows = case.world.events();
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
    let mut case = CaseContext::new(world);
    let (a, b) = everything(&mut case)?;
    for _ in 0..2 {
        let events: Vec<Event> = case.world.events().into_iter().map(|row| row.event).collect();
        let folded = NaiveState::fold(&events, []);
        audit(&folded)?;
        for key in [&a, &b] {
            ensure_eq!(Some(&case.read_item(key)?), folded.items.get(key), "{key:?}");
        }
        let ours = |hold: &&stockhold_domain::Hold| hold.lines.iter().any(|l| l.item == a || l.item == b);
        let holds: Vec<_> = folded.holds.values().filter(ours).collect();
        ensure_eq!(holds.len(), 4, "reservations");
        for hold in holds {
            ensure_eq!(&case.read_hold(hold.id)?, hold, "reservation {}", hold.id);
        }
        case.world.restart();
    }
    Ok(())
}

fn chained(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, b) = everything(&mut case)?;
    let mut newest: BTreeMap<ReservationId, EventId> = BTreeMap::new();
    for event in case.events_of(&[&a, &b]) {
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
        ensure_eq!(case.read_hold(id)?.last_event, event, "the latest event of {id}");
    }
    Ok(())
}

fn nothing_happened(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 1)?;
    let envelope = case.maker.keyed("k", reserve(&[(&item, 1)]));
    let id = envelope.fresh.reservation;
    case.submit_one(envelope.clone())?;
    case.hold(confirm_as(id, "o1"))?;
    case.sweep()?;
    let before = case.world.events().len();
    let replay = case.maker.again(&envelope);
    case.submit_one(replay)?;
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
        case.run(command)?;
    }
    case.world.restart();
    ensure_eq!(case.world.events().len(), before, "events");
    Ok(())
}

fn gapless(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, b) = everything(&mut case)?;
    for key in [a, b] {
        let mut sequence = 0;
        let mut at = None;
        for event in case.events_of(&[&key]) {
            let (moves, after) = match &event.transition {
                Transition::Hold { change, hold, figures, .. } => {
                    let line = hold.lines.iter().position(|line| line.item == key).unwrap_or_default();
                    let moves = match change {
                        HoldChange::Extended => 0,
                        HoldChange::Returned { lines, .. } => u64::from(lines[line].quantity > 0),
                        _ => 1,
                    };
                    (moves, figures[line])
                }
                Transition::Stock { item, .. } => (1, item.figures),
                Transition::Sale { .. } | Transition::Limit { .. } | Transition::Record { .. } => continue,
            };
            sequence += moves;
            ensure_eq!(after.sequence, sequence, "sequence of {key:?} after {}", word(&event));
            ensure!(Some(after.at) >= at, "{key:?} ran backwards at {}", word(&event));
            at = Some(after.at);
        }
        ensure_eq!(case.read_item(&key)?.figures.sequence, sequence, "sequence of {key:?}");
    }
    Ok(())
}

fn origin(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 1)?;
    let envelope = case.maker.keyed_for("shop 7", "k", reserve(&[(&item, 1)]));
    let (id, origin) = (envelope.fresh.event, envelope.origin.clone());
    case.submit_one(envelope)?;
    let events = case.events_of(&[&item]);
    let Some(event) = events.last() else { return Err("no event".to_owned()) };
    ensure_eq!((event.id, &event.origin), (id, &origin), "id and origin of a reserve");
    ensure_eq!(event.at, case.now(), "when it was decided");
    Ok(())
}
