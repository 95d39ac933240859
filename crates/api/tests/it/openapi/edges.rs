//! The bounds of the document are those that requests are judged by: a body at an edge is read, one past it is not.

use super::{operations, resolved};
use crate::samples::ID;
use serde_json::{Value, json};
use stockhold_api::decode;
use stockhold_api::openapi::document;
use stockhold_api::profiles::{hub, storefront};
use stockhold_domain::Instant;
use stockhold_domain::limits::LINE_QUANTITY;
use stockhold_service::{Principal, create_key};

const KEY_ID: &str = "key_000102030405060708090a0b0c0d0e0f";

/// Reads a body as the operation's route does; which fault, if there is one.
fn read(operation: &str, body: &str) -> Result<(), String> {
    let body = body.as_bytes();
    let done = match operation {
        "reserve" => decode::reserve_single("tea", None, body).map(drop),
        "reserve_basket" => decode::reserve_basket(None, body).map(drop),
        "confirm" => decode::confirm(ID, None, body).map(drop),
        "extend" => decode::extend(ID, None, body).map(drop),
        "amend" => decode::amend(ID, None, None, body).map(drop),
        "transfer" => decode::transfer(ID, None, None, body).map(drop),
        "split" => decode::split(ID, None, None, body).map(drop),
        "merge" => decode::merge(ID, None, None, body).map(drop),
        "open_payment" => decode::open_payment(ID, None, None, body).map(drop),
        "fulfil" => decode::fulfil(ID, None, body).map(drop),
        "return_units" => decode::return_units(ID, None, body).map(drop),
        "add_units" => decode::add_units("tea", None, body).map(drop),
        "set_stock" => decode::set_stock("tea", None, None, body).map(drop),
        "adjust_stock" => decode::adjust("tea", None, None, body).map(drop),
        "put_customer" => decode::put_customer("anna", None, None, body).map(drop),
        "set_limit" => decode::set_limit("drop-8", None, None, body).map(drop),
        "set_pool" => decode::set_pool("tea", "vip", None, None, body).map(drop),
        "put_into_pool" => decode::put_into_pool("tea", "vip", None, None, body).map(drop),
        "take_out_of_pool" => decode::take_out_of_pool("tea", "vip", None, None, body).map(drop),
        "pause_item" | "resume_item" => decode::set_item_sale("tea", None, body, true).map(drop),
        "pause_sale" | "resume_sale" => decode::set_sale(None, body, true).map(drop),
        "start_checkout" => decode::start_checkout(ID, None, None, body).map(drop),
        "refund" => decode::refund(ID, None, body).map(drop),
        "quote_prices" => decode::quote(None, body).map(drop),
        "get_availabilities" => decode::availability(None, body).map(drop),
        "create_key" => match decode::create_key(None, body) {
            Ok(request) => {
                let made = create_key(&Principal::root(), &request.spec(), Instant::from_micros(0));
                return made.map(drop).map_err(|error| format!("{error:?}"));
            }
            Err(invalid) => Err(invalid),
        },
        "skip_event" => decode::skip_event("ledger", None, body).map(drop),
        "archive_events" => decode::archive_events(None, body).map(drop),
        "replay_sink" => decode::replay_sink("ledger", None, body).map(drop),
        "reconcile" => decode::reconcile(None, body).map(drop),
        "create_webhook" => decode::create_webhook(None, body).map(drop),
        "update_webhook" => decode::update_webhook(ID, None, body).map(drop),
        "rotate_webhook_secret" => decode::rotate_webhook(ID, None, body).map(drop),
        "replay_webhook" => decode::replay_webhook(ID, None, body).map(drop),
        "roll_key" => decode::roll_key(KEY_ID, None, body).map(drop),
        "run_commands" => match decode::commands(None, body) {
            Ok(all) => all.into_iter().try_for_each(|one| one.map(drop)),
            Err(invalid) => Err(invalid),
        },
        "hub_reserve" => hub::reserve(body).map(drop),
        "hub_confirm" => hub::confirm(body).map(drop),
        "hub_release" => hub::release(body).map(drop),
        "storefront_reserve" => storefront::reserve(body).map(drop),
        "storefront_commit" => storefront::commit(body).map(drop),
        "storefront_extend" => storefront::extend(body).map(drop),
        "storefront_release" => storefront::release(body).map(drop),
        other => panic!("no route is known for {other}"),
    };
    done.map_err(|invalid| format!("{:?}", invalid.errors))
}

/// Values that a schema takes, and values that it does not.
fn edges(schema: &'static Value) -> (Vec<Value>, Vec<Value>) {
    let schema = resolved(schema);
    let (kind, nullable) = match schema["type"].as_array().map(Vec::as_slice) {
        Some([kind, null]) if null == "null" => (kind, true),
        _ => (&schema["type"], false),
    };
    let (mut good, mut bad) =
        if nullable { (vec![Value::Null], vec![]) } else { (vec![], vec![Value::Null]) };
    match kind.as_str() {
        Some("integer") => {
            let bound = |name: &str| schema[name].as_i64().unwrap();
            let (least, most) = (bound("minimum"), bound("maximum"));
            good.extend([json!(least), json!(most)]);
            bad.extend([json!("1"), json!(1.5), json!([])]);
            match &schema["not"]["const"] {
                Value::Null => bad.push(json!(least - 1)),
                // How far a total can move is for the rules to say.
                not => bad.push(not.clone()),
            }
            // So is what is more than a line may ask for.
            if schema["not"].is_null() && most != LINE_QUANTITY.cast_signed() {
                bad.push(json!(most + 1));
            }
        }
        Some("string") => {
            let (some, wrong) = strings(schema);
            good.extend(some);
            bad.extend(wrong);
        }
        Some("boolean") => {
            good.extend([json!(true), json!(false)]);
            bad.extend([json!("true"), json!(1)]);
        }
        Some("object") if !schema["maxProperties"].is_null() => {
            let most = schema["maxProperties"].as_u64().unwrap();
            let of = |count| (0..count).map(|n| (n.to_string(), json!(n))).collect::<Value>();
            good.extend([json!({}), of(most), json!({ "a": true, "b": -1, "c": "x" })]);
            bad.extend([of(most + 1), json!([]), json!({ "a": null }), json!({ "a": {} }), json!({ "": 1 })]);
        }
        Some("object") if schema["properties"].is_null() => {
            let most = usize::try_from(schema["x-max-bytes"].as_u64().unwrap()).unwrap();
            let of = |bytes: usize| json!({ "k": "x".repeat(bytes - r#"{"k":""}"#.len()) });
            good.extend([json!({}), of(most)]);
            bad.extend([of(most + 1), json!([]), json!("{}")]);
        }
        Some("object") => {
            let (bodies, wrong) = objects(schema);
            good.extend(bodies);
            bad.extend(wrong);
        }
        Some("array") => {
            let (entries, wrong) = edges(&schema["items"]);
            let most = usize::try_from(schema["maxItems"].as_u64().unwrap()).unwrap();
            let unique = schema["uniqueItems"] == true;
            // Units that are added have ids of their own, which the rules look at.
            let many = |count: usize| {
                if unique {
                    (0..count).map(|n| json!(n.to_string())).collect()
                } else {
                    vec![entries[0].clone(); count]
                }
            };
            good.push(json!(many(most)));
            good.extend(entries.iter().map(|entry| json!([entry])));
            if schema["minItems"].is_null() { &mut good } else { &mut bad }.push(json!([]));
            bad.push(json!(many(most + 1)));
            if unique {
                bad.push(json!(["x", "x"]));
            }
            bad.extend(wrong.iter().map(|entry| json!([entry])));
        }
        _ => {
            for one in schema["oneOf"].as_array().unwrap_or_else(|| panic!("{schema:#}")) {
                let (some, wrong) = edges(one);
                good.extend(some);
                bad.extend(wrong);
            }
        }
    }
    (good, bad)
}

/// Texts that a schema takes, and values that it does not.
fn strings(schema: &'static Value) -> (Vec<Value>, Vec<Value>) {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    match () {
        () if schema["format"] == "uuid" => {
            good.push(json!(ID));
            bad.extend([json!("x"), json!(1)]);
        }
        () if schema["format"] == "date-time" => {
            good.extend([json!("2099-12-31T00:00:00Z"), json!("2099-12-31T01:00:00.5+01:00")]);
            bad.extend([json!("2099-12-31"), json!("1969-12-31T23:59:59Z"), json!("x"), json!(1)]);
        }
        () if schema["format"] == "cidr" => {
            good.extend([json!("192.0.2.0/24"), json!("2001:db8::/32"), json!("192.0.2.1")]);
            bad.extend([json!("192.0.2.0/33"), json!("example.com"), json!(""), json!(1)]);
        }
        () if schema["format"] == "iso-4217" => {
            good.extend([json!("usd"), json!("EUR")]);
            bad.extend([json!("us"), json!("dollars"), json!("u5d"), json!(""), json!(1)]);
        }
        () if schema["format"] == "email" => {
            let most = usize::try_from(schema["maxLength"].as_u64().unwrap()).unwrap();
            let of = |bytes: usize| format!("a@{}", "b".repeat(bytes - 2));
            good.extend([json!("a@b"), json!("é@example.com"), json!(of(most))]);
            bad.extend([json!(""), json!("a"), json!("a@"), json!("a @b"), json!(of(most + 1)), json!(1)]);
        }
        () if schema["format"] == "language-tag" => {
            let most = usize::try_from(schema["maxLength"].as_u64().unwrap()).unwrap();
            let longest = "en-12345678-12345678-12345678-12345";
            assert_eq!(longest.len(), most);
            good.extend([json!("en"), json!("de-CH"), json!(longest)]);
            bad.extend([json!(""), json!("e"), json!("en_US"), json!(format!("{longest}6")), json!(1)]);
        }
        () if schema["format"] == "uri" => {
            good.push(json!("https://shop.example/hook"));
            bad.push(json!(1));
        }
        () if schema["pattern"].as_str().is_some_and(|pattern| pattern.starts_with("^https?")) => {
            let most = usize::try_from(schema["maxLength"].as_u64().unwrap()).unwrap();
            let of = |bytes: usize| format!("https://{}", "x".repeat(bytes - "https://".len()));
            good.extend([json!("http://x"), json!(of(most))]);
            bad.extend([json!("ftp://x"), json!("https://a b"), json!(""), json!(of(most + 1)), json!(1)]);
        }
        () if schema["pattern"] == "^[!-~]+$" => {
            let most = usize::try_from(schema["maxLength"].as_u64().unwrap()).unwrap();
            good.extend([json!("x"), json!("x".repeat(most))]);
            bad.extend([json!(""), json!("x".repeat(most + 1)), json!("a b"), json!("é"), json!(1)]);
        }
        // The types of events that a webhook gets.
        () if !schema["pattern"].is_null() && schema["x-max-bytes"].is_null() => {
            good.extend([json!("stock.set"), json!("reservation.*"), json!("stockhold.sale.paused")]);
            bad.extend([json!("order.made"), json!("*"), json!("reservation"), json!(""), json!(1)]);
        }
        () if !schema["enum"].is_null() => {
            good.extend(schema["enum"].as_array().unwrap().iter().cloned());
            bad.extend([json!("others"), json!(0)]);
        }
        () if !schema["const"].is_null() => good.push(schema["const"].clone()),
        () => {
            let most = usize::try_from(schema["x-max-bytes"].as_u64().unwrap()).unwrap();
            assert_eq!(schema["maxLength"], most);
            good.extend([json!("x"), json!("x".repeat(most)), json!("é".repeat(most / 2))]);
            bad.extend([json!(""), json!("x".repeat(most + 1)), json!("é".repeat(most / 2 + 1))]);
            bad.extend([json!("a\nb"), json!("\u{85}"), json!(7)]);
        }
    }
    (good, bad)
}

/// Objects with each member at each of its edges, and objects with one member past one, missing or unknown.
fn objects(schema: &'static Value) -> (Vec<Value>, Vec<Value>) {
    let members = schema["properties"].as_object().unwrap();
    let required: Vec<_> = schema["required"].as_array().into_iter().flatten().collect();
    let is_required = |name: &str| required.iter().any(|known| *known == name);
    let of = |name: &String| edges(&members[name]);
    // Of alternatives, the first.
    // Of these members an object has one and not another.
    let alternatives: Vec<_> =
        schema["oneOf"].as_array().into_iter().flatten().map(|one| &one["required"][0]).collect();
    let one_of = schema["anyOf"][0]["required"].as_array().into_iter().flatten();
    let one_of: Vec<_> = one_of.chain(alternatives.first().copied()).collect();
    let least: serde_json::Map<_, _> = members
        .keys()
        .filter(|name| is_required(name) || one_of.iter().any(|known| known == name))
        .map(|name| (name.clone(), of(name).0[0].clone()))
        .collect();
    let (mut good, mut bad) = (vec![Value::Object(least.clone())], Vec::new());
    for name in members.keys() {
        let with = |value: Value| {
            let mut object = least.clone();
            if alternatives.iter().any(|one| *one == name) {
                object.retain(|other, _| !alternatives.iter().any(|one| *one == other));
            }
            object.insert(name.clone(), value);
            let one_of = &schema["dependentSchemas"][name]["anyOf"][0]["required"];
            for other in one_of.as_array().into_iter().flatten() {
                let other = other.as_str().unwrap().to_owned();
                let value = of(&other).0[0].clone();
                object.insert(other, value);
            }
            for other in schema["dependentRequired"][name].as_array().into_iter().flatten() {
                let other = other.as_str().unwrap().to_owned();
                let value = of(&other).0[0].clone();
                object.insert(other, value);
            }
            Value::Object(object)
        };
        let (some, wrong) = of(name);
        good.extend(some.into_iter().map(with));
        bad.extend(wrong.into_iter().map(with));
        if is_required(name) {
            let mut without = least.clone();
            without.remove(name);
            bad.push(Value::Object(without));
        }
    }
    // Only the profiles ignore members that they do not know.
    let mut stranger = least;
    stranger.insert("stranger".to_owned(), json!(1));
    let is_open = schema["additionalProperties"].is_null();
    if is_open { &mut good } else { &mut bad }.push(Value::Object(stranger));
    (good, bad)
}

#[test]
fn bodies_at_the_edges_are_read_and_those_past_them_are_not() {
    let mut count = 0;
    for operation in operations() {
        let schema = &operation.value["requestBody"]["content"]["application/json"]["schema"];
        let id = operation.id();
        // The body of a provider's webhook is the provider's own.
        if schema.is_null() || id == "provider_webhook" {
            continue;
        }
        let (good, bad) = edges(schema);
        count += good.len() + bad.len();
        let start = |body: &str| body.chars().take(300).collect::<String>();
        for body in good {
            let body = body.to_string();
            read(id, &body).unwrap_or_else(|error| panic!("{id} does not read {}: {error}", start(&body)));
        }
        for body in bad {
            let body = body.to_string();
            assert!(read(id, &body).is_err(), "{id} reads {}", start(&body));
        }
    }
    assert!(count > 500, "{count}");
}

/// Whether a list takes a query.
type Takes = fn(Option<&str>) -> bool;

#[test]
fn queries_at_the_edges() {
    let parameter = |path: &str, name: &str| -> &'static Value {
        let all = document()["paths"][path]["get"]["parameters"].as_array().unwrap().iter().map(resolved);
        all.into_iter().find(|parameter| parameter["name"] == name).unwrap()
    };
    let lists: [(&str, Takes); 4] = [
        ("/v1/keys", |query| decode::keys(query).is_ok()),
        ("/v1/reservations", |query| decode::reservations(query).is_ok()),
        ("/v1/inventory", |query| decode::shelf(query).is_ok()),
        ("/v1/events", |query| decode::events(query).is_ok()),
    ];
    for (path, takes) in lists {
        let schema = &parameter(path, "limit")["schema"];
        let (least, most) = (schema["minimum"].as_u64().unwrap(), schema["maximum"].as_u64().unwrap());
        for (limit, fine) in [(least, true), (most, true), (least - 1, false), (most + 1, false)] {
            assert_eq!(takes(Some(&format!("limit={limit}"))), fine, "{path} {limit}");
        }
        assert_eq!(schema["default"], decode::PAGE_DEFAULT);
    }
    for status in parameter("/v1/reservations", "status")["schema"]["enum"].as_array().unwrap() {
        assert!(decode::reservations(Some(&format!("status={}", status.as_str().unwrap()))).is_ok());
    }
    for kind in parameter("/v1/events", "type")["schema"]["items"]["enum"].as_array().unwrap() {
        assert!(decode::events(Some(&format!("type={}", kind.as_str().unwrap()))).is_ok());
    }
    let tail = &parameter("/v1/events", "tail")["schema"];
    let (least, most) = (tail["minimum"].as_u64().unwrap(), tail["maximum"].as_u64().unwrap());
    for (tail, fine) in [(least, true), (most, true), (least - 1, false), (most + 1, false)] {
        assert_eq!(decode::events(Some(&format!("tail={tail}"))).is_ok(), fine, "{tail}");
    }
    let time = &parameter("/v1/reservations", "created_before")["schema"];
    for (text, fine) in [
        ("2025-11-24T16:00:00Z", true),
        ("2025-11-24T16:00:00.123456-01:30", true),
        ("2025-11-24T16:00:00", false),
        ("2025-11-24T16:00:60Z", false),
        ("2025-11-24T16:00:00.1234567Z", false),
    ] {
        assert_eq!(jsonschema::is_valid(time, &json!(text)), fine, "{text}");
        assert_eq!(decode::reservations(Some(&format!("created_before={text}"))).is_ok(), fine, "{text}");
    }
    assert!(decode::events(Some(&format!("after={}", u64::MAX))).is_ok());
    assert_eq!(parameter("/v1/events", "after")["schema"]["maximum"], u64::MAX);
}
