//! Checkouts, refunds and orders.

use super::body::{self, CheckoutBody, ExtraBody, PaymentMethodBody, RefundBody};
use super::field::{JsonObject, Key, Text};
use super::lists::{PAGE_DEFAULT, limit};
use super::reservation::{SaleLines, matched, reservation, selection};
use super::{Invalid, Keyed, both, keyed, path};
use crate::cursor;
use crate::encode::order_status;
use stockhold_domain::limits::{AMOUNT, EXTRA_AMOUNTS, PAYMENT_DESCRIPTION_BYTES, RETURN_URL_BYTES};
use stockhold_domain::{
    AdvancePayment, CheckoutRequest, CheckoutTerms, Command, ExtraAmount, Label, OrderStatus, PaymentMethod,
    PaymentStep, Refund, RefundSelection, StartCheckout,
};
use stockhold_store::Cursor;

/// The statuses that a list of orders can ask for.
const STATUSES: [OrderStatus; 5] = [
    OrderStatus::Authorized,
    OrderStatus::Paid,
    OrderStatus::Cancelled,
    OrderStatus::PartiallyRefunded,
    OrderStatus::Refunded,
];

/// Stands for the provider of a checkout with `customer_id`, until the stored method of the customer is read.
const PROVIDER_OF_CUSTOMER: &str = "customer";

/// The member of a reserve that says how it is paid.
const AUTO_CHECKOUT: &str = "/auto_checkout";

/// What `GET /v1/orders` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderFilter {
    /// Only orders with this status.
    pub status: Option<OrderStatus>,
    /// Only orders of this customer.
    pub customer_id: Option<Label>,
    /// The end of the page before.
    pub after: Option<Cursor>,
    /// Most orders.
    pub limit: usize,
}

/// `POST /v1/reservations/{id}/checkout`, with the value of `If-Match`.
pub fn start_checkout<'a>(
    id: &str,
    query: Option<&str>,
    if_match: Option<&[u8]>,
    body: &'a [u8],
) -> Result<Keyed<'a>, Invalid> {
    let ((id, expected), body) = both(matched(id, query, if_match), body::read::<CheckoutBody<'a>>(body))?;
    let (request, key) = checkout_request(body, "")?;
    Ok(keyed(Command::StartCheckout(StartCheckout { id, request, expected }), key))
}

/// The payment with which a reserve begins, if it does.
pub(super) fn auto_checkout(
    body: Option<JsonObject<CheckoutBody<'_>>>,
) -> Result<Option<Box<CheckoutRequest>>, Invalid> {
    let Some(JsonObject(body)) = body else { return Ok(None) };
    match checkout_request(body, AUTO_CHECKOUT)? {
        (request, None) => Ok(Some(request.into())),
        (_, Some(_)) => {
            let detail = "belongs to the reserve itself, beside auto_checkout";
            Err(Invalid::new(format!("{AUTO_CHECKOUT}/idempotency_key"), detail))
        }
    }
}

/// How a reservation is paid, and the idempotency key. `at` is the place of the body.
fn checkout_request<'a>(
    body: CheckoutBody<'a>,
    at: &str,
) -> Result<(CheckoutRequest, Option<Key<'a>>), Invalid> {
    let (provider, method) = payment_method(body.payment_method, body.customer_id, at)?;
    let request = CheckoutRequest {
        order_id: body.order_id.map(|text| text.0),
        terms: CheckoutTerms {
            provider,
            method,
            capture: body.capture.unwrap_or_default().0,
            on_decline: body.on_decline.unwrap_or_default().0,
            return_url: body.return_url.map(|text| return_url(&text, at)).transpose()?,
            description: body.description.map(|text| description(&text, at)).transpose()?,
            extra: body.extra.map(|amounts| extra(amounts, at)).transpose()?.unwrap_or_default(),
            notify: body.notify.is_some_and(|notify| notify.0),
        },
        window: body.window_seconds.map(|window| window.0),
    };
    Ok((request, body.idempotency_key))
}

/// The provider and the payment method, or the customer whose method is used. `at` is the place of the body.
fn payment_method(
    method: Option<JsonObject<PaymentMethodBody>>,
    customer_id: Option<Text>,
    at: &str,
) -> Result<(Label, PaymentMethod), Invalid> {
    match (method, customer_id) {
        (Some(JsonObject(PaymentMethodBody { provider, method_ref, customer_ref })), None) => {
            let customer_ref = customer_ref.map(|text| text.0);
            Ok((provider.0, PaymentMethod::Named { customer_ref, method_ref: method_ref.0 }))
        }
        (None, Some(customer_id)) => {
            let provider = Label::new(PROVIDER_OF_CUSTOMER);
            let provider = provider.unwrap_or_else(|_| unreachable!("a word is a label"));
            Ok((provider, PaymentMethod::Customer { customer_id: customer_id.0, sealed: None }))
        }
        (Some(_), Some(_)) => {
            let detail =
                "can't be combined with payment_method: it stands for the stored method of the customer";
            Err(Invalid::new(format!("{at}/customer_id"), detail))
        }
        (None, None) => Err(Invalid::new(format!("{at}/payment_method"), "is required, or customer_id")),
    }
}

fn return_url(text: &str, at: &str) -> Result<std::sync::Arc<str>, Invalid> {
    let is_address = ["https://", "http://"].iter().any(|scheme| text.starts_with(scheme));
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_address || !is_plain || text.len() > RETURN_URL_BYTES {
        let detail = format!(
            "must be an address that begins with https:// or http://, of at most {RETURN_URL_BYTES} bytes of ASCII without spaces"
        );
        return Err(Invalid::new(format!("{at}/return_url"), detail));
    }
    Ok(text.into())
}

fn description(text: &str, at: &str) -> Result<std::sync::Arc<str>, Invalid> {
    if text.is_empty() || text.len() > PAYMENT_DESCRIPTION_BYTES || text.chars().any(char::is_control) {
        let detail =
            format!("must be 1 to {PAYMENT_DESCRIPTION_BYTES} bytes of text without control characters");
        return Err(Invalid::new(format!("{at}/description"), detail));
    }
    Ok(text.into())
}

fn extra(extra: Vec<JsonObject<ExtraBody>>, at: &str) -> Result<Box<[ExtraAmount]>, Invalid> {
    if extra.len() > EXTRA_AMOUNTS {
        let detail = format!("must have at most {EXTRA_AMOUNTS} amounts, and has {}", extra.len());
        return Err(Invalid::new(format!("{at}/extra"), detail));
    }
    let amount =
        |JsonObject(body): JsonObject<ExtraBody>| ExtraAmount { name: body.name.0, amount: body.amount.0 };
    Ok(extra.into_iter().map(amount).collect())
}

/// `POST /v1/reservations/{id}/checkout/cancel`
pub fn cancel_checkout(id: &str, query: Option<&str>) -> Result<Command, Invalid> {
    step(id, query, PaymentStep::Cancel)
}

/// `POST /v1/reservations/{id}/refund/retry`
pub fn retry_refund(id: &str, query: Option<&str>) -> Result<Command, Invalid> {
    step(id, query, PaymentStep::RetryRefund)
}

fn step(id: &str, query: Option<&str>, step: PaymentStep) -> Result<Command, Invalid> {
    Ok(Command::AdvancePayment(AdvancePayment { id: reservation(id, query)?, step }))
}

/// `POST /v1/reservations/{id}/refund`; without `amount`, `lines` and `units` everything is refunded that is left.
pub fn refund<'a>(id: &str, query: Option<&str>, body: &'a [u8]) -> Result<Keyed<'a>, Invalid> {
    let (id, body) = both(reservation(id, query), body::read::<RefundBody<'a>>(body))?;
    let names_units = body.lines.is_some() || body.units.is_some();
    if body.disposition.is_some() && !names_units {
        let detail = "says what becomes of returned units: send lines or units with it";
        return Err(Invalid::new("/disposition", detail));
    }
    let selection = match body.amount {
        Some(_) if names_units => {
            let detail = "can't be combined with lines or units: they say how much is refunded";
            return Err(Invalid::new("/amount", detail));
        }
        Some(amount) if amount.0 == 0 => {
            return Err(Invalid::new("/amount", format!("must be 1 to {AMOUNT}")));
        }
        Some(amount) => RefundSelection::Amount(amount.0),
        None if names_units => RefundSelection::Lines {
            selection: selection(body.lines, body.units, SaleLines::Return)?,
            disposition: body.disposition.unwrap_or_default().0,
        },
        None => RefundSelection::Rest,
    };
    Ok(keyed(Command::Refund(Refund { id, selection, reason: body.reason.0 }), body.idempotency_key))
}

/// `GET /v1/orders/{order_id}`
pub fn order(id: &str, query: Option<&str>) -> Result<Label, Invalid> {
    let (id, ()) = both(path::label("/order_id", id), path::no_query(query))?;
    Ok(id)
}

/// `GET /v1/orders`
pub fn orders(query: Option<&str>) -> Result<OrderFilter, Invalid> {
    let mut filter = OrderFilter { status: None, customer_id: None, after: None, limit: PAGE_DEFAULT };
    path::parameters(query, &["status", "customer_id", "limit", "starting_after"], |at, text| {
        match at {
            0 => filter.status = Some(status(text)?),
            1 => filter.customer_id = Some(super::lists::label(text)?),
            2 => filter.limit = limit(text)?,
            _ => {
                let place = cursor::place(text).ok_or_else(|| super::lists::no_cursor(text))?;
                filter.after = Some(place);
            }
        }
        Ok(())
    })?;
    Ok(filter)
}

fn status(text: &str) -> Result<OrderStatus, String> {
    let found = STATUSES.into_iter().find(|status| order_status(*status) == text);
    found.ok_or_else(|| {
        let names = STATUSES.map(order_status).join(", ");
        format!("must be one of {names}")
    })
}
