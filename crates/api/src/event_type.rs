//! The types of events: their names, and sets of them that readers of events ask for.

use crate::encode::CLOUD_EVENT_PREFIX;
use stockhold_domain::{ChargeState, Event, HoldChange, RecordChange, StockChange, Transition};

macro_rules! event_types {
    ($($variant:ident $name:literal $doc:literal;)*) => {
        /// The type of an event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum EventType {
            $(#[doc = $doc] $variant,)*
        }

        impl EventType {
            /// All types, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its name on the wire, for example `reservation.created`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

event_types! {
    ReservationCreated "reservation.created" "A reservation was made.";
    ReservationExtended "reservation.extended" "The deadline of a reservation was moved.";
    ReservationConfirmed "reservation.confirmed" "The units of a reservation were sold.";
    ReservationCancelled "reservation.cancelled" "A reservation was released.";
    ReservationExpired "reservation.expired" "The deadline of a reservation passed.";
    ReservationReturned "reservation.returned" "Sold units of a reservation came back.";
    ReservationAmended "reservation.amended" "The lines, the deadline or the metadata of a reservation were changed.";
    ReservationTransferred "reservation.transferred" "The owner, the customer or the session of a reservation was changed.";
    ReservationSplit "reservation.split" "Lines of a reservation were moved into a new one. Both have this event.";
    ReservationMerged "reservation.merged" "Reservations were merged into one. Each of them has this event.";
    ReservationPaymentOpened "reservation.payment_opened" "A payment window of a reservation was opened or prolonged.";
    ReservationPaymentClosed "reservation.payment_closed" "The payment window of a reservation was closed.";
    PaymentPending "payment.pending" "A checkout began: the provider is asked for the money.";
    PaymentRequiresAction "payment.requires_action" "The buyer has to do something before the payment goes on.";
    PaymentProcessing "payment.processing" "The provider needs time for the payment.";
    PaymentAuthorized "payment.authorized" "The money is reserved at the provider.";
    PaymentCapturing "payment.capturing" "The provider has not moved the money yet, and is asked again.";
    PaymentCaptured "payment.captured" "The money was moved, or a partial refund was made.";
    PaymentDeclined "payment.declined" "The provider declined the payment.";
    PaymentVoiding "payment.voiding" "The payment is to be ended.";
    PaymentVoided "payment.voided" "The payment was ended without money.";
    PaymentRefunding "payment.refunding" "Money is to be given back.";
    PaymentRefunded "payment.refunded" "All of the money was given back.";
    PaymentRefundFailed "payment.refund_failed" "The provider refuses to give money back.";
    ReservationReplaced "reservation.replaced" "A new reservation took the units of an expired one again.";
    ReservationFulfilled "reservation.fulfilled" "Sold units of a reservation left the shelf.";
    StockSet "stock.set" "An item was created, or its settings were changed.";
    StockAdjusted "stock.adjusted" "The total of an item was changed by a difference.";
    StockDeleted "stock.deleted" "An item was deleted.";
    UnitsAdded "units.added" "Units with ids were added to an item.";
    UnitsRetired "units.retired" "Units with ids were retired.";
    UnitsPoolChanged "units.pool_changed" "Units with ids were put into a pool, or became general stock.";
    PoolSet "pool.set" "A pool of an item was created or replaced.";
    PoolDeleted "pool.deleted" "A pool of an item was deleted. Its free units went to general sale.";
    PoolReleased "pool.released" "The time of a pool came. Its free units went to general sale.";
    SalePaused "sale.paused" "The sale of an item, a location or everything was paused.";
    SaleResumed "sale.resumed" "The sale of an item, a location or everything was resumed.";
    LimitSet "limit.set" "A limit was created or replaced.";
    LimitDeleted "limit.deleted" "A limit was deleted.";
    AccessKeyCreated "access.key_created" "An API key was made.";
    AccessKeyRolled "access.key_rolled" "An API key was made in place of another one.";
    AccessKeyRevoked "access.key_revoked" "An API key was revoked.";
    SinkEventSkipped "sink.event_skipped" "An operator had a sink skip an event that it refused.";
    EndpointCreated "endpoint.created" "A webhook endpoint was created.";
    EndpointChanged "endpoint.changed" "The settings of a webhook endpoint were changed.";
    EndpointDeleted "endpoint.deleted" "A webhook endpoint was deleted.";
    EndpointDisabled "endpoint.disabled" "The server disabled a webhook endpoint that takes nothing.";
    EndpointSecretRotated "endpoint.secret_rotated" "A webhook endpoint got a new secret.";
    StockReconciled "stock.reconciled" "A comparison with a stock master has found something.";
}

impl EventType {
    /// The type of an event. `None` when no reader sees the event: the service wrote it for itself.
    pub fn of(event: &Event) -> Option<Self> {
        Some(match &event.transition {
            Transition::Hold { change, hold, .. } => match change {
                HoldChange::Created => Self::ReservationCreated,
                HoldChange::Extended => Self::ReservationExtended,
                HoldChange::Confirmed => Self::ReservationConfirmed,
                HoldChange::Cancelled => Self::ReservationCancelled,
                HoldChange::Expired => Self::ReservationExpired,
                HoldChange::Returned { .. } => Self::ReservationReturned,
                HoldChange::Amended { .. } => Self::ReservationAmended,
                HoldChange::Transferred { .. } => Self::ReservationTransferred,
                HoldChange::Split { .. } | HoldChange::CreatedBySplit => Self::ReservationSplit,
                HoldChange::Merged { .. } | HoldChange::MergedAway => Self::ReservationMerged,
                HoldChange::PaymentOpened { .. } => hold
                    .charge()
                    .map_or(Self::ReservationPaymentOpened, |charge| Self::of_charge(charge.state)),
                HoldChange::PaymentClosed { .. } => hold
                    .charge()
                    .map_or(Self::ReservationPaymentClosed, |charge| Self::of_charge(charge.state)),
                HoldChange::PaymentAdvanced { state_changed: true, .. } => {
                    Self::of_charge(hold.charge()?.state)
                }
                // The service notes its tries for itself.
                HoldChange::PaymentAdvanced { state_changed: false, .. } => return None,
                HoldChange::Replaced => Self::ReservationReplaced,
                HoldChange::Fulfilled { .. } => Self::ReservationFulfilled,
            },
            Transition::Stock { change, .. } => match change {
                StockChange::Set => Self::StockSet,
                StockChange::Adjusted { .. } => Self::StockAdjusted,
                StockChange::Deleted => Self::StockDeleted,
                StockChange::UnitsAdded(_) => Self::UnitsAdded,
                StockChange::UnitsRetired(_) => Self::UnitsRetired,
                StockChange::UnitsPooled { .. } => Self::UnitsPoolChanged,
                StockChange::PoolSet { .. } => Self::PoolSet,
                StockChange::PoolDeleted { .. } => Self::PoolDeleted,
                StockChange::PoolReleased { .. } => Self::PoolReleased,
            },
            Transition::Sale { paused: true, .. } => Self::SalePaused,
            Transition::Sale { paused: false, .. } => Self::SaleResumed,
            Transition::Limit { limit } if limit.terms.is_some() => Self::LimitSet,
            Transition::Limit { .. } => Self::LimitDeleted,
            Transition::Record { change, .. } => match change {
                RecordChange::Silent => return None,
                RecordChange::KeyCreated => Self::AccessKeyCreated,
                RecordChange::KeyRolled => Self::AccessKeyRolled,
                RecordChange::KeyRevoked => Self::AccessKeyRevoked,
                RecordChange::SinkEventSkipped => Self::SinkEventSkipped,
                RecordChange::EndpointCreated => Self::EndpointCreated,
                RecordChange::EndpointChanged => Self::EndpointChanged,
                RecordChange::EndpointDeleted => Self::EndpointDeleted,
                RecordChange::EndpointDisabled => Self::EndpointDisabled,
                RecordChange::EndpointSecretRotated => Self::EndpointSecretRotated,
                RecordChange::StockReconciled => Self::StockReconciled,
            },
        })
    }

    /// The type of a change after which a charge has this state.
    const fn of_charge(state: ChargeState) -> Self {
        match state {
            ChargeState::Pending => Self::PaymentPending,
            ChargeState::RequiresAction => Self::PaymentRequiresAction,
            ChargeState::Processing => Self::PaymentProcessing,
            ChargeState::Authorized => Self::PaymentAuthorized,
            ChargeState::Capturing => Self::PaymentCapturing,
            ChargeState::Captured => Self::PaymentCaptured,
            ChargeState::Declined => Self::PaymentDeclined,
            ChargeState::Voiding => Self::PaymentVoiding,
            ChargeState::Voided => Self::PaymentVoided,
            ChargeState::Refunding => Self::PaymentRefunding,
            ChargeState::Refunded => Self::PaymentRefunded,
            ChargeState::RefundFailed => Self::PaymentRefundFailed,
        }
    }

    /// The type of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

/// The types of a name such as `reservation.created` or of a pattern such as `reservation.*`, either with or without the prefix
/// `stockhold.`. None: there is no such type.
pub fn event_types_named(name: &str) -> impl Iterator<Item = EventType> {
    let name = name.strip_prefix(CLOUD_EVENT_PREFIX).unwrap_or(name);
    EventType::ALL.iter().copied().filter(move |kind| is_named(name, kind.name()))
}

/// Whether a name without prefix or a pattern names a type.
pub fn is_named(name: &str, kind: &str) -> bool {
    let group = name.strip_suffix('*').filter(|group| group.ends_with('.'));
    kind == name || group.is_some_and(|group| kind.starts_with(group))
}

/// A set of event types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventTypes(u64);

impl EventTypes {
    /// Every type, also types that later versions add.
    pub const ALL: Self = Self(u64::MAX);

    /// The types of events about API keys, `access.*`.
    pub const ACCESS: Self = Self(
        Self::bit(EventType::AccessKeyCreated)
            | Self::bit(EventType::AccessKeyRolled)
            | Self::bit(EventType::AccessKeyRevoked),
    );

    /// These types without others.
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Whether the set has a type of another one.
    pub const fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The types that any of these names or patterns names.
    pub fn named(names: &[String]) -> Self {
        let mut types = Self::default();
        names.iter().flat_map(|name| event_types_named(name)).for_each(|kind| types.add(kind));
        types
    }

    /// Adds a type.
    pub const fn add(&mut self, kind: EventType) {
        self.0 |= Self::bit(kind);
    }

    /// Whether the event has a type of this set.
    pub fn has(self, event: &Event) -> bool {
        EventType::of(event).is_some_and(|kind| self.0 & Self::bit(kind) != 0)
    }

    const fn bit(kind: EventType) -> u64 {
        1 << kind as u32
    }
}

const _: () = assert!(EventType::ALL.len() <= u64::BITS as usize);
