//! The rows of the routes of the profiles, without their paths.

use super::row::{REPLAYED, json, required};
use super::table::PLAIN;
use super::{Access, RequiredScope, Response, RouteSpec, Tag};
use crate::problem::Reason;
use crate::profiles::Profile;
use stockhold_service::Scope;

const HUB: RouteSpec = RouteSpec {
    profile: Some(Profile::Hub),
    tag: Tag::Hub,
    access: Access::Write,
    scope: RequiredScope::One(Scope::ReservationsWrite),
    ..PLAIN
};

const STOREFRONT: RouteSpec = RouteSpec {
    profile: Some(Profile::Storefront),
    tag: Tag::Storefront,
    idempotency_key: true,
    access: Access::Write,
    scope: RequiredScope::One(Scope::ReservationsWrite),
    ..PLAIN
};

const DONE: Response =
    Response { headers: &[REPLAYED], ..json(200, "It was done, now or before.", "StorefrontDone") };

pub(super) const HUB_STOCK: RouteSpec = RouteSpec {
    metric: "hub_stock",
    summary: "Read the stock of a hub",
    description: "How many units of the SKU are available at the hub now. The stock is one number: `partitioned` is \
        always `false`, and `buckets` is always 1.",
    access: Access::Read,
    scope: RequiredScope::One(Scope::InventoryRead),
    responses: &[json(200, "The stock.", "HubStock")],
    own_reasons: &[Reason::UnknownItem],
    ..HUB
};

pub(super) const HUB_RESERVE: RouteSpec = RouteSpec {
    metric: "hub_reserve",
    summary: "Reserve units at a hub for an order",
    description: "Holds the units for 30 seconds, or as long as the item allows if that is less. The hub is the location, the order \
        the owner and the user the customer.\n\nWhile the order's reservation of the SKU at the hub is active or confirmed, the \
        same reservation is answered, with its `status` and the seconds that remain. Another `qty` or `user_id` is then \
        `ORDER_MISMATCH`. After it was released or has expired, a new one is made. This holds for as long as idempotency keys are \
        kept, from the order's first reservation on.",
    body: required("HubReserveRequest"),
    responses: &[json(200, "The reservation.", "HubReservation")],
    own_reasons: &[
        Reason::UnknownItem,
        Reason::SalePaused,
        Reason::QuantityLimit,
        Reason::LimitExceeded,
        Reason::InsufficientInventory,
        Reason::UnitsUnavailable,
        Reason::IdempotencyMismatch,
    ],
    ..HUB
};

pub(super) const HUB_CONFIRM: RouteSpec = RouteSpec {
    metric: "hub_confirm",
    summary: "Confirm a reservation of a hub",
    description: "Sells the units. A second confirm gives the same answer and changes nothing.",
    body: required("HubReservationRequest"),
    responses: &[json(200, "The units are sold.", "HubConfirmed")],
    own_reasons: &[Reason::UnknownReservation, Reason::ReservationCancelled, Reason::ReservationExpired],
    ..HUB
};

pub(super) const HUB_RELEASE: RouteSpec = RouteSpec {
    metric: "hub_release",
    summary: "Release a reservation of a hub",
    description: "Puts the units back into stock. Releasing a reservation that was released before, or that has expired, gives the \
        same answer and changes nothing.",
    body: required("HubReservationRequest"),
    responses: &[json(200, "The units are available again.", "HubReleased")],
    own_reasons: &[Reason::UnknownReservation, Reason::ReservationConfirmed, Reason::PaymentInProgress],
    ..HUB
};

pub(super) const STOREFRONT_RESERVE: RouteSpec = RouteSpec {
    metric: "storefront_reserve",
    summary: "Reserve units for a session",
    description: "Holds units of the SKU at the location `default`. `sessionId` is the owner and the session of the reservation, \
        `source` goes into its metadata. Without `ttl` the hold lasts as long as the item says.",
    body: required("StorefrontReserveRequest"),
    responses: &[Response { headers: &[REPLAYED], ..json(200, "The reservation.", "StorefrontReservation") }],
    own_reasons: &[
        Reason::UnknownItem,
        Reason::SalePaused,
        Reason::QuantityLimit,
        Reason::CustomerRequired,
        Reason::LimitExceeded,
        Reason::TtlTooLong,
        Reason::InsufficientInventory,
        Reason::UnitsUnavailable,
    ],
    ..STOREFRONT
};

pub(super) const STOREFRONT_COMMIT: RouteSpec = RouteSpec {
    metric: "storefront_commit",
    summary: "Commit a reservation",
    description: "Sells the units. A second commit gives the same answer and changes nothing.",
    body: required("StorefrontReservationRequest"),
    responses: &[DONE],
    own_reasons: &[Reason::UnknownReservation, Reason::ReservationCancelled, Reason::ReservationExpired],
    ..STOREFRONT
};

pub(super) const STOREFRONT_EXTEND: RouteSpec = RouteSpec {
    metric: "storefront_extend",
    summary: "Extend a reservation",
    description: "Moves the deadline to `ttl` seconds from now, and never to an earlier one. Without `ttl`: as long as a new hold \
        without `ttl` would last. At the latest deadline that the reservation can have, the answer is `LIMIT`.",
    body: required("StorefrontExtendRequest"),
    responses: &[DONE],
    own_reasons: &[
        Reason::UnknownReservation,
        Reason::ReservationConfirmed,
        Reason::ReservationCancelled,
        Reason::ReservationExpired,
        Reason::PaymentInProgress,
        Reason::ExtensionLimit,
    ],
    ..STOREFRONT
};

pub(super) const STOREFRONT_RELEASE: RouteSpec = RouteSpec {
    metric: "storefront_release",
    summary: "Release a reservation",
    description: "Puts the units back into stock. Releasing a reservation that was released before, or that has expired, gives the \
        same answer and changes nothing.",
    body: required("StorefrontReservationRequest"),
    responses: &[DONE],
    own_reasons: &[Reason::UnknownReservation, Reason::ReservationConfirmed, Reason::PaymentInProgress],
    ..STOREFRONT
};
