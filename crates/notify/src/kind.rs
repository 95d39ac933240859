//! What buyers are notified, and which events tell it.

use stockhold_domain::{ChargeState, Event, Hold, HoldChange, Status, Transition};

/// The reason of the release that a declined payment causes. The buyer is notified of the payment alone.
const RELEASED_BY_DECLINE: &str = "payment_failed";

/// What a buyer is notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NotificationKind {
    /// The units are sold, and the payment is authorized or taken.
    OrderConfirmed,
    /// The money could not be taken, and the units were returned.
    OrderCancelled,
    /// Money was given back.
    OrderRefunded,
    /// The reservation was released before it became an order.
    ReservationCancelled,
    /// The reservation's deadline passed before it became an order.
    ReservationExpired,
    /// The payment was declined.
    PaymentFailed,
    /// The buyer has to do something before the payment goes on.
    PaymentActionRequired,
}

impl NotificationKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::OrderConfirmed,
        Self::OrderCancelled,
        Self::OrderRefunded,
        Self::ReservationCancelled,
        Self::ReservationExpired,
        Self::PaymentFailed,
        Self::PaymentActionRequired,
    ];

    /// Its name: that of its template.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OrderConfirmed => "order_confirmed",
            Self::OrderCancelled => "order_cancelled",
            Self::OrderRefunded => "order_refunded",
            Self::ReservationCancelled => "reservation_cancelled",
            Self::ReservationExpired => "reservation_expired",
            Self::PaymentFailed => "payment_failed",
            Self::PaymentActionRequired => "payment_action_required",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// What the buyer is notified because of an event, with the reservation as it was then. `None` if nothing: the checkout did not ask for
    /// it, or the event changes nothing for the buyer.
    pub fn of(event: &Event) -> Option<(Self, &Hold)> {
        let Transition::Hold { change, hold, .. } = &event.transition else { return None };
        let charge = hold.charge().filter(|charge| charge.terms.notify)?;
        let is_sold = hold.status == Status::Confirmed;
        let kind = match change {
            HoldChange::Confirmed => Self::OrderConfirmed,
            HoldChange::Cancelled => {
                let reason = hold.closing.as_ref().and_then(|closing| closing.reason.as_ref());
                if reason.is_some_and(|reason| reason.as_str() == RELEASED_BY_DECLINE) {
                    return None;
                }
                Self::ReservationCancelled
            }
            HoldChange::Expired => Self::ReservationExpired,
            HoldChange::PaymentClosed { .. } if charge.state == ChargeState::Declined => Self::PaymentFailed,
            HoldChange::PaymentAdvanced { state_changed: true, .. } => match charge.state {
                ChargeState::RequiresAction => Self::PaymentActionRequired,
                ChargeState::Declined | ChargeState::Voided if is_sold => Self::OrderCancelled,
                ChargeState::Declined => Self::PaymentFailed,
                ChargeState::Captured if charge.refunded > 0 => Self::OrderRefunded,
                ChargeState::Refunded => Self::OrderRefunded,
                _ => return None,
            },
            _ => return None,
        };
        Some((kind, hold))
    }
}
