//! The rows of the route table.

use super::row::{
    COMPRESSED, ETAG, EVENT_STREAM, HTML, NOT_BUFFERED, PLAIN_TEXT, REPLAYED, empty, item, json, optional,
    pool, pools, required, text,
};
use super::{
    Access, Body, Content, Method, Preconditions, RequiredScope, Response, Restriction, RouteSpec, Tag,
};
use super::{checkouts, profiles, reservations, units};
use crate::decode::{BASKET_BODY_BYTES, COMMANDS_BODY_BYTES, UNITS_BODY_BYTES};
use crate::problem::Reason;
use crate::resources::{archive, customers, deliveries, gate, keys, limits, reconciliation, sinks, webhooks};
use stockhold_service::Scope;

/// Declares the routes in one table, so that no route lacks a row.
macro_rules! routes {
    (@base) => { PLAIN };
    (@base $base:path) => { $base };
    ($(
        $id:ident $method:ident $path:literal $operation:literal $([$base:path])? { $($field:ident: $value:expr,)* }
    )+) => {
        /// A route of the API's listener.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum RouteId {
            $(#[doc = concat!("`", $path, "`: `", $operation, "`")] $id,)+
        }

        impl RouteId {
            /// Every route, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$id),+];

            /// The route's row.
            pub const fn spec(self) -> &'static RouteSpec {
                match self {
                    $(Self::$id => const {
                        #[allow(clippy::needless_update, reason = "a row may give every field")]
                        &RouteSpec {
                            id: Self::$id,
                            method: Method::$method,
                            path: $path,
                            operation: $operation,
                            $($field: $value,)*
                            ..routes!(@base $($base)?)
                        }
                    },)+
                }
            }
        }
    };
}

/// What a row says that leaves a field out.
pub(crate) const PLAIN: RouteSpec = RouteSpec {
    id: RouteId::GetIndex,
    method: Method::Get,
    path: "/",
    operation: "",
    metric: "",
    profile: None,
    tag: Tag::About,
    summary: "",
    description: "",
    body: Body::None,
    idempotency_key: false,
    preconditions: Preconditions::None,
    access: Access::None,
    // A row that says nothing is closed, so that a forgotten scope opens nothing.
    scope: RequiredScope::One(Scope::KeysAdmin),
    restriction: Restriction::Refused,
    hold_token: false,
    responses: &[],
    own_reasons: &[],
};

routes! {
    SetStock Put "/v1/inventory/{sku}" "set_stock" {
        metric: "set_stock",
        tag: Tag::Inventory,
        summary: "Create an item, or set its stock",
        description: "Sets the total and the settings that the body names. The other settings keep their values. `null` \
            clears `default_ttl_seconds`, `max_hold_seconds`, `max_payment_seconds`, `sale_starts_at`, `sale_ends_at`, `incoming`, `gated`, \
            `price`, `low_stock`, `stock_master` or `metadata`. A count of the shelf is sent as `on_hand` with `fulfilled_units_seen`, in place of `total_units`. The total \
            and `oversell_allowance` together can't be lower than the units that are sold and held. A change raises `version` by 1, which is the `ETag`. The first version of an item is the time of its \
            creation in microseconds since 1970. Setting the current values again changes nothing.",
        body: required("StockRequest"),
        preconditions: Preconditions::IfMatchOrAbsent,
        access: Access::Write,
        scope: RequiredScope::One(Scope::InventoryWrite),
        restriction: Restriction::ByItem,
        responses: &[item(201, "The new item."), item(200, "The item, which existed before.")],
        own_reasons: &[Reason::ModeMismatch, Reason::StockOwnedElsewhere, Reason::BelowCommitted],
    }
    ListItems Get "/v1/inventory" "list_items" {
        metric: "inventory",
        tag: Tag::Inventory,
        summary: "List items",
        description: "Items in the order of location and SKU, compared byte by byte.",
        access: Access::Read,
        scope: RequiredScope::One(Scope::InventoryRead),
        restriction: Restriction::Filtered,
        responses: &[json(200, "A page of items.", "ItemPage")],
    }
    GetItem Get "/v1/inventory/{sku}" "get_item" {
        metric: "item",
        tag: Tag::Inventory,
        summary: "Read an item",
        description: "The item's counters and settings. The `ETag` is its version.",
        access: Access::Read,
        scope: RequiredScope::One(Scope::InventoryRead),
        restriction: Restriction::ByItem,
        responses: &[item(200, "The item.")],
        own_reasons: &[Reason::UnknownItem],
    }
    GetAvailability Get "/v1/inventory/{sku}/available" "get_availability" {
        metric: "available",
        tag: Tag::Inventory,
        summary: "Read an item's availability",
        description: "How many units of the item are available now. The answer comes from memory and shows durable \
            changes only.",
        access: Access::Read,
        scope: RequiredScope::One(Scope::InventoryRead),
        restriction: Restriction::ByItem,
        responses: &[json(200, "The item's availability.", "Availability")],
        own_reasons: &[Reason::UnknownItem],
    }
    GetAvailabilities Post "/v1/availability" "get_availabilities" {
        metric: "availability",
        tag: Tag::Inventory,
        summary: "Read the availability of many items",
        description: "Up to 1,000 items in one call, or one SKU at up to 1,000 locations with the sum over them.",
        body: Body::Required { schema: "AvailabilityRequest", limit: BASKET_BODY_BYTES },
        access: Access::Read,
        scope: RequiredScope::One(Scope::InventoryRead),
        restriction: Restriction::ByItem,
        responses: &[json(200, "One entry for each requested item or location, in the same order.", "AvailabilityAnswer")],
    }
    QuotePrices Post "/v1/prices/quote" "quote_prices" {
        metric: "prices_quote",
        tag: Tag::Inventory,
        summary: "Ask what a reserve would cost",
        description: "What each line would cost if it were reserved now, and all of them together. Nothing is held. A reserve \
            freezes the price into its lines. The items of all lines must have prices in one currency.",
        body: Body::Required { schema: "QuoteRequest", limit: BASKET_BODY_BYTES },
        access: Access::Read,
        scope: RequiredScope::One(Scope::InventoryRead),
        restriction: Restriction::ByItem,
        responses: &[json(200, "One entry for each requested line, in the same order.", "Quote")],
        own_reasons: &[Reason::UnknownItem],
    }
    AdjustStock Post "/v1/inventory/{sku}/adjust" "adjust_stock" {
        metric: "adjust",
        tag: Tag::Inventory,
        summary: "Adjust an item's stock",
        description: "Changes the total by a difference: a delivery, breakage, a count. The total can't go below the units \
            that are sold and held. With `supply_id`, a delivery of the item's `incoming` has arrived. Send an idempotency key: an \
            adjustment that is repeated without a key is applied twice.",
        body: required("AdjustRequest"),
        idempotency_key: true,
        preconditions: Preconditions::IfMatch,
        access: Access::Write,
        scope: RequiredScope::One(Scope::InventoryWrite),
        restriction: Restriction::ByItem,
        responses: &[Response { headers: &[ETAG, REPLAYED], ..json(200, "The item.", "Item") }],
        own_reasons: &[
            Reason::UnknownItem,
            Reason::UnknownSupply,
            Reason::ModeMismatch,
            Reason::StockOwnedElsewhere,
            Reason::BelowCommitted,
        ],
    }
    DeleteItem Delete "/v1/inventory/{sku}" "delete_item" {
        metric: "delete_item",
        tag: Tag::Inventory,
        summary: "Delete an item",
        description: "Deletes an item that was made by mistake. It can have stock, but no sold units, no held units and no \
            units with ids: else the answer is `item_in_use`. Ended reservations of the item and its events stay readable. An \
            item that is made again with the same SKU and location begins anew: its `sequence` starts at 1, and its `version` \
            is higher than any version before. Send an idempotency key: without one, a retry whose first try has deleted the \
            item is answered with `unknown_item`.",
        idempotency_key: true,
        preconditions: Preconditions::IfMatch,
        access: Access::Write,
        scope: RequiredScope::One(Scope::InventoryWrite),
        restriction: Restriction::ByItem,
        responses: &[Response { headers: &[REPLAYED], ..empty(204, "The item is deleted.") }],
        own_reasons: &[Reason::UnknownItem, Reason::ItemInUse],
    }
    AddUnits Post "/v1/inventory/{sku}/units" "add_units" [units::ADD_UNITS] {}
    ListUnits Get "/v1/inventory/{sku}/units" "list_units" [units::LIST_UNITS] {}
    GetUnit Get "/v1/inventory/{sku}/units/{unit_id}" "get_unit" [units::GET_UNIT] {}
    GetSeatMap Get "/v1/inventory/{sku}/seat-map" "get_seat_map" [units::GET_SEAT_MAP] {}
    RetireUnit Delete "/v1/inventory/{sku}/units/{unit_id}" "retire_unit" [units::RETIRE_UNIT] {}
    SetPool Put "/v1/inventory/{sku}/pools/{pool}" "set_pool" {
        metric: "set_pool",
        tag: Tag::Inventory,
        summary: "Set units of an item aside, in a pool",
        description: "Only a reserve that names the pool gets its units. The body replaces the whole pool. `allocated` includes the \
            units that were drawn from the pool. The units that come to it must be free: neither held, nor sold, nor in another pool; \
            safety stock may be set aside, and the oversell allowance may not. An item can have 16 pools. A pool with a `releases_at` that has passed is released at \
            once. A change raises the item's version, which is the `ETag`. Setting the same again changes nothing. \
            Where units have ids, `allocated` must be left out: units are put into the pool by their ids, and it is their number.",
        body: required("PoolRequest"),
        preconditions: Preconditions::IfMatch,
        access: Access::Write,
        scope: RequiredScope::One(Scope::InventoryWrite),
        restriction: Restriction::ByItem,
        responses: &[pool(201, "The new pool."), pool(200, "The pool, which existed before.")],
        own_reasons: &[Reason::UnknownItem, Reason::BelowCommitted, Reason::TooManyPools],
    }
    ListPools Get "/v1/inventory/{sku}/pools" "list_pools" {
        metric: "pools",
        tag: Tag::Inventory,
        summary: "List the pools of an item",
        description: "All pools of the item, in the order of their names. A pool that was released or deleted stays in the list while \
            units that were drawn from it are held or sold. The `ETag` is the item's version.",
        access: Access::Read,
        scope: RequiredScope::One(Scope::InventoryRead),
        restriction: Restriction::ByItem,
        responses: &[pools(200, "The pools.")],
        own_reasons: &[Reason::UnknownItem],
    }
    DeletePool Delete "/v1/inventory/{sku}/pools/{pool}" "delete_pool" {
        metric: "delete_pool",
        tag: Tag::Inventory,
        summary: "Delete a pool",
        description: "Its free units go to general sale. Units that were drawn from it stay with their reservations, and go to \
            general sale when they come back. A reserve that names the pool draws from general stock from now on. Deleting it again \
            gives the same answer and changes nothing.",
        preconditions: Preconditions::IfMatch,
        access: Access::Write,
        scope: RequiredScope::One(Scope::InventoryWrite),
        restriction: Restriction::ByItem,
        responses: &[empty(204, "The pool is deleted.")],
        own_reasons: &[Reason::UnknownItem, Reason::UnknownPool],
    }
    PutIntoPool Put "/v1/inventory/{sku}/pools/{pool}/units" "put_into_pool" {
        metric: "put_into_pool",
        tag: Tag::Inventory,
        summary: "Put units with ids into a pool",
        description: "Only a reserve that names the pool gets these units. Name units, or sections to take all of their units: at \
            most 10,000 units. Only available units can be put into a pool: if one is held or sold, the answer is `unit_in_use`, and \
            nothing has changed. Units that are in the pool already stay as they are, and units of another pool leave it. If the item \
            does not have the pool, or it was released, the pool is set: it falls back to general stock and is not released by \
            itself.",
        body: Body::Required { schema: "PoolUnitsRequest", limit: UNITS_BODY_BYTES },
        preconditions: Preconditions::IfMatch,
        access: Access::Write,
        scope: RequiredScope::One(Scope::InventoryWrite),
        restriction: Restriction::ByItem,
        responses: &[pool(201, "The new pool."), pool(200, "The pool, which existed before.")],
        own_reasons: &[
            Reason::UnknownItem,
            Reason::UnknownUnit,
            Reason::ModeMismatch,
            Reason::UnitInUse,
            Reason::TooManyPools,
        ],
    }
    TakeOutOfPool Delete "/v1/inventory/{sku}/pools/{pool}/units" "take_out_of_pool" {
        metric: "take_out_of_pool",
        tag: Tag::Inventory,
        summary: "Take units with ids out of a pool",
        description: "The units become general stock. Only available units can leave a pool: if one is held or sold, the answer is \
            `unit_in_use`, and nothing has changed. Named units that are not in the pool stay where they are.",
        body: Body::Required { schema: "PoolUnitsRequest", limit: UNITS_BODY_BYTES },
        preconditions: Preconditions::IfMatch,
        access: Access::Write,
        scope: RequiredScope::One(Scope::InventoryWrite),
        restriction: Restriction::ByItem,
        responses: &[pool(200, "The pool.")],
        own_reasons: &[
            Reason::UnknownItem,
            Reason::UnknownPool,
            Reason::UnknownUnit,
            Reason::ModeMismatch,
            Reason::UnitInUse,
        ],
    }
    Reserve Post "/v1/inventory/{sku}/reserve" "reserve" [reservations::RESERVE] { restriction: Restriction::ByItem, }
    ReserveBasket Post "/v1/reservations" "reserve_basket" [reservations::RESERVE_BASKET] { restriction: Restriction::ByItem, }
    ListReservations Get "/v1/reservations" "list_reservations" [reservations::LIST_RESERVATIONS] { restriction: Restriction::Filtered, }
    GetReservation Get "/v1/reservations/{reservation_id}" "get_reservation" [reservations::GET_RESERVATION] { restriction: Restriction::ByReservation, }
    Extend Post "/v1/reservations/{reservation_id}/extend" "extend" [reservations::EXTEND] { restriction: Restriction::ByReservation, }
    Amend Patch "/v1/reservations/{reservation_id}" "amend" [reservations::AMEND] { restriction: Restriction::ByReservation, }
    Transfer Post "/v1/reservations/{reservation_id}/transfer" "transfer" [reservations::TRANSFER] { restriction: Restriction::ByReservation, }
    Split Post "/v1/reservations/{reservation_id}/split" "split" [reservations::SPLIT] { restriction: Restriction::ByReservation, }
    Merge Post "/v1/reservations/{reservation_id}/merge" "merge" [reservations::MERGE] { restriction: Restriction::ByReservation, }
    OpenPayment Post "/v1/reservations/{reservation_id}/payment" "open_payment" [reservations::OPEN_PAYMENT] { restriction: Restriction::ByReservation, }
    ClosePayment Delete "/v1/reservations/{reservation_id}/payment" "close_payment" [reservations::CLOSE_PAYMENT] { restriction: Restriction::ByReservation, }
    Confirm Post "/v1/reservations/{reservation_id}/confirm" "confirm" [reservations::CONFIRM] { restriction: Restriction::ByReservation, }
    Fulfil Post "/v1/reservations/{reservation_id}/fulfil" "fulfil" [reservations::FULFIL] { restriction: Restriction::ByReservation, }
    ReturnUnits Post "/v1/reservations/{reservation_id}/return" "return_units" [reservations::RETURN_UNITS] { restriction: Restriction::ByReservation, }
    Release Delete "/v1/reservations/{reservation_id}" "release" [reservations::RELEASE] { restriction: Restriction::ByReservation, }
    StartCheckout Post "/v1/reservations/{reservation_id}/checkout" "start_checkout" [checkouts::START_CHECKOUT] { restriction: Restriction::ByReservation, }
    GetCheckout Get "/v1/reservations/{reservation_id}/checkout" "get_checkout" [checkouts::GET_CHECKOUT] { restriction: Restriction::ByReservation, }
    CancelCheckout Post "/v1/reservations/{reservation_id}/checkout/cancel" "cancel_checkout" [checkouts::CANCEL_CHECKOUT] { restriction: Restriction::ByReservation, }
    Refund Post "/v1/reservations/{reservation_id}/refund" "refund" [checkouts::REFUND] { restriction: Restriction::ByReservation, }
    RetryRefund Post "/v1/reservations/{reservation_id}/refund/retry" "retry_refund" [checkouts::RETRY_REFUND] { restriction: Restriction::ByReservation, }
    ListOrders Get "/v1/orders" "list_orders" [checkouts::LIST_ORDERS] { restriction: Restriction::Filtered, }
    GetOrder Get "/v1/orders/{order_id}" "get_order" [checkouts::GET_ORDER] { restriction: Restriction::Filtered, }
    ProviderWebhook Post "/v1/providers/{provider}/webhook" "provider_webhook" [checkouts::PROVIDER_WEBHOOK] {}
    RunCommands Post "/v1/commands" "run_commands" {
        metric: "commands",
        tag: Tag::Reservations,
        summary: "Run many commands in one call",
        description: "Up to 8,192 commands on reservations and stock. They are decided in their order, each on its own: a command that is refused or invalid does not affect the others. Put each command's idempotency key into \
            its body. The header `Idempotency-Key` is refused.",
        body: Body::Required { schema: "CommandsRequest", limit: COMMANDS_BODY_BYTES },
        access: Access::Write,
        scope: RequiredScope::EachCommand,
        restriction: Restriction::PerCommand,
        responses: &[json(200, "One result for each command, in the same order.", "CommandsAnswer")],
    }
    GetSale Get "/v1/sale" "get_sale" {
        metric: "sale",
        tag: Tag::Sale,
        summary: "Read what is paused",
        description: "Without `location`: whether everything is paused, and which locations have a pause of their own. \
            With `location`: whether that location is paused. An item shows its own pause in `paused`.",
        access: Access::Read,
        scope: RequiredScope::One(Scope::InventoryRead),
        restriction: Restriction::ByItem,
        responses: &[json(200, "The current state.", "Sale")],
    }
    PauseItem Post "/v1/inventory/{sku}/pause" "pause_item" {
        metric: "set_sale",
        tag: Tag::Sale,
        summary: "Pause the sale of an item",
        description: "Refuses new reservations of the item. Existing reservations can still be confirmed, extended, \
            released and returned, and they still expire. A pause changes neither the item's version nor its sequence.",
        body: optional("SaleRequest"),
        access: Access::Write,
        scope: RequiredScope::One(Scope::SaleAdmin),
        restriction: Restriction::ByItem,
        responses: &[json(200, "The current state.", "Sale")],
        own_reasons: &[Reason::UnknownItem],
    }
    ResumeItem Post "/v1/inventory/{sku}/resume" "resume_item" {
        metric: "set_sale",
        tag: Tag::Sale,
        summary: "Resume the sale of an item",
        description: "Ends the pause of the item. A pause of its location or of everything stays.",
        body: optional("SaleRequest"),
        access: Access::Write,
        scope: RequiredScope::One(Scope::SaleAdmin),
        restriction: Restriction::ByItem,
        responses: &[json(200, "The current state.", "Sale")],
        own_reasons: &[Reason::UnknownItem],
    }
    PauseSale Post "/v1/sale/pause" "pause_sale" {
        metric: "set_sale",
        tag: Tag::Sale,
        summary: "Pause the sale of a location or of everything",
        description: "Refuses new reservations at one location, or everywhere when `location` is left out. Existing \
            reservations can still be confirmed, extended, released and returned, and they still expire. The pause survives \
            a restart.",
        body: optional("SaleRequest"),
        access: Access::Write,
        scope: RequiredScope::One(Scope::SaleAdmin),
        restriction: Restriction::ByItem,
        responses: &[json(200, "The current state.", "Sale")],
    }
    ResumeSale Post "/v1/sale/resume" "resume_sale" {
        metric: "set_sale",
        tag: Tag::Sale,
        summary: "Resume the sale of a location or of everything",
        description: "Ends the pause of one location, or of everything when `location` is left out. Items and locations \
            with a pause of their own stay paused.",
        body: optional("SaleRequest"),
        access: Access::Write,
        scope: RequiredScope::One(Scope::SaleAdmin),
        restriction: Restriction::ByItem,
        responses: &[json(200, "The current state.", "Sale")],
    }
    ListEvents Get "/v1/events" "list_events" {
        metric: "events",
        tag: Tag::Events,
        summary: "Read events",
        description: "Every change, in the order of commits. Positions have no gaps: a reader that continues after the last \
            position that it has read misses nothing. A position beyond the newest event is refused. It comes from another \
            history, for example from before a restore. With `type`, a page may have fewer events than `limit`, even none, \
            although more follow: a request examines at most 4,096 events. `next_cursor` is then the last position that was \
            examined.",
        access: Access::Read,
        scope: RequiredScope::One(Scope::EventsRead),
        restriction: Restriction::Filtered,
        responses: &[json(200, "A page of events.", "EventPage")],
        own_reasons: &[Reason::PositionOutOfRange],
    }
    StreamEvents Get "/v1/events/stream" "stream_events" {
        metric: "event_stream",
        tag: Tag::Events,
        summary: "Follow events",
        description: "Server-sent events: each event as soon as it is committed, with its position as `id`. A client that reconnects \
            with `Last-Event-ID` continues where it stopped and misses nothing. Without a position the stream begins after the \
            newest event. The first block has no data: its `id` is the position at which the stream begins. With `type`, a \
            block without data follows at least every 15 seconds while events of other types are passed: its `id` is the last \
            of them. Lines that begin with a colon only keep the connection open. A client that reads nothing for 15 seconds is disconnected. A position \
            beyond the newest event is refused.",
        access: Access::Read,
        scope: RequiredScope::One(Scope::EventsRead),
        restriction: Restriction::Filtered,
        responses: &[Response {
            headers: NOT_BUFFERED,
            ..text("Events, until one side closes the connection.", EVENT_STREAM)
        }],
        own_reasons: &[Reason::PositionOutOfRange],
    }
    GetReservationEvents Get "/v1/reservations/{reservation_id}/events" "get_reservation_events" {
        metric: "history",
        tag: Tag::Events,
        summary: "Read a reservation's history",
        description: "All events of the reservation, the oldest first.",
        access: Access::Read,
        scope: RequiredScope::One(Scope::ReservationsRead),
        restriction: Restriction::ByReservation,
        responses: &[json(200, "The reservation's events.", "History")],
        own_reasons: &[Reason::UnknownReservation],
    }
    GetUnitEvents Get "/v1/inventory/{sku}/units/{unit_id}/events" "get_unit_events" {
        metric: "unit_history",
        tag: Tag::Events,
        summary: "Read a unit's history",
        description: "The newest 64 events of the unit since it was added, the oldest of them first: added, held, sold, \
            released, expired, returned. With a database, archived events are missing, and so are events from before the \
            schema kept histories.",
        access: Access::Read,
        scope: RequiredScope::One(Scope::InventoryRead),
        restriction: Restriction::ByItem,
        responses: &[json(200, "The unit's events.", "UnitHistory")],
        own_reasons: &[Reason::UnknownItem, Reason::UnknownUnit, Reason::ModeMismatch],
    }
    SetLimit Put "/v1/limits/{limit_id}" "set_limit" [limits::SET_LIMIT] {}
    ListLimits Get "/v1/limits" "list_limits" [limits::LIST_LIMITS] {}
    GetLimit Get "/v1/limits/{limit_id}" "get_limit" [limits::GET_LIMIT] {}
    GetLimitUsage Get "/v1/limits/{limit_id}/usage" "get_limit_usage" [limits::GET_LIMIT_USAGE] {}
    DeleteLimit Delete "/v1/limits/{limit_id}" "delete_limit" [limits::DELETE_LIMIT] {}
    PutCustomer Put "/v1/customers/{customer_id}" "put_customer" [customers::PUT_CUSTOMER] {}
    GetCustomer Get "/v1/customers/{customer_id}" "get_customer" [customers::GET_CUSTOMER] {}
    DeleteCustomer Delete "/v1/customers/{customer_id}" "delete_customer" [customers::DELETE_CUSTOMER] {}
    RewrapCustomers Post "/v1/customer-keys/rewrap" "rewrap_customers" [customers::REWRAP_CUSTOMERS] {}
    GetGate Get "/v1/gate" "get_gate" [gate::GET_GATE] {}
    ReloadGate Post "/v1/gate/reload" "reload_gate" [gate::RELOAD_GATE] {}
    GetReconciliation Get "/v1/reconciliation" "get_reconciliation" [reconciliation::GET_RECONCILIATION] {}
    Reconcile Post "/v1/reconciliation" "reconcile" [reconciliation::RECONCILE] {}
    ForgetStockMaster Delete "/v1/reconciliation/{stock_master}" "forget_stock_master" [reconciliation::FORGET_STOCK_MASTER] {}
    ListSinks Get "/v1/sinks" "list_sinks" [sinks::LIST_SINKS] {}
    SkipEvent Post "/v1/sinks/{sink}/skip" "skip_event" [sinks::SKIP_EVENT] {}
    ReplaySink Post "/v1/sinks/{sink}/replay" "replay_sink" [sinks::REPLAY_SINK] {}
    InitSink Post "/v1/sinks/{sink}/init" "init_sink" [sinks::INIT_SINK] {}
    ForgetSink Delete "/v1/sinks/{sink}" "forget_sink" [sinks::FORGET_SINK] {}
    CreateWebhook Post "/v1/webhooks" "create_webhook" [webhooks::CREATE_WEBHOOK] {}
    ListWebhooks Get "/v1/webhooks" "list_webhooks" [webhooks::LIST_WEBHOOKS] {}
    GetWebhook Get "/v1/webhooks/{webhook_id}" "get_webhook" [webhooks::GET_WEBHOOK] {}
    UpdateWebhook Patch "/v1/webhooks/{webhook_id}" "update_webhook" [webhooks::UPDATE_WEBHOOK] {}
    DeleteWebhook Delete "/v1/webhooks/{webhook_id}" "delete_webhook" [webhooks::DELETE_WEBHOOK] {}
    TestWebhook Post "/v1/webhooks/{webhook_id}/test" "test_webhook" [webhooks::TEST_WEBHOOK] {}
    RotateWebhook Post "/v1/webhooks/{webhook_id}/rotate" "rotate_webhook_secret" [webhooks::ROTATE_WEBHOOK] {}
    ListDeliveries Get "/v1/webhooks/{webhook_id}/deliveries" "list_deliveries" [deliveries::LIST_DELIVERIES] {}
    RetryDelivery Post "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/retry" "retry_delivery" [deliveries::RETRY_DELIVERY] {}
    ReplayWebhook Post "/v1/webhooks/{webhook_id}/replay" "replay_webhook" [deliveries::REPLAY_WEBHOOK] {}
    ArchiveEvents Post "/v1/archive" "archive_events" [archive::ARCHIVE_EVENTS] {}
    HubStock Get "/hub/stock/{hub_id}/{sku}" "hub_stock" [profiles::HUB_STOCK] { restriction: Restriction::ByItem, }
    HubReserve Post "/hub/reserve" "hub_reserve" [profiles::HUB_RESERVE] { restriction: Restriction::ByItem, }
    HubConfirm Post "/hub/confirm" "hub_confirm" [profiles::HUB_CONFIRM] { restriction: Restriction::ByReservation, }
    HubRelease Post "/hub/release" "hub_release" [profiles::HUB_RELEASE] { restriction: Restriction::ByReservation, }
    StorefrontReserve Post "/storefront/reserve" "storefront_reserve" [profiles::STOREFRONT_RESERVE] { restriction: Restriction::ByItem, }
    StorefrontCommit Post "/storefront/commit" "storefront_commit" [profiles::STOREFRONT_COMMIT] { restriction: Restriction::ByReservation, }
    StorefrontExtend Post "/storefront/extend" "storefront_extend" [profiles::STOREFRONT_EXTEND] { restriction: Restriction::ByReservation, }
    StorefrontRelease Post "/storefront/release" "storefront_release" [profiles::STOREFRONT_RELEASE] { restriction: Restriction::ByReservation, }
    CreateKey Post "/v1/keys" "create_key" [keys::CREATE_KEY] {}
    ListKeys Get "/v1/keys" "list_keys" [keys::LIST_KEYS] {}
    GetKey Get "/v1/keys/{key_id}" "get_key" [keys::GET_KEY] {}
    RollKey Post "/v1/keys/{key_id}/roll" "roll_key" [keys::ROLL_KEY] {}
    RevokeKey Delete "/v1/keys/{key_id}" "revoke_key" [keys::REVOKE_KEY] {}
    GetOpenApi Get "/openapi.json" "get_openapi" {
        metric: "page",
        summary: "Read the OpenAPI document",
        description: "This document.",
        scope: RequiredScope::Open,
        responses: &[Response {
            status: 200,
            description: "An OpenAPI 3.1 document.",
            content: Content::OpenApi,
            headers: COMPRESSED,
        }],
    }
    GetDocs Get "/docs" "get_docs" {
        metric: "page",
        summary: "Browse the API",
        description: "The OpenAPI document as a page for a browser. It works offline.",
        scope: RequiredScope::Open,
        responses: &[Response { headers: COMPRESSED, ..text("A page.", HTML) }],
    }
    GetProblem Get "/problems/{reason}" "get_problem" {
        metric: "page",
        summary: "Read the page of a reason",
        description: "What the reason means, why it happens and what to do. A problem's `type` is the path of this page.",
        scope: RequiredScope::Open,
        responses: &[text("A page.", HTML)],
        own_reasons: &[Reason::UnknownRoute],
    }
    GetIndex Get "/" "get_index" {
        metric: "page",
        summary: "List the routes",
        description: "All routes in short, for a terminal.",
        scope: RequiredScope::Open,
        responses: &[text("The routes.", PLAIN_TEXT)],
    }
}
