//! `stockhold import` and `export`: what goes in comes out, what can't go in is told, and a cut is gone on with.

use crate::support::{Running, Server, said, stockhold, text, wait_for};
use serde_json::Value;
use std::fmt::Write;
use std::process::{Command, Output};
use stockhold_api::client::{At, Listed};
use stockhold_api::wire::{Shipment, Terms};

pub(crate) fn import(server: &Server, arguments: &[&str]) -> Command {
    let mut command = stockhold(server.dir());
    command.arg("import").args(arguments).args(["--server", &server.url()]);
    command
}

pub(crate) fn export(server: &Server, arguments: &[&str]) -> Output {
    let mut command = stockhold(server.dir());
    command.arg("export").args(arguments).args(["--server", &server.url()]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    output
}

/// Runs an import that must end with this code: the report.
#[track_caller]
pub(crate) fn report(server: &Server, arguments: &[&str], code: i32) -> Value {
    let output = import(server, arguments).arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub(crate) fn write(server: &Server, name: &str, content: &str) {
    std::fs::write(server.dir().join(name), content).unwrap();
}

/// Sells so many of a SKU.
pub(crate) fn sell(server: &Server, sku: &str, quantity: u64) {
    let terms = Terms { owner_id: "o".to_owned(), ..Terms::default() };
    server.ask(async |client| {
        let hold = client.reserve(At { sku, location: None }, quantity, &terms, None).await.unwrap();
        client.confirm(hold.reservation_id, None, None).await.unwrap();
    });
}

#[test]
fn lines_are_counted_as_editors_do_and_a_file_that_is_not_closed_is_no_row() {
    let server = Server::start();
    let rows = "sku,total_units\r\nze_a,1\r\nze_b,x\r\nze_c,3\r\n";
    write(&server, "crlf.csv", rows);
    let output = import(&server, &["crlf.csv", "--max-errors", "0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(text(&output.stderr).contains("crlf.csv:3: total_units"), "{}", said(&output));
    for end in ["\r\n", "\r"] {
        write(&server, "crlf.csv", &rows.replace('x', "2").replace("\r\n", end));
        let continued = report(&server, &["crlf.csv", "--from-line", "3"], 0);
        assert_eq!((&continued["rows"], &continued["last_line"]), (&2.into(), &4.into()), "{end:?}");
        assert_eq!(server.item("ze_b").unwrap().total_units, 2, "{end:?}");
    }
    write(&server, "open.csv", "sku,total_units\nze_d,1\n\"ze_e,2\nze_f,3\n");
    let output = import(&server, &["open.csv"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(text(&output.stderr).contains("open.csv: from line 3 on: a quotation mark is not closed"));
    assert!(server.item("ze_d").is_some() && server.item("ze_f").is_none());
}

#[test]
fn null_in_json_lines_takes_an_item_s_own_settings_back() {
    let server = Server::start();
    let set = "{\"sku\":\"a\",\"total_units\":5,\"default_ttl_seconds\":60,\"max_hold_seconds\":90,\"metadata\":{\"x\":1}}\n";
    write(&server, "set.jsonl", set);
    report(&server, &["set.jsonl"], 0);
    let unset = "{\"sku\":\"a\",\"total_units\":5,\"safety_stock\":null,\"default_ttl_seconds\":null,\"metadata\":null}\n";
    write(&server, "unset.jsonl", unset);
    for (kept, updated) in [(0, 1), (1, 0)] {
        let foretold = report(&server, &["unset.jsonl", "--dry-run"], 0);
        assert_eq!((&foretold["kept"], &foretold["updated"]), (&kept.into(), &updated.into()));
        report(&server, &["unset.jsonl"], 0);
        let item = server.item("a").unwrap();
        assert_eq!((item.default_ttl_seconds, item.max_hold_seconds, item.metadata), (None, Some(90), None));
    }
    // An empty cell is none.
    write(&server, "empty.csv", "sku,total_units,max_hold_seconds\na,5,\n");
    report(&server, &["empty.csv"], 0);
    assert_eq!(server.item("a").unwrap().max_hold_seconds, Some(90));
}

const ITEMS: &str = "sku,location,total_units,safety_stock,default_ttl_seconds,max_hold_seconds,metadata
shirt,,10,1,60,120,\"{\"\"colour\"\": \"\"red\"\"}\"
\"a, b\",hub-7,20,,,,
größe ☃,hub-7,0,,,,
";

#[test]
fn what_goes_in_comes_out_and_goes_in_elsewhere() {
    let (here, there) = (Server::start(), Server::start());
    write(&here, "items.csv", ITEMS);
    let dry = report(&here, &["items.csv", "--dry-run"], 0);
    assert_eq!((&dry["created"], here.item("shirt")), (&3.into(), None));
    let real = report(&here, &["items.csv"], 0);
    assert_eq!((&real["created"], &real["rows"], &real["finished"]), (&3.into(), &3.into(), &true.into()));
    let shirt = here.item("shirt").unwrap();
    assert_eq!((shirt.total_units, shirt.safety_stock), (10, 1));
    assert_eq!((shirt.default_ttl_seconds, shirt.max_hold_seconds), (Some(60), Some(120)));
    assert_eq!(shirt.metadata, Some(serde_json::json!({ "colour": "red" })));
    sell(&here, "shirt", 3);

    for name in ["out.csv", "out.jsonl"] {
        export(&here, &["items", "--out", name]);
        std::fs::copy(here.dir().join(name), there.dir().join(name)).unwrap();
        report(&there, &[name], 0);
        let settings = |server: &Server| {
            let items = text(&export(server, &["items"]).stdout);
            let keep = |line: &str| {
                let item: Value = serde_json::from_str(line).unwrap();
                [
                    "sku",
                    "location",
                    "mode",
                    "total_units",
                    "safety_stock",
                    "default_ttl_seconds",
                    "max_hold_seconds",
                    "metadata",
                ]
                .map(|field| item[field].clone())
            };
            items.lines().map(keep).collect::<Vec<_>>()
        };
        assert_eq!((settings(&here), settings(&here).len()), (settings(&there), 3), "{name}");
        let same = report(&there, &[name, "--dry-run"], 0);
        assert_eq!((&same["kept"], &same["updated"]), (&3.into(), &0.into()), "{name}: {same}");
    }
    // 3 of 10 were sold here: 7 can still be sold there.
    report(&there, &["out.csv", "--stock", "unsold"], 0);
    assert_eq!(there.item("shirt").unwrap().total_units, 7);
}

/// Makes an item whose units have ids, and its units.
fn hall(server: &Server, sku: &str, seats: u64) {
    let rows = (1..=seats).fold("unit_id\n".to_owned(), |rows, seat| format!("{rows}A-{seat}\n"));
    write(server, "hall.csv", &rows);
    report(server, &["hall.csv", "--units", sku], 0);
}

#[test]
fn a_hall_goes_in_elsewhere_without_its_seats() {
    let (here, there) = (Server::start(), Server::start());
    hall(&here, "concert", 3);
    write(&here, "items.csv", "sku,total_units\ntins,5\n");
    report(&here, &["items.csv"], 0);
    for (name, stock) in [("out.csv", "total"), ("out.jsonl", "unsold")] {
        export(&here, &["items", "--out", name]);
        std::fs::copy(here.dir().join(name), there.dir().join(name)).unwrap();
        let foretold = report(&there, &[name, "--stock", stock, "--dry-run"], 0);
        let done = report(&there, &[name, "--stock", stock], 0);
        assert_eq!((&done["bad"], &done["rows"]), (&0.into(), &2.into()), "{done}");
        assert_eq!(foretold["created"], done["created"], "{name}");
        let concert = there.item("concert").unwrap();
        assert_eq!((concert.mode.as_str(), concert.total_units), ("units", 0), "{name}");
    }
    // A hall that sells is no other.
    hall(&there, "concert", 2);
    sell(&there, "concert", 1);
    report(&there, &["out.csv"], 0);
    assert_eq!(there.item("concert").unwrap().total_units, 2);
}

#[test]
fn seats_go_in_elsewhere_by_their_export() {
    let (here, there) = (Server::start(), Server::start());
    let seats = "unit_id,section,row,number,position,attributes\n\
                 A-1,stalls,A,1,10,\"{\"\"aisle\"\":true,\"\"view\"\":\"\"a, b\"\"}\"\n\
                 A-2,stalls,A,2,11,\n\
                 \"B 1, left\",circle,,,20,\n";
    write(&here, "seats.csv", seats);
    report(&here, &["seats.csv", "--units", "hall"], 0);
    sell(&here, "hall", 1);
    let units = |server: &Server, more: &[&str]| {
        let output = export(server, &[&["units", "hall"], more].concat());
        text(&output.stdout)
    };
    let sold = units(&here, &["--status", "sold"]);
    assert_eq!(sold.lines().count(), 1, "{sold}");
    let sold: Value = serde_json::from_str(&sold).unwrap();
    assert_eq!((&sold["unit_id"], sold["reservation_id"].is_string()), (&"A-1".into(), true), "{sold}");
    assert_eq!(units(&here, &["--section", "circle"]).lines().count(), 1);

    export(&here, &["units", "hall", "--out", "out.csv"]);
    std::fs::copy(here.dir().join("out.csv"), there.dir().join("out.csv")).unwrap();
    let done = report(&there, &["out.csv", "--units", "hall"], 0);
    assert_eq!((&done["added"], &done["bad"]), (&3.into(), &0.into()), "{done}");
    let settings = |server: &Server| {
        let rows = units(server, &["--format", "csv"]);
        let own = |row: &str| row.rsplitn(5, ',').last().map(str::to_owned);
        rows.lines().map(own).collect::<Vec<_>>()
    };
    assert_eq!(settings(&there), settings(&here));
    let again = report(&here, &["out.csv", "--units", "hall"], 0);
    assert_eq!((&again["added"], &again["unchanged"]), (&0.into(), &3.into()), "{again}");
    let nowhere =
        stockhold(here.dir()).args(["export", "units", "nope", "--server", &here.url()]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(1), "{}", said(&nowhere));
    assert!(text(&nowhere.stderr).contains("unknown_item"), "{}", said(&nowhere));
}

#[test]
fn a_dry_run_finds_what_the_import_would_refuse() {
    let server = Server::start();
    write(&server, "first.csv", "sku,total_units\ntins,5\nmugs,5\n");
    report(&server, &["first.csv"], 0);
    hall(&server, "concert", 3);
    write(
        &server,
        "next.csv",
        "sku,mode,total_units\n\
         tins,units,\n\
         concert,counted,3\n\
         concert,,4\n\
         concert,,3\n\
         new,,1\n\
         new,,2\n\
         new,units,\n\
         club,units,\n\
         club,,7\n\
         mugs,,6\n\
         mugs,,5\n",
    );
    let lines = |report: &Value| {
        let errors = report["errors"].as_array().unwrap().iter();
        let told = errors.map(|error| (error["line"].as_u64().unwrap(), error["column"].to_string()));
        let mut told: Vec<_> = told.collect();
        told.sort();
        told
    };
    let keep = report(&server, &["next.csv", "--existing", "keep", "--dry-run"], 0);
    assert_eq!((&keep["created"], &keep["kept"]), (&2.into(), &9.into()), "{keep}");
    let dry = report(&server, &["next.csv", "--dry-run"], 6);
    let real = report(&server, &["next.csv"], 6);
    assert_eq!(lines(&dry), lines(&real), "{dry}\n{real}");
    assert_eq!((&dry["bad"], &dry["created"]), (&5.into(), &2.into()), "{dry}");
    assert_eq!((&dry["updated"], &dry["kept"]), (&3.into(), &1.into()), "{dry}");
    assert_eq!((&real["bad"], &real["created"]), (&5.into(), &2.into()), "{real}");
}

#[test]
fn totals_of_a_stock_master_need_an_override() {
    let server = Server::start();
    write(&server, "first.csv", "sku,total_units,stock_master\ntins,5,erp\nmugs,5,erp\n");
    report(&server, &["first.csv"], 0);
    write(&server, "next.csv", "sku,total_units,stock_master\ntins,6,\nmugs,5,\ntins,7,pos\n");
    // An import that sets what a row names does not look whether it was so before.
    for (mode, updated) in [(&["--dry-run"][..], 1), (&[], 2)] {
        let report = report(&server, &[&["next.csv"], mode].concat(), 6);
        let errors = report["errors"].as_array().unwrap();
        assert_eq!(
            (errors.len(), &errors[0]["line"], &errors[0]["column"]),
            (1, &2.into(), &"total_units".into())
        );
        assert_eq!(report["updated"], updated, "another owner has its own total: {report}");
    }
    assert_eq!(server.item("tins").unwrap().total_units, 7);
    write(&server, "forced.csv", "sku,total_units\ntins,9\nmugs,5\n");
    let dry = report(&server, &["forced.csv", "--override", "--dry-run"], 0);
    assert_eq!((&dry["updated"], &dry["kept"]), (&1.into(), &1.into()), "{dry}");
    report(&server, &["forced.csv", "--override"], 0);
    assert_eq!(server.item("tins").unwrap().total_units, 9);
}

#[test]
fn a_dry_run_finds_a_seat_that_is_named_twice() {
    let server = Server::start();
    write(&server, "seats.csv", "unit_id,row\nA-1,A\nA-2,A\nA-1,A\nA-3,A\nA-2,B\n");
    let lines = |report: &Value| [0, 1].map(|n| report["errors"][n]["line"].as_u64().unwrap());
    let seats = ["seats.csv", "--units", "hall"];
    let dry = report(&server, &[&seats[..], &["--dry-run"]].concat(), 6);
    assert_eq!((&dry["bad"], lines(&dry)), (&2.into(), [4, 6]), "{dry}");
    assert_eq!(server.item("hall"), None);
    let real = report(&server, &seats, 6);
    assert_eq!((&real["bad"], lines(&real)), (&2.into(), [4, 6]), "{real}");
}

#[test]
fn a_column_that_is_not_there_is_named() {
    let server = Server::start();
    write(&server, "items.csv", "sku,total_units,Menge\na,1,2\n");
    let wrong = |column: &str| {
        let output = import(&server, &["items.csv", "--column", column]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        text(&output.stderr)
    };
    let why = wrong("total_units=Qty");
    assert!(why.contains("no column \"Qty\"") && why.contains("sku, total_units, Menge"), "{why}");
    let why = wrong("total_units=Menge");
    assert!(
        why.contains("takes total_units from \"Menge\"") && why.contains("--ignore total_units"),
        "{why}"
    );
}

#[test]
fn one_row_is_one_row() {
    let server = Server::start();
    write(&server, "one.csv", "sku,total_units\n\" a\",1\n");
    let output = import(&server, &["one.csv"]).output().unwrap();
    let shown = text(&output.stdout);
    assert!(shown.contains("1 row: 1 item created") && shown.contains("1 SKU begins or ends"), "{shown}");
    let nobody = ["import", "one.csv", "--server", "http://127.0.0.1:1", "--patience", "0"];
    let output = stockhold(server.dir()).args(nobody).output().unwrap();
    let why = text(&output.stderr);
    assert!(why.contains("the last try: ") && !why.contains("1 tries"), "{why}");
}

#[test]
fn stock_that_sells_already() {
    let server = Server::start();
    write(&server, "first.csv", "sku,total_units\nshirt,10\n");
    report(&server, &["first.csv"], 0);
    sell(&server, "shirt", 4);
    write(&server, "counted.csv", "sku,total_units\nshirt,3\n");
    let total = report(&server, &["counted.csv"], 6);
    assert_eq!((&total["bad"], &total["errors"][0]["line"]), (&1.into(), &2.into()));
    let why = total["errors"][0]["what"].as_str().unwrap();
    assert!(why.contains("below_committed") && why.contains("--stock unsold"), "{why}");
    report(&server, &["counted.csv", "--existing", "keep"], 0);
    assert_eq!(server.item("shirt").unwrap().total_units, 10);
    report(&server, &["counted.csv", "--stock", "unsold"], 0);
    let item = server.item("shirt").unwrap();
    assert_eq!((item.total_units, item.confirmed_sold, item.available), (7, 4, 3));
}

#[test]
fn counts_of_the_shelf() {
    let server = Server::start();
    write(&server, "first.csv", "sku,on_hand\nshirt,10\n");
    report(&server, &["first.csv", "--dry-run"], 0);
    assert_eq!(report(&server, &["first.csv"], 0)["created"], 1);
    sell(&server, "shirt", 4);
    server.ask(async |client| {
        let sold = client.reservations(Listed::default(), None, None).await.unwrap().data.remove(0);
        client.fulfil(sold.reservation_id, &Shipment::default(), None).await.unwrap();
    });
    // Nine were counted when none had been shipped: one is missing.
    write(&server, "count.csv", "sku,on_hand,fulfilled_units_seen\nshirt,9,0\n");
    for flags in [&["count.csv", "--dry-run"][..], &["count.csv"], &["count.csv", "--stock", "unsold"]] {
        report(&server, flags, 0);
    }
    let item = server.item("shirt").unwrap();
    assert_eq!((item.total_units, item.on_hand, item.fulfilled_units), (9, 5, 4));
    write(&server, "unseen.csv", "sku,on_hand\nshirt,9\n");
    write(&server, "both.csv", "sku,on_hand,fulfilled_units_seen,total_units\nshirt,9,4,9\n");
    for (file, dry, column) in [
        ("unseen.csv", true, "fulfilled_units_seen"),
        ("unseen.csv", false, "fulfilled_units_seen"),
        ("both.csv", true, "total_units"),
    ] {
        let flags = [&[file][..], if dry { &["--dry-run"] } else { &[] }].concat();
        let told = report(&server, &flags, 6);
        assert_eq!(told["errors"][0]["column"], column, "{told}");
    }
    // An export has both figures, and is read as totals.
    export(&server, &["items", "--out", "out.csv"]);
    assert_eq!(report(&server, &["out.csv"], 0)["bad"], 0);
    assert_eq!(server.item("shirt").unwrap().total_units, 9);
}

#[test]
fn bad_rows_are_told_with_line_and_column_and_left_out() {
    let server = Server::start();
    write(
        &server,
        "bad.csv",
        "Art;Menge;max_hold_seconds;Name\nok;5;;x\n;5;;x\nfew;viele;;x\nshort;5\nlong;5;99999999;x\nfine;6;;x\n",
    );
    let flags = ["bad.csv", "--delimiter", ";", "--column", "sku=Art", "--column", "total_units=Menge"];
    let wrong = import(&server, &flags).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{}", said(&wrong));
    assert!(text(&wrong.stderr).contains("--ignore Name"), "{}", said(&wrong));
    let flags = [&flags[..], &["--ignore", "Name"]].concat();
    let output = import(&server, &flags).output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{}", said(&output));
    let told = text(&output.stderr);
    for line in
        ["bad.csv:3: Art: ", "bad.csv:4: Menge: ", "bad.csv:5: 2 fields", "bad.csv:6: max_hold_seconds: "]
    {
        assert!(told.contains(line), "{line:?} is missing in {told}");
    }
    assert!(text(&output.stdout).contains("6 rows: 2 items created"), "{}", said(&output));
    assert!(server.item("ok").is_some() && server.item("fine").is_some() && server.item("long").is_none());
    let stopped = report(&server, &[&flags[..], &["--max-errors", "1"]].concat(), 1);
    assert_eq!((&stopped["finished"], &stopped["bad"]), (&false.into(), &2.into()));
}

#[test]
fn rows_of_one_item_are_applied_in_their_order() {
    let server = Server::start();
    let mut content = "{\"sku\":\"other\",\"total_units\":1}\n".to_owned();
    for total in 0..200 {
        writeln!(content, "{{\"sku\":\"shirt\",\"total_units\":{total}}}").unwrap();
    }
    write(&server, "same.jsonl", &content);
    let done = report(&server, &["same.jsonl", "--connections", "64"], 0);
    assert_eq!((&done["created"], &done["updated"]), (&2.into(), &199.into()));
    assert_eq!(server.item("shirt").unwrap().total_units, 199);
}

#[test]
fn a_killed_import_is_gone_on_with() {
    let server = Server::start();
    let mut content = "sku,total_units\n".to_owned();
    for sku in 0..300_000 {
        writeln!(content, "sku-{sku:06},{sku}").unwrap();
    }
    write(&server, "many.csv", &content);
    let state = server.dir().join("many.csv.stockhold-import");
    let running = Running::start(&mut import(&server, &["many.csv", "--connections", "4"]));
    wait_for("the state to move", || {
        let text = std::fs::read_to_string(&state).ok()?;
        let state: Value = serde_json::from_str(&text).ok()?;
        (state["line"].as_u64()? > 100).then_some(())
    });
    running.kill();
    // What an operator has changed meanwhile is not undone: its row was done.
    let at = At { sku: "sku-000000", location: None };
    server.ask(async |client| client.adjust(at, 5, "delivery", None).await).unwrap();
    let done = report(&server, &["many.csv"], 0);
    assert!(done["resumed_after_line"].as_u64().unwrap() > 100, "{done}");
    assert_eq!(done["rows"], 300_000);
    assert!(!state.exists());
    assert_eq!(server.item("sku-000000").unwrap().total_units, 5);
    assert_eq!(server.item("sku-299999").unwrap().total_units, 299_999);
    assert_eq!(text(&export(&server, &["items"]).stdout).lines().count(), 300_000);
}

#[test]
fn reservations_and_events_come_out_too() {
    let server = Server::start();
    write(&server, "items.csv", "sku,total_units\na,10\nb,10\n");
    report(&server, &["items.csv"], 0);
    let terms = Terms { owner_id: "o".to_owned(), ..Terms::default() };
    let want =
        |sku: &str| stockhold_api::wire::RequestedLine { sku: sku.to_owned(), location: None, quantity: 2 };
    server.ask(async |client| client.reserve_basket(&[want("a"), want("b")], &terms, None).await).unwrap();
    sell(&server, "a", 1);
    let csv = |arguments: &[&str]| {
        let output = export(&server, &[arguments, &["--format", "csv"]].concat());
        let mut reader = csv::Reader::from_reader(output.stdout.as_slice());
        let header = reader.headers().unwrap().clone();
        let rows: Vec<_> = reader.records().map(|row| row.unwrap()).collect();
        (header, rows)
    };
    let (header, rows) = csv(&["reservations"]);
    assert_eq!((header.get(0), rows.len()), (Some("reservation_id"), 3), "a row for each line");
    let (_, sold) = csv(&["reservations", "--status", "confirmed"]);
    assert_eq!(sold.len(), 1);
    let (_, rows) = csv(&["events"]);
    assert_eq!(rows.len(), 2 + 2 + 2);
    let lines = text(&export(&server, &["events", "--after", "2"]).stdout);
    let types: Vec<String> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(types, ["reservation.created", "reservation.created", "reservation.confirmed"]);
}

#[test]
fn no_server_is_said_at_once() {
    let mut server = Server::start();
    write(&server, "items.csv", ITEMS);
    server.kill();
    let output = import(&server, &["items.csv", "--patience", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    assert!(text(&output.stderr).contains("stockhold serve"), "{}", said(&output));
    let mut export = stockhold(server.dir());
    let output =
        export.args(["export", "items", "--patience", "1", "--server", &server.url()]).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
}

const SEATS: &str = "unit_id,section,row,number,position,attributes
A-1,stalls,A,1,,\"{\"\"aisle\"\": true}\"
A-2,stalls,A,2,,
A-3,stalls,A,3,x,
,stalls,A,4,,
A-5,stalls,A,5,50,{
A-6,stalls,A,6,60,
";

#[test]
fn seats_go_in_and_a_second_time_change_nothing() {
    let server = Server::start();
    write(&server, "seats.csv", SEATS);
    let seats = ["seats.csv", "--units", "hall", "--location", "hub-7"];
    let dry = report(&server, &[&seats[..], &["--dry-run"]].concat(), 6);
    assert_eq!((&dry["bad"], &dry["added"]), (&3.into(), &0.into()));
    let real = report(&server, &seats, 6);
    let wrong = |n: usize| (real["errors"][n]["line"].clone(), real["errors"][n]["column"].clone());
    assert_eq!((&real["rows"], &real["added"], &real["bad"]), (&6.into(), &3.into(), &3.into()));
    assert_eq!(
        [wrong(0), wrong(1), wrong(2)],
        [(4.into(), "position".into()), (5.into(), "unit_id".into()), (6.into(), "attributes".into())]
    );
    let again = report(&server, &seats, 6);
    assert_eq!((&again["added"], &again["unchanged"]), (&0.into(), &3.into()));

    // One that is there and differs is told, and the others of its request go in.
    let other = "unit_id,section\nB-1,balcony\nA-2,balcony\nB-2,balcony\n";
    write(&server, "other.csv", other);
    let other = report(&server, &["other.csv", "--units", "hall", "--location", "hub-7"], 6);
    assert_eq!((&other["added"], &other["errors"][0]["line"]), (&2.into(), &3.into()));

    // A dry run asks the server, and says what the real one would meet.
    let said_dry =
        |more: &[&str]| import(&server, &[&["other.csv", "--dry-run"], more].concat()).output().unwrap();
    let output = said_dry(&["--units", "hall", "--location", "hub-7"]);
    assert!(text(&output.stderr).contains("has 5 units"), "{}", said(&output));
    let output = said_dry(&["--units", "ghost"]);
    assert!(text(&output.stderr).contains("does not exist and would be created"), "{}", said(&output));
    write(&server, "tins.csv", "sku,total_units\ntins,5\n");
    report(&server, &["tins.csv"], 0);
    let output = said_dry(&["--units", "tins"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(text(&output.stderr).contains("counts its units"), "{}", said(&output));
    let nobody = ["import", "other.csv", "--units", "hall", "--dry-run", "--server", "http://127.0.0.1:1"];
    let output = stockhold(server.dir()).args(nobody).args(["--patience", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));

    for passed_over in [
        ["--existing", "keep"],
        ["--stock", "total"],
        ["--state", "here"],
        ["--connections", "8"],
        ["--column", "sku=Art"],
        ["--from-line", "2"],
        ["--format", "jsonl"],
    ] {
        let output = import(&server, &[&seats[..], &passed_over].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{passed_over:?}: {}", said(&output));
        assert!(text(&output.stderr).contains(passed_over[0]), "{}", said(&output));
    }

    write(&server, "odd.csv", "unit_id,price\nA-1,3\n");
    let output = import(&server, &["odd.csv", "--units", "hall"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(text(&output.stderr).contains("\"price\" is not known"), "{}", said(&output));
}

/// Rows of units are read as those of items are: whole, at their lines, and with as many fields as the header has.
#[test]
fn no_seat_is_swallowed_and_lines_are_those_of_an_editor() {
    let server = Server::start();
    let units = ["seats.csv", "--units", "hall", "--ignore", "note"];
    write(&server, "seats.csv", "unit_id,note\nA-1,\nA-2,\"a quote that stays open\nA-3,\nA-4,\n");
    let output = import(&server, &units).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let why = text(&output.stderr);
    assert!(why.contains("seats.csv: from line 3 on: a quotation mark is not closed"), "{why}");
    assert!(why.contains("Everything before that line is imported"), "{why}");
    assert_eq!(server.item("hall").unwrap().total_units, 1);

    let endless = format!("unit_id,note\nA-1,\"{}", "x".repeat(3 << 20));
    write(&server, "seats.csv", &endless);
    let output = import(&server, &units).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(text(&output.stderr).contains("a row is longer than"), "{}", said(&output));

    for end in ["\n", "\r\n", "\r"] {
        let rows = "unit_id,position,note\nA-1,,\n\n\nB-1,x,\nB-2\nB-3,,,\n\"B\n4\",y,\nB-5,z,\n";
        write(&server, "seats.csv", &rows.replace('\n', end));
        let told = report(&server, &units, 6);
        let errors = told["errors"].as_array().unwrap().iter();
        let wrong = errors.map(|error| (error["line"].as_u64().unwrap(), error["column"].as_str().unwrap()));
        let expected = [(5, "position"), (6, ""), (7, ""), (8, "position"), (10, "position")];
        assert_eq!(wrong.collect::<Vec<_>>(), expected, "{end:?}");
        assert_eq!((&told["rows"], &told["unchanged"]), (&6.into(), &1.into()), "{end:?}");
    }
}

#[test]
fn an_attribute_that_is_given_twice_is_a_bad_row() {
    let server = Server::start();
    write(
        &server,
        "seats.csv",
        "unit_id,attributes\nA-1,\"{\"\"aisle\"\": true, \"\"aisle\"\": false}\"\nA-2,\"{\"\"aisle\"\": true}\"\n",
    );
    let told = report(&server, &["seats.csv", "--units", "hall"], 6);
    let error = &told["errors"][0];
    assert_eq!((&error["line"], &error["column"]), (&2.into(), &"attributes".into()));
    assert!(error["what"].as_str().unwrap().contains("\"aisle\" is given twice"), "{error}");
    assert_eq!(server.item("hall").unwrap().total_units, 1);
}
