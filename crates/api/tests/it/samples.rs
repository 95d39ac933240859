//! Things to encode, and a way to look at what is wrong.

use std::sync::Arc;
use stockhold_api::decode::Invalid;
use stockhold_domain::{
    Closing, EventId, Hold, HoldTerms, Instant, Item, ItemKey, Label, Line, Mode, OptionalTerms, Pools,
    ReservationId, ReserveTerms, Seconds, Settings, Status, StockCounters, Supply,
};

pub(crate) const ID: &str = "018bcfe5-6800-7fff-bfff-ffffffffffff";

pub(crate) fn label(text: &str) -> Label {
    Label::new(text).unwrap()
}

pub(crate) fn key(location: &str, sku: &str) -> ItemKey {
    ItemKey::new(&label(location), &label(sku))
}

pub(crate) fn id() -> ReservationId {
    ReservationId::from_u128(0x018b_cfe5_6800_7fff_bfff_ffff_ffff_ffff)
}

/// 2023-11-14T22:13:20Z and so many milliseconds.
pub(crate) fn at(millis: i64) -> Instant {
    Instant::from_millis(1_700_000_000_000 + millis)
}

pub(crate) fn hold() -> Hold {
    Hold {
        id: id(),
        status: Status::Active,
        expires_at: at(600_000),
        terms: Arc::new(HoldTerms {
            reserve: ReserveTerms { owner_id: label("cart \"7\" \\ é"), optional: None },
            created_at: at(0),
            max_expires_at: at(1_800_000),
        }),
        lines: vec![
            Line {
                item: key("default", "tea"),
                requested: 3,
                quantity: 2,
                fulfilled: 0,
                returned: 0,
                sequence: 8,
                units: None,
                details: None,
            },
            Line {
                item: key("hub/9", "cup"),
                requested: 1,
                quantity: 1,
                fulfilled: 0,
                returned: 1,
                sequence: u64::MAX,
                units: None,
                details: None,
            },
        ]
        .into(),
        closing: None,
        details: None,
        version: 1,
        last_event: EventId::from_u128(1),
    }
}

/// A confirmed reservation with every optional part.
pub(crate) fn full_hold() -> Hold {
    let bare = hold();
    let optional = OptionalTerms {
        channel: Some(label("web")),
        pool: Some(label("vip")),
        customer_id: Some(label("c-1")),
        session_id: Some(label("s-1")),
        metadata: Some(r#"{"a":[1,2],"b":"x"}"#.into()),
    };
    Hold {
        status: Status::Confirmed,
        terms: Arc::new(HoldTerms {
            reserve: ReserveTerms::new(bare.terms.reserve.owner_id.clone(), optional),
            ..(*bare.terms).clone()
        }),
        closing: Some(Box::new(Closing {
            at: at(1_234),
            reason: Some(label("changed mind")),
            order_id: Some(label("o-1")),
        })),
        ..bare
    }
}

pub(crate) fn item() -> Item {
    Item {
        key: key("hub/9", "tea"),
        mode: Mode::Counted,
        figures: StockCounters {
            total_units: 100,
            confirmed_sold: 20,
            fulfilled: 12,
            held: 3,
            held_under_payment: 0,
            active: 2,
            sequence: 41,
            at: at(5),
        },
        settings: Arc::new(Settings { safety_stock: 7, ..Settings::default() }),
        pools: Pools::default(),
        version: 4,
        paused: false,
        created_at: at(0),
    }
}

pub(crate) fn full_item() -> Item {
    let settings = Settings {
        safety_stock: 7,
        oversell_allowance: 3,
        gated: true,
        sale_starts_at: Some(at(60_000)),
        sale_ends_at: Some(at(120_000)),
        incoming: [Supply { id: label("po-1"), quantity: 4, available_from: at(90_000) }].into(),
        default_ttl: Some(Seconds::new(30).unwrap()),
        max_hold: Some(Seconds::new(90).unwrap()),
        max_payment: Some(Seconds::new(600).unwrap()),
        price: None,
        low_stock: None,
        stock_master: None,
        metadata: Some(r#"{"colour":"red"}"#.into()),
    };
    Item { settings: Arc::new(settings), paused: true, ..item() }
}

pub(crate) fn written(put: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    put(&mut out);
    String::from_utf8(out).unwrap()
}

/// Asserts that something is refused with exactly these faults: pointer, and a piece of the detail.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, Invalid>, expected: &[(&str, &str)]) {
    let errors = result.expect_err("must be refused").errors;
    let found: Vec<_> = errors.iter().map(|error| (&*error.pointer, &*error.detail)).collect();
    let agree = found.len() == expected.len()
        && found.iter().zip(expected).all(|(found, expected)| {
            found.0 == expected.0 && found.1.contains(expected.1) && !expected.1.is_empty()
        });
    assert!(agree, "found {found:#?}, expected {expected:#?}");
}
