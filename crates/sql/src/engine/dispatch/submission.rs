//! Commands that always go into one batch together, and where their results go.

use super::claims::Claims;
use crate::engine::plan::{PlannedCommand, ReservationRefs};
use crate::engine::reply_batch::PendingReply;
use stockhold_domain::ReservationId;

/// Where the results of a submission go.
pub(super) enum ReplyTarget {
    /// The reply to a single command.
    Single(PendingReply),
    /// A sequence by its number, with the commands' numbers within it.
    Sequence(u64, Vec<usize>),
}

/// One command, or the next commands of a sequence.
pub(super) struct Submission {
    pub(super) planned: Vec<PlannedCommand>,
    pub(super) reply_target: ReplyTarget,
    pub(super) claims: Claims,
    pub(super) lines: usize,
    /// How many of the commands still count as waiting in the mailbox.
    pub(super) counted: usize,
}

impl Submission {
    pub(super) fn new(planned: Vec<PlannedCommand>, reply_target: ReplyTarget, counted: usize) -> Self {
        let all = |mut all: Claims, one| {
            all.add(&one);
            all
        };
        let claims = planned.iter().map(Claims::of).reduce(all).unwrap_or_default();
        let mut submission = Self { planned, reply_target, claims, lines: 0, counted };
        submission.count_lines();
        submission
    }

    /// The sequence of the commands, if there is one.
    pub(super) fn sequence(&self) -> Option<u64> {
        match &self.reply_target {
            ReplyTarget::Single(_) => None,
            ReplyTarget::Sequence(number, _) => Some(*number),
        }
    }

    /// Named reservations whose items have to be looked up.
    pub(super) fn unresolved(&self) -> impl Iterator<Item = ReservationId> {
        let unknown = self.planned.iter().filter(|planned| planned.refs.is_none());
        unknown.filter_map(|planned| planned.envelope.command.reservation())
    }

    /// Sets the references of named reservations. A reservation that was not found does not exist.
    pub(super) fn resolve(&mut self, refs_by_id: impl Fn(ReservationId) -> Option<ReservationRefs>) {
        for planned in self.planned.iter_mut().filter(|planned| planned.refs.is_none()) {
            let refs = planned.envelope.command.reservation().and_then(&refs_by_id).unwrap_or_default();
            self.claims.add(&Claims::of_items(refs.items.iter().cloned().collect()));
            planned.refs = Some(refs);
        }
        self.count_lines();
    }

    fn count_lines(&mut self) {
        self.lines = self.planned.iter().map(PlannedCommand::lines).sum();
    }
}
