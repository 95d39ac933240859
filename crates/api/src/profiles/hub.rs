//! The hub's requests and answers. A hub is a location, an order is an owner, and a user is a customer.

use crate::decode::{Id, Invalid, Quantity, Text, both, label_in_path, read_body};
use crate::encode::json::Object;
use serde::Deserialize;
use stockhold_domain::{
    Basket, Command, Fulfilment, Hold, Instant, Item, ItemKey, Label, OptionalTerms, RequestedLine,
    ReservationId, Reserve, ReserveTerms, Seconds, Status,
};

/// How long a hub's hold lasts, unless the item's longest hold is shorter.
pub const HOLD: Seconds = match Seconds::new(HOLD_SECONDS) {
    Ok(seconds) => seconds,
    Err(_) => panic!("it is within the bounds"),
};
const HOLD_SECONDS: u64 = 30;
/// Separates the parts of a key. Labels have no control characters, so different parts never make the same key.
const SEPARATOR: char = '\u{1f}';
const MICROS_PER_SECOND: i64 = 1_000_000;

#[derive(Deserialize)]
struct ReserveBody {
    hub_id: Text,
    sku: Text,
    qty: Quantity,
    order_id: Text,
    user_id: Text,
}

#[derive(Deserialize)]
struct ReservationBody {
    reservation_id: Id,
}

/// A wish of an order for units of one SKU at one hub. An order has at most one live hold of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderLine {
    item: ItemKey,
    order_id: Label,
    user_id: Label,
    quantity: u64,
    reserve: Reserve,
}

impl OrderLine {
    /// The reserve for a first try: it lasts [`HOLD`].
    pub fn reserve(&self) -> Reserve {
        self.reserve.clone()
    }

    /// The text of the idempotency key. The key of the first hold names hub, order and SKU. After a hold has ended, the key of the
    /// next one names that hold too. So everybody who finds the same ended hold goes on with the same key, and the store makes one
    /// hold of it.
    pub fn key(&self, ended: Option<ReservationId>) -> String {
        let (hub, sku) = (self.item.location(), self.item.sku());
        let order = &self.order_id;
        match ended {
            None => format!("{hub}{SEPARATOR}{order}{SEPARATOR}{sku}"),
            Some(id) => format!("{hub}{SEPARATOR}{order}{SEPARATOR}{sku}{SEPARATOR}{id}"),
        }
    }

    /// Whether a hold of the order has the quantity and the user of this wish.
    pub fn is_held_by(&self, hold: &Hold) -> bool {
        let optional = hold.terms.reserve.optional.as_ref();
        let user_id = optional.and_then(|optional| optional.customer_id.as_ref());
        hold.quantity() == self.quantity && user_id == Some(&self.user_id)
    }
}

/// `GET /hub/stock/{hub_id}/{sku}`
pub fn stock(hub_id: &str, sku: &str) -> Result<ItemKey, Invalid> {
    let (hub_id, sku) = both(label_in_path("/hub_id", hub_id), label_in_path("/sku", sku))?;
    Ok(ItemKey::new(&hub_id, &sku))
}

/// `POST /hub/reserve`
pub fn reserve(body: &[u8]) -> Result<OrderLine, Invalid> {
    let ReserveBody { hub_id, sku, qty, order_id, user_id } = read_body(body)?;
    let item = ItemKey::new(&hub_id.0, &sku.0);
    let line = RequestedLine { item: item.clone(), quantity: qty.0 };
    let basket = Basket::with_selections(vec![(line, None)])
        .map_err(|_| Invalid::new("/qty", "must be at least 1"))?;
    let optional = OptionalTerms { customer_id: Some(user_id.0.clone()), ..OptionalTerms::default() };
    let reserve = Reserve {
        checkout: None,
        override_limits: false,
        basket,
        ttl: Some(HOLD),
        fulfilment: Fulfilment::All,
        terms: ReserveTerms::new(order_id.0.clone(), optional),
    };
    Ok(OrderLine { item, order_id: order_id.0, user_id: user_id.0, quantity: qty.0, reserve })
}

/// `POST /hub/confirm`
pub fn confirm(body: &[u8]) -> Result<Command, Invalid> {
    let ReservationBody { reservation_id } = read_body(body)?;
    Ok(super::confirm(reservation_id.0))
}

/// `POST /hub/release`
pub fn release(body: &[u8]) -> Result<Command, Invalid> {
    let ReservationBody { reservation_id } = read_body(body)?;
    Ok(super::release(reservation_id.0))
}

/// Writes the stock of an item. It is one number, with a gate too: a gate has one counter for each item.
pub fn write_stock(out: &mut Vec<u8>, item: &Item) {
    in_data(out, |data| {
        data.text("hub_id", item.key.location());
        data.text("sku", item.key.sku());
        data.number("available", item.available());
        data.flag("partitioned", false);
        data.number("buckets", 1);
    });
}

/// Writes a new reservation, which lasts so many seconds.
pub fn write_new(out: &mut Vec<u8>, hold: &Hold, ttl: Seconds) {
    write_reservation(out, hold, ttl.get().into());
}

/// Writes a reservation that the order has already: its status, and the whole seconds that remain.
pub fn write_known(out: &mut Vec<u8>, hold: &Hold, now: Instant) {
    let micros = match hold.status {
        Status::Active => hold.expires_at.micros().saturating_sub(now.micros()),
        Status::Confirmed | Status::Cancelled | Status::Expired => 0,
    };
    write_reservation(out, hold, u64::try_from(micros / MICROS_PER_SECOND).unwrap_or(0));
}

fn write_reservation(out: &mut Vec<u8>, hold: &Hold, ttl_seconds: u64) {
    let status = match hold.status {
        Status::Active => "reserved",
        Status::Confirmed => "confirmed",
        Status::Cancelled => "released",
        Status::Expired => "expired",
    };
    in_data(out, |data| {
        data.uuid("reservation_id", hold.id.as_u128());
        data.word("status", status);
        data.number("ttl_seconds", ttl_seconds);
    });
}

/// Writes the answer to a confirm or a release.
pub(super) fn write_ended(out: &mut Vec<u8>, hold: &Hold, status: &'static str) {
    in_data(out, |data| {
        data.uuid("reservation_id", hold.id.as_u128());
        data.word("status", status);
    });
}

fn in_data(out: &mut Vec<u8>, write: impl FnOnce(&mut Object<'_>)) {
    let mut answer = Object::open(out);
    let mut data = Object::open(answer.value("data"));
    write(&mut data);
    data.close();
    answer.close();
}
