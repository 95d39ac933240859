//! Counts which kinds of events and answers a history has.

use super::Checker;
use crate::counters::{Count, Counters};
use stockhold_domain::{
    Command, CommandKind, Disposition, Hold, HoldChange, Outcome, PaymentState, Rejection, Reply,
};

impl Checker {
    /// Counts a change of a reservation. `before` is the reservation before it.
    pub(super) fn count(
        &mut self,
        change: &HoldChange,
        before: Option<&Hold>,
        hold: &Hold,
        command: &Command,
        counters: &mut Counters,
    ) {
        if hold.lines.iter().any(|line| line.units.is_some()) {
            counters.one(units(change));
        }
        counters.more(Count::Backordered, hold.lines.iter().any(|line| line.details.is_some()).into());
        let cap = hold.terms.max_expires_at;
        let count = match change {
            HoldChange::Created if hold.details().replaces.is_some() => Count::Reacquired,
            HoldChange::Created if hold.lines.iter().any(|line| line.quantity < line.requested) => {
                Count::Partial
            }
            HoldChange::Created
            | HoldChange::CreatedBySplit
            | HoldChange::Replaced
            | HoldChange::Cancelled => return,
            HoldChange::Amended { lines } => {
                let mut pairs = lines.iter().zip(&*hold.lines);
                counters
                    .more(Count::AmendedToNewItem, pairs.any(|(line, _)| line.quantity_before == 0).into());
                let pairs = || lines.iter().zip(&*hold.lines);
                let grows = pairs().any(|(line, now)| now.quantity > line.quantity_before);
                let shrinks = pairs().any(|(line, now)| now.quantity < line.quantity_before);
                counters.more(Count::AmendedGrown, grows.into());
                counters.more(Count::AmendedShrunk, shrinks.into());
                let before = before.map(|before| (before.expires_at, &before.terms.reserve));
                let (deadline, terms) = before.unzip();
                counters.more(Count::AmendedDeadline, (deadline != Some(hold.expires_at)).into());
                counters.more(Count::AmendedMetadata, (terms != Some(&hold.terms.reserve)).into());
                Count::Amended
            }
            HoldChange::Transferred { .. } => Count::Transferred,
            HoldChange::Split { .. } => Count::Split,
            HoldChange::Merged { .. } => Count::Merged,
            HoldChange::MergedAway => Count::MergedAway,
            HoldChange::PaymentOpened { prolonged: true } => Count::PaymentProlonged,
            HoldChange::PaymentOpened { prolonged: false } => {
                counters.more(Count::PaymentPastCap, (hold.expires_at > cap).into());
                Count::PaymentOpened
            }
            HoldChange::PaymentClosed { .. } => {
                counters.more(Count::GracePastCap, (hold.expires_at > cap).into());
                Count::PaymentClosed
            }
            HoldChange::Expired => {
                let lapsed = hold.details().payment.as_ref();
                let lapsed = lapsed.is_some_and(|payment| payment.state == PaymentState::Lapsed);
                counters.more(Count::PaymentLapsed, lapsed.into());
                expiry(hold, command)
            }
            HoldChange::Extended if hold.expires_at == cap => Count::ExtendedToCap,
            HoldChange::Extended => Count::Extended,
            HoldChange::Fulfilled { .. } => Count::Fulfilled,
            HoldChange::Returned { fulfilled, disposition, .. } => {
                if self.sold.get(&hold.id).is_some_and(|sold| *sold <= self.started_at) {
                    counters.one(Count::ReturnedAfterCrash);
                }
                counters.more(Count::ReturnedByBuyer, fulfilled.iter().any(|units| *units > 0).into());
                counters.more(Count::WrittenOff, (*disposition == Disposition::WriteOff).into());
                Count::Returned
            }
            HoldChange::Confirmed => {
                self.sold.insert(hold.id, self.number);
                match hold.details().payment.as_ref().map(|payment| payment.state) {
                    Some(PaymentState::Completed) => Count::ConfirmedInWindow,
                    _ => return,
                }
            }
        };
        counters.one(count);
    }
}

/// The counter of a change of a reservation that has units with ids.
fn units(change: &HoldChange) -> Count {
    match change {
        HoldChange::Created => Count::UnitsHeld,
        HoldChange::Confirmed => Count::UnitsSold,
        HoldChange::Returned { .. } => Count::UnitsReturned,
        HoldChange::Amended { .. } => Count::UnitsAmended,
        HoldChange::Split { .. } | HoldChange::CreatedBySplit => Count::UnitsSplit,
        HoldChange::Merged { .. } | HoldChange::MergedAway => Count::UnitsMerged,
        HoldChange::Fulfilled { .. } => Count::UnitsFulfilled,
        HoldChange::Replaced => Count::UnitsReacquired,
        HoldChange::Cancelled
        | HoldChange::Expired
        | HoldChange::Extended
        | HoldChange::Transferred { .. }
        | HoldChange::PaymentOpened { .. }
        | HoldChange::PaymentClosed { .. } => Count::UnitsLetGo,
    }
}

/// The counter of an expiry.
fn expiry(hold: &Hold, command: &Command) -> Count {
    match command {
        Command::Sweep => Count::ExpiredBySweep,
        Command::Reserve(_) => Count::ExpiredOnDemand,
        Command::Amend(_) | Command::Confirm(_) if command.reservation() != Some(hold.id) => {
            Count::ExpiredOnDemand
        }
        _ => Count::ExpiredByOwn,
    }
}

/// Counts a command that was answered, by its outcome and by its kind.
pub(super) fn count_outcome(command: &Command, outcome: &Outcome, counters: &mut Counters) {
    counters.one(branch(outcome));
    match (command.kind(), outcome) {
        (kind, Outcome::Refused(rejection)) => {
            if let Some(count) = refused(kind, rejection) {
                counters.one(count);
            }
        }
        (CommandKind::Confirm, Outcome::Done(Reply::Reservation(hold)))
            if command.reservation() != Some(hold.id) =>
        {
            counters.one(Count::LateConfirm);
        }
        (CommandKind::SetStock, Outcome::Done(_)) => {
            let is_count = matches!(command, Command::SetStock(set) if set.shelf.is_some());
            counters.more(Count::ShelfCounted, is_count.into());
        }
        _ => {}
    }
}

/// The counter of an outcome.
fn branch(outcome: &Outcome) -> Count {
    match outcome {
        Outcome::Done(_) => Count::Done,
        Outcome::Replayed(_) => Count::Replay,
        Outcome::Later => Count::Later,
        Outcome::Refused(rejection) => match rejection {
            Rejection::IdempotencyMismatch => Count::Mismatch,
            Rejection::InsufficientInventory(_) => Count::Insufficient,
            Rejection::SalePaused(_) => Count::Paused,
            Rejection::OutsideSaleWindow { .. } => Count::OutsideWindow,
            Rejection::ExceedsOnHand { .. } => Count::ExceedsOnHand,
            Rejection::ReservationExpired { .. } => Count::TooLate,
            Rejection::ExtensionLimit { .. } => Count::ExtensionLimit,
            Rejection::ReturnExceedsSold { .. } => Count::ReturnExceeds,
            Rejection::UnitsUnavailable(_) => Count::UnitsUnavailable,
            Rejection::UnitInUse { .. } => Count::UnitInUse,
            Rejection::ItemInUse { .. } => Count::ItemInUse,
            Rejection::RecordChanged { .. } => Count::RecordChanged,
            Rejection::PaymentInProgress { .. } => Count::PaymentInProgress,
            Rejection::PreconditionFailed { .. } => Count::PreconditionFailed,
            Rejection::SplitExceedsHeld { .. } => Count::SplitExceeds,
            Rejection::FulfilExceedsSold { .. } => Count::FulfilExceeds,
            Rejection::ReservationNotConfirmed(_) => Count::NotConfirmed,
            Rejection::NotReacquired { .. } => Count::NotReacquired,
            _ => Count::Refused,
        },
    }
}

/// The counter of a refused command that changes a reservation.
fn refused(kind: CommandKind, rejection: &Rejection) -> Option<Count> {
    Some(match (kind, rejection) {
        (CommandKind::Amend, Rejection::InsufficientInventory(_) | Rejection::UnitsUnavailable(_)) => {
            Count::AmendShort
        }
        (CommandKind::Amend, _) => Count::AmendRefused,
        (CommandKind::Transfer, _) => Count::TransferRefused,
        (CommandKind::Split, _) => Count::SplitRefused,
        (CommandKind::Merge, _) => Count::MergeRefused,
        (CommandKind::OpenPayment, Rejection::ExtensionLimit { .. }) => Count::PaymentLimit,
        (CommandKind::OpenPayment, _) => Count::PaymentRefused,
        (CommandKind::ClosePayment, _) => Count::CloseRefused,
        (CommandKind::Fulfil, _) => Count::FulfilRefused,
        (CommandKind::SetStock, _) => Count::SetStockRefused,
        _ => return None,
    })
}
