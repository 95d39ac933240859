//! Checks the events of one command together: which events a command may make, and that units which leave one reservation
//! are exactly those that another one gets in the same commit.

use super::{Checked, broken};
use std::collections::BTreeMap;
use stockhold_domain::{
    Command, Disposition, Envelope, Event, EventId, Hold, HoldChange, ItemKey, Label, LineChange, MovedUnits,
    Outcome, Refund, RefundSelection, Return, SaleSelection, SetUnitPool, StockChange, Transition,
};

/// The quantity of each item that moves, and the units with their versions.
type Moved = BTreeMap<ItemKey, (i128, BTreeMap<Label, u64>)>;

/// Checks that the events of a command, apart from the holds that it expired and the pools that it released first, are those that its
/// effect needs.
pub(super) fn check(envelope: &Envelope, outcome: &Outcome, own: &[Event]) -> Checked {
    let command = &envelope.command;
    let is_due = |event: &&Event| {
        matches!(change(event), Some((HoldChange::Expired, _))) || pool_released(event).is_some()
    };
    let effect = &own[own.iter().take_while(is_due).count()..];
    if effect.is_empty() {
        let needs_event = matches!(
            command,
            Command::Reserve(_)
                | Command::Split(_)
                | Command::Merge(_)
                | Command::Fulfil(_)
                | Command::Return(_)
        );
        return match outcome {
            Outcome::Done(_) if needs_event => broken("S12", format!("done without an event: {command:?}")),
            _ => Ok(()),
        };
    }
    if !matches!(outcome, Outcome::Done(_)) {
        return broken("S7", format!("{command:?} was not done and made {effect:?}"));
    }
    match (command, effect) {
        (Command::Reserve(reserve), [created, payment @ ..]) if reserve.checkout.is_some() => {
            let of_one = |hold: &Hold| payment.iter().all(|event| is_of(event, hold.id));
            let is_right = is_effect(command, created)
                && change(created).is_some_and(|(_, hold)| of_one(hold))
                && begins_payment(payment);
            if is_right { Ok(()) } else { broken("S12", format!("{command:?} made {effect:?}")) }
        }
        (Command::Split(split), [left, part]) if is_of(left, split.id) => split_apart(left, part),
        (Command::Merge(merge), [sources @ .., target]) if is_of(target, merge.id) => {
            merged(&merge.from, sources, target)
        }
        (Command::Confirm(confirm), [replaced, created, confirmed]) if is_of(replaced, confirm.id) => {
            reacquired(replaced, created, confirmed)
        }
        (Command::Return(command), [returned, losses @ ..]) if is_of(returned, command.id) => {
            written_off(command, returned, losses)
        }
        (Command::AdvancePayment(advance), [replaced, created, confirmed, paid])
            if is_of(replaced, advance.id) && is_payment_step(paid) =>
        {
            reacquired(replaced, created, confirmed)
        }
        (Command::StartCheckout(_) | Command::AdvancePayment(_), events) if is_payment(command, events) => {
            Ok(())
        }
        (Command::Refund(refund), [paid]) if is_of(paid, refund.id) && is_payment_step(paid) => Ok(()),
        (Command::Refund(refund), [returned, losses @ ..]) if is_of(returned, refund.id) => {
            let losses = match losses {
                [losses @ .., paid] if is_of(paid, refund.id) && is_payment_step(paid) => losses,
                losses => losses,
            };
            written_off(&return_of(refund), returned, losses)
        }
        // The time of a pool may have come when it is set.
        (Command::SetPool(set), [one, released @ ..])
            if is_effect(command, one)
                && released.iter().all(|event| pool_released(event) == Some(&set.item)) =>
        {
            Ok(())
        }
        // The free units of a pool leave it when it is deleted.
        (Command::DeletePool(delete), [one, emptied @ ..])
            if is_effect(command, one)
                && emptied.iter().all(|event| pool_released(event) == Some(&delete.item)) =>
        {
            Ok(())
        }
        // Units create the pool that they are put into.
        (Command::SetUnitPool(set), [declared, moved])
            if is_pool_set(declared, set) && is_effect(command, moved) =>
        {
            Ok(())
        }
        (Command::SetUnitPool(set), [declared]) if is_pool_set(declared, set) => Ok(()),
        (command, [one]) if is_effect(command, one) => Ok(()),
        _ => broken("S12", format!("{command:?} made {effect:?}")),
    }
}

fn is_payment_step(event: &Event) -> bool {
    matches!(change(event), Some((HoldChange::PaymentAdvanced { .. }, _)))
}

/// Whether these events begin a payment. What costs nothing is confirmed at once.
fn begins_payment(events: &[Event]) -> bool {
    let kinds: Vec<&HoldChange> = events.iter().filter_map(|event| Some(change(event)?.0)).collect();
    let begins = matches!(
        *kinds,
        [HoldChange::PaymentOpened { .. }] | [HoldChange::PaymentOpened { .. }, HoldChange::Confirmed]
    );
    begins && kinds.len() == events.len()
}

/// Whether these events of one reservation may come of a checkout or of a report about its payment.
fn is_payment(command: &Command, events: &[Event]) -> bool {
    let kinds: Vec<&HoldChange> = events.iter().filter_map(|event| Some(change(event)?.0)).collect();
    let fits = match command {
        Command::StartCheckout(_) => begins_payment(events),
        _ => matches!(
            *kinds,
            [HoldChange::PaymentAdvanced { .. } | HoldChange::PaymentClosed { .. }]
                | [HoldChange::PaymentAdvanced { .. }, HoldChange::Confirmed | HoldChange::Returned { .. }]
                | [HoldChange::PaymentClosed { .. }, HoldChange::Cancelled]
        ),
    };
    fits && kinds.len() == events.len()
        && command.reservation().is_some_and(|id| events.iter().all(|event| is_of(event, id)))
}

/// The return that a refund of units includes.
fn return_of(refund: &Refund) -> Return {
    let (selection, disposition) = match &refund.selection {
        RefundSelection::Lines { selection, disposition } => (selection.clone(), *disposition),
        RefundSelection::Rest | RefundSelection::Amount(_) => (SaleSelection::All, Disposition::Restock),
    };
    Return { id: refund.id, selection, from: None, disposition, reason: refund.reason.clone() }
}

/// The item of the event, if a pool was released by it, or a released pool lost free units.
pub(super) fn pool_released(event: &Event) -> Option<&ItemKey> {
    match &event.transition {
        Transition::Stock { change: StockChange::PoolReleased { .. }, item } => Some(&item.key),
        Transition::Stock { change: StockChange::UnitsPooled { pool: None, .. }, item }
            if event.id == EventId::of_pool_release(event.at, &item.key, item.version) =>
        {
            Some(&item.key)
        }
        _ => None,
    }
}

/// Whether the event sets the pool that units are put into.
fn is_pool_set(event: &Event, set: &SetUnitPool) -> bool {
    matches!(
        &event.transition,
        Transition::Stock { change: StockChange::PoolSet { pool }, item }
            if set.puts_in && *pool == set.pool && item.key == set.item
    )
}

/// The change of a reservation, and the reservation after it.
fn change(event: &Event) -> Option<(&HoldChange, &Hold)> {
    match &event.transition {
        Transition::Hold { change, hold, .. } => Some((change, hold)),
        Transition::Stock { .. }
        | Transition::Sale { .. }
        | Transition::Limit { .. }
        | Transition::Record { .. } => None,
    }
}

fn is_of(event: &Event, id: stockhold_domain::ReservationId) -> bool {
    change(event).is_some_and(|(_, hold)| hold.id == id)
}

/// Whether an event is the whole effect of a command that has one event.
fn is_effect(command: &Command, event: &Event) -> bool {
    if let Some(id) = command.reservation()
        && !is_of(event, id)
    {
        return false;
    }
    match (command, &event.transition) {
        (command, Transition::Hold { change, .. }) => matches!(
            (command, change),
            (Command::Reserve(_), HoldChange::Created)
                | (Command::Confirm(_), HoldChange::Confirmed)
                | (Command::Release(_), HoldChange::Cancelled)
                | (Command::Extend(_), HoldChange::Extended)
                | (Command::Amend(_), HoldChange::Amended { .. })
                | (Command::Transfer(_), HoldChange::Transferred { .. })
                | (Command::OpenPayment(_), HoldChange::PaymentOpened { .. })
                | (Command::ClosePayment(_), HoldChange::PaymentClosed { .. })
                | (Command::Fulfil(_), HoldChange::Fulfilled { .. })
        ),
        (command, Transition::Stock { change, item }) => {
            let fits = matches!(
                (command, change),
                (Command::SetStock(_), StockChange::Set)
                    | (Command::AdjustStock(_), StockChange::Adjusted { .. })
                    | (Command::DeleteItem(_), StockChange::Deleted)
                    | (Command::AddUnits(_), StockChange::UnitsAdded(_))
                    | (Command::RetireUnit(_), StockChange::UnitsRetired(_))
                    | (Command::SetPool(_), StockChange::PoolSet { .. })
                    | (Command::DeletePool(_), StockChange::PoolDeleted { .. })
                    | (Command::SetUnitPool(_), StockChange::UnitsPooled { .. })
            );
            fits && command.changed_item() == Some(&item.key)
        }
        (Command::SetSale(set), Transition::Sale { scope, paused, .. }) => {
            (&set.scope, set.paused) == (scope, *paused)
        }
        (Command::SetRecord(set), Transition::Record { record, .. }) => {
            (&set.key, &set.value) == (&record.key, &record.value)
        }
        (Command::SetLimit(set), Transition::Limit { limit }) => {
            // Items and channels are sets, and a limit has them in order.
            let mut asked = set.terms.clone();
            asked.targets.sort();
            asked.channels.sort();
            set.id == limit.id && limit.terms.as_deref() == Some(&asked)
        }
        (Command::DeleteLimit(delete), Transition::Limit { limit }) => {
            delete.id == limit.id && limit.terms.is_none()
        }
        (_, Transition::Sale { .. } | Transition::Limit { .. } | Transition::Record { .. }) => false,
    }
}

/// The units that a reservation gets by an event, or, with `gives`, those that it gives back. A unit has the version that
/// the event gives it.
fn moved(hold: &Hold, changes: Option<&[LineChange]>, gives: bool) -> Moved {
    let mut all = Moved::new();
    for (number, line) in hold.lines.iter().enumerate() {
        let change = changes.and_then(|changes| changes.get(number));
        let before = change.map_or(0, |change| i128::from(change.quantity_before));
        let kept = change.map_or(0, |change| usize::try_from(change.kept).unwrap_or(usize::MAX));
        let units = match change {
            Some(change) if gives => &*change.released,
            _ => line.units().get(kept..).unwrap_or_default(),
        };
        let more = if gives && change.is_some() {
            before - i128::from(line.quantity)
        } else {
            i128::from(line.quantity) - before
        };
        if more != 0 || !units.is_empty() {
            let (quantity, known) = all.entry(line.item.clone()).or_default();
            *quantity += more;
            known.extend(units.iter().map(|unit| (unit.id.clone(), unit.version)));
        }
    }
    all
}

/// Checks that the units which were given back are those that somebody else got, each one version later.
fn conserved(given: &Moved, gained: &Moved, events: &[&Event]) -> Checked {
    let next = |(item, (quantity, units)): (&ItemKey, &(i128, BTreeMap<Label, u64>))| {
        let units = units.iter().map(|(unit, version)| (unit.clone(), version + 1)).collect();
        (item.clone(), (*quantity, units))
    };
    let expected: Moved = given.iter().map(next).collect();
    if expected == *gained {
        return Ok(());
    }
    broken("S8", format!("units were lost or made: {given:?} left, {gained:?} came: {events:?}"))
}

fn split_apart(left: &Event, part: &Event) -> Checked {
    let (Some((HoldChange::Split { lines, into }, old)), Some((HoldChange::CreatedBySplit, new))) =
        (change(left), change(part))
    else {
        return broken("S12", format!("no split: {left:?}, {part:?}"));
    };
    if *into != new.id {
        return broken("S12", format!("split into another reservation: {left:?}, {part:?}"));
    }
    conserved(&moved(old, Some(lines), true), &moved(new, None, false), &[left, part])
}

fn merged(from: &[stockhold_domain::ReservationId], sources: &[Event], target: &Event) -> Checked {
    let Some((HoldChange::Merged { lines, from: named }, hold)) = change(target) else {
        return broken("S12", format!("no merge: {target:?}"));
    };
    let mut given = Moved::new();
    let mut ended = Vec::new();
    for source in sources {
        let Some((HoldChange::MergedAway, gone)) = change(source) else {
            return broken("S12", format!("no source of a merge: {source:?}"));
        };
        if gone.details().merged_into != Some(hold.id) {
            return broken("S12", format!("merged into another reservation: {source:?}"));
        }
        ended.push(gone.id);
        for (item, (quantity, units)) in moved(gone, None, true) {
            let (sum, known) = given.entry(item).or_default();
            *sum += quantity;
            known.extend(units);
        }
    }
    if *ended != *from || **named != *from {
        return broken("S12", format!("other sources than {from:?}: {target:?}"));
    }
    let mut events: Vec<&Event> = sources.iter().collect();
    events.push(target);
    conserved(&given, &moved(hold, Some(lines), false), &events)
}

fn reacquired(replaced: &Event, created: &Event, confirmed: &Event) -> Checked {
    match (change(replaced), change(created), change(confirmed)) {
        (
            Some((HoldChange::Replaced, old)),
            Some((HoldChange::Created, new)),
            Some((HoldChange::Confirmed, sold)),
        ) if new.details().replaces == Some(old.id) && new.id == sold.id => Ok(()),
        _ => broken("S12", format!("no late confirm: {replaced:?}, {created:?}, {confirmed:?}")),
    }
}

/// A write-off lowers the total of each item by what came back of it. A return to stock changes no total.
fn written_off(command: &Return, returned: &Event, losses: &[Event]) -> Checked {
    let Some((HoldChange::Returned { lines, disposition, .. }, hold)) = change(returned) else {
        return broken("S12", format!("no return: {returned:?}"));
    };
    if *disposition != command.disposition {
        return broken("S12", format!("{command:?} made {returned:?}"));
    }
    let lost = hold.lines.iter().zip(lines).filter(|(_, moved)| moved.quantity > 0);
    let lost: Vec<_> = lost.filter(|_| *disposition == Disposition::WriteOff).collect();
    let is_loss = |(event, (line, moved)): (&Event, &(&stockhold_domain::Line, &MovedUnits))| {
        let Transition::Stock { change, item } = &event.transition else { return false };
        let units = || {
            let id =
                |place: &u32| line.units().get(usize::try_from(*place).ok()?).map(|unit| unit.id.clone());
            moved.places.iter().filter_map(id).collect::<Vec<_>>()
        };
        item.key == line.item
            && match change {
                StockChange::Adjusted { delta, .. } => {
                    line.units.is_none() && *delta == -i64::from(moved.quantity)
                }
                StockChange::UnitsRetired(ids) => line.units.is_some() && **ids == *units(),
                StockChange::Set
                | StockChange::UnitsAdded(_)
                | StockChange::Deleted
                | StockChange::PoolSet { .. }
                | StockChange::PoolDeleted { .. }
                | StockChange::PoolReleased { .. }
                | StockChange::UnitsPooled { .. } => false,
            }
    };
    if losses.len() == lost.len() && losses.iter().zip(&lost).all(is_loss) {
        return Ok(());
    }
    broken("S8", format!("{returned:?} does not take these units off the totals: {losses:?}"))
}
