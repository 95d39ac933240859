//! `stockhold archive`, beside a server that goes on.

use super::Database;
use super::used::verify;
use crate::grpc::block_on;
use crate::grpc::caller::Caller;
use crate::replay;
use crate::support::{Server, free_port, said, stockhold, text};
use serde_json::Value;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use stockhold_api::client::Client;
use stockhold_domain::{Envelope, Outcome, Reply, ReservationId};
use stockhold_store::conformance::{Maker, maker};
use stockhold_store::{Answer, Failure, Inbox, Job, ReplyTo, Request, Store};

fn archive(server: &Server, url: &str, arguments: &[&str], code: i32) -> Value {
    let mut command = stockhold(server.dir());
    command.args(["archive", "--to", "archive", "--json", "--older-than"]).args(arguments);
    let output = command.env("STOCKHOLD_STORE", url).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| Value::String(text(&output.stderr)))
}

fn lines(dir: &Path, name: &str) -> Vec<Value> {
    let found = std::fs::read_to_string(dir.join("archive").join(name)).unwrap();
    found.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn get(server: &Server, path: &str) -> (u16, Value) {
    let client = Client::new(&server.url()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let raw = runtime.block_on(client.send_raw("GET", path, b"")).unwrap();
    (raw.status, serde_json::from_slice(&raw.body).unwrap_or_default())
}

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

fn run(store: &dyn Store, envelope: Envelope) -> Option<ReservationId> {
    let desk = Arc::new(Desk::default());
    let reply = ReplyTo { inbox: Arc::clone(&desk) as Arc<dyn Inbox>, ticket: 0 };
    store.submit(Job { request: Request::Command(Box::new(envelope)), reply });
    store.flush();
    let answered = desk.1.wait_while(desk.0.lock().unwrap(), |answer| answer.is_none()).unwrap().take();
    match answered {
        Some(Ok(Answer::Outcome(Outcome::Done(Reply::Reservation(hold))))) => Some(hold.id),
        Some(Ok(Answer::Outcome(Outcome::Done(_)))) => None,
        other => panic!("{other:?}"),
    }
}

/// Three sales and a hold that was released, as of two days ago.
fn old_sales(url: &str, clock: &str) {
    let options = stockhold_sql::Options {
        clock: Some(clock.to_owned()),
        sweep_every: None,
        ..stockhold_sql::Options::default()
    };
    let store = stockhold_sql::open(url, options).unwrap();
    let mut maker = Maker::new(1, "old-");
    let item = maker.item("shirt");
    run(&*store, maker.wrap(maker::set_stock(&item, 100)));
    for n in 0..4 {
        let reserve = maker.keyed(&n.to_string(), maker::reserve_for(60, &[(&item, 2)]));
        let id = run(&*store, reserve).unwrap();
        let end = if n == 3 { maker::release(id) } else { maker::confirm(id) };
        run(&*store, maker.wrap(end));
    }
}

pub(super) fn what_is_old_leaves_by_command_and_readers_are_told<D: Database>(database: &mut D) {
    let url = database.url();
    old_sales(&url, D::TWO_DAYS_AGO);
    let grpc = format!("127.0.0.1:{}", free_port());
    let server = Server::over_with(&url, &[("STOCKHOLD_GRPC_LISTEN", &grpc)]);
    let events = verify(&server, &url)["events"].as_u64().unwrap();
    assert_eq!(events, 9);
    let (_, shown) = get(&server, "/v1/events");
    // What happens today stays.
    replay::report(&replay::sample(&server).output().unwrap());
    let all = verify(&server, &url)["events"].as_u64().unwrap();

    let told = archive(&server, &url, &["23h"], 2);
    assert!(told.as_str().unwrap().contains("24 h"), "{told}");
    let told = archive(&server, &url, &["90d"], 0);
    let files = std::fs::read_dir(server.dir().join("archive")).unwrap().count();
    assert_eq!((&told["events"], files), (&0.into(), 0), "{told}");

    let written = archive(&server, &url, &["24h"], 0);
    assert_eq!((&written["through"], &written["dropped"]), (&events.into(), &false.into()));
    assert_eq!(verify(&server, &url)["events"], all);
    let left = archive(&server, &url, &["24h", "--drop"], 0);
    assert_eq!(
        (&left["events"], &left["reservations"], &left["dropped"]),
        (&9.into(), &4.into(), &true.into())
    );
    // The first archive's files are as they were: nothing is ever written over.
    for number in ["", ".2"] {
        let archived = lines(server.dir(), &format!("events-{:020}{number}.jsonl", 1));
        assert_eq!(archived, *shown["data"].as_array().unwrap(), "as the API shows it");
    }
    let sold = lines(server.dir(), &format!("reservations-{:020}.2.jsonl", 1));
    assert_eq!(sold.len(), 4);
    let after = verify(&server, &url);
    assert_eq!((&after["events"], &after["archived_through"]), (&(all - events).into(), &events.into()));
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
    let gone = sold[0]["reservation_id"].as_str().unwrap();
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
