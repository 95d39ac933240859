//! Short functions that make commands about checkouts, for the suite and for tests of adapters.

use super::maker::{label, seconds, stock_of};
use stockhold_domain::{
    AdvancePayment, CaptureMethod, CheckoutRequest, CheckoutTerms, Command, Currency, Hold, ItemKey,
    OnDecline, Patch, PaymentMethod, PaymentStep, Price, ProviderRef, ProviderReport, Refund,
    RefundSelection, ReservationId, SealedRefs, SetStock, StartCheckout,
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

/// A name that the provider gave.
pub fn provider_ref(text: &str) -> ProviderRef {
    ProviderRef::new(text).expect("a name of a provider")
}

/// A checkout of a history.
pub fn random_checkout(which: u8) -> CheckoutRequest {
    let capture =
        if which.is_multiple_of(2) { CaptureMethod::AfterConfirm } else { CaptureMethod::ChargeThenConfirm };
    let on_decline = if which % 5 < 2 { OnDecline::Keep } else { OnDecline::Release };
    let window = (!which.is_multiple_of(7)).then(|| seconds(u64::from(which % 90) + 1));
    let order_id = which.is_multiple_of(3).then(|| label("order-0"));
    CheckoutRequest { order_id, terms: checkout_terms(capture, on_decline), window }
}

/// A step of a payment of a history. Most reservations have a low version when they are paid.
pub fn random_step(id: ReservationId, which: u8) -> Command {
    let error = || label("failed");
    let report = match which % 13 {
        0 => return step(id, PaymentStep::Cancel),
        1 => return step(id, PaymentStep::RetryRefund),
        2 => return step(id, PaymentStep::Wake),
        3 => no_answer(),
        4 => ProviderReport::Failed { error: error() },
        5 => ProviderReport::RequiresAction { provider_ref: provider_ref("pi_1") },
        6 => ProviderReport::Processing { provider_ref: provider_ref("pi_2") },
        7 | 8 => authorized(),
        9 => captured(u64::from(which)),
        10 => decline(),
        11 => ProviderReport::Cancelled,
        _ if which.is_multiple_of(2) => ProviderReport::RefundRefused { error: error() },
        _ => ProviderReport::Refunded,
    };
    report_on(id, [2, 2, 3, 4, 2, 5, 3, 6][usize::from(which / 13 % 8)], report)
}

/// A report about a version of a reservation.
fn report_on(id: ReservationId, version: u64, report: ProviderReport) -> Command {
    Command::AdvancePayment(AdvancePayment {
        id,
        step: PaymentStep::Reported { version, report, wait_ms: 2_000 },
    })
}

/// A report about the current version of a reservation.
pub fn report(hold: &Hold, report: ProviderReport) -> Command {
    report_on(hold.id, hold.version, report)
}

/// A step of the payment of a reservation.
pub fn step(id: ReservationId, step: PaymentStep) -> Command {
    Command::AdvancePayment(AdvancePayment { id, step })
}

/// The provider reserved the money.
pub fn authorized() -> ProviderReport {
    ProviderReport::Authorized { provider_ref: provider_ref("pi_1") }
}

/// The provider took so much money.
pub fn captured(amount: u64) -> ProviderReport {
    ProviderReport::Captured { provider_ref: provider_ref("pi_1"), amount }
}

/// The provider did not answer.
pub fn no_answer() -> ProviderReport {
    ProviderReport::NoAnswer { error: label("timeout") }
}

/// The provider declined.
pub fn decline() -> ProviderReport {
    ProviderReport::Declined { error: label("card_declined") }
}

/// A refund.
pub fn refund_of(id: ReservationId, selection: RefundSelection) -> Command {
    Command::Refund(Refund { id, selection, reason: label("unhappy") })
}
