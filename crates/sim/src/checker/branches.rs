//! Counts which kinds of events and answers a history has.

use super::Checker;
use crate::counters::{Count, Counters};
use stockhold_domain::{
    ChargeState, Command, CommandKind, Disposition, Event, Hold, HoldChange, ItemKey, Limit, Line, Outcome,
    PaymentState, Rejection, Reply, Transition,
};
use stockhold_model::NaiveState;

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
            HoldChange::PaymentAdvanced { state_changed, .. } => {
                match hold.charge().map(|charge| charge.state).filter(|_| *state_changed) {
                    Some(ChargeState::Captured) => Count::ChargeCaptured,
                    Some(ChargeState::Voided) => Count::ChargeVoided,
                    Some(ChargeState::Refunding) => Count::ChargeRefunding,
                    Some(ChargeState::Refunded) => Count::ChargeRefunded,
                    _ => Count::ChargeAdvanced,
                }
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
        | HoldChange::PaymentAdvanced { .. }
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

/// Counts a change of a limit. `state` is that before it.
pub(super) fn count_limit(state: &NaiveState, limit: &Limit, counters: &mut Counters) {
    let before = state.limits.get(&limit.id);
    let old = before.and_then(|before| before.terms.as_deref());
    let count = match (old, &limit.terms) {
        (_, None) => Count::LimitDeleted,
        (None, Some(_)) if before.is_some() => Count::LimitSetAgain,
        (None, Some(_)) => Count::LimitSet,
        (Some(_), Some(_)) if limit.generation == limit.version => Count::LimitGeneration,
        (Some(old), Some(new)) if old.limit > new.limit => {
            let mut used = state.counters.of_limit(limit, None).map(|(_, counter)| counter.used(new.counts));
            counters.more(Count::LimitBelowUse, used.any(|used| used > new.limit).into());
            Count::LimitLowered
        }
        (Some(old), Some(new)) if old.limit < new.limit => Count::LimitRaised,
        (Some(_), Some(_)) => Count::LimitCountsOther,
    };
    counters.one(count);
}

/// Counts what limits did to a command: what was expired for them, and what they took from a partial request. `state` is that after
/// its events.
pub(super) fn count_limited(
    state: &NaiveState,
    command: &Command,
    outcome: &Outcome,
    own: &[Event],
    counters: &mut Counters,
) {
    if let Outcome::Refused(Rejection::NotReacquired { refusal, .. }) = outcome {
        let by_limit = matches!(**refusal, Rejection::LimitExceeded(_));
        counters.more(Count::LateConfirmOverLimit, by_limit.into());
    }
    let by_limit = matches!(outcome, Outcome::Refused(Rejection::LimitExceeded(_)));
    for event in own {
        let Transition::Hold { change, hold, .. } = &event.transition else { continue };
        match (command, change) {
            (Command::Reserve(reserve), HoldChange::Expired) => {
                // Reservations of other items are only expired because they count for a limit.
                let is_asked = |item: &ItemKey| reserve.basket.lines().iter().any(|line| line.item == *item);
                let for_limit = by_limit || !hold.lines.iter().any(|line| is_asked(&line.item));
                counters.more(Count::ExpiredForLimit, for_limit.into());
            }
            (Command::Reserve(_), HoldChange::Created) => {
                let clipped = |line: &Line| {
                    let left = state.items.get(&line.item).is_some_and(|item| item.available() > 0);
                    line.quantity < line.requested && line.units.is_none() && left
                };
                counters.more(Count::ClippedByLimit, hold.lines.iter().any(clipped).into());
            }
            _ => {}
        }
    }
}

/// The counter of an outcome.
fn branch(outcome: &Outcome) -> Count {
    match outcome {
        Outcome::Done(_) => Count::Done,
        Outcome::Replayed(_) => Count::Replay,
        Outcome::Later => Count::Later,
        Outcome::Refused(rejection) => match rejection {
            Rejection::AccessDenied { .. } => Count::AccessDenied,
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
            Rejection::LimitExceeded(_) => Count::LimitExceeded,
            Rejection::CustomerRequired { .. } => Count::CustomerRequired,
            Rejection::UnknownLimit(_) => Count::UnknownLimit,
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
        (CommandKind::Amend, Rejection::LimitExceeded(_)) => Count::AmendOverLimit,
        (CommandKind::Amend, _) => Count::AmendRefused,
        (CommandKind::Transfer | CommandKind::Merge, Rejection::LimitExceeded(_)) => Count::MoveOverLimit,
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
