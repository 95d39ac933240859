//! Records are private to the service: no reader of events sees their changes except those of API keys, which callers with the
//! scope `keys:admin` see, and everybody goes on behind them.

use crate::support::Server;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use stockhold_api::client::{At, Client};
use stockhold_api::wire::Stock;
use stockhold_conformance::Maker;
use stockhold_domain::{Command, Outcome, RecordChange, RecordKind, RecordValue, Reply, SetRecord};
use stockhold_embedded::{EmbeddedStore, Options};
use stockhold_store::{Answer, Failure, Inbox, Job, ReplyTo, Request, Store};

/// More than a server reads at a time.
const SILENT: u64 = 150;

struct Answers(Mutex<Sender<Result<Answer, Failure>>>);

impl Inbox for Answers {
    fn put(&self, _: u64, answer: Result<Answer, Failure>) {
        self.0.lock().unwrap().send(answer).unwrap();
    }

    fn flush(&self) {}
}

/// Changes a record as the service itself does, while no server runs: `SILENT` times, and three more that are about a key.
fn change_records(data: &Path) {
    let store = EmbeddedStore::open(data, Options::default()).unwrap();
    let mut maker = Maker::new(1, "");
    let key = maker.record(RecordKind::ApiKey, "key-of-a-shop");
    let mut changes = vec![RecordChange::Silent; usize::try_from(SILENT).unwrap()];
    changes.extend([RecordChange::KeyCreated, RecordChange::KeyRolled, RecordChange::KeyRevoked]);
    for (change, expected_version) in changes.into_iter().zip(0..) {
        let value = (change != RecordChange::KeyRevoked).then(|| RecordValue::new(b"a secret").unwrap());
        let set = SetRecord { key: key.clone(), expected_version, value, change };
        let (sender, answers) = channel();
        let inbox = Arc::new(Answers(Mutex::new(sender)));
        let request = Request::Command(Box::new(maker.wrap(Command::SetRecord(set))));
        store.submit(Job { request, reply: ReplyTo { inbox, ticket: 0 } });
        store.flush();
        let answer = answers.recv().unwrap();
        assert!(matches!(&answer, Ok(Answer::Outcome(Outcome::Done(Reply::Record(_))))), "{answer:?}");
    }
}

#[test]
fn events_of_records_are_not_shown_except_those_of_keys_and_their_positions_are_passed_by() {
    let mut server = Server::start();
    let data = server.dir().join("data");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stock = |total| {
        let client = Client::new(&server.url()).unwrap();
        let stock = Stock { total_units: Some(total), ..Stock::default() };
        runtime.block_on(async move {
            client.put_stock(At { sku: "shirt", location: None }, &stock, None).await.unwrap();
        });
    };
    stock(1);
    server.kill();
    change_records(&data);
    server.restart();
    let client = Client::new(&server.url()).unwrap();
    let newest = 1 + SILENT + 3;
    runtime.block_on(async {
        let page = client.events(0, Some(100), &[]).await.unwrap();
        let kinds: Vec<&str> = page.data.iter().map(|event| event.kind.as_str()).collect();
        // A caller of a server without credentials has every scope.
        let of_keys = ["access.key_created", "access.key_rolled", "access.key_revoked"];
        assert_eq!(
            (&kinds[..], page.has_more),
            (&["stock.set", of_keys[0], of_keys[1], of_keys[2]][..], false)
        );
        assert!(page.data[1..].iter().all(|event| event.key_id.as_deref() == Some("key-of-a-shop")));
        assert_eq!(page.next_cursor, Some(newest.to_string()), "the page ends behind the records");
        let rest = client.events(1 + SILENT + 3, Some(100), &[]).await.unwrap();
        assert_eq!((rest.data.len(), rest.has_more, rest.next_cursor), (0, false, Some(newest.to_string())));
        let mut stream = client.follow(1, &[]).await.unwrap();
        let at = At { sku: "shirt", location: None };
        let stock = Stock { total_units: Some(2), ..Stock::default() };
        client.put_stock(at, &stock, None).await.unwrap();
        for (kind, place) in of_keys.into_iter().chain(["stock.set"]).zip(0..) {
            let event = stream.next().await.unwrap().unwrap();
            assert_eq!((event.event.as_str(), event.id), (kind, (1 + SILENT + 1 + place).to_string()));
            assert!(!event.data.contains("a secret"));
        }
        let page = client.events(0, Some(2), &[]).await.unwrap();
        let positions: Vec<u64> = page.data.iter().map(|event| event.position).collect();
        assert_eq!(positions, [1, 1 + SILENT + 1]);
        assert!(!format!("{:?}", page.data).contains("a secret"));
    });
}
