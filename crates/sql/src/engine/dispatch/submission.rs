//! Commands that were submitted together, and where their results go.

use super::claims::Claims;
use crate::engine::plan::{PlannedCommand, ReservationRefs, named_hold};
use crate::engine::reply_batch::PendingReply;
use stockhold_domain::ReservationId;

/// Who is told.
pub(super) enum ReplyTarget {
    /// Whoever asked for one command.
    Single(PendingReply),
    /// The sequence of this number; the commands' numbers within it.
    Sequence(u64, Vec<usize>),
}

/// Commands that go together into whatever batch takes them: one, or the next of a sequence.
pub(super) struct Submission {
    pub(super) planned: Vec<PlannedCommand>,
    pub(super) reply_target: ReplyTarget,
    pub(super) claims: Claims,
    pub(super) lines: usize,
    /// How many of them still count as waiting.
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

    /// The sequence that it is of.
    pub(super) fn sequence(&self) -> Option<u64> {
        match &self.reply_target {
            ReplyTarget::Single(_) => None,
            ReplyTarget::Sequence(number, _) => Some(*number),
        }
    }

    /// Reservations that commands name and whose items are not known.
    pub(super) fn unresolved(&self) -> impl Iterator<Item = ReservationId> {
        let unknown = self.planned.iter().filter(|planned| planned.refs.is_none());
        unknown.filter_map(|planned| named_hold(&planned.envelope.command))
    }

    /// Fills in what is known by now; what is not does not exist.
    pub(super) fn resolve(&mut self, refs_by_id: impl Fn(ReservationId) -> Option<ReservationRefs>) {
        for planned in self.planned.iter_mut().filter(|planned| planned.refs.is_none()) {
            let refs = named_hold(&planned.envelope.command).and_then(&refs_by_id).unwrap_or_default();
            self.claims.add(&Claims::all_of(refs.items.iter().cloned().collect()));
            planned.refs = Some(refs);
        }
        self.count_lines();
    }

    fn count_lines(&mut self) {
        self.lines = self.planned.iter().map(PlannedCommand::lines).sum();
    }
}
