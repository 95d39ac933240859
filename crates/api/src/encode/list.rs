//! Lists that are written entry by entry: pages, and the results of a batch.

use super::json::{Object, array, put_text};
use super::{item, reservation_with_token, text_of};
use crate::problem::Problem;
use stockhold_domain::{Hold, Instant, Item, ItemKey, RequestId};

/// A list that is being written. A copy of it continues from the point where it was made, after the buffer was
/// truncated to that length.
#[derive(Clone, Copy)]
pub struct List {
    empty: bool,
}

impl List {
    /// Opens an object whose first member is the list. Names are constants of this crate and need no escapes.
    pub fn open(out: &mut Vec<u8>, name: &'static str) -> Self {
        out.extend_from_slice(b"{\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":[");
        Self { empty: true }
    }

    /// The buffer for the next entry.
    pub fn entry<'o>(&mut self, out: &'o mut Vec<u8>) -> &'o mut Vec<u8> {
        if !std::mem::replace(&mut self.empty, false) {
            out.push(b',');
        }
        out
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.empty
    }

    /// Closes a complete list.
    pub fn close(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"]}");
    }

    /// Closes a page, with its cursor if more entries follow.
    pub fn close_page(self, out: &mut Vec<u8>, has_more: bool, next_cursor: Option<&str>) {
        out.extend_from_slice(b"],\"has_more\":");
        out.extend_from_slice(if has_more { b"true" } else { b"false" });
        if let Some(cursor) = next_cursor {
            out.extend_from_slice(b",\"next_cursor\":");
            put_text(out, cursor);
        }
        out.push(b'}');
    }
}

/// The result of one command of a batch that made a reservation, with the status of the command's own route.
/// `replayed` is what the single routes say in a header.
pub fn result_reservation(
    out: &mut Vec<u8>,
    status: u16,
    replayed: bool,
    hold: &Hold,
    hold_token: Option<&str>,
) {
    let mut object = opened(out, status, replayed);
    reservation_with_token(object.value("reservation"), hold, hold_token);
    object.close();
}

/// The result of a command that answers with an item.
pub fn result_item(out: &mut Vec<u8>, status: u16, replayed: bool, shown: &Item) {
    let mut object = opened(out, status, replayed);
    item(object.value("item"), shown);
    object.close();
}

/// The result of a command that answers without a body.
pub fn result_nothing(out: &mut Vec<u8>, status: u16, replayed: bool) {
    opened(out, status, replayed).close();
}

/// The result of a command that was refused.
pub fn result_problem(out: &mut Vec<u8>, problem: &Problem, request_id: &RequestId) {
    let mut object = opened(out, problem.reason().status(), false);
    problem.write(object.value("problem"), request_id);
    object.close();
}

fn opened(out: &mut Vec<u8>, status: u16, replayed: bool) -> Object<'_> {
    let mut object = Object::open(out);
    object.number("status", u64::from(status));
    if replayed {
        object.flag("replayed", true);
    }
    object
}

/// The availability of a SKU at several locations: each item, or that it does not exist, and the sum. `now` is the time of the answer.
pub fn availability_at(out: &mut Vec<u8>, sku: &str, items: &[(&ItemKey, Option<&Item>)], now: Instant) {
    let mut object = Object::open(out);
    object.text("sku", sku);
    let known = items.iter().filter_map(|(_, item)| *item);
    object.number("available", known.map(Item::available).fold(0, u64::saturating_add));
    array(object.value("locations"), items, |out, (key, item)| {
        let mut entry = Object::open(out);
        entry.text("location", key.location());
        match item {
            Some(item) => {
                entry.number("available", item.available());
                entry.time("as_of", now.max(item.figures.at));
            }
            None => entry.flag("unknown", true),
        }
        entry.close();
    });
    object.close();
}

/// An item that does not exist, in a list of availabilities.
pub fn unknown_item(out: &mut Vec<u8>, key: &ItemKey) {
    let mut object = Object::open(out);
    text_of(&mut object, key);
    object.flag("unknown", true);
    object.close();
}
