//! From one store to another: what an export of items has, an import takes, and a copy takes all, whatever the stores are.

use super::used::verify;
use super::{Database, Mariadb, PASSWORD, Postgres};
use crate::support::{Server, said, stockhold, text};
use crate::{customers, replay};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use stockhold_api::client::At;
use stockhold_api::wire::Terms;

const ITEMS: &str = "sku,location,total_units,safety_stock,default_ttl_seconds,max_hold_seconds,metadata
shirt,,10,1,60,120,\"{\"\"colour\"\": \"\"red\"\"}\"
\"a, b\",hub-7,20,,,,
abc,,5,,,,
ABC,,6,,,,
größe ☃,hub-7,0,,,,
";

fn run(server: &Server, arguments: &[&str]) {
    let output = stockhold(server.dir()).args(arguments).args(["--server", &server.url()]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", said(&output));
}

/// Every item as it is exported: what of it can still be sold, and how.
fn exported(server: &Server, file: &str) -> Vec<Value> {
    run(server, &["export", "items", "--out", file]);
    let lines = std::fs::read_to_string(server.dir().join(file)).unwrap();
    let of_the_place = [
        "confirmed_sold",
        "total_units",
        "on_hand",
        "unfulfilled_units",
        "sequence",
        "version",
        "created_at",
        "updated_at",
    ];
    let item = |line: &str| {
        let mut item: Value = serde_json::from_str(line).unwrap();
        let fields = item.as_object_mut().unwrap();
        let unsold = fields["total_units"].as_u64().unwrap() - fields["confirmed_sold"].as_u64().unwrap();
        fields.retain(|name, _| !of_the_place.contains(&name.as_str()));
        fields.insert("unsold".to_owned(), unsold.into());
        item
    };
    lines.lines().map(item).collect()
}

#[test]
fn from_the_embedded_store_to_postgresql_and_on_to_mariadb() {
    let (postgres, mariadb) = (Postgres::start(), Mariadb::start());
    let servers = [Server::start(), Server::over(&postgres.url()), Server::over(&mariadb.url())];
    std::fs::write(servers[0].dir().join("items.csv"), ITEMS).unwrap();
    run(&servers[0], &["import", "items.csv"]);
    let terms = Terms { owner_id: "o".to_owned(), ..Terms::default() };
    servers[0].ask(async |client| {
        let at = At { sku: "shirt", location: None };
        let hold = client.reserve(at, 3, &terms, None).await.unwrap();
        client.confirm(hold.reservation_id, None, None).await.unwrap();
    });
    let first = exported(&servers[0], "out.jsonl");
    assert_eq!(first.len(), 5);
    for pair in servers.windows(2) {
        let file = pair[0].dir().join("out.jsonl");
        run(&pair[1], &["import", file.to_str().unwrap(), "--stock", "unsold"]);
        assert_eq!(exported(&pair[1], "out.jsonl"), first);
    }
    let shirt = servers[2].item("shirt").unwrap();
    assert_eq!((shirt.available, shirt.safety_stock), (6, 1), "seven are left, and one is kept back");
}

/// Everything that a server shows: items, reservations and events, each line of them. Reservations that were made within one
/// millisecond are listed in the order of the log by one store, and of their ids by another.
fn everything(server: &Server) -> [Vec<String>; 3] {
    ["items", "reservations", "events"].map(|what| {
        run(server, &["export", what, "--out", "all.jsonl"]);
        let lines = std::fs::read_to_string(server.dir().join("all.jsonl")).unwrap();
        let mut lines: Vec<String> = lines.lines().map(str::to_owned).collect();
        if what == "reservations" {
            lines.sort_unstable();
        }
        lines
    })
}

/// Runs a copy that has to end with this code: what it said.
fn copy(arguments: &[&str], to: &str, code: i32) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut command = stockhold(dir.path());
    let output = command.arg("copy").args(arguments).env("STOCKHOLD_COPY_TO", to).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", said(&output));
    let told = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(!told.contains(PASSWORD), "{told}");
    told
}

#[test]
fn a_copy_carries_everything_over_from_the_embedded_store_to_postgresql_and_on_to_mariadb() {
    let (postgres, mariadb) = (Postgres::start(), Mariadb::start());
    let dir = tempfile::tempdir().unwrap();
    let keys = [(customers::VARIABLE, customers::FIRST_KEY)];
    let mut first = Server::with_variables(dir.path(), "data", &keys);
    customers::store_one(&first);
    replay::report(&replay::sample(&first).output().unwrap());
    let terms = Terms { owner_id: "cart".to_owned(), ttl_seconds: Some(1_700), ..Terms::default() };
    let at = At { sku: "LAMP-1", location: None };
    let held = first.ask(async |client| {
        client.set_sale(Some("hub-7"), true).await.unwrap();
        client.set_item_sale(At { sku: "CUP-5", location: None }, true).await.unwrap();
        client.reserve(at, 2, &terms, Some("kept")).await.unwrap()
    });
    let shown = everything(&first);
    let data = first.dir().join("data");
    let data = data.to_str().unwrap();

    let told = copy(&["--data-dir", data], &postgres.url(), 3);
    assert!(told.contains("in use"), "{told}");
    first.kill();
    let told = copy(&["--data-dir", data], &postgres.url(), 0);
    assert!(told.contains("everything is consistent"), "{told}");
    let told = copy(&["--data-dir", data], &postgres.url(), 1);
    assert!(told.contains("name an empty one"), "{told}");
    copy(&["--store", &postgres.url()], &mariadb.url(), 0);

    for url in [postgres.url(), mariadb.url()] {
        let server = Server::over_with(&url, &keys);
        customers::expect_it(&server);
        assert_eq!(everything(&server), shown);
        verify(&server, &url);
        // What a key stands for is known there as well, and the hold goes on.
        server.ask(async |client| {
            let again = client.reserve(at, 2, &terms, Some("kept")).await.unwrap();
            assert_eq!(again.reservation_id, held.reservation_id);
            client.confirm(held.reservation_id, None, None).await.unwrap();
            assert!(
                client.reserve(At { sku: "CUP-5", location: None }, 1, &terms, None).await.is_err(),
                "it is paused"
            );
        });
        verify(&server, &url);
    }
    for (from, to, why) in [
        (postgres.url(), postgres.url(), "this is the store itself"),
        (postgres.url(), "embedded".to_owned(), "must be a database"),
        (postgres.url(), "oracle://db".to_owned(), "mysql://"),
    ] {
        let told = copy(&["--store", &from], &to, 2);
        assert!(told.contains(why), "{told}");
    }
}

/// Killed while it has written events and is held up at the keys, a copy leaves what nobody takes for a store.
#[test]
fn what_a_copy_left_that_was_killed_is_refused_by_everybody() {
    let mut postgres = Postgres::start();
    let mut first = Server::start();
    replay::report(&replay::sample(&first).output().unwrap());
    first.kill();
    let (data, url) = (first.dir().join("data"), postgres.url());
    let run = |arguments: &[&str]| {
        let mut command = stockhold(first.dir());
        command.args(arguments).env("STOCKHOLD_STORE", &url).output().unwrap()
    };
    assert_eq!(run(&["migrate"]).status.code(), Some(0));
    postgres.sql(
        "CREATE FUNCTION public.hold_up() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$;
         CREATE TRIGGER held_up BEFORE INSERT ON stockhold.keys FOR EACH ROW EXECUTE FUNCTION public.hold_up()",
    );
    let mut command = stockhold(first.dir());
    command.args(["copy", "--data-dir", data.to_str().unwrap()]).env("STOCKHOLD_COPY_TO", &url);
    let mut copy = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    postgres.session().wait_for("SELECT count(*) > 0 FROM stockhold.events");
    copy.kill().unwrap();
    copy.wait().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    for arguments in [serve.as_slice(), &["verify"], &["migrate"]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains("empty it and copy again"), "{}", said(&output));
    }
    let told = copy_from(&data, &url, 3);
    assert!(told.contains("empty it and copy again"), "{told}");
    postgres.sql("DROP SCHEMA stockhold CASCADE");
    let told = copy_from(&data, &url, 0);
    assert!(told.contains("everything is consistent"), "{told}");
}

fn copy_from(data: &Path, to: &str, code: i32) -> String {
    copy(&["--data-dir", data.to_str().unwrap()], to, code)
}
