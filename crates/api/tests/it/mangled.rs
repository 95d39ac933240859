//! Every decoder on bodies, paths and headers that are nearly right: refused with a place and words, or read; never a
//! panic. The long form, guided by coverage, is in `fuzz/`.

use crate::parsers::PARSERS;
use stockhold_conformance::mutate::mutate;

const ROUNDS: u64 = 10_000;

/// Good ones of each kind, and what sits at their edges.
const EXAMPLES: [&str; 19] = [
    r#"{"owner_id":"cart-1","quantity":3,"ttl_seconds":60,"fulfilment":"partial","metadata":{"a":[1,{"b":null}]}}"#,
    r#"{"owner_id":"o","lines":[{"sku":"a","quantity":2},{"sku":"b","location":"hub"},{"sku":"a"}],"customer_id":"c"}"#,
    r#"{"order_id":"order-7","idempotency_key":"k-1"}"#,
    r#"{"ttl_seconds":1800}"#,
    r#"{"lines":[{"sku":"a","quantity":1}],"reason":"came back"}"#,
    r#"{"total_units":1000000000000,"mode":"counted","safety_stock":0,"default_ttl_seconds":1,"max_hold_seconds":2592000}"#,
    r#"{"delta":-9223372036854775808,"reason":"caf\u00e9 \ud83e\udd80"}"#,
    r#"{"commands":[{"reserve":{"owner_id":"o","sku":"a"}},{"confirm":{"reservation_id":"01890a5d-ac96-774b-bcce-b302099a8057"}}]}"#,
    r#"{"items":[{"sku":"a"},{"sku":"b","location":"hub"}]}"#,
    r#"{"reason":"stock count","quantity":1e3,"ttl_seconds":18446744073709551616}"#,
    r#"{"hub_id":"hub-1","sku":"a","qty":2,"order_id":"o","user_id":"u","reservation_id":"01890a5d-ac96-774b-bcce-b302099a8057"}"#,
    r#"{"sku":"a","qty":1000000,"ttl":2592000,"sessionId":"s","customerId":null,"source":"\ud83e\udd80","more":[{}]}"#,
    r#"{"reservationId":"01890a5d-ac96-774b-bcce-b302099a8057","ttl":1}"#,
    "{}",
    "[]",
    "a%2Fb%20c?location=hub&reason=no+more&x=%FF",
    "01890a5d-ac96-774b-bcce-b302099a8057?cursor=&limit=10",
    "\"quoted key\"",
    "application/json; charset=utf-8",
];

#[test]
fn requests_are_read_or_refused_with_words() {
    let examples: Vec<Vec<u8>> = EXAMPLES.map(|text| text.as_bytes().to_vec()).into();
    for parser in PARSERS {
        mutate(parser, &examples, ROUNDS);
    }
}
