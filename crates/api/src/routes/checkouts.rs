//! The rows of the routes of checkouts, refunds and orders, without their paths.

use super::row::{ETAG, NO_STORE, json, lines, required, reservation};
use super::table::PLAIN;
use super::{Access, Body, Preconditions, RequiredScope, Response, RouteSpec, Tag};
use crate::decode::BASKET_BODY_BYTES;
use crate::problem::Reason;
use stockhold_service::Scope;

/// What the routes have in common.
const CHECKOUTS: RouteSpec =
    RouteSpec { tag: Tag::Checkout, scope: RequiredScope::One(Scope::CheckoutWrite), ..PLAIN };

/// A route that reads orders and payments.
const READ: RouteSpec =
    RouteSpec { access: Access::Read, scope: RequiredScope::One(Scope::ReservationsRead), ..CHECKOUTS };

pub(super) const START_CHECKOUT: RouteSpec = RouteSpec {
    metric: "checkout",
    summary: "Take the payment of a reservation",
    description: "Asks the payment provider for the price of all lines and extras, and confirms the reservation with its order when \
        the money is certain. The answer waits some seconds for the provider. **200**: the reservation is confirmed, and `order` says what \
        it became. **202**: the payment goes on by itself, or needs the buyer (`payment.next_action`). **402**: the payment was declined.\
        \n\nWith `capture: after_confirm` the money is reserved, the reservation is confirmed, and then the money is moved. With \
        `charge_then_confirm` the money is moved first.\n\nUntil the payment has ended, no other command changes the reservation, and its \
        units are held until `payment.until` at least. A replay of the request answers by the present state.",
    body: required("CheckoutRequest"),
    idempotency_key: true,
    preconditions: Preconditions::IfMatch,
    access: Access::Write,
    responses: &[reservation("The confirmed reservation."), accepted("The reservation with its payment.")],
    own_reasons: &[
        Reason::UnknownReservation,
        Reason::ReservationConfirmed,
        Reason::ReservationCancelled,
        Reason::ReservationExpired,
        Reason::PaymentInProgress,
        Reason::PaymentDeclined,
        Reason::PriceMissing,
        Reason::PaymentMethodMissing,
        Reason::EncryptionKeyMissing,
        Reason::ExtensionLimit,
    ],
    ..CHECKOUTS
};

pub(super) const GET_CHECKOUT: RouteSpec = RouteSpec {
    metric: "checkout_payment",
    summary: "Read the payment of a reservation",
    description: "The reservation with its latest payment. If the buyer has to do something, the provider is asked for \
        `payment.next_action`.",
    responses: &[Response {
        headers: &[ETAG, NO_STORE],
        ..json(200, "The reservation with its payment.", "Reservation")
    }],
    own_reasons: &[Reason::UnknownReservation],
    ..READ
};

pub(super) const CANCEL_CHECKOUT: RouteSpec = RouteSpec {
    metric: "cancel_checkout",
    summary: "Give the payment of a reservation up",
    description: "The provider is asked to end the payment. When it has done so, the reservation is released with the reason \
        `payment_cancelled`. Money that came all the same is refunded. A reservation without a payment under way is left as it is.",
    access: Access::Write,
    responses: &[Response { headers: &[ETAG], ..json(200, "The reservation.", "Reservation") }],
    own_reasons: &[Reason::UnknownReservation, Reason::ReservationConfirmed],
    ..CHECKOUTS
};

pub(super) const REFUND: RouteSpec = RouteSpec {
    metric: "refund",
    summary: "Give money back",
    description: "Refunds money of a reservation that was paid by a checkout: an `amount`, what units cost, or everything that is left. \
        Refunded units are returned in the same commit. The refund is stored with the reservation, and then the provider is asked for \
        it until it is made. Refunds of a reservation are made one after the other.\n\nFor units, the line's amount is divided by its \
        units and rounded down, and what was refunded for the line before is taken off. So the last unit brings the rest.",
    body: lines("RefundRequest"),
    idempotency_key: true,
    access: Access::Write,
    scope: RequiredScope::One(Scope::RefundsWrite),
    responses: &[reservation("The reservation with the refund.")],
    own_reasons: &[
        Reason::UnknownReservation,
        Reason::ReservationNotConfirmed,
        Reason::PaymentInProgress,
        Reason::PaymentNotCaptured,
        Reason::RefundExceedsCaptured,
        Reason::ReturnExceedsSold,
        Reason::FulfilExceedsOnHand,
    ],
    ..CHECKOUTS
};

pub(super) const RETRY_REFUND: RouteSpec = RouteSpec {
    metric: "retry_refund",
    summary: "Try a failed refund again",
    description: "After ten refusals of the provider a refund has failed, and `payment.state` is `refund_failed`. This asks the provider \
        again. A refund that has not failed is left as it is.",
    access: Access::Write,
    scope: RequiredScope::One(Scope::RefundsWrite),
    responses: &[Response { headers: &[ETAG], ..json(200, "The reservation.", "Reservation") }],
    own_reasons: &[Reason::UnknownReservation, Reason::PaymentNotCaptured],
    ..CHECKOUTS
};

pub(super) const LIST_ORDERS: RouteSpec = RouteSpec {
    metric: "orders",
    summary: "List orders",
    description: "What reservations became by a checkout, the newest reservation first. A page may have fewer orders than `limit`, even \
        none, and still have a `next_cursor`: a request examines at most 4,096 reservations.",
    responses: &[json(200, "A page of orders.", "OrderPage")],
    ..READ
};

pub(super) const GET_ORDER: RouteSpec = RouteSpec {
    metric: "order",
    summary: "Read an order",
    description: "What a reservation became by a checkout.",
    responses: &[json(200, "The order.", "Order")],
    own_reasons: &[Reason::UnknownOrder],
    ..READ
};

pub(super) const PROVIDER_WEBHOOK: RouteSpec = RouteSpec {
    metric: "provider_webhook",
    summary: "Take a webhook of a payment provider",
    description: "For the payment provider. The signature of the webhook is the credential. What the webhook says is not believed: the \
        payment is asked for at the provider. So repeats do no harm.",
    body: Body::Required { schema: "ProviderWebhook", limit: BASKET_BODY_BYTES },
    access: Access::Write,
    scope: RequiredScope::Open,
    responses: &[json(200, "It was taken.", "Received")],
    own_reasons: &[Reason::InvalidSignature, Reason::UnknownRoute],
    ..CHECKOUTS
};

const fn accepted(description: &'static str) -> Response {
    Response { status: 202, ..reservation(description) }
}
