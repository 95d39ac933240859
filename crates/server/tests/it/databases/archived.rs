//! `stockhold archive`, beside a server that goes on.

use super::Database;
use super::used::verify;
use crate::grpc::block_on;
use crate::grpc::caller::Caller;
use crate::replay;
use crate::support::{Running, Server, free_port, said, stockhold, text, wait_for};
use serde_json::Value;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use stockhold_api::client::Client;
use stockhold_api::{EventType, encode};
use stockhold_cli::EventFiles;
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{Envelope, Outcome, Reply};
use stockhold_store::{Answer, EventArchive, Failure, Inbox, Job, ReplyTo, Request, Store};

fn archive(server: &Server, url: &str, arguments: &[&str], code: i32) -> Value {
    let mut command = stockhold(server.dir());
    command.args(["archive", "--json"]);
    if !arguments.contains(&"--to") {
        command.args(["--to", "archive"]);
    }
    command.arg("--older-than").args(arguments);
    let output = command.env("STOCKHOLD_STORE", url).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| Value::String(text(&output.stderr)))
}

/// The events of the files in a directory, as the API shows them. Every position is in one file.
fn lines(dir: &Path) -> Vec<Value> {
    let mut files = EventFiles::open(dir).unwrap();
    let mut lines = Vec::new();
    for file in files.files().unwrap() {
        files
            .read(file, &mut |row| {
                let mut line = Vec::new();
                if EventType::of(&row.event).is_some() {
                    encode::event(&mut line, &row);
                    lines.push(serde_json::from_slice(&line).unwrap());
                }
                Ok(())
            })
            .unwrap();
    }
    lines
}

/// Recounts from the first event ever on.
fn verify_all(server: &Server, url: &str, events: u64) {
    let mut command = stockhold(server.dir());
    command.args(["verify", "--json", "--archive", "archive"]);
    let output = command.env("STOCKHOLD_STORE", url).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["events"], events, "{report}");
}

fn get(server: &Server, path: &str) -> (u16, Value) {
    let client = Client::new(&server.url()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let raw = runtime.block_on(client.send_raw("GET", path, b"")).unwrap();
    (raw.status, serde_json::from_slice(&raw.body).unwrap_or_default())
}

/// Commands that are sent together.
const AT_ONCE: usize = 250;

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

fn run(store: &dyn Store, commands: Vec<Envelope>) -> Vec<Outcome> {
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

/// Sales of two days ago: so many reservations, of which every fourth was released. Returns the number of events.
fn old_sales(url: &str, clock: &str, count: usize) -> u64 {
    let options = stockhold_sql::Options {
        clock: Some(clock.to_owned()),
        sweep_every: None,
        ..stockhold_sql::Options::default()
    };
    let store = stockhold_sql::open(url, options).unwrap();
    let mut maker = Maker::new(1, "old-");
    let item = maker.item("shirt");
    run(&*store, vec![maker.wrap(maker::set_stock(&item, 1_000_000))]);
    for first in (0..count).step_by(AT_ONCE) {
        let numbers = first..count.min(first + AT_ONCE);
        let reserve = |n: usize| maker.keyed(&n.to_string(), maker::reserve_for(60, &[(&item, 2)]));
        let reserves: Vec<Envelope> = numbers.clone().map(reserve).collect();
        let ends = numbers.zip(run(&*store, reserves)).map(|(n, outcome)| match outcome {
            Outcome::Done(Reply::Reservation(hold)) if n % 4 == 3 => maker.wrap(maker::release(hold.id)),
            Outcome::Done(Reply::Reservation(hold)) => maker.wrap(maker::confirm(hold.id)),
            other => panic!("{other:?}"),
        });
        let ends: Vec<Envelope> = ends.collect();
        run(&*store, ends);
    }
    1 + 2 * count as u64
}

pub(super) fn what_is_old_leaves_by_command_and_readers_are_told<D: Database>(database: &mut D) {
    let url = database.url();
    let events = old_sales(&url, D::TWO_DAYS_AGO, 4);
    let grpc = format!("127.0.0.1:{}", free_port());
    let server = Server::over_with(&url, &[("STOCKHOLD_GRPC_LISTEN", &grpc)]);
    assert_eq!(verify(&server, &url)["events"], events);
    let (_, shown) = get(&server, "/v1/events");
    // What happens today stays.
    replay::report(&replay::sample(&server).output().unwrap());
    let all = verify(&server, &url)["events"].as_u64().unwrap();

    let told = archive(&server, &url, &["23h"], 2);
    assert!(told.as_str().unwrap().contains("24 h"), "{told}");
    let told = archive(&server, &url, &["90d"], 0);
    assert_eq!((&told["events"], &told["files"]), (&0.into(), &0.into()), "{told}");

    let written = archive(&server, &url, &["24h"], 0);
    assert_eq!((&written["through"], &written["dropped_events"]), (&events.into(), &0.into()));
    assert_eq!(verify(&server, &url)["events"], all);
    verify_all(&server, &url, all);
    let left = archive(&server, &url, &["24h", "--drop"], 0);
    let facts = (&left["events"], &left["dropped_events"], &left["reservations"], &left["files"]);
    assert_eq!(facts, (&0.into(), &events.into(), &4.into(), &1.into()), "{left}");
    assert_eq!(
        lines(&server.dir().join("archive")),
        *shown["data"].as_array().unwrap(),
        "as the API shows it"
    );
    let after = verify(&server, &url);
    assert_eq!((&after["events"], &after["archived_through"]), (&(all - events).into(), &events.into()));
    verify_all(&server, &url, all);

    // Another directory does not have the newest file.
    let elsewhere = archive(&server, &url, &["24h", "--drop", "--to", "elsewhere"], 1);
    let named = format!("the file that ends at position {events}");
    assert!(elsewhere.as_str().unwrap().contains(&named), "{elsewhere}");
    archive(&server, &url, &["24h", "--drop", "--to", "elsewhere", "--new-directory"], 0);
    replay::check_books(&server);
    assert_eq!(server.item("old-shirt").unwrap().confirmed_sold, 6, "what is sold stays sold");

    for path in ["/v1/events", "/v1/events?after=1", "/v1/events/stream?after=1"] {
        let (status, problem) = get(&server, path);
        assert_eq!((status, &problem["reason"]), (400, &"position_out_of_range".into()), "{path}: {problem}");
        assert_eq!(problem["archived_through"], events, "{problem}");
    }
    let after = serde_json::json!({ "after": 1 });
    let refused = block_on(async { Caller::new(&grpc).watch("WatchEvents", after).await.unwrap_err() });
    assert_eq!(refused.code(), tonic::Code::OutOfRange, "{refused:?}");
    let (status, page) = get(&server, &format!("/v1/events?after={events}&limit=1"));
    assert_eq!((status, &page["data"][0]["position"]), (200, &(events + 1).into()), "{page}");
    let gone = shown["data"][1]["reservation_id"].as_str().unwrap();
    assert_eq!(get(&server, &format!("/v1/reservations/{gone}")).0, 404);

    // What has left can't be taken over, and that is a refusal and no failure.
    let other = D::start();
    let mut command = stockhold(server.dir());
    let copy =
        command.args(["copy", "--store", &url]).env("STOCKHOLD_COPY_TO", other.url()).output().unwrap();
    assert_eq!(copy.status.code(), Some(1), "{}", said(&copy));
    let told = text(&copy.stderr);
    assert!(
        told.starts_with(&format!("stockhold: events up to position {events} have been archived")),
        "{told}"
    );
}

/// The command is killed later each time, while a server goes on.
pub(super) fn an_archive_that_is_killed_anywhere_loses_nothing<D: Database>(database: &mut D) {
    let url = database.url();
    // More than leave in one transaction.
    let events = old_sales(&url, D::TWO_DAYS_AGO, 2_500);
    let server = Server::over(&url);
    let mut seen = std::collections::BTreeSet::new();
    for round in 1..60 {
        let mut command = stockhold(server.dir());
        command.args(["archive", "--to", "archive", "--older-than", "24h", "--drop"]);
        let running = Running::start(command.env("STOCKHOLD_STORE", &url));
        // Later each time, also where a start takes seconds.
        std::thread::sleep(Duration::from_millis(round * round * 10));
        running.kill();
        let archived = verify(&server, &url)["archived_through"].as_u64().unwrap();
        seen.insert(archived);
        if archived > 0 {
            verify_all(&server, &url, events);
        }
        if archived == events {
            break;
        }
        // The lease of the killed one ends by itself after 10 s, and here at once.
        database.end_archive_lease();
    }
    assert!(seen.len() > 1, "{seen:?}");
    // This one waits for the lease if the last one was killed with it.
    archive(&server, &url, &["24h", "--drop"], 0);
    verify_all(&server, &url, events);
    let mut files = EventFiles::open(&server.dir().join("archive")).unwrap();
    assert_eq!(files.files().unwrap().last().map(|(_, last)| *last), Some(events));
}

/// Servers archive by themselves, each to a directory of its own: only one of them has the newest file.
pub(super) fn old_events_leave_by_themselves_at_one_of_the_servers<D: Database>(database: &mut D) {
    let url = database.url();
    let events = old_sales(&url, D::TWO_DAYS_AGO, 10);
    let dirs = tempfile::tempdir().unwrap();
    let start = |name: &str| {
        let dir = dirs.path().join(name).display().to_string();
        Server::over_with(
            &url,
            &[
                ("STOCKHOLD_ARCHIVE__DIR", dir.as_str()),
                ("STOCKHOLD_ARCHIVE__RETENTION_DAYS", "1"),
                // A system that nobody has: the sink gets nothing.
                ("STOCKHOLD_SINKS__LEDGER__KIND", "nats"),
                ("STOCKHOLD_SINKS__LEDGER__URL", "nats://127.0.0.1:9"),
                ("STOCKHOLD_SINKS__LEDGER__START", "beginning"),
            ],
        )
    };
    let one = start("one");
    let held_back = "stockhold_archive_held_back{consumer=\"the sink ledger\"} 1";
    wait_for("the metric", || one.metrics().contains(held_back).then_some(()));
    assert_eq!(verify(&one, &url)["archived_through"].as_u64().unwrap_or(0), 0);
    // The record of the sink tells the command, which has another configuration.
    let one_dir = dirs.path().join("one").display().to_string();
    wait_for("the record of the sink", || {
        let (_, sinks) = get(&one, "/v1/sinks");
        (sinks["data"][0]["state"] == "retrying").then_some(())
    });
    let told = archive(&one, &url, &["24h", "--drop", "--to", &one_dir], 0);
    assert_eq!(
        (&told["held_back_by"], &told["dropped_events"]),
        (&"the sink ledger".into(), &0.into()),
        "{told}"
    );
    let ask = |server: &Server, dir: &str| {
        let body = serde_json::json!({ "older_than_hours": 24, "drop": true, "ignore_sinks": ["ledger"], "to": dir });
        let client = Client::new(&server.url()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let raw =
            runtime.block_on(client.send_raw("POST", "/v1/archive", body.to_string().as_bytes())).unwrap();
        (raw.status, serde_json::from_slice::<Value>(&raw.body).unwrap())
    };
    let (status, report) = ask(&one, &one_dir);
    assert_eq!((status, &report["dropped_through"]), (200, &events.into()), "{report}");
    assert_eq!(lines(&dirs.path().join("one")).len() as u64, events);

    let two = start("two");
    wait_for("the refusal", || two.log().contains("the archive has no files").then_some(()));
    assert!(two.metrics().contains("stockhold_archive_failures_total 1"), "{}", two.log());
    let (status, problem) = ask(&two, &dirs.path().join("two").display().to_string());
    assert_eq!(problem["reason"], "archive_failed", "{status} {problem}");
    assert!(problem["detail"].as_str().unwrap().contains("name the directory"), "{problem}");
}
