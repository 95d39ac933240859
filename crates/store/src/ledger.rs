//! The audit of events: whether what an event says follows from the state before it. `verify` of every store and the
//! simulator use these checks.
//!
//! The checks share [`HoldChange::effect`] with the rules. The reference model's own audit ([`crate::model`]) is written
//! apart on purpose, so that a mistake in that mapping is noticed.

use stockhold_domain::{
    Event, EventId, Hold, HoldChange, Item, Line, Mode, Record, Status, StockChange, StockCounters,
};

/// What the audit of a reservation's events keeps of it between two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownHold {
    /// Its status.
    pub status: Status,
    /// Its version.
    pub version: u64,
    /// Its latest event.
    pub last_event: EventId,
}

impl KnownHold {
    /// What is kept of this reservation.
    pub fn of(hold: &Hold) -> Self {
        Self { status: hold.status, version: hold.version, last_event: hold.last_event }
    }
}

/// Checks a transition of a reservation against the reservation before it, `None` when it did not exist.
pub fn hold_violations(
    before: Option<KnownHold>,
    event: &Event,
    change: &HoldChange,
    hold: &Hold,
) -> Vec<String> {
    let mut found = Vec::new();
    let follows = before.map(|known| known.status) == change.status_before()
        && hold.status == change.status_after()
        && hold.version == before.map_or(0, |known| known.version) + 1
        && hold.last_event == event.id
        && event.previous == before.map(|known| known.last_event);
    if !follows {
        found.push(format!("reservation {}: {change:?} does not follow from {before:?}", hold.id));
    }
    if *change == HoldChange::Expired && event.at < hold.expires_at {
        found.push(format!("reservation {} expired before its deadline", hold.id));
    }
    found
}

/// Checks the counters of one line's item after a transition of the reservation. `number` is the line's place, from 0. `allowance` is how
/// far the item may be oversold.
pub fn line_violations(
    change: &HoldChange,
    hold: &Hold,
    line: &Line,
    number: usize,
    before: &StockCounters,
    after: &StockCounters,
    allowance: u64,
) -> Vec<String> {
    let mut found = Vec::new();
    let effect = change.effect(hold, line, number);
    let expected = before.after(&effect).map(|expected| StockCounters { at: after.at, ..expected });
    let follows = expected.as_ref() == Some(after)
        && before.at <= after.at
        && (effect.sequence == 0 || line.sequence == after.sequence);
    if !follows {
        found.push(format!("{:?}: {change:?} of {} leads from {before:?} to {after:?}", line.item, hold.id));
    }
    if after.fulfilled > after.confirmed_sold || after.held_under_payment > after.held {
        found.push(format!("{:?} has figures that contradict each other: {after:?}", line.item));
    }
    if is_oversold(after, allowance) {
        found.push(format!("{:?} is oversold: {after:?}", line.item));
    }
    found
}

/// Checks a change of an item by an operator against the item before it, `None` when it did not exist.
pub fn item_violations(change: &StockChange, before: Option<&Item>, after: &Item) -> Vec<String> {
    let step = u64::from(after.mode == Mode::Counted);
    let counters = &after.figures;
    let follows = match before {
        None => {
            *change == StockChange::Set
                && after.version == Item::first_version(after.created_at)
                && *counters
                    == StockCounters {
                        total_units: counters.total_units,
                        sequence: step,
                        ..StockCounters::none(counters.at)
                    }
        }
        Some(before) => {
            let total = match change {
                StockChange::Set => Some(counters.total_units),
                StockChange::PoolSet { .. }
                | StockChange::PoolDeleted { .. }
                | StockChange::PoolReleased { .. }
                | StockChange::UnitsPooled { .. } => Some(before.figures.total_units),
                StockChange::Adjusted { delta, .. } => before.figures.total_units.checked_add_signed(*delta),
                StockChange::UnitsAdded(units) => before.figures.total_units.checked_add(units.len() as u64),
                StockChange::UnitsRetired(units) => {
                    before.figures.total_units.checked_sub(units.len() as u64)
                }
                StockChange::Deleted => deletable(before).then_some(before.figures.total_units),
            };
            let of_units = matches!(
                change,
                StockChange::UnitsAdded(_) | StockChange::UnitsRetired(_) | StockChange::UnitsPooled { .. }
            );
            after.mode == before.mode
                && (!of_units || after.mode == Mode::Units)
                && after.version == before.version + 1
                && total == Some(counters.total_units)
                && counters.at >= before.figures.at
                && *counters
                    == StockCounters {
                        total_units: counters.total_units,
                        sequence: before.figures.sequence + step,
                        at: counters.at,
                        ..before.figures
                    }
        }
    };
    // What is set aside is promised too.
    let promised = StockCounters { held: counters.held.saturating_add(after.pools.set_aside()), ..*counters };
    if follows && !is_oversold(&promised, after.settings.oversell_allowance) {
        return Vec::new();
    }
    vec![format!("{:?}: {change:?} does not follow from the item before it", after.key)]
}

/// Checks a change of a record against the record before it, `None` when its id was never used.
pub fn record_violations(before: Option<&Record>, after: &Record) -> Vec<String> {
    let follows = after.version == before.map_or(0, |record| record.version) + 1
        && (after.value.is_some() || before.is_some_and(|record| record.value.is_some()));
    if follows {
        return Vec::new();
    }
    vec![format!(
        "record {:?} of kind {}: version {} does not follow from the record before it",
        after.key.id,
        after.key.kind.name(),
        after.version
    )]
}

/// Whether an item has no sale, no hold and no unit with an id, so that it may be deleted.
pub fn deletable(item: &Item) -> bool {
    let StockCounters { total_units, confirmed_sold, held, active, .. } = item.figures;
    (confirmed_sold, held, active) == (0, 0, 0) && (item.mode == Mode::Counted || total_units == 0)
}

/// Whether more units are promised than exist and may be oversold, or more left the shelf than exist.
pub fn is_oversold(counters: &StockCounters, allowance: u64) -> bool {
    let StockCounters { held, confirmed_sold, total_units, fulfilled, .. } = *counters;
    let sellable = u128::from(total_units) + u128::from(allowance);
    u128::from(held) + u128::from(confirmed_sold) > sellable || fulfilled > total_units
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_domain::{
        Disposition, HoldDetails, HoldTerms, ItemKey, Label, LineChange, MovedUnits, Payment, PaymentState,
        RecordKey, RecordKind, RecordValue, ReservationId, ReserveTerms,
    };

    fn line(quantity: u32) -> Line {
        let label = Label::new("a").unwrap();
        let item = ItemKey::new(&label, &label);
        Line {
            item,
            requested: quantity,
            quantity,
            fulfilled: 0,
            returned: 0,
            sequence: 0,
            units: None,
            details: None,
        }
    }

    fn counters(held: u64, confirmed_sold: u64, active: u64, sequence: u64) -> StockCounters {
        StockCounters {
            total_units: 10,
            confirmed_sold,
            held,
            active,
            sequence,
            ..StockCounters::none(stockhold_domain::Instant::from_micros(1))
        }
    }

    fn with(fulfilled: u64, held_under_payment: u64, counters: StockCounters) -> StockCounters {
        StockCounters { fulfilled, held_under_payment, ..counters }
    }

    /// A reservation of a line, whose payment has this state.
    fn hold(state: PaymentState) -> Hold {
        let (owner_id, at) = (Label::new("o").unwrap(), stockhold_domain::Instant::from_micros(1));
        let reserve = ReserveTerms { owner_id: owner_id.clone(), optional: None };
        let payment = Payment { id: owner_id, state, until: at, deadline_before: at, charge: None };
        let details = HoldDetails { payment: Some(payment), ..HoldDetails::default() };
        Hold {
            id: ReservationId::from_u128(1),
            status: Status::Active,
            expires_at: at,
            terms: HoldTerms { reserve, created_at: at, max_expires_at: at }.into(),
            lines: [line(3)].into(),
            closing: None,
            details: Some(Box::new(details)),
            version: 1,
            last_event: EventId::from_u128(1),
        }
    }

    fn moved(quantity: u32) -> MovedUnits {
        MovedUnits { quantity, places: Box::default() }
    }

    fn changed(quantity_before: u32) -> Box<[LineChange]> {
        [LineChange { quantity_before, ..LineChange::default() }].into()
    }

    /// Written again by hand, because the checks and the rules share the mapping.
    #[test]
    fn each_transition_moves_the_counters_that_it_should() {
        let returned = || HoldChange::Returned {
            lines: [moved(0), moved(2)].into(),
            fulfilled: [0, 1].into(),
            disposition: Disposition::Restock,
            reason: Label::new("r").unwrap(),
        };
        let amended = |before| HoldChange::Amended { lines: changed(before) };
        let (opened, closed) =
            (|prolonged| HoldChange::PaymentOpened { prolonged }, HoldChange::PaymentClosed { reason: None });
        let advanced = |status| HoldChange::PaymentAdvanced { status, state_changed: true };
        let fulfilled = || HoldChange::Fulfilled { lines: [moved(0), moved(2)].into() };
        let (into, from) = (ReservationId::from_u128(2), Box::default());
        let other = hold(PaymentState::Closed);
        let table = [
            (HoldChange::Created, 0, counters(0, 0, 0, 1), counters(3, 0, 1, 2)),
            (HoldChange::CreatedBySplit, 0, counters(0, 0, 0, 1), counters(3, 0, 1, 2)),
            (HoldChange::Extended, 0, counters(3, 0, 1, 2), counters(3, 0, 1, 2)),
            (amended(3), 0, counters(3, 0, 1, 2), counters(3, 0, 1, 2)),
            (amended(5), 0, counters(5, 0, 1, 2), counters(3, 0, 1, 3)),
            (amended(0), 0, counters(0, 0, 0, 2), counters(3, 0, 1, 3)),
            (HoldChange::Split { lines: changed(4), into }, 0, counters(4, 0, 1, 2), counters(3, 0, 1, 3)),
            (HoldChange::Merged { lines: changed(1), from }, 0, counters(1, 0, 1, 2), counters(3, 0, 1, 3)),
            (HoldChange::MergedAway, 0, counters(3, 0, 1, 2), counters(0, 0, 0, 3)),
            (opened(false), 0, counters(3, 0, 1, 2), with(0, 3, counters(3, 0, 1, 3))),
            (opened(true), 0, with(0, 3, counters(3, 0, 1, 3)), with(0, 3, counters(3, 0, 1, 3))),
            (closed, 0, with(0, 3, counters(3, 0, 1, 2)), counters(3, 0, 1, 3)),
            (advanced(Status::Active), 0, counters(3, 0, 1, 2), counters(3, 0, 1, 2)),
            (advanced(Status::Confirmed), 0, counters(0, 3, 0, 3), counters(0, 3, 0, 3)),
            (HoldChange::Confirmed, 0, counters(3, 0, 1, 2), counters(0, 3, 0, 3)),
            (HoldChange::Cancelled, 0, counters(3, 0, 1, 2), counters(0, 0, 0, 3)),
            (HoldChange::Expired, 0, counters(3, 0, 1, 2), counters(0, 0, 0, 3)),
            (HoldChange::Replaced, 0, counters(0, 0, 0, 3), counters(0, 0, 0, 3)),
            (fulfilled(), 0, counters(0, 3, 0, 3), counters(0, 3, 0, 3)),
            (fulfilled(), 1, counters(0, 3, 0, 3), with(2, 0, counters(0, 3, 0, 4))),
            (returned(), 0, counters(0, 3, 0, 3), counters(0, 3, 0, 3)),
            (returned(), 1, with(2, 0, counters(0, 3, 0, 3)), with(1, 0, counters(0, 1, 0, 4))),
        ];
        for (change, number, before, after) in table {
            assert_eq!(before.after(&change.effect(&other, &line(3), number)), Some(after), "{change:?}");
        }
        for (change, state, after) in [
            (HoldChange::Confirmed, PaymentState::Completed, counters(0, 3, 0, 3)),
            (HoldChange::Expired, PaymentState::Lapsed, counters(0, 0, 0, 3)),
        ] {
            let before = with(0, 3, counters(3, 0, 1, 2));
            assert_eq!(before.after(&change.effect(&hold(state), &line(3), 0)), Some(after), "{change:?}");
        }
        // The line that a change removes has no units left.
        let gone = HoldChange::Amended { lines: changed(3) }.effect(&other, &line(0), 0);
        assert_eq!(counters(3, 0, 1, 2).after(&gone), Some(counters(0, 0, 0, 3)));
        assert_eq!(counters(2, 0, 1, 2).after(&HoldChange::Expired.effect(&other, &line(3), 0)), None);
    }

    #[test]
    fn each_version_of_a_record_follows_the_one_before() {
        let record = |version, value: Option<&[u8]>| Record {
            key: RecordKey { kind: RecordKind::ApiKey, id: Label::new("a").unwrap() },
            version,
            value: value.map(|bytes| RecordValue::new(bytes).unwrap()),
        };
        let (there, deleted) = (record(4, Some(b"x")), record(4, None));
        for (before, after, follows) in [
            (None, record(1, Some(b"x")), true),
            (None, record(1, None), false),
            (None, record(2, Some(b"x")), false),
            (Some(&there), record(5, Some(b"x")), true),
            (Some(&there), record(5, None), true),
            (Some(&there), record(4, None), false),
            (Some(&there), record(6, Some(b"x")), false),
            (Some(&deleted), record(5, Some(b"x")), true),
            (Some(&deleted), record(1, Some(b"x")), false),
            (Some(&deleted), record(5, None), false),
        ] {
            assert_eq!(record_violations(before, &after).is_empty(), follows, "{before:?} to {after:?}");
        }
    }

    #[test]
    fn more_than_exists_is_oversold() {
        assert!(!is_oversold(&counters(4, 6, 1, 1), 0));
        assert!(is_oversold(&counters(5, 6, 1, 1), 0));
        assert!(!is_oversold(&counters(5, 6, 1, 1), 1));
        assert!(is_oversold(&counters(u64::MAX, u64::MAX, 1, 1), 1));
    }
}
