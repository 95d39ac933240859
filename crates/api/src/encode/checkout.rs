//! Payments, checkouts and orders as JSON.

use super::json::{Object, array};
use super::{line, payment_state, reservation_with};
use stockhold_domain::{
    Charge, ChargeState, ExtraAmount, Hold, HoldDetails, Label, OrderStatus, Payment, ProviderRef,
};

/// What a buyer has to do before a payment goes on. It is asked for at the provider, and never stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuyerAction {
    /// Go to an address.
    Redirect {
        /// The address.
        url: String,
    },
    /// Use the provider's own library.
    ProviderSdk {
        /// What the library needs. A secret of the buyer.
        client_secret: String,
    },
}

/// A reservation whose payment may need its buyer.
pub fn checkout(out: &mut Vec<u8>, hold: &Hold, next_action: Option<&BuyerAction>) {
    reservation_with(out, hold, None, next_action);
}

/// The payment of a reservation.
pub fn payment(out: &mut Vec<u8>, details: &HoldDetails, next_action: Option<&BuyerAction>) {
    if let Some(payment) = &details.payment {
        put_payment(out, payment, details.authorizations, next_action);
    }
}

pub(super) fn put_payment(
    out: &mut Vec<u8>,
    payment: &Payment,
    authorizations: u32,
    next_action: Option<&BuyerAction>,
) {
    let mut object = Object::open(out);
    object.text("payment_id", payment.id.as_str());
    match &payment.charge {
        None => object.word("state", payment_state(payment.state)),
        Some(charge) => object.word("state", charge_state(charge.state)),
    }
    object.time("until", payment.until);
    if let Some(charge) = &payment.charge {
        put_charge(&mut object, charge, authorizations);
    }
    if let Some(next_action) = next_action {
        let mut action = Object::open(object.value("next_action"));
        match next_action {
            BuyerAction::Redirect { url } => {
                action.word("type", "redirect");
                action.text("url", url);
            }
            BuyerAction::ProviderSdk { client_secret } => {
                action.word("type", "provider_sdk");
                action.text("client_secret", client_secret);
            }
        }
        action.close();
    }
    object.close();
}

fn put_charge(object: &mut Object<'_>, charge: &Charge, authorizations: u32) {
    object.text("provider", charge.terms.provider.as_str());
    object.optional_text("provider_ref", charge.provider_ref.as_ref().map(ProviderRef::as_str));
    let attempt = match charge.state {
        ChargeState::Authorized | ChargeState::Capturing => charge.capture_attempts,
        ChargeState::Refunding | ChargeState::RefundFailed => charge.refund_attempts,
        _ => authorizations,
    };
    object.number("attempt", attempt.into());
    object.number("amount", charge.amount);
    object.text("currency", charge.currency.as_str());
    if charge.captured > 0 {
        object.number("captured_amount", charge.captured);
        object.number("refunded_amount", charge.refunded);
    }
    if charge.terms.notify {
        object.flag("notify", true);
    }
    object.optional_text("error", charge.error.as_ref().map(Label::as_str));
}

/// The state of a charge as answers and events name it.
pub(crate) fn charge_state(state: ChargeState) -> &'static str {
    match state {
        ChargeState::Pending => "pending",
        ChargeState::RequiresAction => "requires_action",
        ChargeState::Processing => "processing",
        ChargeState::Authorized => "authorized",
        ChargeState::Capturing => "capturing",
        ChargeState::Captured => "captured",
        ChargeState::Declined => "declined",
        ChargeState::Voiding => "voiding",
        ChargeState::Voided => "voided",
        ChargeState::Refunding => "refunding",
        ChargeState::Refunded => "refunded",
        ChargeState::RefundFailed => "refund_failed",
    }
}

/// The state of an order as requests and answers name it.
pub fn order_status(status: OrderStatus) -> &'static str {
    match status {
        OrderStatus::Authorized => "authorized",
        OrderStatus::Paid => "paid",
        OrderStatus::Cancelled => "cancelled",
        OrderStatus::PartiallyRefunded => "partially_refunded",
        OrderStatus::Refunded => "refunded",
    }
}

/// What a reservation says of the order that it became.
pub(super) fn put_order(object: &mut Object<'_>, hold: &Hold) {
    let (Some(status), Some(charge)) = (hold.order_status(), hold.charge()) else { return };
    let mut order = Object::open(object.value("order"));
    put_order_members(&mut order, status, charge);
    order.close();
}

fn put_order_members(object: &mut Object<'_>, status: OrderStatus, charge: &Charge) {
    object.text("order_id", charge.order_id.as_str());
    object.word("status", order_status(status));
    object.number("amount", charge.amount);
    object.number("refunded_amount", charge.refunded);
    object.text("currency", charge.currency.as_str());
}

/// An order: what a reservation became by a checkout.
pub fn order(out: &mut Vec<u8>, hold: &Hold) {
    let mut object = Object::open(out);
    if let (Some(status), Some(charge)) = (hold.order_status(), hold.charge()) {
        put_order_members(&mut object, status, charge);
        if !charge.terms.extra.is_empty() {
            array(object.value("extra"), &*charge.terms.extra, |out, ExtraAmount { name, amount }| {
                let mut extra = Object::open(out);
                extra.text("name", name.as_str());
                extra.number("amount", *amount);
                extra.close();
            });
        }
    }
    object.uuid("reservation_id", hold.id.as_u128());
    object.text("owner_id", hold.terms.reserve.owner_id.as_str());
    object.optional_text("customer_id", hold.order_customer().map(Label::as_str));
    if let Some(payment) = &hold.details().payment {
        object.text("payment_id", payment.id.as_str());
    }
    let pool = hold.terms.reserve.pool();
    array(object.value("lines"), &*hold.lines, |out, shown| line(out, shown, pool));
    if let Some(closing) = &hold.closing {
        object.time("created_at", closing.at);
    }
    object.close();
}
