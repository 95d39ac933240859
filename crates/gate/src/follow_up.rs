//! What follows an answer of the store before, or while, its caller gets it.
//!
//! The answer to an admitted reserve goes to its caller at once; the admission is settled behind it. The answer to a command that may
//! give units back waits until the gate has the numbers of its items, so that a caller who has released units finds them.

use crate::counter::{Admission, CommittedUnits, Settlement};
use crate::item_table::ItemTable;
use crate::message::Message;
use crate::shared::Shared;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use stockhold_domain::{Hold, ItemKey, Line, Outcome, Rejection, Reply};
use stockhold_store::{Answer, Failure, Inbox, ReplyTo};

/// What follows the answer to a request.
pub(crate) struct FollowUp {
    pub(crate) reply: ReplyTo,
    pub(crate) commands: FollowedCommands,
}

/// What follows, for each command of the request.
pub(crate) enum FollowedCommands {
    One(Followed),
    /// In the order in which the caller sent them. The store has got those that are [`Part::Sent`].
    Many(Vec<Part>),
}

/// One of several commands.
pub(crate) enum Part {
    /// The store decides it.
    Sent(Followed),
    /// The gate has refused it.
    Refused(Rejection),
}

/// What follows the outcome of one command.
#[derive(Default)]
pub(crate) struct Followed {
    /// What the gate has admitted for it.
    pub(crate) admissions: Vec<(ItemKey, Admission)>,
    /// Whether the store was asked although the gate had no units.
    pub(crate) was_empty: bool,
    /// Whether it may give units back.
    pub(crate) may_raise: bool,
    /// The item that it changes itself.
    pub(crate) item: Option<ItemKey>,
    /// Whether it pauses or resumes something.
    pub(crate) changes_pauses: bool,
}

/// What one or more outcomes mean for the gate.
#[derive(Default)]
struct Consequences {
    settled: Vec<(ItemKey, Settlement)>,
    raised: Vec<ItemKey>,
    suspect: Vec<ItemKey>,
    changes_pauses: bool,
}

/// The inbox of requests whose answers have a follow-up.
pub(crate) struct FollowUpInbox {
    /// The store may keep the inbox, and must not keep itself alive with it.
    shared: Weak<Shared>,
    next_ticket: AtomicU64,
    waiting: Mutex<HashMap<u64, FollowUp>>,
    /// Inboxes of callers that were given answers since the last flush.
    unflushed: Mutex<Vec<Arc<dyn Inbox>>>,
}

impl FollowUpInbox {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::downgrade(shared),
            next_ticket: AtomicU64::new(0),
            waiting: Mutex::default(),
            unflushed: Mutex::default(),
        }
    }

    /// The address for the answer to a request.
    pub(crate) fn address(self: &Arc<Self>, follow_up: FollowUp) -> ReplyTo {
        let ticket = self.next_ticket.fetch_add(1, Ordering::Relaxed);
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(ticket, follow_up);
        ReplyTo { inbox: Arc::clone(self) as Arc<dyn Inbox>, ticket }
    }

    /// Gives a caller its answer. The next flush wakes the caller.
    pub(crate) fn give_answer(&self, reply: ReplyTo, answer: Result<Answer, Failure>) {
        reply.inbox.put(reply.ticket, answer);
        let mut unflushed = self.unflushed.lock().unwrap_or_else(PoisonError::into_inner);
        if !unflushed.iter().any(|inbox| Arc::ptr_eq(inbox, &reply.inbox)) {
            unflushed.push(reply.inbox);
        }
    }
}

impl Inbox for FollowUpInbox {
    fn put(&self, ticket: u64, answer: Result<Answer, Failure>) {
        let follow_up = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&ticket);
        let Some(FollowUp { reply, commands }) = follow_up else { return };
        let mut consequences = Consequences::default();
        let shared = self.shared.upgrade();
        let answer = consequences.of_answer(shared.as_deref(), commands, answer);
        // The gate has ended, and nothing follows.
        let Some(shared) = shared else { return self.give_answer(reply, answer) };
        let Consequences { settled, raised, suspect, changes_pauses } = consequences;
        if !settled.is_empty() {
            shared.send(Message::Settle(settled));
        }
        if !suspect.is_empty() {
            shared.suspect(suspect, false);
        }
        if raised.is_empty() && !changes_pauses {
            self.give_answer(reply, answer);
        } else {
            shared.send(Message::RaiseFirst { items: raised, changes_pauses, reply, answer });
        }
    }

    fn flush(&self) {
        let unflushed = std::mem::take(&mut *self.unflushed.lock().unwrap_or_else(PoisonError::into_inner));
        for inbox in unflushed {
            inbox.flush();
        }
    }
}

impl Consequences {
    /// The answer for the caller.
    fn of_answer(
        &mut self,
        shared: Option<&Shared>,
        commands: FollowedCommands,
        answer: Result<Answer, Failure>,
    ) -> Result<Answer, Failure> {
        match (commands, answer) {
            (FollowedCommands::One(followed), answer) => {
                match &answer {
                    Ok(Answer::Outcome(outcome)) => self.of_outcome(shared, followed, Ok(outcome)),
                    Ok(Answer::Outcomes(_) | Answer::QueryResult(_)) => {}
                    Err(failure) => self.of_outcome(shared, followed, Err(failure)),
                }
                answer
            }
            (FollowedCommands::Many(parts), Ok(Answer::Outcomes(outcomes))) => {
                let mut outcomes = outcomes.into_iter();
                let mut all = Vec::with_capacity(parts.len());
                for part in parts {
                    all.push(match part {
                        Part::Refused(rejection) => Ok(Outcome::Refused(rejection)),
                        Part::Sent(followed) => {
                            let outcome = outcomes.next().unwrap_or(Err(Failure::OutcomeUnknown));
                            self.of_outcome(shared, followed, outcome.as_ref());
                            outcome
                        }
                    });
                }
                Ok(Answer::Outcomes(all))
            }
            (FollowedCommands::Many(parts), answer) => {
                if let Err(failure) = &answer {
                    for part in parts {
                        if let Part::Sent(followed) = part {
                            self.of_outcome(shared, followed, Err(failure));
                        }
                    }
                }
                answer
            }
        }
    }

    fn of_outcome(
        &mut self,
        shared: Option<&Shared>,
        followed: Followed,
        outcome: Result<&Outcome, &Failure>,
    ) {
        let Some(shared) = shared else { return };
        let Followed { admissions, was_empty, may_raise, item, changes_pauses } = followed;
        match outcome {
            Ok(Outcome::Done(reply)) => {
                let hold = if let Reply::Reservation(hold) = reply { Some(hold) } else { None };
                if let Some(hold) = hold {
                    shared.table.learn_hold(hold);
                }
                self.settle(admissions, |item| {
                    let line = line_of(hold?, item)?;
                    Some(CommittedUnits { units: line.quantity.into(), sequence: line.sequence })
                });
                self.changes_pauses |= changes_pauses;
                if may_raise || was_empty {
                    let changed = changed_items(&shared.table, reply, item);
                    if may_raise { self.raised.extend(changed) } else { self.suspect.extend(changed) }
                }
            }
            // A replay took its units when it was first done.
            Ok(Outcome::Replayed(_) | Outcome::Later) => self.settle(admissions, |_| None),
            Ok(Outcome::Refused(rejection)) => {
                if let Rejection::InsufficientInventory(shortages) = rejection {
                    shared.table.learn_shortages(shortages);
                    // The gate has admitted more than there was.
                    let short = |item: &ItemKey| shortages.iter().any(|shortage| shortage.item == *item);
                    let admitted = admissions.iter().map(|(item, _)| item);
                    self.suspect.extend(admitted.filter(|item| short(item)).cloned());
                }
                self.settle(admissions, |_| None);
            }
            Err(Failure::Overloaded | Failure::Unavailable(_) | Failure::Internal(_)) => {
                self.settle(admissions, |_| None);
            }
            // The units may be taken. A reload finds out.
            Err(Failure::OutcomeUnknown) => self.suspect.extend(admissions.into_iter().map(|(item, _)| item)),
        }
    }

    fn settle(
        &mut self,
        admissions: Vec<(ItemKey, Admission)>,
        taken: impl Fn(&ItemKey) -> Option<CommittedUnits>,
    ) {
        self.settled.extend(admissions.into_iter().map(|(item, admission)| {
            let taken = taken(&item);
            (item, Settlement { admission, taken })
        }));
    }
}

fn line_of<'a>(hold: &'a Hold, item: &ItemKey) -> Option<&'a Line> {
    hold.lines.iter().find(|line| line.item == *item)
}

/// The gated items that a command changed, also one that is not gated any more. `item` is the item that the command names.
fn changed_items(table: &ItemTable, reply: &Reply, item: Option<ItemKey>) -> Vec<ItemKey> {
    let content = table.read();
    match reply {
        Reply::Reservation(hold) => {
            let items = hold.lines.iter().map(|line| &line.item);
            items.filter(|item| content.is_gated(item)).cloned().collect()
        }
        Reply::Item { item, .. } if table.wants(item) => vec![item.key.clone()],
        Reply::Item { .. }
        | Reply::ItemDeleted
        | Reply::Sale { .. }
        | Reply::Units { .. }
        | Reply::Swept { .. }
        | Reply::Limit { .. }
        | Reply::Record(_) => item.into_iter().filter(|item| content.is_gated(item)).collect(),
    }
}
