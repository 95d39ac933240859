//! Checks the counters in the events of reservations. They follow from what a reservation has of an item before and
//! after the event, whatever the kind of change is.

use super::{Checked, broken};
use stockhold_domain::{
    Event, Hold, Item, ItemKey, Line, Mode, PaymentState, Status, StockCounters, Transition,
};
use stockhold_model::NaiveState;

/// What one reservation contributes to the counters of one item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    held: i128,
    held_under_payment: i128,
    active: i128,
    confirmed_sold: i128,
    fulfilled: i128,
}

impl Share {
    fn of(hold: Option<&Hold>, key: &ItemKey) -> Self {
        let Some(hold) = hold else { return Self::default() };
        let payment = hold.details.as_ref().and_then(|details| details.payment.as_ref());
        let is_paying = payment.is_some_and(|payment| payment.state == PaymentState::Open);
        let mut share = Self::default();
        for line in hold.lines.iter().filter(|line| line.item == *key && line.quantity > 0) {
            let units = i128::from(line.quantity);
            match hold.status {
                Status::Active => {
                    share.held += units;
                    share.held_under_payment += if is_paying { units } else { 0 };
                    share.active += 1;
                }
                Status::Confirmed => {
                    share.confirmed_sold += units - i128::from(line.returned);
                    share.fulfilled += i128::from(line.fulfilled);
                }
                Status::Cancelled | Status::Expired => {}
            }
        }
        share
    }
}

/// Checks the counters of all lines of an event of a reservation.
pub(super) fn check(
    state: &NaiveState,
    event: &Event,
    before: Option<&Hold>,
    after: &Hold,
    figures: &[StockCounters],
) -> Checked {
    for (line, figures) in after.lines.iter().zip(figures) {
        let (old, new) = (Share::of(before, &line.item), Share::of(Some(after), &line.item));
        let Some(item) = state.items.get(&line.item) else {
            // A line that came back before its item was deleted.
            if old == new && after.status != Status::Active {
                continue;
            }
            return broken("S12", format!("an item that is not there: {event:?}"));
        };
        counted(event, item, figures, old, new)?;
        sequence(event, before, item, line, figures)?;
    }
    Ok(())
}

/// Checks the counters of one line's item.
fn counted(event: &Event, item: &Item, after: &StockCounters, old: Share, new: Share) -> Checked {
    let before = &item.figures;
    // Units with ids have versions of their own, so their item has no sequence.
    let turn = i128::from(old != new && item.mode == Mode::Counted);
    let moves = [
        (before.sequence, after.sequence, turn),
        (before.held, after.held, new.held - old.held),
        (
            before.held_under_payment,
            after.held_under_payment,
            new.held_under_payment - old.held_under_payment,
        ),
        (before.active, after.active, new.active - old.active),
        (before.confirmed_sold, after.confirmed_sold, new.confirmed_sold - old.confirmed_sold),
        (before.fulfilled, after.fulfilled, new.fulfilled - old.fulfilled),
        (before.total_units, after.total_units, 0),
    ];
    if moves.iter().any(|(before, after, by)| i128::from(*before) + by != i128::from(*after)) {
        return broken("S8", format!("from {old:?} to {new:?}: {before:?} became {after:?}, {event:?}"));
    }
    let sellable = u128::from(after.total_units) + u128::from(item.settings.oversell_allowance);
    if u128::from(after.held) + u128::from(after.confirmed_sold) > sellable
        || after.fulfilled > after.total_units
    {
        return broken("S1", format!("oversold: {after:?}, {event:?}"));
    }
    if after.fulfilled > after.confirmed_sold || after.held_under_payment > after.held {
        return broken(
            "S8",
            format!("more left the shelf or waits for a payment than is sold or held: {event:?}"),
        );
    }
    if after.at < before.at {
        return broken("S11", format!("time ran backwards for {:?}: {before:?} became {after:?}", item.key));
    }
    if after.at != event.at && (after != before || old != new) {
        return broken("S11", format!("an item's instant is not the event's: {event:?}"));
    }
    Ok(())
}

/// A line has the number of its latest turn.
fn sequence(
    event: &Event,
    before: Option<&Hold>,
    item: &Item,
    line: &Line,
    after: &StockCounters,
) -> Checked {
    let known = before.and_then(|hold| hold.lines.iter().find(|known| known.item == line.item));
    let expected = if after.sequence == item.figures.sequence {
        known.map_or(0, |known| known.sequence)
    } else {
        after.sequence
    };
    if line.sequence == expected {
        return Ok(());
    }
    let Transition::Hold { change, .. } = &event.transition else { return Ok(()) };
    broken("S11", format!("{change:?}: {line:?} does not have its turn's number: {after:?}"))
}
