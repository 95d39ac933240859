//! Which requests the gate is asked for, and which of its refusals can be final.
//!
//! A refusal has to be the one that the store would give. So the gate is not asked where another refusal comes first, and its refusal is
//! only final where it knows everything that matters. Otherwise the store is asked after all.

use crate::counter::Wanted;
use crate::item_table::Content;
use stockhold_domain::limits::LINE_QUANTITY;
use stockhold_domain::{Command, Fulfilment, HoldLimits, Instant, Item, ItemKey, Mode, Reserve};

/// What the gate is asked for one reserve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GateRequest {
    /// The gated items of its lines.
    pub(crate) lines: Vec<GateLine>,
    pub(crate) fulfilment: Fulfilment,
    /// Whether all its lines are gated.
    pub(crate) is_whole: bool,
    /// Whether the store would refuse it for the same reason if the gate does: all its items are gated, and nothing comes before.
    pub(crate) is_certain: bool,
}

/// One line of a [`GateRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GateLine {
    pub(crate) item: ItemKey,
    pub(crate) wanted: Wanted,
}

impl GateRequest {
    /// The request for a reserve. `None` if the store decides without the gate.
    pub(crate) fn of(
        content: &Content,
        reserve: &Reserve,
        limits: &HoldLimits,
        now: Instant,
    ) -> Option<Self> {
        let basket = &reserve.basket;
        // A pool has units of its own, and a source takes from where there is stock.
        if reserve.terms.pool().is_some() || basket.has_sources() || content.pauses.everything {
            return None;
        }
        let customer = reserve.terms.optional.as_ref().and_then(|optional| optional.customer_id.as_ref());
        let mut is_whole = true;
        let mut is_certain = customer.is_some() || !content.has_customer_limits;
        let fewer = reserve.fulfilment == Fulfilment::Partial;
        let mut lines = Vec::new();
        for (number, line) in basket.lines().iter().enumerate() {
            let Some(known) = content.get(&line.item) else {
                // It may not exist, or be paused.
                (is_whole, is_certain) = (false, false);
                continue;
            };
            let item = &known.item;
            if basket.selection(number).is_some()
                || line.quantity > LINE_QUANTITY
                || !is_selling(content, item, now)
            {
                return None;
            }
            is_certain &= reserve.ttl.is_none_or(|ttl| ttl <= limits.max_hold_of(item));
            lines.push(GateLine { item: line.item.clone(), wanted: Wanted { units: line.quantity, fewer } });
        }
        (!lines.is_empty()).then_some(Self { lines, fulfilment: reserve.fulfilment, is_whole, is_certain })
    }
}

fn is_selling(content: &Content, item: &Item, now: Instant) -> bool {
    let is_paused =
        item.paused || content.pauses.locations.iter().any(|name| name.as_str() == item.key.location());
    item.mode == Mode::Counted && !is_paused && item.settings.closed_at(now).is_none()
}

/// Whether a command may give back or add units that can be reserved, so that the gate has to be raised before it is answered.
pub(crate) const fn may_raise(command: &Command) -> bool {
    match command {
        Command::Release(_)
        | Command::Amend(_)
        | Command::Return(_)
        | Command::SetStock(_)
        | Command::AdjustStock(_)
        | Command::DeleteItem(_)
        | Command::SetSale(_)
        | Command::SetPool(_)
        | Command::DeletePool(_)
        // A declined payment releases its hold, and a failed capture returns units.
        | Command::AdvancePayment(_)
        | Command::Refund(_) => true,
        // The feed of events says what a sweep has expired.
        Command::Sweep
        | Command::Reserve(_)
        | Command::Confirm(_)
        | Command::Extend(_)
        | Command::Transfer(_)
        | Command::Split(_)
        | Command::Merge(_)
        | Command::OpenPayment(_)
        | Command::ClosePayment(_)
        | Command::StartCheckout(_)
        | Command::Fulfil(_)
        | Command::AddUnits(_)
        | Command::RetireUnit(_)
        | Command::SetUnitPool(_)
        | Command::SetRecord(_)
        | Command::SetLimit(_)
        | Command::DeleteLimit(_) => false,
    }
}
