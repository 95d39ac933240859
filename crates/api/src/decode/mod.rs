//! Decodes the path, query, headers and body of a request into a command of the rules.
//!
//! Every function takes the parts as they were received (still percent-encoded) and returns all errors that it finds.
//! Each error has a pointer: RFC 6901 into the body, and `/{name}` for a path parameter, a query parameter or a
//! header. Within a member of the body only the first error is found. Nothing is looked up here, and limits of the
//! rules are not checked: a quantity above the line limit is decoded, and the rules refuse it.

mod archive;
mod batch;
mod body;
mod checkout;
mod command;
mod customers;
mod event_bound;
mod explain;
mod field;
mod gate;
mod header;
mod keys;
mod limits;
mod lists;
mod metadata;
mod path;
mod pools;
mod prices;
mod reconciliation;
mod reservation;
mod sinks;
mod source;
mod terms;
mod time;
mod units;
mod webhooks;

pub use archive::archive_events;
pub use batch::{AvailabilityQuery, COMMANDS, COMMANDS_BODY_BYTES, ITEMS, LOCATIONS, availability, commands};
pub(crate) use body::read as read_body;
pub use checkout::{OrderFilter, cancel_checkout, order, orders, refund, retry_refund, start_checkout};
pub use customers::{CustomerPage, customer, delete_customer, put_customer, rewrap_customers};
pub use event_bound::EventBound;
pub(crate) use explain::{clip, mismatch};
pub(crate) use field::{Id, MAX_VERSION, Quantity, Text, Ttl};
pub use gate::{gate, reload_gate};
pub(crate) use header::check_key;
pub use header::{Match, host, idempotency_key, is_json, no_idempotency_key, no_precondition};
pub use keys::{create_key, key, keys, roll_key};
pub use limits::{delete_limit, limit, limit_usage, limits, set_limit};
pub use lists::{
    EVENTS_EXAMINED, EventFormat, EventPageQuery, EventStreamQuery, EventsFrom, PAGE_DEFAULT, PAGE_LIMIT,
    events, reservations, shelf, stream,
};
pub(crate) use path::label as label_in_path;
pub(crate) use path::parameters;
pub use pools::{delete_pool, put_into_pool, set_pool, take_out_of_pool};
pub use prices::{QuoteQuery, quote};
pub use reconciliation::{forget_stock_master, reconcile, reconciliation};
pub use reservation::{
    amend, close_payment, confirm, extend, fulfil, merge, open_payment, release, reservation, return_units,
    split, transfer,
};
pub use sinks::{replay_sink, sink, sinks, skip_event};
pub use time::instant;
pub use units::{UNITS_BODY_BYTES, add_units, retire_unit, seat_map, unit, units};
pub use webhooks::{
    create_webhook, deliveries, delivery, replay_webhook, rotate_webhook, update_webhook, webhook, webhooks,
};

use units::LineUnits;

use body::{AdjustBody, BasketBody, LineBody, ReserveBody, SaleBody, StockBody, SupplyBody};
use field::{JsonObject, Stock};
use std::borrow::Cow;
use std::sync::LazyLock;
use stockhold_domain::limits::{BASKET_LINES, SOURCE_PAIRS, SUPPLIES};
use stockhold_domain::{
    AdjustStock, Basket, BasketError, Command, DeleteItem, FieldError, ItemKey, Label, Patch, Precondition,
    RequestedLine, Reserve, ReserveTerms, Scope, SetSale, SetStock, ShelfCount, Supply,
};

/// Longest body of most routes in bytes.
pub const BODY_BYTES: usize = 64 * 1024;
/// Longest body in bytes of the routes that take lines and of `POST /v1/availability`: 2,000 lines fit many times over.
pub const BASKET_BODY_BYTES: usize = 1024 * 1024;
/// Deepest nesting of a body; the body's own object is the first level.
pub const JSON_DEPTH: usize = 32;

/// The part of a request that a fault is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultLocation {
    /// The body.
    Body,
    /// A parameter of the path.
    Path,
    /// A parameter of the query.
    Query,
    /// A header.
    Header,
}

impl FaultLocation {
    /// Its name in problems.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Body => "body",
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
        }
    }
}

/// One fault of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The part of the request.
    pub location: FaultLocation,
    /// RFC 6901 into the body, or `/` and the name of a parameter or header.
    pub pointer: Box<str>,
    /// What is wrong, and what would be right.
    pub detail: String,
}

impl From<FieldError> for Fault {
    fn from(error: FieldError) -> Self {
        // The rules report errors of the body, except for an item of the wrong kind, which the path names.
        let location = if &*error.pointer == "/sku" { FaultLocation::Path } else { FaultLocation::Body };
        Self { location, pointer: error.pointer, detail: error.detail }
    }
}

/// Most faults of one request that are reported.
pub(crate) const MAX_FAULTS: usize = 20;

/// What is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// At least one fault.
    pub errors: Vec<Fault>,
}

impl Invalid {
    /// A fault of the body.
    pub fn new(pointer: impl Into<Box<str>>, detail: impl Into<String>) -> Self {
        Self::at(FaultLocation::Body, pointer, detail)
    }

    /// A fault of a parameter of the path.
    pub(crate) fn path(pointer: impl Into<Box<str>>, detail: impl Into<String>) -> Self {
        Self::at(FaultLocation::Path, pointer, detail)
    }

    /// A fault of a header.
    pub fn header(pointer: impl Into<Box<str>>, detail: impl Into<String>) -> Self {
        Self::at(FaultLocation::Header, pointer, detail)
    }

    pub(crate) fn at(
        location: FaultLocation,
        pointer: impl Into<Box<str>>,
        detail: impl Into<String>,
    ) -> Self {
        Self { errors: vec![Fault { location, pointer: pointer.into(), detail: detail.into() }] }
    }
}

/// A command, and the idempotency key that its body named; see [`idempotency_key`] for the header's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyed<'a> {
    /// The command.
    pub command: Command,
    /// The body's `idempotency_key`.
    pub key: Option<Cow<'a, str>>,
    /// Whether the answer of a reserve shall have a hold token. It is no part of the command, so a retry may ask again.
    pub hold_token: bool,
}

/// A command with the key of its body.
fn keyed(command: Command, key: Option<field::Key<'_>>) -> Keyed<'_> {
    Keyed { command, key: key.map(|key| key.0), hold_token: false }
}

fn is_set(flag: Option<field::Flag>) -> bool {
    flag.is_some_and(|flag| flag.0)
}

/// `POST /v1/inventory/{sku}/reserve?location=`
pub fn reserve_single<'a>(sku: &str, query: Option<&str>, body: &'a [u8]) -> Result<Keyed<'a>, Invalid> {
    let body = body::read::<ReserveBody<'a>>(body).map_err(location_in_the_query);
    let (item, mut body) = both(item(sku, query), body)?;
    let terms = body.take_terms();
    let wish = LineUnits {
        quantity: body.quantity,
        units: body.units,
        adjacent: body.adjacent,
        sections: body.sections,
        min_together: body.min_together,
        attributes: body.attributes,
    };
    let basket = single(item, wish)?;
    let command = Command::Reserve(Reserve {
        override_limits: is_set(body.override_limits),
        basket,
        ttl: body.ttl_seconds.map(|ttl| ttl.0),
        fulfilment: body.fulfilment.unwrap_or_default().0,
        terms: ReserveTerms::new(body.owner_id.0, terms),
        checkout: checkout::auto_checkout(body.auto_checkout)?,
    });
    Ok(Keyed { hold_token: is_set(body.hold_token), ..keyed(command, body.idempotency_key) })
}

/// Says where the location of this route belongs to those who have put it into the body, as lines have it.
fn location_in_the_query(mut invalid: Invalid) -> Invalid {
    for error in invalid.errors.iter_mut().filter(|error| &*error.pointer == "/location") {
        "is a query parameter here: add ?location= to the path".clone_into(&mut error.detail);
    }
    invalid
}

/// For routes that read no body: one that was sent was meant to say something.
pub fn no_body(body: &[u8]) -> Result<(), Invalid> {
    if body.is_empty() {
        return Ok(());
    }
    Err(Invalid::new("", "must be empty: this route reads only the path and the query"))
}

/// `POST /v1/reservations`
pub fn reserve_basket<'a>(query: Option<&str>, body: &'a [u8]) -> Result<Keyed<'a>, Invalid> {
    let ((), mut body) = both(path::no_query(query), body::read::<BasketBody<'a>>(body))?;
    let terms = body.take_terms();
    let basket = source::basket(body.lines)?;
    let command = Command::Reserve(Reserve {
        override_limits: is_set(body.override_limits),
        basket,
        ttl: body.ttl_seconds.map(|ttl| ttl.0),
        fulfilment: body.fulfilment.unwrap_or_default().0,
        terms: ReserveTerms::new(body.owner_id.0, terms),
        checkout: checkout::auto_checkout(body.auto_checkout)?,
    });
    Ok(Keyed { hold_token: is_set(body.hold_token), ..keyed(command, body.idempotency_key) })
}

/// `GET /v1/inventory/{sku}?location=` and `GET /v1/inventory/{sku}/available?location=`
pub fn item(sku: &str, query: Option<&str>) -> Result<ItemKey, Invalid> {
    let (sku, [location]) = both(path::label("/sku", sku), path::query(query, ["location"]))?;
    Ok(key_at(location.as_ref(), &sku))
}

/// The item of a SKU at the default location.
pub(crate) fn default_item(sku: &Label) -> ItemKey {
    key_at(None, sku)
}

fn key_at(location: Option<&Label>, sku: &Label) -> ItemKey {
    ItemKey::new(location.unwrap_or(&DEFAULT_LOCATION), sku)
}

/// `PUT /v1/inventory/{sku}?location=`, with what the item has to be like.
pub fn set_stock(
    sku: &str,
    query: Option<&str>,
    precondition: Option<Match<'_>>,
    body: &[u8],
) -> Result<Command, Invalid> {
    let target = both(item(sku, query), header::expected(precondition));
    let ((item, expected), body) = both(target, body::read::<StockBody>(body))?;
    Ok(Command::SetStock(SetStock {
        item,
        shelf: shelf_count(body.on_hand, body.fulfilled_units_seen)?,
        total_units: body.total_units.map(|units| units.0),
        mode: body.mode.map(|mode| mode.0),
        safety_stock: body.safety_stock.map(|units| units.0),
        oversell_allowance: body.oversell_allowance.map(|units| units.0),
        gated: body.gated.map(|gated| gated.0),
        sale_starts_at: body.sale_starts_at.map(|time| time.0),
        sale_ends_at: body.sale_ends_at.map(|time| time.0),
        incoming: supplies(body.incoming)?,
        default_ttl: body.default_ttl_seconds.map(|ttl| ttl.0),
        max_hold: body.max_hold_seconds.map(|ttl| ttl.0),
        max_payment: body.max_payment_seconds.map(|ttl| ttl.0),
        price: prices::price(body.price)?,
        low_stock: body.low_stock.map(|units| units.0),
        stock_master: body.stock_master.map(|name| name.0),
        override_owner: is_set(body.override_owner),
        metadata: body.metadata.map(|metadata| metadata.0),
        expected,
    }))
}

/// A count of the shelf, in place of a total.
fn shelf_count(
    on_hand: Option<Stock>,
    fulfilled_units_seen: Option<Stock>,
) -> Result<Option<ShelfCount>, Invalid> {
    match (on_hand, fulfilled_units_seen) {
        (None, Some(_)) => Err(Invalid::new("/fulfilled_units_seen", "is read only together with on_hand")),
        (None, None) => Ok(None),
        (Some(on_hand), seen) => {
            Ok(Some(ShelfCount { on_hand: on_hand.0, fulfilled_seen: seen.map(|units| units.0) }))
        }
    }
}

/// `POST /v1/inventory/{sku}/adjust?location=`, with the value of `If-Match`.
pub fn adjust<'a>(
    sku: &str,
    query: Option<&str>,
    if_match: Option<&[u8]>,
    body: &'a [u8],
) -> Result<Keyed<'a>, Invalid> {
    let target = both(item(sku, query), header::expected(if_match.map(Match::If)));
    let ((item, expected), body) = both(target, body::read::<AdjustBody<'a>>(body))?;
    let adjust = adjust_stock(item, expected, body.delta.0, body.reason, body.supply_id)?;
    let override_owner = is_set(body.override_owner);
    Ok(keyed(Command::AdjustStock(AdjustStock { override_owner, ..adjust }), body.idempotency_key))
}

/// A delivery that arrives needs no other reason.
fn adjust_stock(
    item: ItemKey,
    expected: Option<Precondition>,
    delta: i64,
    reason: Option<Text>,
    supply_id: Option<Text>,
) -> Result<AdjustStock, Invalid> {
    let supply_id = supply_id.map(|text| text.0);
    let reason = match reason {
        Some(reason) => reason.0,
        None if supply_id.is_some() => RECEIVED.clone(),
        None => return Err(Invalid::new("/reason", "is required, or supply_id for a delivery that arrived")),
    };
    Ok(AdjustStock { item, delta, reason, supply_id, override_owner: false, expected })
}

/// The deliveries that a body lists; `null` means none.
fn supplies(incoming: Patch<Vec<JsonObject<SupplyBody>>>) -> Result<Option<Box<[Supply]>>, Invalid> {
    let supply = |JsonObject(body): JsonObject<SupplyBody>| Supply {
        id: body.supply_id.0,
        quantity: body.quantity.0,
        available_from: body.available_from.0,
    };
    Ok(match incoming {
        Patch::Keep => None,
        Patch::Clear => Some([].into()),
        Patch::Set(supplies) if supplies.len() > SUPPLIES => {
            let detail = format!("must have at most {SUPPLIES} deliveries, and has {}", supplies.len());
            return Err(Invalid::new("/incoming", detail));
        }
        Patch::Set(supplies) => Some(supplies.into_iter().map(supply).collect()),
    })
}

/// `DELETE /v1/inventory/{sku}?location=`, with the value of `If-Match`.
pub fn delete_item(sku: &str, query: Option<&str>, if_match: Option<&[u8]>) -> Result<Command, Invalid> {
    let (item, expected) = both(item(sku, query), header::expected(if_match.map(Match::If)))?;
    Ok(Command::DeleteItem(DeleteItem { item, expected }))
}

/// `POST /v1/inventory/{sku}/pause` or `/resume`, `?location=`; an empty body is `{}`.
pub fn set_item_sale(sku: &str, query: Option<&str>, body: &[u8], paused: bool) -> Result<Command, Invalid> {
    let (item, body) = both(item(sku, query), body::read_or_default::<SaleBody>(body))?;
    let reason = body.reason.map(|text| text.0);
    Ok(Command::SetSale(SetSale { scope: Scope::Item(item), paused, reason }))
}

/// `POST /v1/sale/pause` or `/resume`; `?location=` for one location, else everything; an empty body is `{}`.
pub fn set_sale(query: Option<&str>, body: &[u8], paused: bool) -> Result<Command, Invalid> {
    let query = path::query(query, ["location"]);
    let ([location], body) = both(query, body::read_or_default::<SaleBody>(body))?;
    let reason = body.reason.map(|text| text.0);
    let scope = location.map_or(Scope::Everything, Scope::Location);
    Ok(Command::SetSale(SetSale { scope, paused, reason }))
}

/// `GET /v1/sale?location=`; everything when there is no location.
pub fn sale(query: Option<&str>) -> Result<Scope, Invalid> {
    let [location] = path::query(query, ["location"])?;
    Ok(location.map_or(Scope::Everything, Scope::Location))
}

static DEFAULT_LOCATION: LazyLock<Label> = LazyLock::new(|| constant(Label::DEFAULT_LOCATION));
/// The reason of an adjustment that says only which delivery arrived.
static RECEIVED: LazyLock<Label> = LazyLock::new(|| constant("received"));

fn constant(text: &str) -> Label {
    match Label::new(text) {
        Ok(label) => label,
        Err(error) => unreachable!("the label {text:?} {error}"),
    }
}

/// A wish for units of one item.
fn single(item: ItemKey, wish: LineUnits) -> Result<Basket, Invalid> {
    let (quantity, choice) = units::wish(wish, "")?;
    Basket::with_selections(vec![(RequestedLine { item, quantity }, choice)])
        .map_err(|error| basket_error(error, "/quantity"))
}

fn basket_of(lines: impl ExactSizeIterator<Item = (ItemKey, LineUnits)>) -> Result<Basket, Invalid> {
    let mut wants = Vec::with_capacity(lines.len());
    for (number, (item, wish)) in lines.enumerate() {
        let (quantity, choice) = if wish.is_plain() {
            (wish.quantity.map_or(1, |quantity| quantity.0), None)
        } else {
            units::wish(wish, &format!("/lines/{number}"))?
        };
        wants.push((RequestedLine { item, quantity }, choice));
    }
    Basket::with_selections(wants).map_err(|error| basket_error(error, "/lines"))
}

/// The item of a line without a source, and what is wished of it.
fn parted(line: LineBody) -> (ItemKey, LineUnits) {
    let LineBody { sku, location, source: _, quantity, units, adjacent, sections, min_together, attributes } =
        line;
    let item = key_at(location.as_ref().map(|text| &text.0), &sku.0);
    (item, LineUnits { quantity, units, adjacent, sections, min_together, attributes })
}

fn basket_error(error: BasketError, pointer: &str) -> Invalid {
    let lines = crate::problem::grouped(BASKET_LINES as u64);
    match error {
        BasketError::Empty => Invalid::new(pointer, format!("must have 1 to {lines} lines, found none")),
        BasketError::TooMany(found) => {
            let found = crate::problem::grouped(found as u64);
            Invalid::new(pointer, format!("must have 1 to {lines} lines, found {found}"))
        }
        BasketError::Zero(line) => Invalid::new(format!("{pointer}/{line}"), "must ask for at least 1 unit"),
        BasketError::Twice(line) => {
            Invalid::new(format!("{pointer}/{line}/units"), "names a unit that another line also names")
        }
        BasketError::TooManyPairs(found) => {
            let (most, found) = (SOURCE_PAIRS as u64, found as u64);
            let [most, found] = [most, found].map(crate::problem::grouped);
            let detail = format!(
                "must name at most {most} items together, found {found}: each location of a source is one, and each other line"
            );
            Invalid::new(pointer, detail)
        }
        BasketError::Differs(line) => Invalid::new(
            format!("{pointer}/{line}"),
            "selects units of an item in another way than an earlier line does: send one line, or two reservations",
        ),
    }
}

/// Both, or all that is wrong with either.
pub(crate) fn both<A, B>(a: Result<A, Invalid>, b: Result<B, Invalid>) -> Result<(A, B), Invalid> {
    match (a, b) {
        (Ok(a), Ok(b)) => Ok((a, b)),
        (Err(mut a), Err(b)) => {
            a.errors.extend(b.errors);
            Err(a)
        }
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => Err(error),
    }
}
