//! One shop's afternoon, for the examples: a cart that holds two packets of tea for five minutes and what becomes of it.
//! The answers are written by the code that answers.

use crate::encode;
use serde_json::{Value, json};
use std::sync::Arc;
use stockhold_domain::{
    Attribute, Attributes, CaptureMethod, Charge, ChargeState, CheckoutTerms, Closing, Currency, Discount,
    Event, EventId, ExtraAmount, Hold, HoldChange, HoldDetails, HoldTerms, Instant, Item, ItemKey, Label,
    Line, LineUnit, LineUnits, Mode, OnDecline, OptionalTerms, Origin, Payment, PaymentMethod, PaymentState,
    PendingRefund, Place, Pool, PoolTerms, Pools, Price, ProviderRef, Reduction, RequestId, ReservationId,
    ReserveTerms, Seconds, Settings, Status, StockChange, StockCounters, Supply, Trace, Transition, Unit,
    UnitIndex, UnitStatus,
};
use stockhold_service::KeyRecord;
use stockhold_store::EventRow;

/// 2026-11-20T12:00:00Z.
const NOON: i64 = 1_795_176_000_000;

const YEAR_SECONDS: i64 = 31_536_000;
/// Ids of API keys in examples, without their prefix. The page for browsers puts a shell variable in the place of the first.
const SHOP_KEY_ID: &str = "5b0e7a40f2c94d1c8a6e3f7b91d2c4e8";
const ROLLED_KEY_ID: &str = "e10cb2d79f6a4b35a8d14c7e0b5f9263";

/// Noon and so many seconds.
pub(crate) fn at(seconds: i64) -> Instant {
    Instant::from_millis(NOON + seconds * 1_000)
}

/// Ids of reservations in examples. The page for browsers puts shell variables in their place.
pub(crate) const EXAMPLE_IDS: [&str; 2] =
    ["018bcfe5-6800-7fff-bfff-ffffffffffff", "018bcfe5-6800-7fff-bfff-fffffffffffe"];

/// The reservation.
pub(crate) fn id() -> ReservationId {
    ReservationId::from_u128(0x018b_cfe5_6800_7fff_bfff_ffff_ffff_ffff)
}

/// Another reservation.
fn other_id() -> ReservationId {
    ReservationId::from_u128(0x018b_cfe5_6800_7fff_bfff_ffff_ffff_fffe)
}

/// What a request is called that did not say.
pub(crate) fn request_id() -> RequestId {
    RequestId::Made(0x0193_03a1_5b40_7c3e_9d51_3f0a_6c1e_8b27)
}

/// A text that is a label.
pub(crate) fn label(text: &str) -> Label {
    match Label::new(text) {
        Ok(label) => label,
        Err(error) => unreachable!("{text:?} {error}"),
    }
}

pub(crate) fn item_key(location: &str, sku: &str) -> ItemKey {
    ItemKey::new(&label(location), &label(sku))
}

fn seconds(seconds: u64) -> Option<Seconds> {
    Seconds::new(seconds).ok()
}

/// An active reservation of one item.
pub(crate) fn cart() -> Hold {
    let optional = OptionalTerms {
        channel: Some(label("web")),
        pool: None,
        customer_id: Some(label("customer-41")),
        session_id: None,
        metadata: Some(r#"{"gift":true}"#.into()),
    };
    Hold {
        id: id(),
        status: Status::Active,
        expires_at: at(300),
        terms: Arc::new(HoldTerms {
            reserve: ReserveTerms::new(label("cart-7"), optional),
            created_at: at(0),
            max_expires_at: at(1_800),
        }),
        lines: [line("default", "tea", 2, 41)].into(),
        closing: None,
        details: None,
        version: 1,
        last_event: event_id(8),
    }
}

/// The same with a second item, granted in part.
pub(crate) fn basket() -> Hold {
    let cup = Line { requested: 6, ..line("hub-9", "cup", 4, 12) };
    Hold { lines: [line("default", "tea", 2, 41), cup].into(), ..cart() }
}

fn line(location: &str, sku: &str, quantity: u32, sequence: u64) -> Line {
    Line {
        item: item_key(location, sku),
        requested: quantity,
        quantity,
        fulfilled: 0,
        returned: 0,
        sequence,
        units: None,
        details: None,
    }
}

/// Two seats of a concert.
pub(crate) fn seats() -> Hold {
    let unit = |id| LineUnit { id: label(id), version: 2, fulfilled: false, returned: false, pool: None };
    let units = LineUnits::new(vec![unit("A-12"), unit("A-13")]);
    let line = Line { units: Some(Arc::new(units)), ..line("default", "concert", 2, 0) };
    Hold { lines: [line].into(), ..cart() }
}

/// A concert whose seats have ids.
pub(crate) fn concert() -> Item {
    let figures =
        StockCounters { total_units: 3, confirmed_sold: 1, held: 1, active: 1, ..StockCounters::none(at(0)) };
    let settings = Arc::new(Settings::default());
    let key = item_key("default", "concert");
    Item { key, mode: Mode::Units, figures, settings, pools: Pools::default(), version: 2, ..item() }
}

/// Its seats.
pub(crate) fn unit_index() -> UnitIndex {
    let seat = |position: u64, id, status| {
        let aisle = vec![(label("aisle"), Attribute::Flag(true))];
        Unit {
            id: label(id),
            place: Place {
                position,
                section: Some(label("stalls")),
                row: Some(label("A")),
                number: Some(label(&position.to_string())),
                attributes: Attributes::new(if position == 14 { aisle } else { Vec::new() }),
            },
            status,
            version: if status == UnitStatus::Available { 1 } else { 2 },
            pool: None,
        }
    };
    let mut unit_index = UnitIndex::default();
    unit_index.add(vec![
        seat(12, "A-12", UnitStatus::Held(id())),
        seat(13, "A-13", UnitStatus::Sold(id())),
        seat(14, "A-14", UnitStatus::Available),
    ]);
    unit_index
}

/// The cart, later, in its latest transition.
fn moved(status: Status, closing: Closing) -> Hold {
    let lines = [line("default", "tea", 2, 42)].into();
    Hold { status, lines, closing: Some(Box::new(closing)), version: 2, ..cart() }
}

/// The cart, extended to noon and so many seconds.
pub(crate) fn extended(seconds: i64) -> Hold {
    Hold { expires_at: at(seconds), version: 2, ..cart() }
}

/// The cart with other lines: a packet less, and two cups.
pub(crate) fn amended() -> Hold {
    let lines = [line("default", "tea", 1, 42), line("hub-9", "cup", 2, 13)].into();
    Hold { lines, version: 2, ..cart() }
}

/// The cart, of a customer who logged in.
pub(crate) fn transferred() -> Hold {
    let optional = OptionalTerms {
        customer_id: Some(label("customer-90")),
        ..cart().terms.reserve.optional.as_deref().cloned().unwrap_or_default()
    };
    let terms =
        HoldTerms { reserve: ReserveTerms::new(label("cart-7"), optional), ..(*cart().terms).clone() };
    Hold { terms: Arc::new(terms), version: 2, ..cart() }
}

/// One packet of the cart, in a reservation of its own.
pub(crate) fn split_off() -> Hold {
    let details = HoldDetails { split_from: Some(id()), ..HoldDetails::default() };
    let lines = [line("default", "tea", 1, 43)].into();
    Hold { id: other_id(), lines, details: Some(Box::new(details)), ..cart() }
}

/// The cart, with the lines of another one.
pub(crate) fn merged() -> Hold {
    let details = HoldDetails { merged_from: vec![other_id()], ..HoldDetails::default() };
    Hold { details: Some(Box::new(details)), ..amended() }
}

/// The cart, while it is paid for.
pub(crate) fn paying() -> Hold {
    let until = at(1_020);
    let payment = Payment {
        id: label("payment-55"),
        state: PaymentState::Open,
        until,
        deadline_before: at(300),
        charge: None,
    };
    let details =
        HoldDetails { payment: Some(payment), first_payment_at: Some(at(120)), ..HoldDetails::default() };
    Hold { expires_at: until, details: Some(Box::new(details)), version: 2, ..cart() }
}

/// The payment of a checkout of the cart.
fn charge(state: ChargeState) -> Charge {
    let Some(method_ref) = ProviderRef::new("approve") else { unreachable!("a name of a provider") };
    let Some(currency) = Currency::new("eur") else { unreachable!("three letters") };
    let captured = if state == ChargeState::Captured { 1_990 } else { 0 };
    Charge {
        state,
        terms: Arc::new(CheckoutTerms {
            provider: label("test"),
            method: PaymentMethod::Named { customer_ref: None, method_ref },
            capture: CaptureMethod::AfterConfirm,
            on_decline: OnDecline::Release,
            return_url: None,
            description: None,
            extra: [ExtraAmount { name: label("postage"), amount: 490 }].into(),
            notify: true,
        }),
        order_id: label("order-1002"),
        amount: 1_990,
        currency,
        provider_ref: ProviderRef::new("pay_1"),
        reacquires: true,
        captured,
        refunded: 0,
        capture_attempts: 1,
        refund_attempts: 0,
        attempted_at: at(120),
        refunds: Vec::new(),
        tries: 0,
        refusals: 0,
        error: None,
        due_at: None,
    }
}

fn with_charge(hold: Hold, state: PaymentState, charge: Charge) -> Hold {
    let payment = Payment {
        id: label("pay_019303a1-5b40-7c3e-9d51-3f0a6c1e8b27"),
        state,
        until: at(1_020),
        deadline_before: at(300),
        charge: Some(Box::new(charge)),
    };
    let details = HoldDetails {
        payment: Some(payment),
        first_payment_at: Some(at(120)),
        authorizations: 1,
        ..HoldDetails::default()
    };
    Hold { details: Some(Box::new(details)), ..hold }
}

/// The cart, paid by a checkout.
pub(crate) fn checked_out() -> Hold {
    let closing = Closing { at: at(121), reason: None, order_id: Some(label("order-1002")) };
    let hold = Hold { version: 5, expires_at: at(1_020), ..moved(Status::Confirmed, closing) };
    with_charge(hold, PaymentState::Completed, charge(ChargeState::Captured))
}

/// The cart, whose buyer has to go to the bank.
pub(crate) fn needs_action() -> Value {
    let hold = Hold { expires_at: at(1_020), version: 3, ..cart() };
    let hold = with_charge(hold, PaymentState::Open, charge(ChargeState::RequiresAction));
    written(|out| encode::checkout(out, &hold, Some(&super::checkouts::redirect())))
}

/// The cart, whose payment the caller gave up.
pub(crate) fn given_up() -> Hold {
    let hold = Hold { expires_at: at(1_020), version: 4, ..cart() };
    with_charge(hold, PaymentState::Open, charge(ChargeState::Voiding))
}

/// The cart, paid by a checkout, whose buyer gets money back.
pub(crate) fn refunding() -> Hold {
    let hold = Hold { version: 6, ..checked_out() };
    let refunds = vec![PendingRefund { amount: 500, reason: label("late") }];
    let captured = charge(ChargeState::Captured).captured;
    let charge = Charge { refunds, captured, refund_attempts: 1, ..charge(ChargeState::Refunding) };
    with_charge(hold, PaymentState::Completed, charge)
}

/// The cart, whose payment was declined.
pub(crate) fn declined() -> Hold {
    let closing = Closing { at: at(121), reason: Some(label("payment_failed")), order_id: None };
    let charge = Charge { error: Some(label("card_declined")), ..charge(ChargeState::Declined) };
    with_charge(moved(Status::Cancelled, closing), PaymentState::Closed, charge)
}

/// The cart, sold, with one packet on its way.
pub(crate) fn fulfilled() -> Hold {
    let shipped = Line { fulfilled: 1, ..line("default", "tea", 2, 43) };
    Hold { lines: [shipped].into(), version: 3, ..sold() }
}

/// The cart, sold.
pub(crate) fn sold() -> Hold {
    moved(Status::Confirmed, Closing { at: at(120), reason: None, order_id: Some(label("order-1001")) })
}

/// The cart, sold, with one packet back.
pub(crate) fn returned() -> Hold {
    let back = Line { returned: 1, ..line("default", "tea", 2, 43) };
    Hold { lines: [back].into(), version: 3, ..sold() }
}

/// The cart, released.
pub(crate) fn released() -> Hold {
    moved(Status::Cancelled, Closing { at: at(90), reason: Some(label("cart emptied")), order_id: None })
}

/// The item that the cart holds.
pub(crate) fn item() -> Item {
    Item {
        key: item_key("default", "tea"),
        mode: Mode::Counted,
        figures: StockCounters {
            total_units: 100,
            confirmed_sold: 20,
            fulfilled: 12,
            held: 3,
            held_under_payment: 0,
            active: 2,
            sequence: 41,
            at: at(0),
        },
        settings: Arc::new(Settings {
            safety_stock: 5,
            oversell_allowance: 10,
            gated: true,
            default_ttl: seconds(300),
            max_hold: seconds(1_800),
            max_payment: None,
            sale_starts_at: None,
            sale_ends_at: None,
            incoming: [Supply { id: label("po-88"), quantity: 24, available_from: at(604_800) }].into(),
            price: Some(Box::new(price())),
            low_stock: Some(10),
            stock_master: Some(label("erp")),
            metadata: Some(r#"{"shelf":"B4"}"#.into()),
        }),
        pools: Pools::new(vec![pool()]),
        version: 4,
        paused: false,
        created_at: at(-86_400),
    }
}

/// The price of the item.
pub(crate) fn price() -> Price {
    let spring = Discount {
        reduction: Reduction::Percent(10),
        from: Some(at(-86_400)),
        to: Some(at(604_800)),
        channels: [label("web")].into(),
    };
    let first = Discount { reduction: Reduction::AmountOff(50), from: None, to: None, channels: [].into() };
    let Some(currency) = Currency::new("usd") else { unreachable!("three letters") };
    Price { unit_amount: 1_999, currency, discounts: [spring, first].into() }
}

/// A pool of the item.
pub(crate) fn pool() -> Pool {
    Pool {
        name: label("vip"),
        terms: PoolTerms {
            allocated: 20,
            fallback: true,
            releases_at: Some(at(604_800)),
            idle_release: None,
        },
        held: 1,
        sold: 7,
        used_at: at(0),
        released_at: None,
    }
}

/// An event's id, by a number.
pub(crate) fn event_id(number: u8) -> EventId {
    EventId::from_u128(0x0193_03a1_5b40_7b11_8c02_5d6e_7f80_9100 + u128::from(number))
}

/// An event at a position.
pub(crate) fn happened(position: u64, id: EventId, transition: Transition) -> EventRow {
    let origin = Origin {
        actor: label("anonymous"),
        key_id: None,
        request_id: RequestId::Given(label("checkout-7-1")),
        trace: Some(Trace {
            trace_id: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
            span_id: 0x00f0_67aa_0ba9_02b7,
            flags: 1,
        }),
    };
    EventRow { position, event: Event { id, at: at(0), origin, previous: None, transition } }
}

/// What happened to the cart: it was made and it was sold.
pub(crate) fn history() -> Vec<EventRow> {
    let figures = item().figures;
    let made = Transition::Hold {
        limits: None,
        change: HoldChange::Created,
        hold: cart(),
        figures: [figures].into(),
    };
    let after =
        StockCounters { confirmed_sold: 22, held: 1, active: 1, sequence: 42, at: at(120), ..figures };
    let sold = Transition::Hold {
        limits: None,
        change: HoldChange::Confirmed,
        hold: sold(),
        figures: [after].into(),
    };
    let mut confirmed = happened(12, event_id(12), sold);
    confirmed.event.at = at(120);
    confirmed.event.previous = Some(cart().last_event);
    vec![happened(8, cart().last_event, made), confirmed]
}

/// What happened to the first seat of the concert: it was added and it is held.
pub(crate) fn unit_history() -> Vec<EventRow> {
    let change = StockChange::UnitsAdded(unit_index().iter().take(1).cloned().collect());
    let figures = concert().figures;
    let held = Transition::Hold {
        limits: None,
        change: HoldChange::Created,
        hold: seats(),
        figures: [figures].into(),
    };
    vec![
        happened(5, event_id(5), Transition::Stock { change, item: concert() }),
        happened(8, seats().last_event, held),
    ]
}

/// The API key of a shop.
pub(crate) fn shop_key() -> KeyRecord {
    let stored = json!({
        // The digest of no key.
        "digest": format!("{SHOP_KEY_ID}{}", "0".repeat(32)),
        "name": "Shop, production", "principal": "shop",
        "scopes": ["reservations:write", "reservations:read", "inventory:read"],
        "channels": ["web"], "allowed_cidrs": ["192.0.2.0/24"], "rate_limit": [200, 400],
        "expires_at": at(YEAR_SECONDS).micros(), "created_at": at(0).micros(),
    });
    match KeyRecord::from_bytes(stored.to_string().as_bytes()) {
        Ok(key) => key,
        Err(error) => unreachable!("{error}"),
    }
}

/// The key that replaced it.
pub(crate) fn rolled_key() -> KeyRecord {
    let old = shop_key();
    let mut stored = json!({
        "digest": format!("{ROLLED_KEY_ID}{}", "0".repeat(32)),
        "rolled_from": old.key_id.to_string(),
    });
    let fields: Value = serde_json::from_slice(&old.to_bytes()).unwrap_or_default();
    for (name, value) in fields.as_object().into_iter().flatten().filter(|(name, _)| *name != "digest") {
        stored[name] = value.clone();
    }
    stored["created_at"] = at(86_400).micros().into();
    match KeyRecord::from_bytes(stored.to_string().as_bytes()) {
        Ok(key) => key,
        Err(error) => unreachable!("{error}"),
    }
}

/// A shape as it is sent.
pub(crate) fn to_value(shape: &impl serde::Serialize) -> Value {
    written(|out| crate::encode::shape(out, shape))
}

/// What `put` writes.
pub(crate) fn written(put: impl FnOnce(&mut Vec<u8>)) -> Value {
    let mut out = Vec::new();
    put(&mut out);
    match serde_json::from_slice(&out) {
        Ok(value) => value,
        Err(error) => unreachable!("what was written is no JSON: {error}"),
    }
}

/// A reservation as it is answered.
pub(crate) fn reservation(hold: &Hold) -> Value {
    written(|out| encode::reservation(out, hold))
}
