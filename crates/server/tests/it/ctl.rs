//! `stockhold ctl`: each command against a real server, for people and for scripts.

use crate::support::{Running, Server, said, stockhold, text};
use serde_json::Value;
use std::process::Output;

pub(crate) fn ctl(server: &Server, arguments: &[&str]) -> Output {
    stockhold(server.dir()).arg("ctl").args(arguments).env("STOCKHOLD_SERVER", server.url()).output().unwrap()
}

#[track_caller]
pub(crate) fn done(server: &Server, arguments: &[&str]) -> String {
    let output = ctl(server, arguments);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    text(&output.stdout)
}

#[track_caller]
pub(crate) fn json(server: &Server, arguments: &[&str]) -> Value {
    serde_json::from_str(&done(server, &[arguments, &["--json"]].concat())).unwrap()
}

#[track_caller]
pub(crate) fn refused(server: &Server, arguments: &[&str], words: &[&str]) {
    let output = ctl(server, arguments);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(output.stdout.is_empty(), "{}", said(&output));
    let why = text(&output.stderr);
    for word in words.iter().chain(&["/problems/"]) {
        assert!(why.contains(word), "{word:?} is missing in {why}");
    }
}

#[test]
fn a_sale_from_a_shell() {
    let server = Server::start();
    let shown = done(&server, &["stock", "set", "shirt", "--total", "10", "--safety-stock", "1"]);
    assert!(shown.contains("total units    10") && shown.contains("available      9"), "{shown}");
    let hold = json(&server, &["reserve", "shirt", "--quantity", "2", "--owner", "cart-1", "--ttl", "600"]);
    let id = hold["reservation_id"].as_str().unwrap();
    assert_eq!((&hold["status"], &hold["quantity"]), (&"active".into(), &2.into()));
    assert!(done(&server, &["get", id]).starts_with(&format!("reservation {id}  active")));
    assert_eq!(json(&server, &["extend", id, "--ttl", "1200"])["status"], "active");
    assert_eq!(json(&server, &["confirm", id, "--order", "o-1"])["order_id"], "o-1");
    let back = json(&server, &["return", id, "--reason", "broken", "--line", "shirt=1"]);
    assert_eq!(back["lines"][0]["returned_quantity"], 1);
    assert_eq!(json(&server, &["stock", "adjust", "shirt", "-3", "--reason", "lost"])["total_units"], 7);
    assert_eq!(json(&server, &["available", "shirt"])["available"], 5);
    assert_eq!(json(&server, &["available", "shirt", "nope"])["items"][1]["unknown"], true);
    let item = server.item("shirt").unwrap();
    assert_eq!((item.confirmed_sold, item.held_units, item.total_units), (1, 0, 7));
    let set = json(&server, &["stock", "set", "shirt", "--default-ttl", "60", "--max-hold", "90"]);
    assert_eq!((&set["default_ttl_seconds"], &set["total_units"]), (&60.into(), &7.into()));
    let set = json(&server, &["stock", "set", "shirt", "--unset", "default-ttl", "--unset", "max-hold"]);
    assert_eq!((set.get("default_ttl_seconds"), set.get("max_hold_seconds")), (None, None));
    assert_eq!(set["total_units"], 7);
    // The shell's mistake, not the server's to find.
    assert_eq!(ctl(&server, &["stock", "set", "shirt"]).status.code(), Some(2));
    assert_eq!(ctl(&server, &["stock", "set", "shirt", "--unset", "total"]).status.code(), Some(2));
    let both = ["stock", "set", "shirt", "--metadata", "{\"a\":1}", "--unset", "metadata"];
    assert_eq!(ctl(&server, &both).status.code(), Some(2));
    assert_eq!(json(&server, &both[..5])["metadata"]["a"], 1);
    assert_eq!(json(&server, &["stock", "set", "shirt", "--unset", "metadata"]).get("metadata"), None);

    let other = json(&server, &["reserve", "--line", "shirt=1", "--owner", "cart-2", "--partial"]);
    let other = other["reservation_id"].as_str().unwrap();
    assert!(done(&server, &["list", "--status", "active"]).contains(other));
    assert_eq!(json(&server, &["list", "--owner", "cart-1"])["data"].as_array().unwrap().len(), 1);
    assert!(done(&server, &["release", other, "--reason", "changed my mind"]).contains("released"));
    assert!(done(&server, &["stock", "list"]).contains("shirt"));
    assert!(done(&server, &["events", "--reservation", other]).contains("reason=changed my mind"));
    let events = done(&server, &["events", "--limit", "3"]);
    assert_eq!(events.lines().count(), 3, "{events}");
    let newest = done(&server, &["events"]);
    assert!(newest.contains("stock.set") && newest.contains("reservation.extended"), "{newest}");
    assert!(newest.ends_with(&events), "the newest three, the oldest of them first: {events}");
    assert_eq!(done(&server, &["events", "--tail", "3"]), events);
    let oldest = done(&server, &["events", "--after", "0", "--limit", "3"]);
    assert!(newest.starts_with(&oldest), "{oldest}");
}

#[test]
fn lists_and_events_are_searched_from_a_shell() {
    let server = Server::start();
    done(&server, &["stock", "set", "shirt", "--total", "10"]);
    let reserve = |customer: &str| {
        let hold = json(&server, &["reserve", "shirt", "--owner", "cart", "--customer", customer]);
        (hold["reservation_id"].as_str().unwrap().to_owned(), hold["created_at"].as_str().unwrap().to_owned())
    };
    let holds = ["ann", "bob", "ann"].map(|customer| {
        std::thread::sleep(std::time::Duration::from_millis(3));
        reserve(customer)
    });
    for n in [2, 0] {
        done(&server, &["confirm", &holds[n].0, "--order", "o-1"]);
    }
    let listed = |options: &[&str]| -> Vec<String> {
        let page = json(&server, &[&["list"], options].concat());
        let ids =
            page["data"].as_array().unwrap().iter().map(|hold| hold["reservation_id"].as_str().unwrap());
        ids.map(str::to_owned).collect()
    };
    let ids = |kept: &[usize]| kept.iter().map(|n| holds[*n].0.clone()).collect::<Vec<_>>();
    assert_eq!(listed(&["--order", "o-1"]), ids(&[0, 2]), "the one that was confirmed last is first");
    assert_eq!(listed(&["--customer", "bob"]), ids(&[1]));
    assert_eq!(listed(&["--created-after", &holds[1].1]), ids(&[2, 1]));
    assert_eq!(listed(&["--created-after", &holds[0].1, "--created-before", &holds[2].1]), ids(&[1, 0]));
    refused(&server, &["list", "--created-after", "yesterday"], &["created_after", "RFC 3339"]);

    let kinds = |options: &[&str]| -> Vec<(u64, String)> {
        let shown = done(&server, &[&["events", "--json"], options].concat());
        let events = shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events
            .map(|event| (event["position"].as_u64().unwrap(), event["type"].as_str().unwrap().to_owned()))
            .collect()
    };
    let confirmed = |position: u64| (position, "reservation.confirmed".to_owned());
    assert_eq!(kinds(&["--type", "reservation.confirmed"]), [confirmed(5), confirmed(6)]);
    assert_eq!(kinds(&["--type", "reservation.confirmed", "--tail", "1"]), [confirmed(6)]);
    assert_eq!(
        kinds(&["--type", "stock.set,reservation.confirmed", "--after", "1"]),
        [confirmed(5), confirmed(6)]
    );
    let followed = ["--type", "reservation.confirmed", "--follow", "--limit", "2"];
    assert_eq!(kinds(&followed), [confirmed(5), confirmed(6)]);
    assert_eq!(kinds(&[&followed[..3], &["--tail", "1", "--limit", "1"]].concat()), [confirmed(6)]);
    for wrong in [["--type", "confirmed"].as_slice(), &["--type", "stock.set", "--limit", "1001"]] {
        let output = ctl(&server, &[&["events"], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    }
    let why = text(&ctl(&server, &["events", "--type", "confirmed"]).stderr);
    assert!(why.contains("the types are reservation.created, reservation.extended"), "{why}");
}

#[test]
fn refusals_say_what_to_do_and_leave_with_1() {
    let server = Server::start();
    done(&server, &["stock", "set", "shirt", "--total", "1"]);
    refused(
        &server,
        &["reserve", "shirt", "-q", "2", "--owner", "o"],
        &["insufficient_inventory", "Request less"],
    );
    refused(&server, &["stock", "get", "nope"], &["unknown_item"]);
    refused(&server, &["get", "nonsense"], &["invalid_request", "UUID"]);
    for beyond in [["events", "--after", "99"].as_slice(), &["events", "--follow", "--after", "99"]] {
        refused(&server, beyond, &["newest event, which is at position 1", "after=1"]);
    }
    let export = ["export", "events", "--after", "99", "--server", &server.url()];
    let output = stockhold(server.dir()).args(export).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(text(&output.stderr).contains("newest event, which is at position 1"), "{}", said(&output));
    refused(
        &server,
        &["stock", "set", "shirt", "--total", "1", "--if-version", "9"],
        &["precondition_failed"],
    );
    done(&server, &["stock", "set", "shrit", "--total", "1"]);
    refused(&server, &["stock", "delete", "shrit", "--if-version", "9"], &["precondition_failed"]);
    for _ in 0..2 {
        assert_eq!(done(&server, &["stock", "delete", "shrit", "--key", "typo"]), "deleted\n");
    }
    refused(&server, &["stock", "delete", "shrit"], &["unknown_item"]);
    done(&server, &["pause", "shirt", "--reason", "wrong price"]);
    refused(&server, &["reserve", "shirt", "--owner", "o"], &["sale_paused"]);
    done(&server, &["resume", "shirt"]);
    for scope in [["--location", "default"].as_slice(), &["--everything"]] {
        done(&server, &[&["pause"], scope].concat());
        refused(&server, &["reserve", "shirt", "--owner", "o"], &["sale_paused"]);
        done(&server, &[&["resume"], scope].concat());
    }
    // For scripts the problem is on standard output.
    let output = ctl(&server, &["reserve", "shirt", "-q", "2", "--owner", "o", "--json"]);
    let problem: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &problem["reason"]), (Some(1), &"insufficient_inventory".into()));
    assert_eq!((&problem["available"], &problem["lines"][0]["requested_quantity"]), (&1.into(), &2.into()));
    for wrong in
        [["pause"].as_slice(), &["reserve", "--owner", "o"], &["reserve", "--line", "a=b", "--owner", "o"]]
    {
        let output = ctl(&server, wrong);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    }
}

#[test]
fn what_is_paused_is_shown_and_a_resume_says_what_still_pauses() {
    let server = Server::start();
    done(&server, &["stock", "set", "shirt", "--total", "1"]);
    assert_eq!(done(&server, &["sale"]), "on sale\n");
    assert!(done(&server, &["pause", "--everything"]).starts_with("everything is paused"));
    assert!(done(&server, &["pause", "--location", "default"]).contains("also paused: everything"));
    assert!(done(&server, &["pause", "shirt"]).contains("also paused: location default and everything"));
    let resumed = done(&server, &["resume", "shirt"]);
    assert!(
        resumed
            .starts_with("not paused by itself, but NOT on sale: paused is location default and everything")
    );
    let all = done(&server, &["sale"]);
    assert_eq!(
        all,
        "everything is paused: nothing new can be reserved\npaused by themselves: location default\n"
    );
    assert_eq!(
        done(&server, &["resume", "--everything"]),
        "on sale\npaused by themselves: location default\n"
    );
    assert!(done(&server, &["sale", "--location", "default"]).starts_with("paused: "));
    assert_eq!(done(&server, &["resume", "--location", "default"]), "on sale\n");
    // A name that nothing is stocked under.
    let typo = done(&server, &["pause", "--location", "defalut"]);
    assert!(typo.contains("nothing is stocked at this location: is its name right?"), "{typo}");
    assert_eq!(json(&server, &["sale"])["also_paused"][0]["location"], "defalut");
}

#[test]
fn what_is_turned_away_by_a_server_that_is_there_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("stockhold.toml"), "free_space_floor_mib = 99999999\n").unwrap();
    let server = Server::on(dir.path(), "data");
    done(&server, &["stock", "set", "shirt", "--total", "1"]);
    let turned_away = || {
        let output = ctl(&server, &["reserve", "shirt", "--owner", "o", "--patience", "0"]);
        // The disk is looked at a moment after the start.
        (output.status.code() == Some(5)).then_some(output)
    };
    let output = crate::support::wait_for("the floor to be noticed", turned_away);
    let why = text(&output.stderr);
    assert!(why.contains("unavailable") && why.contains("Nothing was done."), "{why}");
    assert!(!why.contains("Is a server running") && !why.contains("may have taken effect"), "{why}");
}

#[test]
fn the_same_key_takes_effect_once() {
    let server = Server::start();
    done(&server, &["stock", "set", "shirt", "--total", "9"]);
    let reserve = ["reserve", "shirt", "--owner", "o", "--key", "k-1", "--json"];
    let first = ctl(&server, &reserve);
    assert!(text(&first.stderr).contains("idempotency key: k-1"), "{}", said(&first));
    let second = ctl(&server, &reserve);
    assert!(text(&second.stderr).contains("used before"), "{}", said(&second));
    assert_eq!(first.stdout, second.stdout);
    // Without one, each command is its own.
    let made = [0, 1].map(|_| text(&ctl(&server, &["reserve", "shirt", "--owner", "o"]).stderr));
    assert!(made[0].starts_with("idempotency key: ctl-") && made[0] != made[1], "{made:?}");
    assert_eq!(server.item("shirt").unwrap().held_units, 3);
}

#[test]
fn no_server_leaves_with_5_and_says_how_to_repeat() {
    let mut server = Server::start();
    server.kill();
    let output =
        ctl(&server, &["confirm", "0198f2c4-6f3a-7c3e-9b1d-2f4a5b6c7d8e", "--patience", "1", "--key", "k"]);
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    let why = text(&output.stderr);
    assert!(why.contains("stockhold serve") && why.contains("--key k"), "{why}");
}

#[test]
fn the_server_is_found_by_the_configuration() {
    let server = Server::start();
    let listen = server.url().replace("http://", "");
    let run = |variables: &[(&str, &str)]| {
        stockhold(server.dir())
            .args(["ctl", "stock", "list"])
            .envs(variables.iter().copied())
            .output()
            .unwrap()
    };
    assert_eq!(run(&[("STOCKHOLD_LISTEN", &listen)]).status.code(), Some(0));
    std::fs::write(server.dir().join("stockhold.toml"), format!("listen = '{listen}'\n")).unwrap();
    assert_eq!(run(&[]).status.code(), Some(0));
    // A tool's own variable is no key of the server's configuration.
    let mut config = stockhold(server.dir());
    let output = config.arg("config").env("STOCKHOLD_SERVER", "http://127.0.0.1:1").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn events_are_followed_over_a_restart() {
    let mut server = Server::start();
    done(&server, &["stock", "set", "a", "--total", "1"]);
    let mut follow = stockhold(server.dir());
    follow
        .args(["ctl", "events", "--follow", "--limit", "3", "--json"])
        .env("STOCKHOLD_SERVER", server.url());
    let running = Running::start(follow.args(["--patience", "60"]));
    done(&server, &["stock", "set", "b", "--total", "1"]);
    server.kill();
    server.restart();
    done(&server, &["stock", "set", "c", "--total", "1"]);
    let (code, shown) = running.finish();
    assert_eq!(code, Some(0), "{shown}");
    let events: Vec<Value> = shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seen: Vec<_> = events
        .iter()
        .map(|event| (event["position"].as_u64().unwrap(), event["lines"][0]["sku"].as_str().unwrap()))
        .collect();
    assert_eq!(seen, [(1, "a"), (2, "b"), (3, "c")]);
}

#[test]
fn seats_from_a_shell() {
    let server = Server::start();
    std::fs::write(server.dir().join("seats.csv"), "unit_id,row\nA-1,A\nA-2,A\nA-3,A\nA-4,A\n").unwrap();
    let import = ["import", "seats.csv", "--units", "hall", "--server", &server.url()];
    let output = stockhold(server.dir()).args(import).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let seats = |hold: &Value| -> Vec<Value> {
        let units = hold["lines"][0]["units"].as_array().unwrap();
        units.iter().map(|unit| unit["unit_id"].clone()).collect()
    };
    let shown = done(&server, &["reserve", "hall", "--unit", "A-2", "--owner", "a"]);
    assert!(shown.ends_with("units of hall: A-2\n"), "{shown}");
    let pair = json(&server, &["reserve", "hall", "--quantity", "2", "--adjacent", "--owner", "b"]);
    assert_eq!(seats(&pair), ["A-3", "A-4"]);
    refused(&server, &["reserve", "hall", "--unit", "A-2", "--owner", "c"], &["units_unavailable", "A-2"]);
}

#[test]
fn a_hall_from_a_shell() {
    let server = Server::start();
    let made = done(&server, &["stock", "set", "concert", "--mode", "units"]);
    assert!(made.contains("mode           units"), "{made}");
    let row = |row: &'static str, section: &'static str, ids: &[&'static str]| {
        let place = ["--section", section, "--row", row, "--attribute", "step=false"];
        done(&server, &[&["units", "add", "concert"], ids, &place].concat())
    };
    let added = row("A", "stalls", &["A-1", "A-2", "A-3", "A-4"]);
    assert!(added.starts_with("4 added, 0 there already: 4 units, version "), "{added}");
    refused(&server, &["stock", "delete", "concert"], &["item_in_use", "4 units existing with an id"]);
    row("B", "balcony", &["B-1", "B-2"]);
    assert!(row("B", "balcony", &["B-1", "B-2", "B-3"]).starts_with("1 added, 2 there already: 7 units"));

    let units = |hold: &Value| -> Vec<String> {
        let units = hold["lines"][0]["units"].as_array().unwrap().iter();
        units.map(|unit| unit["unit_id"].as_str().unwrap().to_owned()).collect()
    };
    let reserve = |more: &[&str]| {
        json(&server, &[&["reserve", "concert", "--owner", "o", "--location", "default"], more].concat())
    };
    let best = reserve(&["-q", "2", "--adjacent", "--section", "balcony", "--attribute", "step=false"]);
    assert_eq!(units(&best).len(), 2);
    assert!(units(&best).iter().all(|id| id.starts_with("B-")), "{best}");
    let split = reserve(&["-q", "4", "--min-together", "2", "--section", "stalls"]);
    assert_eq!(units(&split).len(), 4);
    refused(
        &server,
        &["reserve", "concert", "--owner", "o", "--attribute", "step=true"],
        &["insufficient_inventory"],
    );
    let id = best["reservation_id"].as_str().unwrap();
    json(&server, &["confirm", id]);
    let seat = units(&best).remove(0);
    let back = json(&server, &["return", id, "--reason", "ill", "--unit", &seat]);
    assert_eq!(back["lines"][0]["returned_quantity"], 1);

    let sold = done(&server, &["units", "list", "concert", "--status", "sold"]);
    assert!(sold.contains(&units(&best)[1]) && !sold.contains(&seat) && sold.contains(id), "{sold}");
    let stalls = json(&server, &["units", "list", "concert", "--section", "stalls", "--limit", "3"]);
    assert_eq!((stalls["data"].as_array().unwrap().len(), &stalls["has_more"]), (3, &true.into()));
    let map = done(&server, &["units", "map", "concert"]);
    assert!(map.contains("stalls   A   o o o o") && map.contains("1 sold ■"), "{map}");
    let shown = done(&server, &["units", "get", "concert", &seat]);
    assert!(shown.contains(&seat) && shown.contains("available"), "{shown}");
    let events = done(&server, &["units", "events", "concert", &seat]);
    assert_eq!(events.lines().count(), 4, "added, held, sold, returned: {events}");
    assert!(events.lines().last().unwrap().contains("reservation.returned"), "{events}");
    refused(&server, &["units", "events", "concert", "Z-1"], &["unknown_unit"]);
    assert!(done(&server, &["units", "retire", "concert", &seat]).contains("retired"));
    refused(&server, &["units", "retire", "concert", "A-1"], &["unit_in_use"]);
    refused(
        &server,
        &["stock", "set", "concert", "--mode", "counted"],
        &["mode_mismatch", "The mode never changes"],
    );
    let wrong = ctl(&server, &["reserve", "concert", "--owner", "o", "--unit", "A-1", "--section", "stalls"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", said(&wrong));
}

#[test]
fn people_see_which_seats_they_have_and_which_came_back() {
    let server = Server::start();
    done(&server, &["stock", "set", "hall", "--mode", "units", "--location", "hub-7"]);
    let added = ["units", "add", "hall", "A-1", "A-2", "A-3", "--location", "hub-7"];
    done(&server, &added);
    let seats = ["--location", "hub-7", "--owner", "o", "--unit", "A-1", "--unit", "A-3"];
    let hold = json(&server, &[&["reserve", "hall"], &seats[..]].concat());
    let id = hold["reservation_id"].as_str().unwrap();
    assert!(done(&server, &["confirm", id]).ends_with("units of hall@hub-7: A-1, A-3\n"));
    let back = done(&server, &["return", id, "--reason", "ill", "--unit", "A-3"]);
    assert!(back.ends_with("units of hall@hub-7: A-1, A-3 (returned)\n"), "{back}");
    assert_eq!(done(&server, &["get", id]), back);
    let events = done(&server, &["events"]);
    for (event, words) in [
        ("units.added", "(A-1, A-2, A-3)"),
        ("reservation.created", "2×hall@hub-7 (A-1, A-3)"),
        ("reservation.returned", "1×hall@hub-7 (A-3)"),
    ] {
        let line = events.lines().find(|line| line.contains(event)).unwrap();
        assert!(line.contains(words), "{words} is missing in {line}");
    }
}

#[test]
fn a_cart_changes_is_paid_for_and_shipped() {
    let server = Server::start();
    for sku in ["shirt", "mug"] {
        done(&server, &["stock", "set", sku, "--total", "10", "--max-payment", "3600"]);
    }
    let id_of = |reservation: &Value| reservation["reservation_id"].as_str().unwrap().to_owned();
    let hold = json(&server, &["reserve", "shirt", "--quantity", "4", "--owner", "cart-1"]);
    let id = &*id_of(&hold);
    let amend = ["amend", id, "--line", "shirt=3", "--line", "mug", "--if-version", "1"];
    let amended = json(&server, &amend);
    assert_eq!((&amended["quantity"], &amended["version"]), (&4.into(), &2.into()));
    refused(&server, &amend, &["precondition_failed"]);
    assert_eq!(ctl(&server, &["amend", id]).status.code(), Some(2));
    let given = json(&server, &["transfer", id, "--customer", "c-1", "--unset", "session"]);
    assert_eq!(given["customer_id"], "c-1");
    let part = json(&server, &["split", id, "--line", "shirt"]);
    assert_eq!(part["split_from"], id);
    assert_eq!(ctl(&server, &["split", id]).status.code(), Some(2));
    let merged = json(&server, &["merge", id, &id_of(&part)]);
    assert_eq!(merged["quantity"], 4);
    let paying = json(&server, &["open-payment", id, "--payment", "p-1", "--window", "900"]);
    assert_eq!(paying["payment"]["state"], "open");
    refused(&server, &["release", id], &["payment_in_progress"]);
    done(&server, &["close-payment", id, "--payment", "p-1", "--reason", "declined"]);
    assert_eq!(
        json(&server, &["confirm", id, "--order", "o-1", "--payment", "p-2"])["payment"]["payment_id"],
        "p-2"
    );
    let sent = json(&server, &["fulfil", id, "--line", "shirt=2"]);
    assert_eq!(sent["lines"][0]["fulfilled_quantity"], 2);
    let back = ["return", id, "--line", "shirt", "--from", "fulfilled", "--write-off", "--reason", "broken"];
    assert_eq!(json(&server, &back)["lines"][0]["returned_quantity"], 1);
    let item = server.item("shirt").unwrap();
    assert_eq!((item.total_units, item.confirmed_sold, item.fulfilled_units, item.on_hand), (9, 2, 1, 8));
    let count = ["stock", "set", "shirt", "--on-hand", "9", "--fulfilled-units-seen", "1"];
    assert_eq!(json(&server, &count)["total_units"], 10);
    let shown = done(&server, &["get", id]);
    assert!(shown.contains("merged from") && shown.contains("p-2"), "{shown}");
    let events = done(&server, &["events", "--reservation", id]);
    assert!(
        events.contains("reservation.payment_closed") && events.contains("disposition=write_off"),
        "{events}"
    );
}

/// The longest body that adds units makes a longer event, which has the units' positions too.
#[test]
fn the_longest_event_is_followed() {
    const UNITS: usize = 10_000;
    const BODY_BYTES: usize = 8 * 1024 * 1024;
    const EACH: usize = BODY_BYTES / UNITS - 2;
    let server = Server::start();
    done(&server, &["stock", "set", "hall", "--mode", "units"]);
    let long = "x".repeat(128);
    let unit = |n: usize| {
        let id = format!("{n:0128}");
        let unit = format!(
            r#"{{"unit_id":"{id}","section":"{long}","row":"{long}","number":"{long}","attributes":{{"a":"{long}","b":""#
        );
        let rest = EACH - unit.len() - r#""}}"#.len();
        format!("{unit}{}\"}}}}", "y".repeat(rest))
    };
    let units = (0..UNITS).map(unit).collect::<Vec<_>>().join(",");
    let body = format!(r#"{{"units":[{units}]}}"#);
    assert!(body.len() <= BODY_BYTES);
    let added = server
        .ask(async |client| client.send_raw("POST", "/v1/inventory/hall/units", body.as_bytes()).await)
        .unwrap();
    assert_eq!(added.status, 200, "{}", text(&added.body));
    let shown = done(&server, &["events", "--follow", "--limit", "2", "--json"]);
    let event: Value = serde_json::from_str(shown.lines().nth(1).unwrap()).unwrap();
    assert_eq!(event["units"].as_array().unwrap().len(), UNITS);
    assert!(shown.len() > BODY_BYTES, "it is no longer than the body");
}
