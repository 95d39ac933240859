//! Limits and pools from a shell.

use crate::ctl::{ctl, done, json, refused};
use crate::support::{Server, said, text};

#[test]
fn limits_from_a_shell() {
    let server = Server::start();
    done(&server, &["stock", "set", "tee", "--total", "10"]);
    done(&server, &["stock", "set", "tea", "--location", "hub-9", "--total", "10"]);
    let two_each = ["limits", "set", "drop-7", "--sku", "tee", "--per", "customer", "--limit", "2"];
    let set = json(&server, &two_each);
    let expected = serde_json::json!({
        "limit_id": "drop-7", "items": [{ "sku": "tee" }], "per": "customer", "limit": 2, "counts": "held_and_sold",
        "generation": 1, "version": 1,
    });
    assert_eq!(set, expected);
    let market = ["--item", "tea@hub-9", "--location", "hub-8", "--channel", "market", "--counts", "held"];
    let shown = done(&server, &[["limits", "set", "market", "--limit", "3"].as_slice(), &market].concat());
    for words in
        ["limit market", "everything at hub-8, tea@hub-9", "counts         held", "channels       market"]
    {
        assert!(shown.contains(words), "{words:?} is missing in {shown}");
    }
    assert_eq!(done(&server, &["limits", "show", "market"]), shown);
    let listed = done(&server, &["limits", "list"]);
    assert!(listed.contains("drop-7") && listed.contains("held_and_sold"), "{listed}");
    assert!(done(&server, &["limits", "list", "--limit", "1"]).contains("there are more: --after "));

    let reserve = ["reserve", "tee", "--owner", "cart", "--customer", "ann"];
    let first = json(&server, &[reserve.as_slice(), &["-q", "2"]].concat());
    refused(&server, &reserve, &["drop-7", "limit_exceeded"]);
    refused(&server, &reserve[..4], &["customer_required"]);
    let over = json(&server, &[reserve.as_slice(), &["--override-limits"]].concat());
    let (first, over) = (first["reservation_id"].as_str().unwrap(), over["reservation_id"].as_str().unwrap());
    let event = done(&server, &["events", "--reservation", over]);
    assert!(event.contains("limits_overridden=[\"drop-7\"]"), "{event}");
    done(&server, &["confirm", first]);
    let used = json(&server, &["limits", "usage", "drop-7", "--subject", "ann"]);
    assert_eq!((&used["held"], &used["sold"], &used["used"]), (&1.into(), &2.into(), &3.into()));
    let listed = done(&server, &["limits", "usage", "drop-7"]);
    assert!(
        listed.starts_with("LIMIT ID  SUBJECT  USED  LIMIT  HELD  SOLD\n") && listed.contains("ann"),
        "{listed}"
    );
    assert_eq!(json(&server, &["limits", "usage", "market"])["used"], 0);
    refused(
        &server,
        &["limits", "usage", "market", "--subject", "ann"],
        &["invalid_request", "counts for all"],
    );

    // The other commands that limits judge.
    let other = json(&server, &["reserve", "tee", "--owner", "cart", "--customer", "bob"]);
    let other = other["reservation_id"].as_str().unwrap();
    for (number, change) in [
        ["transfer", other, "--customer", "ann"].as_slice(),
        &["amend", other, "--line", "tee=2"],
        &["merge", over, other],
    ]
    .into_iter()
    .enumerate()
    {
        if number < 2 {
            refused(&server, change, &["limit_exceeded", "drop-7"]);
        }
        done(&server, &[change, &["--override-limits"]].concat());
    }

    refused(&server, &[two_each.as_slice(), &["--if-version", "9"]].concat(), &["precondition_failed"]);
    refused(&server, &["limits", "delete", "drop-7", "--if-version", "9"], &["precondition_failed"]);
    for _ in 0..2 {
        assert_eq!(done(&server, &["limits", "delete", "drop-7"]), "deleted\n");
    }
    refused(&server, &["limits", "show", "drop-7"], &["unknown_limit"]);
    let events = done(&server, &["events", "--type", "limit.set,limit.deleted"]);
    assert_eq!(events.matches("limit=drop-7").count(), 2, "{events}");
    for (wrong, words) in [
        (["limits", "set", "l", "--limit", "1"].as_slice(), "--sku, --location or --item"),
        (&["limits", "set", "l", "--sku", "tee"], "--limit"),
        (&["limits", "set", "l", "--limit", "1", "--item", "tee"], "SKU@LOCATION"),
        (&["limits", "set", "l", "--limit", "1", "--sku", "tee", "--per", "buyer"], "customer"),
    ] {
        let output = ctl(&server, wrong);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(text(&output.stderr).contains(words), "{}", said(&output));
    }
}

#[test]
fn pools_from_a_shell() {
    let server = Server::start();
    done(&server, &["stock", "set", "concert", "--total", "10", "--location", "hub"]);
    let at = ["--location", "hub"];
    let pool = |words: &[&'static str]| [&["pools"], words, &at].concat();
    let vip = pool(&["set", "concert", "vip", "--allocated", "4", "--releases-at", "2099-01-31T12:00:00Z"]);
    let shown = done(&server, &vip);
    for words in
        ["pool vip\n", "allocated      4", "fallback       yes", "releases at    2099-01-31T12:00:00.000Z"]
    {
        assert!(shown.contains(words), "{words:?} is missing in {shown}");
    }
    let quota = ["set", "concert", "box", "--allocated", "1", "--no-fallback", "--idle-release", "60"];
    let set = json(&server, &pool(&quota));
    assert_eq!((&set["fallback"], &set["idle_release_seconds"]), (&false.into(), &60.into()));
    assert!(done(&server, &["stock", "get", "concert", "--location", "hub"]).contains("set aside      5"));
    let reserve = ["reserve", "concert", "--owner", "cart", "--quantity", "5", "--pool"];
    refused(&server, &[&reserve[..], &["box"], &at].concat(), &["insufficient_inventory"]);
    let held = json(&server, &[&reserve[..], &["vip"], &at].concat());
    let id = held["reservation_id"].as_str().unwrap();
    assert_eq!(held["lines"][0]["pool_quantity"], 4);
    let shown = done(&server, &["get", id]);
    assert!(shown.contains("pool           vip") && shown.contains("FROM POOL"), "{shown}");
    let listed = done(&server, &pool(&["list", "concert"]));
    assert!(listed.starts_with("POOL  ALLOCATED  HELD  SOLD  FREE  FALLBACK"), "{listed}");
    assert!(listed.contains("vip           4     4     0     0"), "{listed}");
    refused(&server, &[&vip[..], &["--if-version", "9"]].concat(), &["precondition_failed"]);
    refused(&server, &pool(&["set", "concert", "vip", "--allocated", "3"]), &["below_committed", "free: 4"]);
    for _ in 0..2 {
        assert_eq!(done(&server, &pool(&["delete", "concert", "box"])), "deleted\n");
    }
    refused(&server, &pool(&["delete", "concert", "nobodys"]), &["unknown_pool"]);
    let events = done(&server, &["events", "--type", "pool.set,pool.deleted,reservation.created"]);
    assert_eq!((events.matches("pool=vip").count(), events.matches("pool=box").count()), (2, 2), "{events}");
    refused(&server, &pool(&["set", "concert", "vip"]), &["invalid_request", "allocated"]);
}

#[test]
fn prices_from_a_shell() {
    let server = Server::start();
    let shown =
        done(&server, &["stock", "set", "mug", "--total", "9", "--price", "1999 USD", "--low-stock", "2"]);
    assert!(
        shown.contains(r#"{"unit_amount":1999,"currency":"usd"}"#) && shown.contains("low stock      2"),
        "{shown}"
    );
    let discounted =
        r#"{"unit_amount":250,"currency":"usd","discounts":[{"percent":10,"channels":["app"]}]}"#;
    done(&server, &["stock", "set", "cup", "--total", "9", "--price", discounted]);
    let quote = done(&server, &["quote", "mug=2", "cup", "--channel", "app"]);
    assert!(
        quote.contains("3998") && quote.contains("225") && quote.ends_with("together 4223 usd\n"),
        "{quote}"
    );
    done(&server, &["stock", "set", "cup", "--unset", "price", "--unset", "low-stock"]);
    assert!(done(&server, &["quote", "mug", "cup"]).ends_with("no sum: not every item has a price\n"));
    refused(&server, &["quote", "nothing"], &["unknown_item"]);
    let held = json(&server, &["reserve", "mug", "--owner", "o", "-q", "2"]);
    assert_eq!((&held["amount"], &held["currency"]), (&3_998.into(), &"usd".into()));
    assert!(done(&server, &["get", held["reservation_id"].as_str().unwrap()]).contains("3998"));
}
