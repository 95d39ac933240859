//! Checks limits and their counters: a counter moves by what its reservation gained or lost, and new units keep to the limit.

use super::limit_answers::concerns;
use super::{Checked, broken};
use std::collections::BTreeMap;
use stockhold_domain::{
    CounterKey, Event, Hold, HoldChange, Limit, LimitEffects, Line, Status, Subject, SubjectKind,
};
use stockhold_model::NaiveState;

/// Checks that a limit follows the one before it.
pub(super) fn check_limit(state: &NaiveState, event: &Event, limit: &Limit) -> Checked {
    let before = state.limits.get(&limit.id);
    let goes_on = before.is_some_and(|before| before.generation == limit.generation);
    let begins = limit.generation == limit.version && limit.terms.is_some();
    if limit.version == before.map_or(0, |before| before.version) + 1 && (goes_on || begins) {
        return Ok(());
    }
    broken("a limit", format!("{limit:?} does not follow {before:?}: {event:?}"))
}

/// Checks the counters of an event of a reservation.
pub(super) fn check(
    state: &NaiveState,
    event: &Event,
    (change, before, after): (&HoldChange, Option<&Hold>, &Hold),
    effects: Option<&LimitEffects>,
) -> Checked {
    for (number, line) in after.lines.iter().enumerate() {
        let old = before.and_then(|before| before.lines.iter().find(|old| old.item == line.item));
        let found = counts_of(line);
        match counts_after(state, change, (number, old, line), after) {
            Some(expected) if expected != found => {
                let what = format!("a line is counted by {found:?}, not {expected:?}: {event:?}");
                return broken("a limit", what);
            }
            _ => {}
        }
    }
    let mut expected: BTreeMap<&CounterKey, [i128; 2]> = BTreeMap::new();
    if let Some(before) = before {
        count(&mut expected, before, -1);
    }
    count(&mut expected, after, 1);
    expected.retain(|key, moved| *moved != [0, 0] && state.limits.current(key).is_some());
    let mut found = BTreeMap::new();
    for (key, counter) in effects.into_iter().flat_map(|effects| &*effects.counters) {
        let old = state.counters.get(key);
        let moved = |new: u64, old: u64| i128::from(new) - i128::from(old);
        let by = [moved(counter.held, old.held), moved(counter.sold, old.sold)];
        if by != [0, 0] {
            found.insert(key, by);
        }
        let Some(terms) = state.limits.current(key) else {
            return broken("a limit", format!("{key:?} counts for no limit: {event:?}"));
        };
        // A split or a merge gives units back in one event and takes them in the next.
        let takes = matches!(
            change,
            HoldChange::Created | HoldChange::Amended { .. } | HoldChange::Transferred { .. }
        );
        let (used, had) = (counter.used(terms.counts), old.used(terms.counts));
        let overridden = effects.is_some_and(|effects| effects.overridden.contains(&key.limit));
        if takes && used > had && used > terms.limit && !overridden {
            return broken("a limit", format!("{key:?} has {used} of {}: {event:?}", terms.limit));
        }
    }
    if expected == found {
        return Ok(());
    }
    broken("a limit", format!("counters moved by {found:?}, the reservation by {expected:?}: {event:?}"))
}

type LineCounts = BTreeMap<CounterKey, u32>;

fn counts_of(line: &Line) -> LineCounts {
    line.details().counted.iter().map(|count| (count.key.clone(), count.units)).collect()
}

/// The counters of a line after a change: units that come are counted by the limits in force, and those that came last leave first.
/// `None` where it depends on another reservation.
fn counts_after(
    state: &NaiveState,
    change: &HoldChange,
    (number, old, line): (usize, Option<&Line>, &Line),
    after: &Hold,
) -> Option<LineCounts> {
    let (mut counts, had) = old.map_or_else(Default::default, |old| (counts_of(old), old.quantity));
    let fewer = match change {
        HoldChange::CreatedBySplit => return None,
        HoldChange::Transferred { .. } => {
            // Units of all together stay where they are counted.
            let of_all = |counts: LineCounts| -> LineCounts {
                counts.into_iter().filter(|(key, _)| key.subject == Subject::Everyone).collect()
            };
            let others = counts_of(line).into_iter().filter(|(key, _)| key.subject != Subject::Everyone);
            return Some(of_all(counts).into_iter().chain(others).collect());
        }
        HoldChange::Returned { lines, .. } => lines.get(number)?.quantity,
        _ => had.saturating_sub(line.quantity),
    };
    for units in counts.values_mut() {
        *units = units.saturating_sub(fewer);
    }
    counts.retain(|_, units| *units > 0);
    let more = line.quantity.saturating_sub(had);
    if more == 0 {
        return Some(counts);
    }
    let terms = &after.terms.reserve;
    let optional = terms.optional.as_deref().cloned().unwrap_or_default();
    for limit in state.limits.iter() {
        let Some(said) = limit.terms.as_deref() else { continue };
        let subject = match said.per {
            None => Some(Subject::Everyone),
            Some(SubjectKind::Owner) => Some(Subject::Owner(terms.owner_id.clone())),
            Some(SubjectKind::Customer) => optional.customer_id.clone().map(Subject::Customer),
        };
        if let Some(subject) = subject.filter(|_| concerns(said, &line.item, optional.channel.as_ref())) {
            let key = CounterKey { limit: limit.id.clone(), generation: limit.generation, subject };
            *counts.entry(key).or_default() += more;
        }
    }
    Some(counts)
}

/// Adds what a reservation has under each counter: held and sold.
fn count<'a>(sums: &mut BTreeMap<&'a CounterKey, [i128; 2]>, reservation: &'a Hold, sign: i128) {
    for counted in reservation.lines.iter().flat_map(|line| &line.details().counted) {
        let [held, sold] = sums.entry(&counted.key).or_default();
        match reservation.status {
            Status::Active => *held += sign * i128::from(counted.units),
            Status::Confirmed => *sold += sign * i128::from(counted.units),
            Status::Cancelled | Status::Expired => {}
        }
    }
}
