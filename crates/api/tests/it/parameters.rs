//! Paths, queries and headers.

use crate::samples::{ID, id, key, refused};
use std::borrow::Cow;
use stockhold_api::decode::{self, Invalid, Match};
use stockhold_domain::{Command, Precondition};

#[test]
fn skus_and_locations_are_percent_decoded() {
    let check = |sku: &str, query: Option<&str>, location: &str, decoded: &str| {
        assert_eq!(decode::item(sku, query).unwrap(), key(location, decoded));
    };
    check("tea", None, "default", "tea");
    check("tea", Some(""), "default", "tea");
    check("a%2Fb%20c+d%25", None, "default", "a/b c+d%");
    check("%C3%A9", Some("location=hub%2f9+x%2By"), "hub/9 x+y", "é");
    check("abc ", Some("location=default&"), "default", "abc ");
}

#[test]
fn bad_paths_and_queries_are_refused() {
    let check = |sku: &str, query: &str, expected: &[(&str, &str)]| {
        refused(decode::item(sku, Some(query)), expected);
    };
    check("", "", &[("/sku", "must not be empty")]);
    check("%", "", &[("/sku", "has a % at byte 0 without two hexadecimal digits after it")]);
    check("ab%2", "", &[("/sku", "has a % at byte 2")]);
    check("ab%zz", "", &[("/sku", "has a % at byte 2")]);
    check("%ff", "", &[("/sku", "is not UTF-8 once it is percent-decoded")]);
    check("a%00", "", &[("/sku", "has a control character at byte 1")]);
    check(&"x".repeat(129), "", &[("/sku", "is 129 bytes long")]);
    check("a", "location=", &[("/location", "must not be empty")]);
    check("a", "location", &[("/location", "must not be empty")]);
    check("a", "location=%f", &[("/location", "has a % at byte 0")]);
    check("a", "location=%C3", &[("/location", "is not UTF-8")]);
    check("a", "location=x&location=x", &[("/location", "is given twice")]);
    check(
        "a",
        "Location=x",
        &[("/Location", "is not a query parameter of this route; these are: `location`")],
    );
    check("a", "a%2fb=x", &[("/a~1b", "is not a query parameter of this route")]);
    check("%", "x=1&location=%", &[("/sku", "has a %"), ("/x", "is not a query"), ("/location", "has a %")]);
    refused(decode::reservation(ID, Some("x=1")), &[("/x", "this route has no query parameters")]);
    refused(
        decode::reserve_basket(Some("location=a"), b"{}"),
        &[
            ("/location", "this route has no query parameters"),
            ("/owner_id", "is required"),
            ("/lines", "is required"),
        ],
    );
    refused(decode::release(ID, Some("reason=%0A")), &[("/reason", "has a control character at byte 0")]);
    refused(decode::set_sale(Some("locatoin=a"), b"", true), &[("/locatoin", "these are: `location`")]);
}

#[test]
fn ids_are_uuids_with_hyphens() {
    assert_eq!(decode::reservation(ID, None).unwrap(), id());
    assert_eq!(decode::reservation(&ID.to_uppercase(), None).unwrap(), id());
    assert!(decode::reservation("00000000-0000-0000-0000-000000000000", None).is_ok());
    let plain = ID.replace('-', "");
    let braced = format!("{{{ID}}}");
    let long = format!("{ID}0");
    let moved = format!("0{}", ID.replacen('-', "", 1).replacen('-', "--", 1));
    for bad in ["", "7", &plain, &braced, &long, &moved, "g18bcfe5-6800-7fff-bfff-ffffffffffff", "%20"] {
        let expected =
            [("/reservation_id", "must be a UUID like 018bcfe5-6800-7fff-bfff-ffffffffffff, found")];
        refused(decode::reservation(bad, None), &expected);
        refused(decode::confirm(bad, None, b""), &expected);
        refused(decode::release(bad, None), &expected);
    }
}

#[test]
fn idempotency_keys() {
    fn key(header: &str) -> Result<Option<Cow<'_, str>>, Invalid> {
        decode::idempotency_key(Some(header.as_bytes()), None)
    }
    for (header, expected) in [
        ("abc", "abc"),
        ("\"abc\"", "abc"),
        (" abc\t", "abc"),
        ("a b", "a b"),
        (r#""a\"b\\c""#, r#"a"b\c"#),
        ("a\"b", "a\"b"),
        ("é", "é"),
    ] {
        assert_eq!(key(header).unwrap().as_deref(), Some(expected));
    }
    assert_eq!(decode::idempotency_key(None, None), Ok(None));
    assert_eq!(decode::idempotency_key(None, Some("b".into())), Ok(Some("b".into())));
    let both = decode::idempotency_key(Some(b"\"same\""), Some(Cow::Borrowed("same")));
    assert_eq!(both.unwrap().as_deref(), Some("same"));
    assert_eq!(key(&"k".repeat(255)).unwrap().unwrap().len(), 255);

    let long = "k".repeat(256);
    for (header, detail) in [
        ("", "must not be empty"),
        ("\"\"", "must not be empty"),
        ("a\u{1}b", "has a control character at byte 1"),
        (&long, "is 256 bytes long, at most 255 are allowed"),
        ("\"abc", "does not close"),
        ("\"abc\"d", "has text behind its closing quotation mark"),
        ("\"a\\b\"", "has a backslash"),
        ("\"a\\", "has a backslash"),
    ] {
        refused(key(header), &[("/Idempotency-Key", detail)]);
    }
    refused(decode::idempotency_key(Some(b"\xff"), None), &[("/Idempotency-Key", "is not UTF-8")]);
    let differ = decode::idempotency_key(Some(b"a"), Some("b".into()));
    refused(differ, &[("/Idempotency-Key", "is \"a\", but the body's idempotency_key is \"b\"")]);
}

#[test]
fn versions_in_if_match() {
    let body = br#"{"total_units":1}"#;
    let version = |header: Option<&[u8]>| {
        decode::set_stock("a", None, header.map(Match::If), body).map(|command| match command {
            Command::SetStock(set) => set.expected,
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(version(None), Ok(None));
    let any_of = |versions: &[u64]| Ok(Some(Precondition::VersionIn(versions.into())));
    for (good, versions) in [
        ("\"3\"", &[3][..]),
        (" \"3\",\t\"4\" ", &[3, 4]),
        ("\"3\",W/\"4\",\"x,y\",\"18446744073709551615\"", &[3, u64::MAX]),
        // ETags, and none that an item can have.
        ("W/\"3\"", &[]),
        ("\"\"", &[]),
        ("\"x\"", &[]),
        ("\"+3\"", &[]),
        ("\"03\"", &[]),
        ("\"-1\"", &[]),
        ("\"99999999999999999999\"", &[]),
    ] {
        assert_eq!(version(Some(good.as_bytes())), any_of(versions), "{good}");
    }
    assert_eq!(version(Some(b" * ")), Ok(Some(Precondition::Exists)));
    let must = "must be an ETag with its quotation marks, like \"3\", or a list of them, or *, found ";
    for bad in [
        "",
        "3",
        "\"3",
        "3\"",
        "**",
        "*, \"3\"",
        "\"3\" \"4\"",
        "\"3\",",
        ",\"3\"",
        "w/\"3\"",
        "\"a b\"",
        "'3'",
    ] {
        refused(version(Some(bad.as_bytes())), &[("/If-Match", must)]);
    }
    refused(version(Some(b"\xff")), &[("/If-Match", must)]);

    let create = |header: &'static [u8]| {
        decode::set_stock("a", None, Some(Match::IfNone(header)), body).map(|command| match command {
            Command::SetStock(set) => set.expected,
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(create(b" *"), Ok(Some(Precondition::Absent)));
    for bad in [&b""[..], b"\"3\"", b"* *"] {
        refused(create(bad), &[("/If-None-Match", "must be * (create, never overwrite), found ")]);
    }
    assert_eq!(decode::no_precondition(false, false), Ok(()));
    refused(
        decode::no_precondition(true, false),
        &[("/If-Match", "is not read by this route: leave it out")],
    );
    refused(
        decode::no_precondition(true, true),
        &[("/If-None-Match", "is not read by this route: leave it out")],
    );
    refused(
        decode::adjust("%", Some("x"), Some(b"3"), b"[]"),
        &[
            ("/sku", "has a %"),
            ("/x", "is not a query parameter"),
            ("/If-Match", "must be an ETag"),
            ("", "must be a JSON object"),
        ],
    );
}

#[test]
fn content_types() {
    for good in ["application/json", "Application/JSON; charset=utf-8", "application/json ;x=y"] {
        assert!(decode::is_json(good.as_bytes()), "{good}");
    }
    for bad in ["", "text/plain", "application/jsonp", "application/x-www-form-urlencoded", "json"] {
        assert!(!decode::is_json(bad.as_bytes()), "{bad}");
    }
}
