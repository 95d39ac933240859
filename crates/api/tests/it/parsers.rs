//! The decoders of the crate as parsers of any bytes, for `stockhold_conformance::mutate` and for `fuzz/`. The bytes are a body, and a path parameter and
//! a query when they are text: what a caller chooses.

use stockhold_api::decode::{self, Invalid, Match};
use stockhold_api::profiles::{hub, storefront};

/// A parser by its name.
pub(crate) type Parser = (&'static str, fn(&[u8]));

const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// What is refused says where, and what is wrong there.
fn told<T>(read: Result<T, Invalid>) {
    if let Err(Invalid { errors }) = read {
        assert!(!errors.is_empty(), "a refusal without a fault");
        assert!(errors.iter().all(|fault| !fault.detail.is_empty()), "a fault without words: {errors:?}");
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// All of them.
pub(crate) const PARSERS: [Parser; 18] = [
    ("reserve one", |body| told(decode::reserve_single("sku", None, body))),
    ("reserve a basket", |body| told(decode::reserve_basket(None, body))),
    ("confirm", |body| told(decode::confirm(ID, None, body))),
    ("extend", |body| told(decode::extend(ID, None, body))),
    ("return", |body| told(decode::return_units(ID, None, body))),
    ("release", |query| told(decode::release(ID, Some(text(query))))),
    ("set stock", |body| told(decode::set_stock("sku", None, None, body))),
    ("adjust", |body| told(decode::adjust("sku", None, None, body))),
    ("pause", |body| told(decode::set_item_sale("sku", None, body, true))),
    ("commands", |body| {
        if let Ok(all) = decode::commands(None, body) {
            all.into_iter().for_each(told);
        }
    }),
    ("reserve at a hub", |body| told(hub::reserve(body))),
    ("confirm at a hub", |body| told(hub::confirm(body))),
    ("stock of a hub", |bytes| told(hub::stock(text(bytes), "sku"))),
    ("reserve for a storefront", |body| told(storefront::reserve(body))),
    ("extend for a storefront", |body| told(storefront::extend(body))),
    ("availability", |body| told(decode::availability(None, body))),
    ("path and query", |bytes| {
        let (path, query) = text(bytes).split_once('?').unwrap_or((text(bytes), ""));
        told(decode::item(path, Some(query)));
        told(decode::reservation(path, Some(query)));
    }),
    ("headers", |bytes| {
        told(decode::idempotency_key(Some(bytes), None));
        told(decode::set_stock("sku", None, Some(Match::If(bytes)), b"{}"));
        decode::is_json(bytes);
    }),
];
