//! Short functions that make commands about checkouts, for the suite and for tests of adapters.

use super::maker::{label, seconds, stock_of};
use stockhold_domain::{
    CaptureMethod, CheckoutRequest, CheckoutTerms, Command, Currency, ItemKey, OnDecline, Patch,
    PaymentMethod, Price, ProviderRef, ReservationId, SealedRefs, SetStock, StartCheckout,
};

/// The terms of a checkout that the test provider would get.
pub fn checkout_terms(capture: CaptureMethod, on_decline: OnDecline) -> CheckoutTerms {
    CheckoutTerms {
        provider: label("test"),
        method: PaymentMethod::Named {
            customer_ref: ProviderRef::new("cus_1"),
            method_ref: ProviderRef::new("pm_1").expect("a name of a provider"),
        },
        capture,
        on_decline,
        return_url: None,
        description: None,
        extra: [].into(),
        notify: false,
    }
}

/// The terms of a checkout with the stored payment method of a customer, encrypted as these bytes.
pub fn customer_terms(customer_id: &str, sealed: &[u8]) -> CheckoutTerms {
    let method = PaymentMethod::Customer { customer_id: label(customer_id), sealed: SealedRefs::new(sealed) };
    CheckoutTerms { method, ..checkout_terms(CaptureMethod::AfterConfirm, OnDecline::Release) }
}

/// A checkout with these terms, without an order id.
pub fn checkout_with(id: ReservationId, terms: CheckoutTerms, window: u64) -> StartCheckout {
    let request = CheckoutRequest { order_id: None, terms, window: Some(seconds(window)) };
    StartCheckout { id, request, expected: None }
}

/// A checkout that captures after the confirm, and whose hold is released when it is declined.
pub fn checkout(id: ReservationId) -> Command {
    let terms = checkout_terms(CaptureMethod::AfterConfirm, OnDecline::Release);
    Command::StartCheckout(checkout_with(id, terms, 60))
}

/// Sets the price of an existing item, in euro cents.
pub fn set_price(item: &ItemKey, unit_amount: u64) -> Command {
    let currency = Currency::new("eur").expect("three letters");
    let price = Patch::Set(Price { unit_amount, currency, discounts: [].into() }.into());
    Command::SetStock(SetStock { total_units: None, price, ..stock_of(item, 0) })
}
