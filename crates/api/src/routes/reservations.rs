//! The rows of the routes on reservations, without their paths.

use super::row::{
    ETAG, REPLAYED, empty, json, lines, new_reservation, optional, optional_lines, required, reservation,
};
use super::table::PLAIN;
use super::{Access, Preconditions, RequiredScope, Response, RouteSpec, Tag};
use crate::problem::Reason;
use stockhold_service::Scope;

const RESERVE_REASONS: &[Reason] = &[
    Reason::UnknownItem,
    Reason::SalePaused,
    Reason::QuantityLimit,
    Reason::CustomerRequired,
    Reason::PriceMissing,
    Reason::PaymentMethodMissing,
    Reason::EncryptionKeyMissing,
    Reason::LimitExceeded,
    Reason::TtlTooLong,
    Reason::ModeMismatch,
    Reason::InsufficientInventory,
    Reason::UnitsUnavailable,
];

/// A route that changes reservations.
const CHANGE: RouteSpec = RouteSpec {
    tag: Tag::Reservations,
    idempotency_key: true,
    access: Access::Write,
    scope: RequiredScope::One(Scope::ReservationsWrite),
    ..PLAIN
};

/// A route that reads reservations.
const READ: RouteSpec = RouteSpec {
    tag: Tag::Reservations,
    access: Access::Read,
    scope: RequiredScope::One(Scope::ReservationsRead),
    ..PLAIN
};

pub(super) const RESERVE: RouteSpec = RouteSpec {
    metric: "reserve",
    summary: "Reserve units of one item",
    description: "Holds units for a limited time. Nobody else can get them until the reservation is confirmed, \
        released or expires.\n\n**Check `status` in the answer.** A retry with the same idempotency key answers with the \
        reservation as it is now, with `Idempotent-Replayed: true`. If the hold has ended since, `status` is `expired`, \
        `confirmed` or `cancelled`, and the HTTP status is still 200. To hold the units again, send a new key.\n\n\
        `expires_at` is the time of the reserve plus `ttl_seconds`, rounded up to the next millisecond. Both reserve \
        routes are one operation for idempotency keys.",
    body: required("ReserveRequest"),
    responses: &[reservation("The reservation.")],
    own_reasons: RESERVE_REASONS,
    ..CHANGE
};

pub(super) const RESERVE_BASKET: RouteSpec = RouteSpec {
    metric: "reserve",
    summary: "Reserve several items at once",
    description: "Holds units of up to 2,000 items in one commit: every line in full, or nothing. With `fulfilment: \
        partial` each line gets what is available. Lines of the same item are added up. All lines have one deadline and \
        end together.\n\n**Check `status` in the answer.** A retry with the same idempotency key answers with the \
        reservation as it is now, with `Idempotent-Replayed: true`. If the hold has ended since, `status` is `expired`, \
        `confirmed` or `cancelled`, and the HTTP status is still 201. To hold the units again, send a new key.\n\n\
        `expires_at` is the time of the reserve plus `ttl_seconds`, rounded up to the next millisecond.",
    body: lines("BasketRequest"),
    responses: &[new_reservation("The reservation.")],
    own_reasons: RESERVE_REASONS,
    ..CHANGE
};

pub(super) const LIST_RESERVATIONS: RouteSpec = RouteSpec {
    metric: "reservations",
    summary: "List reservations",
    description: "The newest first. A reservation is listed when all filters match. A `sku` without a `location` \
        matches every location. With `order_id` the reservation that was confirmed last comes first; an order may have \
        several. A page may have fewer reservations than `limit`, even none, and still have a `next_cursor`: a request \
        examines at most 4,096 reservations. `order_id`, `owner_id` and `sku` are found by an index. A customer alone is \
        found by one in the embedded store, and not in a database.",
    responses: &[json(200, "A page of reservations.", "ReservationPage")],
    ..READ
};

pub(super) const GET_RESERVATION: RouteSpec = RouteSpec {
    metric: "reservation",
    summary: "Read a reservation",
    description: "In any status. Reservations are kept after they have ended. The `ETag` is the reservation's `version`.",
    hold_token: true,
    responses: &[Response { headers: &[ETAG], ..json(200, "The reservation.", "Reservation") }],
    own_reasons: &[Reason::UnknownReservation],
    ..READ
};

pub(super) const EXTEND: RouteSpec = RouteSpec {
    metric: "extend",
    summary: "Extend a reservation",
    description: "Moves the deadline to `ttl_seconds` from now. The deadline never gets earlier, and never later than \
        `max_expires_at`: a later one is cut to it. At that limit the answer is `extension_limit`.",
    body: required("ExtendRequest"),
    hold_token: true,
    responses: &[reservation("The reservation.")],
    own_reasons: &[
        Reason::UnknownReservation,
        Reason::ReservationConfirmed,
        Reason::ReservationCancelled,
        Reason::ReservationExpired,
        Reason::PaymentInProgress,
        Reason::ExtensionLimit,
    ],
    ..CHANGE
};

pub(super) const AMEND: RouteSpec = RouteSpec {
    metric: "amend",
    summary: "Change a reservation",
    description: "`lines` are all lines of the reservation afterwards: a line that is not named is dropped. The \
        reservation's own units count as available to it, and nobody can take a unit in between. Only what is added is \
        judged: removing units always works. The deadline stays, unless `ttl_seconds` moves it as an extend would. An \
        amend that changes nothing raises no `version` and writes no event.",
    body: lines("AmendRequest"),
    preconditions: Preconditions::IfMatch,
    hold_token: true,
    responses: &[reservation("The reservation.")],
    own_reasons: &[
        Reason::UnknownReservation,
        Reason::ReservationConfirmed,
        Reason::ReservationCancelled,
        Reason::ReservationExpired,
        Reason::PaymentInProgress,
        Reason::ExtensionLimit,
        Reason::UnknownItem,
        Reason::SalePaused,
        Reason::QuantityLimit,
        Reason::CustomerRequired,
        Reason::LimitExceeded,
        Reason::ModeMismatch,
        Reason::InsufficientInventory,
        Reason::UnitsUnavailable,
    ],
    ..CHANGE
};

pub(super) const TRANSFER: RouteSpec = RouteSpec {
    metric: "transfer",
    summary: "Transfer a reservation",
    description: "Gives an active reservation to another owner, customer or session. The members that are not sent stay, \
        and `null` clears `customer_id` or `session_id`. A hold token that was issued before no longer works.",
    body: required("TransferRequest"),
    preconditions: Preconditions::IfMatch,
    responses: &[reservation("The reservation.")],
    own_reasons: &[
        Reason::UnknownReservation,
        Reason::ReservationConfirmed,
        Reason::ReservationCancelled,
        Reason::ReservationExpired,
        Reason::PaymentInProgress,
        Reason::CustomerRequired,
        Reason::LimitExceeded,
    ],
    ..CHANGE
};

pub(super) const SPLIT: RouteSpec = RouteSpec {
    metric: "split",
    summary: "Split a reservation",
    description: "Moves units into a new reservation with the same deadline, owner and customer. Each of the two can then \
        be confirmed, released or paid for on its own. The new one has `split_from`, the old one `split_into`. Where units \
        have ids, a line names the units, or takes the first ones of its item. At least one unit stays.",
    body: lines("SplitRequest"),
    preconditions: Preconditions::IfMatch,
    responses: &[new_reservation("The new reservation.")],
    own_reasons: &[
        Reason::UnknownReservation,
        Reason::ReservationConfirmed,
        Reason::ReservationCancelled,
        Reason::ReservationExpired,
        Reason::PaymentInProgress,
        Reason::SplitExceedsHeld,
    ],
    ..CHANGE
};

pub(super) const MERGE: RouteSpec = RouteSpec {
    metric: "merge",
    summary: "Merge reservations",
    description: "Adds the lines of other active reservations to this one. The others end as `cancelled` with \
        `close_reason: merged` and `merged_into`. The deadline is that of this reservation, cut to the earliest \
        `max_expires_at` of all. A refusal names the reservation that it is about.",
    body: required("MergeRequest"),
    preconditions: Preconditions::IfMatch,
    responses: &[reservation("The reservation.")],
    own_reasons: &[
        Reason::UnknownReservation,
        Reason::ReservationConfirmed,
        Reason::ReservationCancelled,
        Reason::ReservationExpired,
        Reason::PaymentInProgress,
        Reason::CustomerRequired,
        Reason::LimitExceeded,
        Reason::QuantityLimit,
    ],
    ..CHANGE
};

pub(super) const OPEN_PAYMENT: RouteSpec = RouteSpec {
    metric: "open_payment",
    summary: "Open a payment window",
    description: "Keeps the reservation while its payment is under way. The deadline becomes the later of `expires_at` and \
        now plus `window_seconds`; `max_expires_at` does not bound it. The same `payment_id` again keeps the later deadline. \
        No window ends later than `max_payment_seconds` after the first window of the reservation was opened: then the \
        answer is `extension_limit`. While the window is open, the reservation can't be released, amended, transferred, \
        split, merged or extended, and a confirm with another `payment_id` is refused.",
    body: required("PaymentRequest"),
    preconditions: Preconditions::IfMatch,
    responses: &[reservation("The reservation.")],
    own_reasons: &[
        Reason::UnknownReservation,
        Reason::ReservationConfirmed,
        Reason::ReservationCancelled,
        Reason::ReservationExpired,
        Reason::PaymentInProgress,
        Reason::ExtensionLimit,
    ],
    ..CHANGE
};

pub(super) const CLOSE_PAYMENT: RouteSpec = RouteSpec {
    metric: "close_payment",
    summary: "Close a payment window",
    description: "For a payment that was declined or given up. The deadline goes back to what it was before the window, but \
        to no earlier than 60 seconds from now, or the default time to live of the items if that is shorter. Nothing is \
        changed if no window is open, or if the open one has another `payment_id`.",
    responses: &[Response { headers: &[REPLAYED], ..empty(204, "No window of this payment is open.") }],
    own_reasons: &[Reason::UnknownReservation],
    ..CHANGE
};

pub(super) const CONFIRM: RouteSpec = RouteSpec {
    metric: "confirm",
    summary: "Confirm a reservation",
    description: "Sells the reservation's units. A second confirm with the same order, or without one, gives the same \
        answer and changes nothing. While a payment window is open, a confirm with another `payment_id` is `payment_in_progress`.\n\nWith \
        `if_expired: reacquire` a reservation that has expired takes the same units again, if they are available, in a \
        new reservation that is confirmed in the same commit. The answer is the new reservation, with `replaces`. If the \
        units are not available, the answer is that of a reserve, with `reservation_expired: true`.",
    body: optional("ConfirmRequest"),
    responses: &[reservation("The confirmed reservation.")],
    own_reasons: &[
        Reason::UnknownReservation,
        Reason::ReservationConfirmed,
        Reason::ReservationCancelled,
        Reason::ReservationExpired,
        Reason::PaymentInProgress,
        Reason::UnknownItem,
        Reason::SalePaused,
        Reason::CustomerRequired,
        Reason::LimitExceeded,
        Reason::ModeMismatch,
        Reason::InsufficientInventory,
        Reason::UnitsUnavailable,
    ],
    ..CHANGE
};

pub(super) const FULFIL: RouteSpec = RouteSpec {
    metric: "fulfil",
    summary: "Fulfil sold units",
    description: "Records that sold units have left the shelf. `fulfilled_units` of their items rises and `on_hand` falls; \
        `available` stays. Without `lines` and `units`: all units that are sold and neither fulfilled nor returned. Send an \
        idempotency key: a fulfil of a quantity that is repeated without a key is applied twice.",
    body: optional_lines("FulfilRequest"),
    responses: &[reservation("The reservation.")],
    own_reasons: &[
        Reason::UnknownReservation,
        Reason::ReservationNotConfirmed,
        Reason::FulfilExceedsSold,
        Reason::FulfilExceedsOnHand,
    ],
    ..CHANGE
};

pub(super) const RETURN_UNITS: RouteSpec = RouteSpec {
    metric: "return",
    summary: "Return sold units",
    description: "Takes back sold units of a confirmed reservation. The reservation stays confirmed, and its lines show \
        `returned_quantity`. With `disposition: restock` the units can be sold again. With `write_off` the item's total is \
        lowered by them, and units with ids are retired. Send an idempotency key: a return that is repeated without a key \
        is applied twice.",
    body: lines("ReturnRequest"),
    responses: &[reservation("The reservation.")],
    own_reasons: &[
        Reason::UnknownReservation,
        Reason::ReservationNotConfirmed,
        Reason::ReturnExceedsSold,
        Reason::FulfilExceedsOnHand,
    ],
    ..CHANGE
};

pub(super) const RELEASE: RouteSpec = RouteSpec {
    metric: "release",
    summary: "Release a reservation",
    description: "Puts the reservation's units back into stock. Releasing a reservation that was released before, or \
        that has expired, gives the same answer and changes nothing.",
    hold_token: true,
    responses: &[Response { headers: &[REPLAYED], ..empty(204, "The units are available again.") }],
    own_reasons: &[Reason::UnknownReservation, Reason::ReservationConfirmed, Reason::PaymentInProgress],
    ..CHANGE
};
