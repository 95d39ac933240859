//! Flaws: mistakes that the simulator makes on purpose, to prove that its checker notices them. Most are steps of the store
//! in the wrong order, the others are wrong events. A flaw is in the simulator, which takes the steps and writes these
//! events; the rules and the core of the store stay correct.

use std::sync::Arc;
use stockhold_domain::{
    Event, Hold, HoldChange, Line, LineChange, Status, StockChange, StockCounters, Transition,
};

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Answers are put before the sync.
    AnswersBeforeSync,
    /// Refusals are put before the state that they depend on is synced.
    RefusesBeforeSync,
    /// Items are published before the sync.
    PublishesBeforeSync,
    /// The sync is skipped: a power cut loses the newest commit.
    SkipsSync,
    /// The index is written before the log is synced, and so it is ahead of the log.
    IndexesBeforeSync,
    /// A commit that failed is written again.
    RetriesFailedCommit,
    /// A commit that failed is reported as not done, before its outcome is known.
    ReportsFailedCommitAsUndone,
    /// A start drops the newest batch of the log.
    DropsNewestBatchAtStart,
    /// A start does not clamp the clock to the newest committed instant.
    IgnoresCommittedTimeAtStart,
    /// Memory forgets keys before the index has them.
    ForgetsKeysBeforeIndexed,
    /// A commit is written without its keys.
    LosesKeys,
    /// A retried request is executed as a new one.
    ExecutesRetryAsNew,
    /// The sweeper's clock is two seconds ahead.
    ExpiresEarly,
    /// A split leaves one of the units in the old reservation, and the new one has it too.
    SplitKeepsUnit,
    /// A merge loses one of the units.
    MergeLosesUnit,
    /// A payment window that is closed keeps its deadline.
    ClosedWindowKeepsDeadline,
    /// An expired reservation whose units are taken again is confirmed as well.
    ConfirmsReplaced,
    /// Units that leave the shelf are not counted.
    FulfilsUncounted,
    /// Units that are written off stay in the total.
    WritesNothingOff,
    /// Limits still count the units of a reservation that expired.
    ExpiryKeepsLimitCounters,
    /// A start does not read what limits count from the index.
    ForgetsLimitCountersAtStart,
}

impl Flaw {
    /// All flaws.
    pub const ALL: [Self; 21] = [
        Self::AnswersBeforeSync,
        Self::RefusesBeforeSync,
        Self::PublishesBeforeSync,
        Self::SkipsSync,
        Self::IndexesBeforeSync,
        Self::RetriesFailedCommit,
        Self::ReportsFailedCommitAsUndone,
        Self::DropsNewestBatchAtStart,
        Self::IgnoresCommittedTimeAtStart,
        Self::ForgetsKeysBeforeIndexed,
        Self::LosesKeys,
        Self::ExecutesRetryAsNew,
        Self::ExpiresEarly,
        Self::SplitKeepsUnit,
        Self::MergeLosesUnit,
        Self::ClosedWindowKeepsDeadline,
        Self::ConfirmsReplaced,
        Self::FulfilsUncounted,
        Self::WritesNothingOff,
        Self::ExpiryKeepsLimitCounters,
        Self::ForgetsLimitCountersAtStart,
    ];

    /// Makes the events of a commit wrong, if that is the mistake.
    pub(crate) fn falsify(self, events: &mut [Event]) {
        let mut returned = false;
        let mut split = Vec::new();
        for event in events {
            match &mut event.transition {
                Transition::Hold { change, hold, figures, limits } => {
                    returned = matches!(change, HoldChange::Returned { .. });
                    match (self, &*change) {
                        (Self::SplitKeepsUnit, HoldChange::Split { lines, .. }) => {
                            split = add_unit(hold, figures, lines, 1);
                        }
                        (Self::SplitKeepsUnit, HoldChange::CreatedBySplit) => {
                            let lines = hold.lines.iter().zip(&mut **figures);
                            lines
                                .filter(|(line, _)| split.contains(&line.item))
                                .for_each(|(_, figures)| figures.held += 1);
                        }
                        (Self::MergeLosesUnit, HoldChange::Merged { lines, .. }) => {
                            add_unit(hold, figures, lines, -1);
                        }
                        (Self::ClosedWindowKeepsDeadline, HoldChange::PaymentClosed { .. }) => {
                            let until = hold.details().payment.as_ref().map(|payment| payment.until);
                            hold.expires_at =
                                until.map_or(hold.expires_at, |until| until.max(hold.expires_at));
                        }
                        (Self::ExpiryKeepsLimitCounters, HoldChange::Expired) => {
                            if let Some(effects) = limits {
                                effects.counters = Box::default();
                            }
                        }
                        (Self::ConfirmsReplaced, HoldChange::Replaced) => hold.status = Status::Confirmed,
                        (Self::FulfilsUncounted, HoldChange::Fulfilled { lines }) => {
                            for (figures, moved) in figures.iter_mut().zip(lines) {
                                figures.fulfilled -= u64::from(moved.quantity);
                            }
                        }
                        _ => {}
                    }
                }
                Transition::Stock { change, item } if self == Self::WritesNothingOff && returned => {
                    item.figures.total_units += match change {
                        StockChange::Adjusted { delta, .. } => delta.unsigned_abs(),
                        StockChange::UnitsRetired(units) => units.len() as u64,
                        StockChange::Set
                        | StockChange::UnitsAdded(_)
                        | StockChange::Deleted
                        | StockChange::PoolSet { .. }
                        | StockChange::PoolDeleted { .. }
                        | StockChange::PoolReleased { .. }
                        | StockChange::UnitsPooled { .. } => 0,
                    };
                }
                Transition::Stock { .. }
                | Transition::Sale { .. }
                | Transition::Limit { .. }
                | Transition::Record { .. } => {}
            }
        }
    }
}

/// Adds a unit to the first counted line that an event changes and leaves, or takes one from it, so that the line still
/// changes. The counters stay those of the line. Returns the line's item.
fn add_unit(
    hold: &mut Hold,
    figures: &mut [StockCounters],
    changes: &[LineChange],
    units: i32,
) -> Vec<stockhold_domain::ItemKey> {
    let mut lines: Vec<Line> = hold.lines.to_vec();
    for ((line, figures), change) in lines.iter_mut().zip(figures).zip(changes) {
        let quantity = line.quantity.saturating_add_signed(units);
        let is_changed = line.quantity != change.quantity_before && quantity != change.quantity_before;
        if line.units.is_some() || line.quantity == 0 || !is_changed {
            continue;
        }
        line.quantity = quantity;
        line.requested = line.requested.saturating_add_signed(units);
        figures.held = figures.held.saturating_add_signed(units.into());
        let item = line.item.clone();
        hold.lines = Arc::from(lines);
        return vec![item];
    }
    Vec::new()
}
