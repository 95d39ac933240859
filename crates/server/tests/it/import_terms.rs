//! `stockhold export` and `import` of pools and limits: a shop is the same elsewhere, and what can't be imported is reported.

use crate::import::{export, import, report, write};
use crate::support::{Server, said, stockhold, text};
use serde_json::{Value, json};
use std::fs;

/// Runs `ctl` against a server, which must accept it.
#[track_caller]
fn ctl(server: &Server, arguments: &[&str]) {
    let output =
        stockhold(server.dir()).arg("ctl").args(arguments).args(["--server", &server.url()]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", said(&output));
}

/// The reason for which a reserve is refused.
#[track_caller]
fn refusal(server: &Server, arguments: &[&str]) -> String {
    let mut command = stockhold(server.dir());
    command.args(["ctl", "reserve"]).args(arguments).args(["--json", "--server", &server.url()]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", said(&output));
    let problem: Value = serde_json::from_slice(&output.stdout).unwrap();
    problem["reason"].as_str().unwrap().to_owned()
}

/// The exported entries, without the fields of a row that count what happened to it.
fn settings(server: &Server, what: &[&str], figures: &[&str]) -> Vec<Value> {
    let exported = text(&export(server, what).stdout);
    let entry = |line: &str| {
        let mut entry: Value = serde_json::from_str(line).unwrap();
        entry.as_object_mut().unwrap().retain(|field, _| !figures.contains(&field.as_str()));
        entry
    };
    exported.lines().map(entry).collect()
}

/// A shop with pools of counted units and of units with ids, with limits, and with sales from a pool.
fn shop() -> Server {
    let server = Server::start();
    ctl(&server, &["stock", "set", "tins", "--total", "10", "--location", "hub"]);
    ctl(&server, &["stock", "set", "mugs", "--total", "5"]);
    write(&server, "seats.csv", "unit_id,section\nA-1,stalls\nA-2,stalls\nB-1,circle\nB-2,circle\n");
    report(&server, &["seats.csv", "--units", "hall"], 0);
    let ends = "2999-01-31T12:00:00Z";
    let tins =
        ["pools", "set", "tins", "vip", "--location", "hub", "--allocated", "6", "--releases-at", ends];
    ctl(&server, &tins);
    ctl(
        &server,
        &["pools", "set", "mugs", "old", "--allocated", "2", "--releases-at", "2001-01-31T12:00:00Z"],
    );
    let till =
        ["pools", "set", "mugs", "till", "--allocated", "1", "--no-fallback", "--idle-release", "86400"];
    ctl(&server, &till);
    ctl(&server, &["pools", "set", "hall", "press", "--no-fallback"]);
    ctl(&server, &["pools", "put-units", "hall", "press", "--units", "A-2,B-1"]);
    let sold = [
        "reserve",
        "tins",
        "--location",
        "hub",
        "--pool",
        "vip",
        "--quantity",
        "2",
        "--owner",
        "o",
        "--json",
    ];
    let mut reserve = stockhold(server.dir());
    let held = reserve.arg("ctl").args(sold).args(["--server", &server.url()]).output().unwrap();
    let held: Value = serde_json::from_slice(&held.stdout).unwrap();
    ctl(&server, &["confirm", held["reservation_id"].as_str().unwrap()]);
    ctl(
        &server,
        &["limits", "set", "each", "--sku", "mugs", "--item", "tins@hub", "--per", "owner", "--limit", "2"],
    );
    let carts = [
        "limits",
        "set",
        "carts",
        "--location",
        "hub",
        "--channel",
        "web",
        "--limit",
        "9",
        "--counts",
        "held",
    ];
    ctl(&server, &carts);
    server
}

/// Exports a shop into files of another server's directory.
fn carry(from: &Server, to: &Server) {
    for (what, name) in [
        (&["items"][..], "items.jsonl"),
        (&["pools"], "pools.jsonl"),
        (&["units", "hall"], "hall.csv"),
        (&["limits"], "limits.jsonl"),
    ] {
        export(from, &[what, &["--out", name]].concat());
        fs::copy(from.dir().join(name), to.dir().join(name)).unwrap();
    }
}

#[test]
fn pools_and_limits_are_the_same_elsewhere() {
    let (here, there) = (shop(), Server::start());
    carry(&here, &there);
    report(&there, &["items.jsonl"], 0);
    let dry = report(&there, &["pools.jsonl", "--pools", "--dry-run"], 0);
    assert_eq!((&dry["rows"], &dry["created"]), (&3.into(), &0.into()), "{dry}");
    for (file, flags, figure, count) in [
        ("pools.jsonl", &["--pools"][..], "created", 3),
        ("hall.csv", &["--units", "hall"], "pooled", 2),
        ("limits.jsonl", &["--limits"], "created", 2),
        ("pools.jsonl", &["--pools"], "updated", 3),
        ("hall.csv", &["--units", "hall"], "unchanged", 4),
        ("limits.jsonl", &["--limits"], "updated", 2),
    ] {
        let done = report(&there, &[&[file], flags].concat(), 0);
        assert_eq!((&done[figure], &done["bad"]), (&count.into(), &0.into()), "{file}: {done}");
        assert_eq!(done["finished"], true, "{file}: {done}");
    }
    for (what, figures) in [
        (&["pools"][..], &["held", "sold", "free"][..]),
        (&["units", "hall"], &["version"]),
        (&["limits"], &["generation", "version"]),
    ] {
        let (before, after) = (settings(&here, what, figures), settings(&there, what, figures));
        assert_eq!(before, after, "{what:?}");
        assert!(before.len() >= 2, "{what:?}: {before:?}");
    }
    // Four of ten tins are in general sale, and all six of the pool are free: nothing is sold there.
    let too_many = ["tins", "--location", "hub", "--quantity", "5", "--owner", "o"];
    assert_eq!(refusal(&there, &[&too_many[..], &["--override-limits"]].concat()), "insufficient_inventory");
    assert_eq!(refusal(&there, &[&too_many[..], &["--pool", "vip"]].concat()), "limit_exceeded");
    let press = ["hall", "--unit", "A-2", "--owner", "o"];
    assert_eq!(refusal(&there, &press), "units_unavailable");
    ctl(&there, &[&["reserve"], &press[..], &["--pool", "press"]].concat());
    // A unit that is held stays where it is, and the import says so.
    let moved = "unit_id,section,pool\nA-2,stalls,vip\nA-1,stalls,vip\n";
    write(&there, "moved.csv", moved);
    let done = report(&there, &["moved.csv", "--units", "hall"], 6);
    assert_eq!((&done["pooled"], &done["errors"][0]["line"]), (&1.into(), &2.into()), "{done}");
    assert_eq!(done["errors"][0]["column"], "pool", "{done}");
}

#[test]
fn what_is_sold_of_a_pool_can_be_left_behind() {
    let (here, there) = (shop(), Server::start());
    carry(&here, &there);
    report(&there, &["items.jsonl", "--stock", "unsold"], 0);
    report(&there, &["pools.jsonl", "--pools", "--stock", "unsold"], 0);
    assert_eq!(there.item("mugs").unwrap().total_units, 5);
    let pools = settings(&there, &["pools", "--location", "hub"], &[]);
    assert_eq!(
        (pools.len(), &pools[0]["allocated"], &pools[0]["free"]),
        (1, &4.into(), &4.into()),
        "{pools:?}"
    );
}

#[test]
fn a_pool_that_was_released_is_not_set_again() {
    let server = shop();
    let released = json!({
        "sku": "mugs", "pool": "spare", "allocated": 1, "held": 0, "sold": 1, "free": 0, "fallback": true,
        "released_at": "2026-11-25T14:03:11.093Z",
    });
    write(&server, "released.jsonl", &format!("{released}\n"));
    let done = report(&server, &["released.jsonl", "--pools"], 0);
    assert_eq!((&done["released"], &done["created"]), (&1.into(), &0.into()), "{done}");
    let pools = settings(&server, &["pools", "--location", "default"], &[]);
    assert!(!pools.is_empty() && pools.iter().all(|pool| pool["pool"] != "spare"), "{pools:?}");
}

#[test]
fn rows_that_are_wrong_have_their_line_and_field() {
    let server = shop();
    let pools = [
        r#"{"sku":"mugs","pool":"a","allocated":1}"#,
        r#"{"pool":"a","allocated":1}"#,
        r#"{"sku":"mugs","allocated":1}"#,
        r#"{"sku":"mugs","pool":7,"allocated":1}"#,
        r#"{"sku":"mugs","pool":"a","allocated":"1"}"#,
        r#"{"sku":"mugs","pool":"a","allocated":1,"falback":true}"#,
        r#"{"sku":"nothing","pool":"a","allocated":1}"#,
        r#"{"sku":"mugs","pool":"a","allocated":99}"#,
        r#"{"sku":"mugs","pool":"a","allocated":1,"allocated":2}"#,
        r#"{"sku":"mugs","pool":"a","allocated":1,"note":"mine"}"#,
    ];
    write(&server, "pools.jsonl", &pools.join("\n"));
    let limits = [
        r#"{"limit_id":"l","items":[{"sku":"mugs"}],"limit":1}"#,
        r#"{"items":[{"sku":"mugs"}],"limit":1}"#,
        r#"{"limit_id":"l","items":[],"limit":1}"#,
        r#"{"limit_id":"l","items":[{"sku":"mugs"}]}"#,
        r#"{"limit_id":"l","items":[{"sku":"mugs"}],"limit":1,"per":"household"}"#,
    ];
    write(&server, "limits.jsonl", &limits.join("\n"));
    let errors = |report: &Value| {
        let error =
            |error: &Value| (error["line"].as_u64().unwrap(), error["column"].as_str().unwrap().to_owned());
        report["errors"].as_array().unwrap().iter().map(error).collect::<Vec<_>>()
    };
    let expected = |expected: &[(u64, &str)]| {
        expected.iter().map(|(line, column)| (*line, (*column).to_owned())).collect::<Vec<_>>()
    };
    let done = report(&server, &["pools.jsonl", "--pools", "--ignore", "note"], 6);
    let pools = [
        (2, "sku"),
        (3, "pool"),
        (4, "pool"),
        (5, "allocated"),
        (6, "falback"),
        (7, "sku"),
        (8, "allocated"),
        (9, ""),
    ];
    assert_eq!((errors(&done), &done["rows"]), (expected(&pools), &10.into()), "{done}");
    let done = report(&server, &["limits.jsonl", "--limits"], 6);
    let limits = [(2, "limit_id"), (3, "items"), (4, "limit"), (5, "per")];
    assert_eq!((errors(&done), &done["created"]), (expected(&limits), &1.into()), "{done}");
    let output = import(&server, &["limits.jsonl", "--limits", "--max-errors", "0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(text(&output.stderr).contains("limits.jsonl:2: limit_id: is missing"), "{}", said(&output));
    for wrong in [&["pools.csv", "--pools"][..], &["pools.jsonl", "--pools", "--connections", "2"]] {
        write(&server, "pools.csv", "sku,pool,allocated\n");
        let output = import(&server, wrong).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    }
}
