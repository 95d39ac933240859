//! Checks answers: each request has exactly one answer, the answer is durable, and a request whose outcome is unknown
//! is never reported as refused.

use super::{Checked, Checker, Turner, broken, turns_of};
use crate::counters::{Count, Counters};
use std::collections::BTreeMap;
use std::rc::Rc;
use stockhold_domain::{Command, EventId, Hold, HoldChange, Item, Outcome, Reply};
use stockhold_store::{Answer, Failure, Query, QueryResult};

/// The request of a ticket.
#[derive(Clone, Debug)]
pub(crate) enum SentRequest {
    /// A command, known by the id that its event would have.
    One(EventId),
    /// Several commands of one request.
    All(Vec<EventId>),
    /// A query.
    Query(Query),
}

impl SentRequest {
    pub(super) fn commands(&self) -> impl Iterator<Item = &EventId> {
        let (one, all) = match self {
            Self::One(by) => (Some(by), &[][..]),
            Self::All(all) => (None, &**all),
            Self::Query(_) => (None, &[][..]),
        };
        one.into_iter().chain(all)
    }

    pub(super) fn query(&self) -> Option<&Query> {
        if let Self::Query(query) = self { Some(query) } else { None }
    }
}

/// The state of the store when it answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Condition {
    pub(crate) poisoned: bool,
    pub(crate) full: bool,
}

impl Checker {
    /// Checks an answer that the store put.
    pub(crate) fn answered(
        &mut self,
        ticket: u64,
        answer: &Result<Answer, Failure>,
        condition: Condition,
        counters: &mut Counters,
    ) -> Checked {
        let Some(asked) = self.asked.remove(&ticket) else {
            return broken("one answer", format!("nobody waits for {answer:?}"));
        };
        let alone = matches!(asked, SentRequest::One(_));
        match (&asked, answer) {
            (SentRequest::One(by), Ok(Answer::Outcome(outcome))) => self.outcome(*by, outcome),
            (SentRequest::All(all), Ok(Answer::Outcomes(outcomes))) if all.len() == outcomes.len() => {
                for (by, outcome) in all.iter().zip(outcomes) {
                    match outcome {
                        Ok(outcome) => self.outcome(*by, outcome)?,
                        Err(failure) => self.failed(*by, failure, condition, true, counters)?,
                    }
                }
                Ok(())
            }
            (SentRequest::Query(_), Ok(Answer::QueryResult(found))) => self.found(ticket, found),
            (SentRequest::Query(_), Err(Failure::Overloaded)) => Ok(()),
            (SentRequest::Query(_), Err(Failure::Unavailable(_) | Failure::OutcomeUnknown))
                if condition.poisoned =>
            {
                Ok(())
            }
            (SentRequest::One(_) | SentRequest::All(_), Err(failure)) => {
                asked.commands().try_for_each(|by| self.failed(*by, failure, condition, alone, counters))
            }
            _ => broken("one answer", format!("{answer:?} to {asked:?}")),
        }
    }

    fn outcome(&mut self, by: EventId, outcome: &Outcome) -> Checked {
        let Some((envelope, heard)) = self.commands.remove(&by) else {
            return broken("one answer", format!("nobody asked for {outcome:?}"));
        };
        match self.outcomes.remove(&by) {
            None => {
                return broken(
                    "S2",
                    format!("{:?} was answered and is not durable: {outcome:?}", envelope.command),
                );
            }
            Some(durable) if durable != *outcome => {
                return broken("S2", format!("answered {outcome:?}\n durable is {durable:?}"));
            }
            Some(_) => {}
        }
        match outcome {
            Outcome::Done(Reply::Reservation(hold)) | Outcome::Replayed(Reply::Reservation(hold)) => {
                self.told_of(hold, by, &heard)
            }
            Outcome::Done(Reply::Item { item, .. }) | Outcome::Replayed(Reply::Item { item, .. }) => {
                self.told_of_item(item);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A sequence in an answer is a turn of its item. A request that was sent after an answer has a later turn.
    fn told_of(&mut self, hold: &Hold, by: EventId, heard: &BTreeMap<Turner, u64>) -> Checked {
        for (turner, number) in hold.lines.iter().flat_map(turns_of) {
            let turn = (turner, number);
            let Some(taken) = self.turns.get(&turn) else {
                return broken("S11", format!("no transition has this number: {turn:?} of {hold:?}"));
            };
            let turner = turn.0;
            let late = *taken == by && heard.get(&turner).is_some_and(|heard| *heard >= number);
            if late && !self.retired.contains(&turner) {
                return broken("S11", format!("asked later and turned earlier: {turner:?}, heard {heard:?}"));
            }
            self.hear(turner, number);
        }
        let shown = (hold.quantity(), hold.expires_at);
        let durable = self.versions.get(&(hold.id, hold.version));
        if durable != Some(&shown) {
            return broken("S2", format!("units and deadline of this version are {durable:?}: {hold:?}"));
        }
        let version = self.acknowledged.entry(hold.id).or_default();
        *version = hold.version.max(*version);
        Ok(())
    }

    /// Records what answers may say about a reservation after a change of it.
    pub(super) fn promise(&mut self, change: &HoldChange, hold: &Hold) {
        let changed = self.changed.entry(hold.id).or_default();
        match change {
            HoldChange::Amended { .. } | HoldChange::Merged { .. } => {
                (changed.units, changed.deadline) = (hold.version, hold.version);
            }
            HoldChange::Split { .. } => changed.units = hold.version,
            HoldChange::PaymentClosed { .. } => changed.deadline = hold.version,
            _ => {}
        }
        self.versions.insert((hold.id, hold.version), (hold.quantity(), hold.expires_at));
    }

    fn told_of_item(&mut self, item: &Item) {
        self.hear((item.key.clone(), None), item.figures.sequence);
    }

    fn hear(&mut self, turner: Turner, number: u64) {
        if self.heard.get(&turner).is_none_or(|heard| *heard < number) {
            Rc::make_mut(&mut self.heard).insert(turner, number);
        }
    }

    fn failed(
        &mut self,
        by: EventId,
        failure: &Failure,
        condition: Condition,
        alone: bool,
        counters: &mut Counters,
    ) -> Checked {
        let Some((envelope, _)) = self.commands.get(&by) else {
            return broken("one answer", format!("nobody asked for {failure:?}"));
        };
        let command = &envelope.command;
        let allowed = match failure {
            Failure::Overloaded => true,
            Failure::Unavailable(_) => {
                condition.poisoned || condition.full && matches!(command, Command::Reserve(_))
            }
            // The first of several commands may be done when the last one fails.
            Failure::OutcomeUnknown => condition.poisoned || !alone,
            Failure::Internal(_) => false,
        };
        if !allowed {
            return broken("alarm", format!("{command:?} was answered {failure:?}"));
        }
        if *failure == Failure::OutcomeUnknown {
            counters.one(Count::Unknown);
            self.unknown.insert(by);
            return Ok(());
        }
        if self.outcomes.contains_key(&by) {
            return broken("S7", format!("{command:?} is durable and was answered {failure:?}"));
        }
        counters.one(Count::Unavailable);
        self.undone.insert(by);
        Ok(())
    }

    fn found(&mut self, ticket: u64, found: &QueryResult) -> Checked {
        let durable = self.found.remove(&ticket);
        let same = match (&durable, found) {
            (Some(QueryResult::Reservation(one)), QueryResult::Reservation(other)) => one == other,
            (Some(QueryResult::Items(one)), QueryResult::Items(other)) => one == other,
            (Some(QueryResult::LimitUsage(one)), QueryResult::LimitUsage(other)) => one == other,
            _ => false,
        };
        if same { Ok(()) } else { broken("S2", format!("found {found:?}\n durable is {durable:?}")) }
    }
}
