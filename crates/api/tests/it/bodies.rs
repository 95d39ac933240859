//! Bodies that are wrong in one way each.

use crate::samples::{ID, refused};
use stockhold_api::decode::{self, Keyed};

const NAME: &str = "must be a string of 1 to 128 bytes without control characters";
const QUANTITY: &str = "must be a whole number from 1 to 1,000,000";
const TTL: &str = "must be a whole number of seconds from 1 to 2,592,000";

#[track_caller]
fn reserve(body: impl AsRef<[u8]>, pointer: &str, detail: &str) {
    refused(decode::reserve_single("tea", None, body.as_ref()), &[(pointer, detail)]);
}

#[track_caller]
fn basket(body: impl AsRef<[u8]>, pointer: &str, detail: &str) {
    refused(decode::reserve_basket(None, body.as_ref()), &[(pointer, detail)]);
}

/// A single reserve's body with one more member.
fn with(member: &str) -> String {
    format!(r#"{{"owner_id":"o",{member}}}"#)
}

#[test]
fn what_is_no_json() {
    reserve("", "", "must be a JSON object, found an empty body");
    reserve(" \n", "", "found an empty body");
    reserve("owner_id=o", "", "is not valid JSON: expected value at line 1, column 1");
    reserve("{\"owner_id\":\"o\"", "", "EOF while parsing");
    reserve("{\"owner_id\" \"o\"}", "", "is not valid JSON: expected `:`");
    reserve("{'owner_id':'o'}", "", "is not valid JSON: key must be a string");
    reserve("{\"owner_id\":\"o\",}", "", "is not valid JSON: trailing comma");
    reserve("\u{feff}{\"owner_id\":\"o\"}", "", "is not valid JSON");
    reserve(with(r#""quantity":01"#), "/quantity", "is not valid JSON: invalid number");
    reserve(with(r#""quantity":NaN"#), "/quantity", "is not valid JSON");
    reserve(with(r#""quantity":1e999"#), "/quantity", "number out of range");
    reserve("{\"owner_id\":\"o\"} x", "", "must be one JSON object, found more text at line 1, column 18");
    reserve("{\"owner_id\":\"o\"}{}", "", "found more text");
    reserve([0xff, 0xfe], "", "is not valid JSON");
}

#[test]
fn texts_that_are_no_text() {
    reserve(b"{\"owner_id\":\"a\xffb\"}", "/owner_id", "invalid unicode code point");
    reserve(b"{\"owner_id\":\"a\nb\"}", "/owner_id", "control character");
    reserve(r#"{"owner_id":"\ud800"}"#, "/owner_id", "is not valid JSON");
    reserve(r#"{"owner_id":"\udc00 tail"}"#, "/owner_id", "is not valid JSON");
    reserve(r#"{"owner_id":"\q"}"#, "/owner_id", "invalid escape");
    reserve(r#"{"owner_id":"a\u0000b"}"#, "/owner_id", "has a control character at byte 1");
    reserve(r#"{"owner_id":"\u0085"}"#, "/owner_id", "has a control character at byte 0");
    reserve(r#"{"owner_id":""}"#, "/owner_id", "must not be empty");
    let long = "x".repeat(129);
    reserve(format!(r#"{{"owner_id":"{long}"}}"#), "/owner_id", "is 129 bytes long, at most 128 are allowed");
}

#[test]
fn what_is_no_object() {
    for (body, found) in [
        ("[]", "found an array"),
        (r#"["o",1]"#, "found an array"),
        ("null", "found null"),
        ("true", "found true"),
        ("1", "found 1"),
        (r#""o""#, "found \"o\""),
    ] {
        reserve(body, "", &format!("must be a JSON object, {found}"));
        refused(decode::confirm(ID, None, body.as_bytes()), &[("", found)]);
        refused(decode::set_sale(None, body.as_bytes(), true), &[("", found)]);
    }
}

#[test]
fn every_member_with_a_fault_is_named() {
    let body = br#"{"quantity":0,"qty":1,"ttl_seconds":"x","adjacent":2,"metadata":[],"idempotency_key":7}"#;
    refused(
        decode::reserve_single("tea", Some("place=x"), body),
        &[
            ("/place", "is not a query parameter"),
            ("/quantity", "must be a whole number from 1"),
            ("/qty", "is not a field here"),
            ("/ttl_seconds", "must be a whole number of seconds"),
            ("/adjacent", "must be true or false"),
            ("/metadata", "must be a JSON object"),
            ("/idempotency_key", "must be a string"),
            ("/owner_id", "is required"),
        ],
    );
    refused(
        decode::adjust("tea", None, None, b"{\"why\":1}"),
        &[("/why", "is not a field here"), ("/delta", "is required")],
    );
    let body = br#"{"owner_id":1,"lines":[{"sku":1}],"ttl_seconds":0}"#;
    refused(
        decode::reserve_basket(None, body),
        &[("/owner_id", "must be"), ("/lines/0/sku", "must be"), ("/ttl_seconds", "must be")],
    );
    let many: Vec<_> = (0..30).map(|n| format!(r#""f{n}":1"#)).collect();
    let body = format!("{{{}}}", many.join(","));
    let invalid = decode::reserve_single("tea", None, body.as_bytes()).unwrap_err();
    assert_eq!(invalid.errors.len(), 20);
}

#[test]
fn members_that_are_missing_unknown_or_there_twice() {
    reserve("{}", "/owner_id", "is required");
    reserve(with(r#""qty":1"#), "/qty", "is not a field here; the fields are `owner_id`, `quantity`, ");
    reserve(with(r#""sku":"tea""#), "/sku", "is not a field here");
    reserve(with(r#""lines":[]"#), "/lines", "is not a field here");
    reserve(with(r#""a/b~c":1"#), "/a~1b~0c", "is not a field here");
    reserve(
        with(r#""a`, expected `b":1"#),
        "/a`, expected `b",
        "is not a field here; the fields are `owner_id`",
    );
    reserve(
        with(&format!(r#""{}":1"#, "n".repeat(5_000))),
        &format!("/{}…", "n".repeat(64)),
        "is not a field",
    );
    reserve(r#"{"owner_id":"o","owner_id":"o"}"#, "/owner_id", "is given twice");
    reserve(with(r#""quantity":1,"quantity":1"#), "/quantity", "is given twice");
    basket(r#"{"lines":[{"sku":"a"}]}"#, "/owner_id", "is required");
    basket(r#"{"owner_id":"o"}"#, "/lines", "is required");
    basket(with(r#""lines":[{"sku":"a"},{}]"#), "/lines/1/sku", "is required");
    basket(with(r#""lines":[{"sku":"a","price":1}]"#), "/lines/0/price", "the fields are `sku`, `location`");
    basket(with(r#""lines":[{"sku":"a","sku":"b"}]"#), "/lines/0/sku", "is given twice");
    basket(with(r#""lines":[{"sku":"a"}],"quantity":1"#), "/quantity", "is not a field here");
    // The location of this route has its own place; fields that are not offered are not named.
    reserve(
        with(r#""location":"hub""#),
        "/location",
        "is a query parameter here: add ?location= to the path",
    );
    let fields = "`owner_id`, `quantity`, `ttl_seconds`, `idempotency_key`, `fulfilment`, `hold_token`, `override_limits`, `auto_checkout`, `units`, \
                  `adjacent`, `sections`, `min_together`, `attributes`, `channel`, `pool`, `customer_id`, `session_id`, `metadata`";
    let told = decode::reserve_single("tea", None, with(r#""qty":1"#).as_bytes()).unwrap_err();
    assert_eq!(told.errors[0].detail, format!("is not a field here; the fields are {fields}"));
    refused(decode::extend(ID, None, b"{}"), &[("/ttl_seconds", "is required")]);
    refused(decode::return_units(ID, None, b"{}"), &[("/reason", "is required")]);
    refused(decode::adjust("a", None, None, b"{\"reason\":\"r\"}"), &[("/delta", "is required")]);
    refused(decode::adjust("a", None, None, b"{\"delta\":1}"), &[("/reason", "is required")]);
    // Whether a total is needed depends on the item's mode, which the rules know.
    assert!(decode::set_stock("a", None, None, b"{}").is_ok());
}

#[test]
fn quantities() {
    for (value, found) in [
        ("0", "0"),
        ("-1", "-1"),
        ("1.5", "1.5"),
        ("1.0", "1.0"),
        ("1e2", "100.0"),
        ("null", "null"),
        ("\"three\"", "\"three\""),
        ("\"3\"", "\"3\""),
        ("\"x, expected y\"", "\"x, expected y\""),
        ("true", "true"),
        ("[1]", "an array"),
        ("{\"n\":1}", "an object"),
    ] {
        let detail = format!("{QUANTITY}, found {found}");
        reserve(with(&format!(r#""quantity":{value}"#)), "/quantity", &detail);
        basket(
            with(&format!(r#""lines":[{{"sku":"a"}},{{"sku":"b","quantity":{value}}}]"#)),
            "/lines/1/quantity",
            &detail,
        );
    }
    // The rules judge every number that is an integer.
    for large in ["1000001", "18446744073709551615"] {
        let body = with(&format!(r#""quantity":{large}"#));
        assert!(decode::reserve_single("tea", None, body.as_bytes()).is_ok(), "{large}");
    }
    for huge in ["18446744073709551616", "99999999999999999999999", "1e300"] {
        let detail = "must be a whole number from 1 to 1,000,000, found a number that is too large";
        reserve(with(&format!(r#""quantity":{huge}"#)), "/quantity", detail);
    }
    let long = format!(r#""quantity":"{}é""#, "z".repeat(70_000));
    reserve(with(&long), "/quantity", &format!("found \"{}…", "z".repeat(63)));
}

#[test]
fn times_to_live() {
    for value in ["0", "-5", "2592001", "1.5", "null", "\"60\"", "99999999999999999999"] {
        reserve(with(&format!(r#""ttl_seconds":{value}"#)), "/ttl_seconds", TTL);
        let body = format!(r#"{{"ttl_seconds":{value}}}"#);
        refused(decode::extend(ID, None, body.as_bytes()), &[("/ttl_seconds", TTL)]);
        // An item's own are taken back by that.
        for field in ["default_ttl_seconds", "max_hold_seconds"].into_iter().filter(|_| value != "null") {
            let body = format!(r#"{{"total_units":1,"{field}":{value}}}"#);
            let pointer = format!("/{field}");
            refused(decode::set_stock("a", None, None, body.as_bytes()), &[(&pointer, TTL)]);
        }
    }
}

#[test]
fn stock_figures() {
    let total = "must be a whole number from 0 to 1,000,000,000,000";
    for value in ["-1", "0.5", "1000000000001", "99999999999999999999", "null", "\"9\"", "[]"] {
        let body = format!(r#"{{"total_units":{value}}}"#);
        refused(decode::set_stock("a", None, None, body.as_bytes()), &[("/total_units", total)]);
        let body = format!(r#"{{"total_units":1,"safety_stock":{value}}}"#);
        refused(decode::set_stock("a", None, None, body.as_bytes()), &[("/safety_stock", total)]);
    }
    // Digits that are lost are not told as if they had been sent.
    let (body, far) = (
        br#"{"total_units":100000000000000000000000}"#,
        format!("{total}, found a number that is too large"),
    );
    refused(decode::set_stock("a", None, None, body), &[("/total_units", &far)]);
    let delta = "must be a whole number of at most 64 bits other than 0";
    for value in ["0", "0.5", "9223372036854775808", "-9223372036854775809", "null", "\"1\""] {
        let body = format!(r#"{{"delta":{value},"reason":"r"}}"#);
        refused(decode::adjust("a", None, None, body.as_bytes()), &[("/delta", delta)]);
    }
}

#[test]
fn words() {
    for value in ["\"none\"", "\"All\"", "null", "1"] {
        reserve(
            with(&format!(r#""fulfilment":{value}"#)),
            "/fulfilment",
            &format!("must be \"all\" or \"partial\", found {value}"),
        );
        let body = format!(r#"{{"total_units":1,"mode":{value}}}"#);
        let detail = format!("must be \"counted\" or \"units\", found {value}");
        refused(decode::set_stock("a", None, None, body.as_bytes()), &[("/mode", &detail)]);
    }
}

#[test]
fn every_label_is_checked() {
    for value in ["null", "7", "[]", "{}", "false"] {
        for field in ["owner_id", "channel", "pool", "customer_id", "session_id"] {
            let owner = if field == "owner_id" { "" } else { r#""owner_id":"o","# };
            reserve(format!(r#"{{{owner}"{field}":{value}}}"#), &format!("/{field}"), NAME);
        }
        for field in ["sku", "location"] {
            let sku = if field == "sku" { "" } else { r#""sku":"a","# };
            let lines = format!(r#""lines":[{{{sku}"{field}":{value}}}]"#);
            basket(with(&lines), &format!("/lines/0/{field}"), NAME);
            let body = format!(r#"{{"reason":"r",{lines}}}"#);
            refused(decode::return_units(ID, None, body.as_bytes()), &[(&format!("/lines/0/{field}"), NAME)]);
        }
        let order = format!(r#"{{"order_id":{value}}}"#);
        refused(decode::confirm(ID, None, order.as_bytes()), &[("/order_id", NAME)]);
        let reason = format!(r#"{{"reason":{value}}}"#);
        refused(decode::return_units(ID, None, reason.as_bytes()), &[("/reason", NAME)]);
        refused(decode::set_sale(None, reason.as_bytes(), true), &[("/reason", NAME)]);
        refused(decode::set_item_sale("a", None, reason.as_bytes(), false), &[("/reason", NAME)]);
        let adjust = format!(r#"{{"delta":1,"reason":{value}}}"#);
        refused(decode::adjust("a", None, None, adjust.as_bytes()), &[("/reason", NAME)]);
        let key = "must be a string of 1 to 255 bytes without control characters";
        reserve(with(&format!(r#""idempotency_key":{value}"#)), "/idempotency_key", key);
    }
    let long = "k".repeat(256);
    reserve(with(&format!(r#""idempotency_key":"{long}""#)), "/idempotency_key", "is 256 bytes long");
    reserve(with(r#""idempotency_key":"""#), "/idempotency_key", "must not be empty");
    reserve(with(r#""idempotency_key":"a\tb""#), "/idempotency_key", "control character at byte 1");
}

#[test]
fn lines() {
    for value in ["null", "{}", "\"a\"", "1"] {
        basket(with(&format!(r#""lines":{value}"#)), "/lines", "must be an array, found ");
    }
    for value in ["null", "\"a\"", "[\"a\"]", "1"] {
        basket(with(&format!(r#""lines":[{value}]"#)), "/lines/0", "must be a JSON object, found ");
    }
    basket(with(r#""lines":[]"#), "/lines", "must have 1 to 2,000 lines, found none");
    let many = |n: usize| with(&format!(r#""lines":[{}]"#, vec![r#"{"sku":"a"}"#; n].join(",")));
    basket(many(2_001), "/lines", "must have 1 to 2,000 lines, found 2,001");
    assert!(decode::reserve_basket(None, many(2_000).as_bytes()).is_ok());
    let none = br#"{"lines":[],"reason":"r"}"#;
    refused(decode::return_units(ID, None, none), &[("/lines", "must have 1 to 2,000 lines, found none")]);
}

#[test]
fn units_by_their_ids() {
    let long = format!("[{}]", (0..10_001).map(|n| format!("\"{n}\"")).collect::<Vec<_>>().join(","));
    for (value, pointer, detail) in [
        ("null", "/units", "must be an array, found null"),
        ("[]", "/units", "must name 1 to 10,000 units, found 0"),
        (&*long, "/units", "must name 1 to 10,000 units, found 10,001"),
        ("[\"a\",7]", "/units/1", "must be a string of 1 to 128 bytes"),
        ("[\"a\",\"b\",\"a\"]", "/units/2", "names \"a\" twice"),
    ] {
        reserve(with(&format!(r#""units":{value}"#)), pointer, detail);
        let line = format!("/lines/0{pointer}");
        basket(with(&format!(r#""lines":[{{"sku":"a","units":{value}}}]"#)), &line, detail);
        let body = format!(r#"{{"reason":"r","units":{value}}}"#);
        refused(decode::return_units(ID, None, body.as_bytes()), &[(pointer, detail)]);
    }
    let both = r#""quantity":3,"units":["a","b"]"#;
    reserve(with(both), "/quantity", "must be left out, or be the number of named units, which is 2");
    reserve(with(r#""units":["a"],"adjacent":true"#), "/adjacent", "can't be combined with units");
    basket(
        with(r#""lines":[{"sku":"a","units":["x"]},{"sku":"a","units":["x"]}]"#),
        "/lines/1/units",
        "names a unit that another line also names",
    );
    basket(
        with(r#""lines":[{"sku":"a","units":["x"]},{"sku":"a"}]"#),
        "/lines/1",
        "selects units of an item in another way than an earlier line does: send one line, or two reservations",
    );
    let body = br#"{"reason":"r","units":["x"],"lines":[{"sku":"a"}]}"#;
    refused(decode::return_units(ID, None, body), &[("/units", "can't be combined with lines")]);
    let body = br#"{"reason":"r","lines":[{"sku":"a","adjacent":true}]}"#;
    refused(
        decode::return_units(ID, None, body),
        &[("/lines/0/adjacent", "is not a field of a return: send quantity or units")],
    );
}

#[test]
fn the_best_units() {
    reserve(with(r#""sections":[]"#), "/sections", "must have 1 to 100 sections, found 0");
    reserve(with(r#""min_together":0"#), "/min_together", "must be a whole number from 1 to 10,000");
    reserve(with(r#""adjacent":1"#), "/adjacent", "must be true or false");
    reserve(
        with(r#""attributes":{"a":1.5}"#),
        "/attributes/a",
        "must be a string of 1 to 128 bytes, a whole number",
    );
    reserve(with(r#""attributes":[]"#), "/attributes", "must be an object of at most 16 members");
    // However they are written, whichever value comes last.
    let twice = with(r#""attributes":{"a":1,"b":2,"\u0061":1}"#);
    reserve(twice, "/attributes/a", "is given twice");
    let body = br#"{"units":[{"unit_id":"A"},{"unit_id":"B","attributes":{"x y":true,"x y":false}}]}"#;
    refused(decode::add_units("hall", None, body), &[("/units/1/attributes/x y", "is given twice")]);
}

#[test]
fn metadata() {
    for (value, detail) in [
        ("[1]", "must be a JSON object, found an array"),
        ("\"a\"", "found a string"),
        ("null", "found null"),
        ("true", "found a boolean"),
        ("-3", "found a number"),
        (r#"{"a":1,"a":2}"#, "has the member \"a\" twice"),
        (r#"{"a":1,"\u0061":2}"#, "has the member \"a\" twice"),
        (r#"{"x":{"a":1,"a":2}}"#, "has the member \"a\" twice"),
        (r#"{"a":"\ud800"}"#, "is not valid JSON"),
        (r#"{"a":}"#, "is not valid JSON"),
    ] {
        reserve(with(&format!(r#""metadata":{value}"#)), "/metadata", detail);
        // An item's own is taken back by that.
        if value != "null" {
            let body = format!(r#"{{"total_units":1,"metadata":{value}}}"#);
            refused(decode::set_stock("a", None, None, body.as_bytes()), &[("/metadata", detail)]);
        }
    }
    let text = |n: usize| with(&format!(r#""metadata":{{"a":"{}"}}"#, "x".repeat(n)));
    assert!(decode::reserve_single("tea", None, text(2_048 - 8).as_bytes()).is_ok());
    reserve(text(2_048 - 7), "/metadata", "is longer than 2,048 bytes without whitespace");
    let spaced = with(&format!(r#""metadata":{{{}"a":1}}"#, " ".repeat(10_000)));
    assert!(decode::reserve_single("tea", None, spaced.as_bytes()).is_ok());

    // The body is the first level and the metadata the second.
    let deep = |levels: usize| {
        let inner = levels - 2;
        with(&format!(r#""metadata":{{"a":{}{}}}"#, "[".repeat(inner), "]".repeat(inner)))
    };
    assert!(decode::reserve_single("tea", None, deep(32).as_bytes()).is_ok());
    reserve(deep(33), "/metadata", "makes the body more than 32 levels deep");
    reserve(deep(30_000), "/metadata", "makes the body more than 32 levels deep");
    let objects = r#"{"a":"#.repeat(31) + "1" + &"}".repeat(31);
    assert!(
        decode::reserve_single("tea", None, with(&format!(r#""metadata":{objects}"#)).as_bytes()).is_ok()
    );
    reserve(with(&format!(r#""metadata":{{"b":{objects}}}"#)), "/metadata", "more than 32 levels deep");
    reserve(format!("{}{}", "[".repeat(50_000), "]".repeat(50_000)), "", "found an array");
}

#[test]
fn no_cut_and_no_flipped_byte_of_a_body_panics() {
    let body = br#"{"owner_id":"o","lines":[{"sku":"a","quantity":2}],"ttl_seconds":9,"metadata":{"k":["\u00e9",1.5e3,null]}}"#;
    let read = |body: &[u8]| decode::reserve_basket(None, body).map(|Keyed { command, .. }| command);
    assert!(read(body).is_ok());
    for end in 0..body.len() {
        assert!(!read(&body[..end]).expect_err("half a body").errors.is_empty());
    }
    for at in 0..body.len() {
        for byte in 0..=u8::MAX {
            let mut other = body.to_vec();
            other[at] = byte;
            if let Err(invalid) = read(&other) {
                assert!(invalid.errors.iter().all(|error| !error.detail.is_empty()));
            }
        }
    }
}
