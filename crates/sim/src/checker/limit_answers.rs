//! Checks what answers say about limits. Everything is counted again from the durable reservations, not from counters.

use super::{Checked, broken};
use std::collections::BTreeMap;
use stockhold_domain::{
    Command, CounterKey, Event, ExceededLimit, Fulfilment, HoldChange, Instant, ItemKey, Label, Limit,
    LimitCounter, LimitTarget, LimitTerms, Mode, Outcome, Rejection, Reply, Reserve, Status, Subject,
    SubjectKind, Transition, limits,
};
use stockhold_model::NaiveState;
use stockhold_store::{LimitUsage, UsageRequest};

/// Checks the outcome of a command against the state after its own events.
pub(super) fn check(
    state: &NaiveState,
    command: &Command,
    outcome: &Outcome,
    own: &[Event],
    now: Instant,
) -> Checked {
    overridden(command, own)?;
    match (command, outcome) {
        // Which of its locations give is decided by stock, so only what the refusal says is checked here.
        (Command::Reserve(reserve), Outcome::Refused(Rejection::LimitExceeded(exceeded)))
            if reserve.basket.has_sources() =>
        {
            exceeds(state, exceeded)
        }
        (Command::Reserve(reserve), _) if reserve.basket.has_sources() => Ok(()),
        (Command::Reserve(reserve), Outcome::Done(Reply::Reservation(_))) => granted(state, reserve),
        (Command::Reserve(reserve), Outcome::Refused(rejection)) => refused(state, reserve, rejection, now),
        (_, Outcome::Refused(Rejection::LimitExceeded(exceeded))) => exceeds(state, exceeded),
        (_, Outcome::Refused(Rejection::NotReacquired { refusal, .. })) => match &**refusal {
            Rejection::LimitExceeded(exceeded) => exceeds(state, exceeded),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// An event names limits that were passed by only if its command was allowed to, and never an expiry that made room.
fn overridden(command: &Command, own: &[Event]) -> Checked {
    let may = match command {
        Command::Reserve(command) => command.override_limits,
        Command::Amend(command) => command.override_limits,
        Command::Transfer(command) => command.override_limits,
        Command::Merge(command) => command.override_limits,
        Command::Confirm(command) => command.override_limits,
        _ => false,
    };
    for event in own {
        let Transition::Hold { change, limits: Some(effects), .. } = &event.transition else { continue };
        if !effects.overridden.is_empty() && (!may || *change == HoldChange::Expired) {
            return broken("a limit", format!("{command:?} passed limits by: {event:?}"));
        }
    }
    Ok(())
}

/// A reserve that limits per customer need a customer for had one.
fn granted(state: &NaiveState, reserve: &Reserve) -> Checked {
    let nameless = demands(state, reserve).1;
    if nameless.is_empty() || reserve.override_limits {
        return Ok(());
    }
    broken("a limit", format!("granted without a customer, whom {nameless:?} need: {reserve:?}"))
}

/// Checks a refusal of a reserve: that it is right, and that nothing that is refused before it applies.
fn refused(state: &NaiveState, reserve: &Reserve, rejection: &Rejection, now: Instant) -> Checked {
    let (demands, nameless) = demands(state, reserve);
    let wrong = |why: &str| broken("a limit", format!("{why}: {rejection:?} of {reserve:?}"));
    let over: Vec<&CounterDemand> = demands.iter().filter(|demand| demand.units > demand.left()).collect();
    let nothing_left = |item: &ItemKey| {
        demands.iter().any(|demand| demand.left() == 0 && concerns(&demand.terms, item, channel(reserve)))
    };
    let all_without = reserve.basket.lines().iter().all(|line| nothing_left(&line.item));
    let refuses = !reserve.override_limits
        && !over.is_empty()
        && (reserve.fulfilment == Fulfilment::All || all_without);
    match rejection {
        Rejection::LimitExceeded(exceeded) => {
            let expected: Vec<ExceededLimit> = over.iter().map(|demand| demand.exceeded()).collect();
            if !refuses || !nameless.is_empty() || *exceeded != expected {
                return wrong(&format!("limits say {expected:?}"));
            }
            let is_due = |demand: &&CounterDemand| {
                state.holds.values().any(|hold| {
                    let mut counted = hold.lines.iter().flat_map(|line| &line.details().counted);
                    hold.status == Status::Active
                        && hold.is_due(now)
                        && counted.any(|count| count.key == demand.key)
                })
            };
            if let Some(demand) = over.into_iter().find(is_due) {
                return wrong(&format!("a due reservation counts for {:?}", demand.key));
            }
            nothing_before(state, reserve, rejection)
        }
        Rejection::CustomerRequired { limit_id } => {
            if reserve.override_limits || !nameless.contains(&limit_id) {
                return wrong(&format!("limits that need a customer: {nameless:?}"));
            }
            nothing_before(state, reserve, rejection)
        }
        Rejection::InsufficientInventory(_) | Rejection::UnitsUnavailable(_) => {
            if refuses || (!nameless.is_empty() && !reserve.override_limits) {
                return wrong(&format!("limits refuse it: {over:?}, {nameless:?}"));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Checks that a reserve which a limit refused is not refused for an earlier reason.
fn nothing_before(state: &NaiveState, reserve: &Reserve, rejection: &Rejection) -> Checked {
    for line in reserve.basket.lines() {
        let earlier = match state.items.get(&line.item) {
            None => Some("an unknown item"),
            Some(item) => {
                let location =
                    state.paused.iter().flatten().any(|paused| paused.as_str() == item.key.location());
                let most = if item.mode == Mode::Units { limits::LINE_UNITS } else { limits::LINE_QUANTITY };
                if state.paused.contains(&None) || location || item.paused {
                    Some("a pause")
                } else {
                    (line.quantity > most).then_some("too many units")
                }
            }
        };
        if let Some(earlier) = earlier {
            return broken("a limit", format!("{earlier} comes before {rejection:?} of {reserve:?}"));
        }
    }
    Ok(())
}

/// Checks that each of these limits has less left than is requested.
fn exceeds(state: &NaiveState, exceeded: &[ExceededLimit]) -> Checked {
    for one in exceeded {
        let limit = state.limits.get(&one.limit_id);
        let Some((limit, terms)) = limit.and_then(|limit| Some((limit, limit.terms.as_deref()?))) else {
            return broken("a limit", format!("it is not in force: {one:?}"));
        };
        let counted = counted(state, limit);
        let used = counted.iter().filter(|(subject, _)| subject.name() == one.subject.as_ref());
        let used = used.map(|(_, counter)| counter.used(terms.counts)).sum::<u64>();
        if (one.limit, one.used) != (terms.limit, used) || one.used + one.requested <= one.limit {
            return broken("a limit", format!("{used} of {} are used: {one:?}", terms.limit));
        }
    }
    if exceeded.is_empty() { broken("a limit", "refused by no limit") } else { Ok(()) }
}

/// What a query of a limit's use has to find.
pub(super) fn usage(state: &NaiveState, request: &UsageRequest) -> Option<LimitUsage> {
    let limit = state.limits.get(&request.limit_id).filter(|limit| limit.terms.is_some())?;
    let counted = counted(state, limit);
    let per = limit.terms.as_ref().and_then(|terms| terms.per);
    let counters = match (&request.subject, per) {
        (_, None) => vec![(None, counted.get(&Subject::Everyone).copied().unwrap_or_default())],
        (Some(name), Some(_)) => {
            let found = counted.iter().find(|(subject, _)| subject.name() == Some(name));
            vec![(Some(name.clone()), found.map(|(_, counter)| *counter).unwrap_or_default())]
        }
        (None, Some(_)) => {
            counted.iter().map(|(subject, counter)| (subject.name().cloned(), *counter)).collect()
        }
    };
    Some(LimitUsage { limit: limit.clone(), counters })
}

/// What a limit counts for each subject in its current generation. Subjects with nothing are left out.
fn counted(state: &NaiveState, limit: &Limit) -> BTreeMap<Subject, LimitCounter> {
    let mut all: BTreeMap<Subject, LimitCounter> = BTreeMap::new();
    for hold in state.holds.values() {
        for count in hold.lines.iter().flat_map(|line| &line.details().counted) {
            if (&count.key.limit, count.key.generation) != (&limit.id, limit.generation) {
                continue;
            }
            let counter = all.entry(count.key.subject.clone()).or_default();
            match hold.status {
                Status::Active => counter.held += u64::from(count.units),
                Status::Confirmed => counter.sold += u64::from(count.units),
                Status::Cancelled | Status::Expired => {}
            }
        }
    }
    all.retain(|_, counter| *counter != LimitCounter::default());
    all
}

/// What a reserve needs of one counter.
#[derive(Debug)]
struct CounterDemand {
    key: CounterKey,
    terms: LimitTerms,
    units: u64,
    used: u64,
}

impl CounterDemand {
    fn left(&self) -> u64 {
        self.terms.limit.saturating_sub(self.used)
    }

    fn exceeded(&self) -> ExceededLimit {
        ExceededLimit {
            limit_id: self.key.limit.clone(),
            limit: self.terms.limit,
            used: self.used,
            requested: self.units,
            subject: self.key.subject.name().cloned(),
        }
    }
}

fn channel(reserve: &Reserve) -> Option<&Label> {
    reserve.terms.optional.as_ref().and_then(|optional| optional.channel.as_ref())
}

/// Whether a limit counts units of an item that are reserved through a channel.
pub(super) fn concerns(terms: &LimitTerms, item: &ItemKey, channel: Option<&Label>) -> bool {
    let about = terms.targets.iter().any(|target| match target {
        LimitTarget::Sku(sku) => sku.as_str() == item.sku(),
        LimitTarget::Location(location) => location.as_str() == item.location(),
        LimitTarget::Item(key) => key == item,
    });
    about && (terms.channels.is_empty() || terms.channels.iter().any(|known| Some(known) == channel))
}

/// What a reserve needs of each counter, in the order of the limits, and the limits that need a customer and have none.
fn demands<'a>(state: &'a NaiveState, reserve: &Reserve) -> (Vec<CounterDemand>, Vec<&'a Label>) {
    let optional = reserve.terms.optional.as_deref().cloned().unwrap_or_default();
    let (mut demands, mut nameless) = (Vec::new(), Vec::new());
    for limit in state.limits.iter() {
        let Some(terms) = limit.terms.as_deref() else { continue };
        let lines = reserve.basket.lines().iter();
        let counted = lines.filter(|line| concerns(terms, &line.item, optional.channel.as_ref()));
        let units: u64 = counted.map(|line| line.quantity).sum();
        if units == 0 {
            continue;
        }
        let subject = match (terms.per, &optional.customer_id) {
            (None, _) => Subject::Everyone,
            (Some(SubjectKind::Owner), _) => Subject::Owner(reserve.terms.owner_id.clone()),
            (Some(SubjectKind::Customer), Some(customer)) => Subject::Customer(customer.clone()),
            (Some(SubjectKind::Customer), None) => {
                nameless.push(&limit.id);
                continue;
            }
        };
        let used = self::counted(state, limit).get(&subject).copied().unwrap_or_default().used(terms.counts);
        let key = CounterKey { limit: limit.id.clone(), generation: limit.generation, subject };
        demands.push(CounterDemand { key, terms: terms.clone(), units, used });
    }
    (demands, nameless)
}
