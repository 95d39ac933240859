//! Checks the events of one reservation: its status, its version, its deadline, its terms, its payment and its relations
//! to other reservations.

use super::{Checked, broken, charge_checks, line_checks};
use std::collections::BTreeSet;
use stockhold_domain::{
    Event, Hold, HoldChange, HoldDetails, HoldTerms, Instant, ItemKey, Label, Line, LineChange,
    OptionalTerms, Parties, Payment, PaymentState, ReservationId, ReserveTerms, Seconds, Settings, Status,
    limits,
};
use stockhold_model::NaiveState;

/// The reason of a reservation that was merged into another one.
const MERGED: &str = "merged";

/// Checks that the events of a reservation form a chain and that its version counts them.
pub(super) fn check_chain(before: Option<&Hold>, event: &Event, hold: &Hold) -> Checked {
    if hold.last_event != event.id || event.previous != before.map(|before| before.last_event) {
        return broken("S12", format!("the chain of its events is broken: {event:?}, before it {before:?}"));
    }
    if hold.version != before.map_or(0, |before| before.version) + 1 {
        return broken("S12", format!("its version does not rise by 1: {event:?}, before it {before:?}"));
    }
    Ok(())
}

/// Checks the first event of a reservation.
pub(super) fn check_new(state: &NaiveState, event: &Event, change: &HoldChange, hold: &Hold) -> Checked {
    let wrong = |rule, words: &str| broken(rule, format!("{words}: {event:?}"));
    if hold.status != Status::Active || hold.closing.is_some() || hold.terms.created_at != event.at {
        return wrong("S3", "a new reservation is not active");
    }
    if event.at >= hold.expires_at {
        return wrong("S2", "it is due at once");
    }
    line_checks::check_new(event, hold)?;
    let details = hold.details();
    match change {
        HoldChange::Created => {
            if hold.expires_at > hold.terms.max_expires_at {
                return wrong("S9", "it is past its cap");
            }
            // Late money brings its payment with it.
            let payment = details.payment.clone().filter(|payment| {
                let came = |charge: &stockhold_domain::Charge| charge.awaits_capture() || charge.captured > 0;
                details.replaces.is_some() && payment.charge.as_deref().is_some_and(came)
            });
            let expected = HoldDetails { replaces: details.replaces, payment, ..HoldDetails::default() };
            if *details != expected {
                return wrong("S12", "it has a payment or relations");
            }
            match details.replaces.map(|id| state.holds.get(&id)) {
                None => Ok(()),
                Some(Some(old)) if is_replaced_by(old, hold) => Ok(()),
                Some(old) => wrong("S3", &format!("it does not replace {old:?}")),
            }
        }
        HoldChange::CreatedBySplit => {
            let source = details.split_from.and_then(|id| state.holds.get(&id));
            let Some(source) = source.filter(|source| source.details().split_into.last() == Some(&hold.id))
            else {
                return wrong("S12", "it was not split from anything");
            };
            let expected = HoldDetails {
                split_from: Some(source.id),
                first_payment_at: source.details().first_payment_at,
                ..HoldDetails::default()
            };
            let terms = HoldTerms { created_at: event.at, ..(*source.terms).clone() };
            if *details != expected || *hold.terms != terms || hold.expires_at != source.expires_at {
                return wrong("S2", "it does not have the terms of the reservation that it was split from");
            }
            Ok(())
        }
        _ => wrong("S3", "nothing was there"),
    }
}

/// Whether an expired reservation names this one as its replacement, and this one has all of its units.
fn is_replaced_by(old: &Hold, new: &Hold) -> bool {
    let units = |hold: &Hold| {
        let line = |line: &Line| {
            let mut ids: Vec<_> = line.units().iter().map(|unit| unit.id.clone()).collect();
            ids.sort_unstable();
            (line.item.clone(), line.quantity, ids)
        };
        let mut lines: Vec<_> = hold.lines.iter().map(line).collect();
        lines.sort_unstable();
        lines
    };
    old.status == Status::Expired
        && old.details().replaced_by == Some(new.id)
        && old.terms.reserve == new.terms.reserve
        && units(old) == units(new)
}

/// A change of a reservation that exists, and the state before it.
#[derive(Clone, Copy)]
pub(super) struct HoldTransition<'a> {
    pub(super) state: &'a NaiveState,
    pub(super) event: &'a Event,
    pub(super) change: &'a HoldChange,
    pub(super) before: &'a Hold,
    /// As the event has it, with the lines that it removes.
    pub(super) after: &'a Hold,
}

impl HoldTransition<'_> {
    pub(super) fn check(&self) -> Checked {
        self.check_status()?;
        self.check_terms()?;
        self.check_deadline()?;
        self.check_payment()?;
        self.check_details()?;
        self.check_closing()?;
        self.check_effect()?;
        charge_checks::check(self)?;
        line_checks::check(self)
    }

    pub(super) fn broken(&self, rule: &'static str, words: &str) -> Checked {
        broken(rule, format!("{words}: {:?}, before it {:?}", self.event, self.before))
    }

    fn check_status(&self) -> Checked {
        let Some(expected) = statuses(self.change) else { return self.broken("S3", "it was made twice") };
        if (self.before.status, self.after.status) != expected {
            return self.broken("S3", "its status does not allow that, or became another one");
        }
        if self.before.status != Status::Active {
            return Ok(());
        }
        let due = self.event.at >= self.before.expires_at;
        match self.change {
            HoldChange::Expired if !due => self.broken("S5", "it expired early"),
            HoldChange::Expired => Ok(()),
            _ if due => self.broken("S3", "it was due"),
            _ => Ok(()),
        }
    }

    /// Checks the terms, which few changes may touch, and only a part of them.
    fn check_terms(&self) -> Checked {
        let (before, after) = (&*self.before.terms, &*self.after.terms);
        let mut expected = before.clone();
        let old = before.reserve.optional.as_deref().cloned().unwrap_or_default();
        let new = after.reserve.optional.as_deref().cloned().unwrap_or_default();
        match self.change {
            HoldChange::Amended { lines } => {
                if let Some(latest) = self.latest_of_new_lines(lines) {
                    expected.max_expires_at = before.max_expires_at.min(latest);
                }
                let optional = OptionalTerms { metadata: new.metadata, ..old };
                expected.reserve = ReserveTerms::new(before.reserve.owner_id.clone(), optional);
            }
            HoldChange::Transferred { from } => {
                let parties = Parties {
                    owner_id: before.reserve.owner_id.clone(),
                    customer_id: old.customer_id.clone(),
                    session_id: old.session_id.clone(),
                };
                if **from != parties || before.reserve == after.reserve {
                    return self.broken("S12", "it was not transferred from these parties to others");
                }
                let optional =
                    OptionalTerms { customer_id: new.customer_id, session_id: new.session_id, ..old };
                expected.reserve = ReserveTerms::new(after.reserve.owner_id.clone(), optional);
            }
            HoldChange::Merged { from, .. } => {
                let sources = from.iter().filter_map(|id| self.state.holds.get(id));
                let earliest = sources.map(|source| source.terms.max_expires_at).min();
                expected.max_expires_at =
                    before.max_expires_at.min(earliest.unwrap_or(before.max_expires_at));
            }
            _ => {}
        }
        if *after == expected { Ok(()) } else { self.broken("S2", "its terms changed") }
    }

    /// The latest deadline that the lines allow which an amend brings in; `None` when there are none.
    fn latest_of_new_lines(&self, changes: &[LineChange]) -> Option<Instant> {
        let new = self.after.lines.iter().zip(changes).filter(|(_, change)| change.quantity_before == 0);
        let mut new = new.map(|(line, _)| &line.item).peekable();
        new.peek()?;
        let max_hold = shortest(self.state, new, |settings| settings.max_hold, Seconds::DEFAULT_MAX_HOLD);
        Some(self.event.at.deadline(max_hold))
    }

    fn items(&self) -> impl Iterator<Item = &ItemKey> {
        self.before.lines.iter().map(|line| &line.item)
    }

    /// Checks the deadline. Amend and extend never move it past its cap; a payment window may. It moves to an earlier
    /// instant in three cases: a window is closed, a line comes in whose item allows less, or a merge brings a cap.
    fn check_deadline(&self) -> Checked {
        let (old, new, at) = (self.before.expires_at, self.after.expires_at, self.event.at);
        let cap = self.after.terms.max_expires_at;
        if self.after.status == Status::Active && new <= at {
            return self.broken("S2", "it is due at once");
        }
        let fits = match self.change {
            HoldChange::Extended => new > old && new <= cap,
            HoldChange::Amended { lines } if new < old => self.latest_of_new_lines(lines) == Some(new),
            HoldChange::Amended { .. } => new == old || new <= cap,
            HoldChange::Merged { from, .. } => {
                // A deadline that a payment window moved past its cap stands for the units that it was given for.
                let sources = from.iter().filter_map(|id| self.state.holds.get(id));
                let latest = sources.map(|source| source.expires_at.max(source.terms.max_expires_at)).min();
                latest.is_some_and(|latest| new == old.min(latest))
            }
            HoldChange::PaymentOpened { .. } => {
                new == self.after.open_payment().map_or(old, |payment| payment.until.max(old))
            }
            HoldChange::PaymentClosed { .. } => {
                let usual = Seconds::DEFAULT_TTL;
                let default = shortest(self.state, self.items(), |settings| settings.default_ttl, usual);
                let grace = at.deadline(default.min(Seconds::GRACE_AFTER_PAYMENT));
                self.before.open_payment().is_some_and(|payment| new == payment.deadline_before.max(grace))
            }
            _ => new == old,
        };
        match (fits, self.change) {
            (true, _) => Ok(()),
            (false, HoldChange::Extended | HoldChange::Amended { .. }) => {
                self.broken("S9", "its deadline did not move as it may, or is past its cap")
            }
            (false, _) => self.broken("S2", "its deadline moved"),
        }
    }

    /// Checks what may happen to a reservation whose payment is under way, and the bounds of a window.
    fn check_payment(&self) -> Checked {
        let open = self.before.open_payment();
        let at = self.event.at;
        match self.change {
            HoldChange::PaymentOpened { prolonged } => {
                let Some(window) = self.after.open_payment() else {
                    return self.broken("S3", "no window is open");
                };
                let same = open.is_some_and(|open| {
                    open.id == window.id && open.until < window.until && open.charge.is_none()
                });
                if *prolonged != open.is_some() || (*prolonged && !same) {
                    return self.broken("S3", "another window was open, or it was not prolonged");
                }
                let usual = Seconds::DEFAULT_MAX_PAYMENT;
                let longest = shortest(self.state, self.items(), |settings| settings.max_payment, usual);
                let first = self.before.details().first_payment_at.unwrap_or(at);
                if window.until <= at || window.until > first.deadline(longest) {
                    return self.broken("S9", "its window is past its limit");
                }
                Ok(())
            }
            HoldChange::PaymentClosed { .. } if open.is_none() => self.broken("S3", "no window was open"),
            HoldChange::PaymentClosed { .. }
            | HoldChange::PaymentAdvanced { .. }
            | HoldChange::Confirmed
            | HoldChange::Expired => Ok(()),
            _ if open.is_some() => self.broken("S3", "its payment is under way"),
            _ => Ok(()),
        }
    }

    /// Checks the payment and the relations: each change touches its own field and no other.
    fn check_details(&self) -> Checked {
        let (before, after) = (self.before.details(), self.after.details());
        let mut expected = before.clone();
        match self.change {
            HoldChange::Split { into, .. } => relate(&mut expected.split_into, &[*into]),
            HoldChange::Merged { from, .. } => {
                relate(&mut expected.merged_from, from);
                let sources = from.iter().filter_map(|id| self.state.holds.get(id));
                let first = sources.filter_map(|source| source.details().first_payment_at);
                expected.first_payment_at = first.chain(before.first_payment_at).min();
            }
            HoldChange::MergedAway => {
                expected.merged_into = after.merged_into;
                let target = after.merged_into.filter(|id| *id != self.after.id);
                let target = target.and_then(|id| self.state.holds.get(&id));
                if !target.is_some_and(|target| target.status == Status::Active) {
                    return self.broken("S3", "it was merged into what is not active");
                }
            }
            HoldChange::Transferred { .. } => expected.transfers += 1,
            HoldChange::Replaced => {
                expected.replaced_by = after.replaced_by;
                let new = after.replaced_by.is_some_and(|id| !self.state.holds.contains_key(&id));
                if before.replaced_by.is_some() || !new {
                    return self.broken("S3", "it was replaced twice, or by what was there");
                }
            }
            HoldChange::PaymentOpened { .. } => {
                expected.first_payment_at = before.first_payment_at.or(Some(self.event.at));
                let known = self.before.open_payment();
                let deadline_before = known.map_or(self.before.expires_at, |open| open.deadline_before);
                expected.payment =
                    self.after.open_payment().map(|open| Payment { deadline_before, ..open.clone() });
            }
            HoldChange::PaymentClosed { .. } => end_payment(&mut expected, PaymentState::Closed),
            HoldChange::Expired => end_payment(&mut expected, PaymentState::Lapsed),
            HoldChange::Confirmed if self.before.open_payment().is_some() => {
                end_payment(&mut expected, PaymentState::Completed);
            }
            // Money that came late is confirmed with the payment that it came by.
            HoldChange::Confirmed
                if self
                    .before
                    .charge()
                    .is_some_and(|charge| charge.due_at.is_some() || charge.captured > 0) => {}
            HoldChange::Confirmed => {
                // A sale without a window has the payment that the confirm names, if it names one. It has no payment that was
                // declined before.
                let (until, deadline_before) = (self.event.at, self.before.expires_at);
                expected.payment = after.payment.as_ref().map(|payment| Payment {
                    id: payment.id.clone(),
                    state: PaymentState::Closed,
                    until,
                    deadline_before,
                    charge: None,
                });
            }
            _ => {}
        }
        // What changes of a charge is checked apart.
        if let (Some(expected), Some(after)) = (&mut expected.payment, &after.payment) {
            expected.charge.clone_from(&after.charge);
        }
        if after.authorizations >= expected.authorizations
            && after.authorizations - expected.authorizations <= 1
        {
            expected.authorizations = after.authorizations;
        }
        if *after == expected { Ok(()) } else { self.broken("S12", "its payment or its relations changed") }
    }

    /// An amend that changes nothing is no event. The order of lines and of their units is no change.
    fn check_effect(&self) -> Checked {
        let Self { before, after, .. } = self;
        let is_kept = |line: &Line| {
            let ids = |line: &Line| line.units().iter().map(|unit| unit.id.clone()).collect::<BTreeSet<_>>();
            let same = |old: &&Line| {
                (&old.item, old.requested, old.quantity) == (&line.item, line.requested, line.quantity)
                    && ids(old) == ids(line)
            };
            before.lines.iter().any(|old| same(&old))
        };
        let same = (&before.terms, before.expires_at) == (&after.terms, after.expires_at)
            && before.lines.len() == after.lines.len()
            && after.lines.iter().all(is_kept);
        match self.change {
            HoldChange::Amended { .. } if same => self.broken("S12", "it changed nothing"),
            _ => Ok(()),
        }
    }

    fn check_closing(&self) -> Checked {
        let (before, after) = (&self.before.closing, &self.after.closing);
        let fits = match after {
            None => self.after.status == Status::Active,
            Some(_) if self.before.status != Status::Active => before == after,
            Some(closing) => {
                let reason = closing.reason.as_ref().map(Label::as_str);
                let plain = match self.change {
                    HoldChange::MergedAway => reason == Some(MERGED) && closing.order_id.is_none(),
                    HoldChange::Cancelled => closing.order_id.is_none(),
                    HoldChange::Confirmed => reason.is_none(),
                    HoldChange::Expired => reason.is_none() && closing.order_id.is_none(),
                    _ => false,
                };
                plain && closing.at == self.event.at
            }
        };
        if fits { Ok(()) } else { self.broken("S3", "it does not say how it ended") }
    }
}

/// The status that a reservation has before and after a change; `None` for the change that creates it.
fn statuses(change: &HoldChange) -> Option<(Status, Status)> {
    use Status::{Active, Cancelled, Confirmed, Expired};
    Some(match change {
        HoldChange::Created | HoldChange::CreatedBySplit => return None,
        HoldChange::Amended { .. }
        | HoldChange::Transferred { .. }
        | HoldChange::Split { .. }
        | HoldChange::Merged { .. }
        | HoldChange::Extended
        | HoldChange::PaymentOpened { .. }
        | HoldChange::PaymentClosed { .. } => (Active, Active),
        HoldChange::PaymentAdvanced { status, .. } => (*status, *status),
        HoldChange::Confirmed => (Active, Confirmed),
        HoldChange::Cancelled | HoldChange::MergedAway => (Active, Cancelled),
        HoldChange::Expired => (Active, Expired),
        HoldChange::Replaced => (Expired, Expired),
        HoldChange::Fulfilled { .. } | HoldChange::Returned { .. } => (Confirmed, Confirmed),
    })
}

fn end_payment(details: &mut HoldDetails, state: PaymentState) {
    if let Some(payment) = details.payment.as_mut().filter(|payment| payment.state == PaymentState::Open) {
        payment.state = state;
    }
}

/// Adds to a list of related reservations, which keeps the newest ones.
fn relate(list: &mut Vec<ReservationId>, more: &[ReservationId]) {
    list.extend(more);
    let surplus = list.len().saturating_sub(limits::RELATED_RESERVATIONS);
    list.drain(..surplus);
}

/// The shortest time of a setting of items. The simulated service has no settings of its own.
fn shortest<'a>(
    state: &NaiveState,
    items: impl Iterator<Item = &'a ItemKey>,
    of: impl Fn(&Settings) -> Option<Seconds>,
    usual: Seconds,
) -> Seconds {
    let time = |key| state.items.get(key).and_then(|item| of(&item.settings)).unwrap_or(usual);
    items.map(time).min().unwrap_or(usual)
}
