//! The archive of an embedded store: by a server that goes on, by itself, and cut off anywhere.

use crate::support::{Server, said, stockhold, text, wait_for};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use stockhold_api::client::{At, Client};
use stockhold_api::wire::Terms;
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{Envelope, HoldLimits, Instant, Outcome, Reply};
use stockhold_embedded::{EmbeddedStore, Options};
use stockhold_store::clock::{Clock, ManualClock, WallClock};
use stockhold_store::{Answer, Failure, Inbox, Job, ReplyTo, Request, Store};

const DAY: i64 = 86_400_000_000;

/// Takes one answer.
#[derive(Default)]
struct Desk(Mutex<Option<Result<Answer, Failure>>>, Condvar);

impl Inbox for Desk {
    fn put(&self, _: u64, answer: Result<Answer, Failure>) {
        *self.0.lock().unwrap() = Some(answer);
    }

    fn flush(&self) {
        self.1.notify_all();
    }
}

fn run(store: &EmbeddedStore, commands: Vec<Envelope>) -> Vec<Outcome> {
    let desk = Arc::new(Desk::default());
    let reply = ReplyTo { inbox: Arc::clone(&desk) as Arc<dyn Inbox>, ticket: 0 };
    store.submit(Job { request: Request::Commands(commands), reply });
    store.flush();
    let answered = desk.1.wait_while(desk.0.lock().unwrap(), |answer| answer.is_none()).unwrap().take();
    match answered {
        Some(Ok(Answer::Outcomes(outcomes))) => outcomes.into_iter().map(Result::unwrap).collect(),
        other => panic!("{other:?}"),
    }
}

/// Sales of twenty days ago: so many reservations, three of four of which were confirmed, and one that is still held. Returns the number
/// of events.
fn old_sales(dir: &Path, count: usize) -> u64 {
    let now = WallClock.now().micros();
    let clock = Arc::new(ManualClock::new(Instant::from_micros(now - 20 * DAY)));
    let rules = HoldLimits { max_hold: maker::seconds(2_592_000), ..HoldLimits::default() };
    let options = Options { sweeps: false, min_free_bytes: 0, clock, rules, ..Options::default() };
    let store = EmbeddedStore::open(dir, options).unwrap();
    let mut maker = Maker::new(1, "old-");
    let item = maker.item("shirt");
    run(&store, vec![maker.wrap(maker::set_stock(&item, 10_000_000))]);
    let mut done = 0;
    while done < count {
        let reserves: Vec<_> = (0..500.min(count - done))
            .map(|n| maker.keyed(&format!("key-{}", done + n), maker::reserve_for(60, &[(&item, 1)])))
            .collect();
        done += reserves.len();
        let ends: Vec<_> = run(&store, reserves)
            .into_iter()
            .enumerate()
            .map(|(n, outcome)| {
                let Outcome::Done(Reply::Reservation(hold)) = outcome else { panic!("{outcome:?}") };
                maker.wrap(if n % 4 == 0 { maker::release(hold.id) } else { maker::confirm(hold.id) })
            })
            .collect();
        run(&store, ends);
    }
    let held = run(&store, vec![maker.wrap(maker::reserve_for(2_592_000, &[(&item, 7)]))]);
    assert!(matches!(held[..], [Outcome::Done(_)]), "{held:?}");
    store.newest()
}

fn get(server: &Server, path: &str) -> (u16, Value) {
    let client = Client::new(&server.url()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let raw = runtime.block_on(client.send_raw("GET", path, b"")).unwrap();
    (raw.status, serde_json::from_slice(&raw.body).unwrap_or_default())
}

fn command(dir: &Path, arguments: &[&str], code: i32) -> Value {
    let output = stockhold(dir).args(arguments).args(["--data-dir", "data", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| Value::String(text(&output.stderr)))
}

/// Recounts, with the archive and without it.
fn verify(dir: &Path, archived: u64) {
    let alone = command(dir, &["verify"], 0);
    assert_eq!(alone["archived_through"].as_u64().unwrap_or(0), archived, "{alone}");
    command(dir, &["verify", "--archive", "archive"], 0);
}

#[test]
fn a_server_that_goes_on_archives_by_command() {
    let made = tempfile::tempdir().unwrap();
    let events = old_sales(&made.path().join("data"), 50);
    let dir = made.path().join("archive").display().to_string();
    let server = Server::with_variables(made.path(), "data", &[("STOCKHOLD_ARCHIVE__DIR", dir.as_str())]);
    let at = At { sku: "old-shirt", location: None };
    let terms = Terms { owner_id: "cart-1".to_owned(), ..Terms::default() };
    let new = server.ask(async |client| client.reserve(at, 2, &terms, Some("k")).await.unwrap());
    let before = server.item("old-shirt").unwrap();

    let archive = ["archive", "--to", "archive", "--older-than"];
    let run =
        |arguments: &[&str], code| command(server.dir(), &[archive.as_slice(), arguments].concat(), code);
    let refused = run(&["23h"], 2);
    assert!(refused.as_str().unwrap().contains("24 h"), "{refused}");
    assert!(!made.path().join("archive").exists(), "a refused archive has made its directory");
    let nothing = run(&["90d", "--drop"], 0);
    assert_eq!((&nothing["events"], &nothing["dropped_events"]), (&json!(0), &json!(0)), "{nothing}");
    let written = run(&["10d"], 0);
    assert_eq!((&written["through"], &written["dropped_events"]), (&json!(events), &json!(0)), "{written}");
    verify(server.dir(), 0);
    let left = run(&["10d", "--drop"], 0);
    let facts = (&left["dropped_through"], &left["dropped_events"], &left["reservations"], &left["files"]);
    assert_eq!(facts, (&json!(events), &json!(events), &json!(50), &json!(1)), "{left}");
    verify(server.dir(), events);

    assert_eq!(
        server.item("old-shirt").unwrap(),
        before,
        "what is sold stays sold, and what is held stays held"
    );
    let (status, problem) = get(&server, "/v1/events?after=3");
    assert_eq!((status, &problem["archived_through"]), (400, &json!(events)), "{problem}");
    let (status, page) = get(&server, &format!("/v1/events?after={events}&limit=1"));
    assert_eq!((status, &page["data"][0]["position"]), (200, &json!(events + 1)), "{page}");
    let again = server.ask(async |client| client.reserve(at, 2, &terms, Some("k")).await.unwrap());
    assert_eq!(again.reservation_id, new.reservation_id);
    let (_, kept) = get(&server, "/v1/reservations");
    assert_eq!(
        kept["data"].as_array().unwrap().len(),
        2,
        "the new one, and the old one that is held: {kept}"
    );

    // One process writes to an archive at a time, and an archive is not begun in the data directory.
    let refused = command(server.dir(), &["archive", "--to", "data", "--older-than", "10d"], 2);
    assert!(refused.as_str().unwrap().contains("data directory"), "{refused}");
}

/// What `POST /v1/archive` answers, without what differs between any two answers.
fn archive_to(server: &Server, to: &Path, hours: u64) -> (u16, String) {
    let body = json!({ "older_than_hours": hours, "to": to }).to_string();
    let raw =
        server.ask(async |client| client.send_raw("POST", "/v1/archive", body.as_bytes()).await.unwrap());
    let answer: Value = serde_json::from_slice(&raw.body).unwrap();
    (raw.status, answer["detail"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_server_archives_to_the_directory_of_its_configuration_only() {
    let made = tempfile::tempdir().unwrap();
    let root = made.path();
    old_sales(&root.join("data"), 10);
    let (archive, elsewhere) = (root.join("archive"), root.join("elsewhere"));
    std::fs::create_dir(&elsewhere).unwrap();
    let dir = archive.display().to_string();
    let server = Server::with_variables(root, "data", &[("STOCKHOLD_ARCHIVE__DIR", dir.as_str())]);
    // A refused age makes nothing, neither there nor below.
    assert_eq!(archive_to(&server, &archive.join("below"), 1).0, 400);
    assert!(!archive.exists());
    std::fs::create_dir(&archive).unwrap();
    std::os::unix::fs::symlink(&elsewhere, archive.join("link")).unwrap();
    let refusals: Vec<_> = [
        elsewhere.clone(),
        elsewhere.join("new"),
        archive.join("link"),
        archive.join("link/new"),
        archive.join("new/../../elsewhere"),
        root.join("archive-2"),
        root.join("data"),
        Path::new("archive").to_owned(),
        Path::new("/proc/self/fd/new").to_owned(),
    ]
    .iter()
    .map(|to| archive_to(&server, to, 240))
    .collect();
    assert!(refusals.iter().all(|refusal| refusal.0 == 403 && *refusal == refusals[0]), "{refusals:?}");
    assert!(refusals[0].1.contains("archive.dir"), "{refusals:?}");
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    assert_eq!(archive_to(&server, &archive.join("below"), 240).0, 200);
    assert!(archive.join("below/archive.lock").exists());
    drop(server);

    // Without the setting, a request can't name any directory, and the command says what is missing.
    let server = Server::on(root, "data");
    assert_eq!(archive_to(&server, &archive.join("below"), 240), refusals[0]);
    let told = command(root, &["archive", "--to", "elsewhere", "--older-than", "10d"], 2);
    assert!(told.as_str().unwrap().contains("`[archive]`"), "{told}");
    drop(server);
    let told = command(root, &["archive", "--to", "data/archive", "--older-than", "10d"], 2);
    assert!(told.as_str().unwrap().contains("data directory"), "{told}");
    let told = command(root, &["archive", "--to", "new", "--older-than", "1h"], 2);
    assert!(told.as_str().unwrap().contains("24 h"), "{told}");
    assert!(!root.join("new").exists());
}

#[test]
fn old_events_leave_by_themselves_and_a_kill_in_an_archive_loses_nothing() {
    let made = tempfile::tempdir().unwrap();
    let dir = made.path();
    let events = old_sales(&dir.join("data"), 3_000);
    let archive = dir.join("archive").display().to_string();
    let variables =
        [("STOCKHOLD_ARCHIVE__DIR", archive.as_str()), ("STOCKHOLD_ARCHIVE__RETENTION_DAYS", "10")];
    let mut server = Server::with_variables(dir, "data", &variables);
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..40 {
        // It archives from its start on, and is killed later each time, also where a start takes seconds.
        std::thread::sleep(Duration::from_millis(round * round * 10));
        server.kill();
        let archived = command(dir, &["verify"], 0)["archived_through"].as_u64().unwrap_or(0);
        seen.insert(archived);
        if archived > 0 {
            verify(dir, archived);
        }
        if archived == events {
            break;
        }
        server.restart();
    }
    assert!(seen.len() > 1, "{seen:?}");
    server.restart();
    wait_for("the archive", || {
        server.metrics().contains(&format!("stockhold_archive_position {events}\n")).then_some(())
    });
    verify(dir, events);
    let begun = server.log().matches("what is older than the retention is archived").count();
    wait_for("the log to say so", || {
        (server.log().matches("what is older than the retention is archived").count() >= begun.max(1))
            .then_some(())
    });
    assert_eq!(server.terminate().code(), Some(0));
    verify(dir, events);
}

#[test]
fn a_sink_that_is_behind_keeps_what_it_has_not_got_and_is_named() {
    let made = tempfile::tempdir().unwrap();
    let dir = made.path();
    let events = old_sales(&dir.join("data"), 10);
    let archive = dir.join("archive").display().to_string();
    let variables = [
        ("STOCKHOLD_ARCHIVE__DIR", archive.as_str()),
        ("STOCKHOLD_ARCHIVE__RETENTION_DAYS", "10"),
        // A system that nobody has: the sink gets nothing.
        ("STOCKHOLD_SINKS__LEDGER__KIND", "nats"),
        ("STOCKHOLD_SINKS__LEDGER__URL", "nats://127.0.0.1:9"),
        ("STOCKHOLD_SINKS__LEDGER__START", "beginning"),
    ];
    let server = Server::with_variables(dir, "data", &variables);
    let held_back = "stockhold_archive_held_back{consumer=\"the sink ledger\"} 1";
    wait_for("the metric", || server.metrics().contains(held_back).then_some(()));
    wait_for("the log to say so", || server.log().contains("a consumer has not got them").then_some(()));
    let at_first = command(dir, &["verify"], 0);
    assert_eq!(at_first["archived_through"].as_u64().unwrap_or(0), 0, "{at_first}");
    let left = command(
        dir,
        &["archive", "--to", "archive", "--older-than", "10d", "--drop", "--ignore-sink", "ledger"],
        0,
    );
    assert_eq!(left["dropped_through"], events, "{left}");
    let refused = command(dir, &["archive", "--to", "elsewhere", "--older-than", "10d"], 2);
    assert!(refused.as_str().unwrap().contains("archive.dir"), "{refused}");
}
