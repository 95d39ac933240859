//! Prices on the wire.

use crate::client::{answer, server};
use crate::samples::{at, full_item, hold, id, item, key, label, refused, written};
use std::sync::Arc;
use stockhold_api::client::{At, Client};
use stockhold_api::{decode, encode, wire};
use stockhold_domain::{
    Command, Currency, Discount, Hold, Item, LineDetails, LinePrice, Patch, Price, Reduction, Settings,
};

fn usd() -> Currency {
    Currency::new("USD").unwrap()
}

fn price() -> Price {
    let spring = Discount {
        reduction: Reduction::Percent(10),
        from: Some(at(0)),
        to: Some(at(1_000)),
        channels: [label("web"), label("app")].into(),
    };
    let plain = Discount { reduction: Reduction::AmountOff(5), from: None, to: None, channels: [].into() };
    Price { unit_amount: 1_999, currency: usd(), discounts: [spring, plain].into() }
}

fn line_price(unit_amount: Option<u64>, discount: u64, amount: u64) -> LinePrice {
    LinePrice { unit_amount, discount, amount, currency: usd() }
}

fn set(body: &str) -> Result<Command, decode::Invalid> {
    decode::set_stock("tea", None, None, body.as_bytes())
}

fn priced_item() -> Item {
    let settings = Settings { price: Some(price().into()), low_stock: Some(0), ..Settings::default() };
    Item { settings: Arc::new(settings), ..item() }
}

fn priced_hold() -> Hold {
    let hold = hold();
    let mut lines = hold.lines.to_vec();
    let prices = [line_price(Some(100), 0, 200), line_price(None, 7, 93)];
    for (line, price) in lines.iter_mut().zip(prices) {
        line.details = LineDetails { price: Some(price), ..LineDetails::default() }.some();
    }
    Hold { lines: lines.into(), ..hold }
}

#[test]
fn a_price_is_read_as_it_is_written() {
    let text = written(|out| encode::item(out, &priced_item()));
    let expected = concat!(
        r#""price":{"unit_amount":1999,"currency":"usd","discounts":[{"percent":10,"#,
        r#""from":"2023-11-14T22:13:20.000Z","to":"2023-11-14T22:13:21.000Z","channels":["web","app"]},"#,
        r#"{"amount_off":5}]},"low_stock":0,"created_at""#
    );
    assert!(text.contains(expected), "{text}");
    let read: wire::Item = serde_json::from_str(&text).unwrap();
    assert_eq!(read.low_stock, Some(0));
    let body = serde_json::to_string(&serde_json::json!({ "price": read.price })).unwrap();
    let Command::SetStock(command) = set(&body).unwrap() else { panic!("{body}") };
    assert_eq!(command.price, Patch::Set(price().into()));
    let Command::SetStock(command) = set(r#"{"price":null,"low_stock":null}"#).unwrap() else { panic!() };
    assert_eq!((command.price, command.low_stock), (Patch::Clear, Patch::Clear));
    let none = written(|out| encode::item(out, &full_item()));
    assert!(!none.contains("\"price\"") && !none.contains("low_stock"), "{none}");
}

#[test]
fn a_wrong_price_is_refused_where_it_is_wrong() {
    let discount = |discount: &str| {
        format!(
            r#"{{"price":{{"unit_amount":1,"currency":"usd","discounts":[{{"percent":1}},{discount}]}}}}"#
        )
    };
    for (body, pointer, detail) in [
        (r#"{"price":{"currency":"usd"}}"#.to_owned(), "/price/unit_amount", "is required"),
        (r#"{"price":{"unit_amount":1}}"#.to_owned(), "/price/currency", "is required"),
        (
            r#"{"price":{"unit_amount":1.5,"currency":"usd"}}"#.to_owned(),
            "/price/unit_amount",
            "whole number",
        ),
        (r#"{"price":{"unit_amount":-1,"currency":"usd"}}"#.to_owned(), "/price/unit_amount", "whole number"),
        (
            r#"{"price":{"unit_amount":1,"currency":"dollars"}}"#.to_owned(),
            "/price/currency",
            "three letters",
        ),
        (
            r#"{"price":{"unit_amount":1,"currency":"usd","tax":1}}"#.to_owned(),
            "/price/tax",
            "is not a field here",
        ),
        (discount("{}"), "/price/discounts/1", "percent or amount_off"),
        (discount(r#"{"percent":1,"amount_off":1}"#), "/price/discounts/1/amount_off", "one of them"),
        (discount(r#"{"percent":101}"#), "/price/discounts/1/percent", "1 to 100"),
        (discount(r#"{"percent":256}"#), "/price/discounts/1/percent", "1 to 100"),
        (discount(r#"{"amount_off":0}"#), "/price/discounts/1/amount_off", "from 1"),
        (discount(r#"{"percent":1,"from":"soon"}"#), "/price/discounts/1/from", "RFC 3339"),
        (r#"{"low_stock":-1}"#.to_owned(), "/low_stock", "whole number"),
    ] {
        let error = set(&body).expect_err(&body).errors.remove(0);
        assert!(error.pointer.starts_with(pointer), "{body}: {error:?}");
        assert!(error.detail.contains(detail), "{body}: {error:?}");
    }
}

#[test]
fn a_line_shows_its_price_and_a_reservation_the_sum() {
    let text = written(|out| encode::reservation(out, &priced_hold()));
    assert!(text.contains(r#""quantity":3,"amount":293,"currency":"usd","created_at""#), "{text}");
    assert!(text.contains(r#""unit_amount":100,"amount":200,"currency":"usd"}"#), "{text}");
    assert!(text.contains(r#""discount":7,"amount":93,"currency":"usd"}"#), "{text}");
    let read: wire::Reservation = serde_json::from_str(&text).unwrap();
    assert_eq!((read.reservation_id, read.amount, read.currency.as_deref()), (id(), Some(293), Some("usd")));
    let line = |n: usize| (read.lines[n].unit_amount, read.lines[n].discount, read.lines[n].amount);
    assert_eq!((line(0), line(1)), ((Some(100), 0, Some(200)), (None, 7, Some(93))));
    let mut lines = priced_hold().lines.to_vec();
    lines[1].details = None;
    let part = Hold { lines: lines.into(), ..hold() };
    let text = written(|out| encode::reservation(out, &part));
    let read: wire::Reservation = serde_json::from_str(&text).unwrap();
    assert_eq!((read.amount, read.lines[0].amount), (None, Some(200)), "one line has no price");
}

#[test]
fn a_quote_names_lines_and_a_channel() {
    let body = br#"{"lines":[{"sku":"tea","quantity":2},{"sku":"cup","location":"hub"}],"channel":"web"}"#;
    let query = decode::quote(None, body).unwrap();
    assert_eq!(query.lines, [(key("default", "tea"), 2), (key("hub", "cup"), 1)]);
    assert_eq!(query.channel, Some(label("web")));
    refused(decode::quote(None, br#"{"lines":[]}"#), &[("/lines", "1 to 2000")]);
    refused(
        decode::quote(None, br#"{"lines":[{"sku":"a"},{"sku":"a","quantity":1000001}]}"#),
        &[("/lines/1/quantity", "at most 1000000")],
    );
    for body in [r"{}", r#"{"lines":[{"sku":"a","quantity":0}]}"#, r#"{"lines":[{"sku":"a"}],"now":1}"#] {
        assert!(decode::quote(None, body.as_bytes()).is_err(), "{body}");
    }
    assert!(decode::quote(Some("location=hub"), br#"{"lines":[{"sku":"a"}]}"#).is_err());
}

#[tokio::test]
async fn the_client_asks_for_a_quote() {
    let (tea, cup) = (priced_item(), item());
    let units = [(&tea, 2), (&cup, 1)];
    let prices = [Some(line_price(Some(1_999), 10, 3_988)), None];
    let server = server(vec![answer(200, |out| encode::quote(out, &units, &prices))]);
    let client = Client::new(&server.base).unwrap();
    let lines = [(At { sku: "tea", location: None }, 2), (At { sku: "tea", location: Some("hub/9") }, 1)];
    let quote = client.quote(&lines, Some("web")).await.unwrap();
    assert_eq!((quote.amount, quote.lines[0].amount, quote.lines[1].amount), (None, Some(3_988), None));
    assert_eq!((quote.lines[0].unit_amount, quote.lines[0].discount), (Some(1_999), 10));
    let sent = server.asked.lock().unwrap().remove(0);
    let query = decode::quote(None, sent.body.as_bytes()).unwrap();
    assert_eq!(query.lines, [(key("default", "tea"), 2), (key("hub/9", "tea"), 1)]);
}
