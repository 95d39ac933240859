//! Events as they come: in order, from where a reader left off, without loss or repeat, whatever the reader and the server do.

use super::server::Server;
use super::shape::assert_problem;
use super::wire::{Call, Wire};
use crate::support::wait_for;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

/// Streams that a server keeps open.
const STREAMS: usize = 256;

/// A reader of a stream.
pub(crate) struct Reader {
    lines: BufReader<TcpStream>,
    /// What of the current chunk is still to come.
    chunk: usize,
    /// The last id, whether or not an event came with it.
    last: u64,
}

impl Reader {
    #[track_caller]
    fn open(server: &Server, call: &Call) -> Self {
        Self::over(server.connect(), call)
    }

    /// Opens a stream and reads up to its first block, which says where it begins.
    #[track_caller]
    pub(crate) fn over(mut wire: Wire, call: &Call) -> Self {
        wire.send(&call.bytes());
        let mut reader = Self { lines: BufReader::new(wire.into_stream()), chunk: 0, last: 0 };
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.lines.read_line(&mut head).unwrap() > 0, "no head: {head}");
        }
        let head = head.to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 200 "), "{head}");
        for line in [
            "content-type: text/event-stream\r\n",
            "cache-control: no-store, no-transform\r\n",
            "x-accel-buffering: no\r\n",
            "x-request-id: ",
        ] {
            assert!(head.contains(line), "{line:?} is not in {head}");
        }
        let block = reader.block().expect("a first block");
        assert!(block.iter().any(|line| line.starts_with("retry: ")), "{block:?}");
        reader
    }

    fn after(server: &Server, position: u64) -> Self {
        Self::open(server, &Call::get(format!("/v1/events/stream?after={position}")))
    }

    /// A line without its end; `None` at the end of the stream, in order or not.
    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        loop {
            if self.chunk == 0 {
                let mut length = String::new();
                self.lines.read_line(&mut length).ok()?;
                self.chunk = usize::from_str_radix(length.trim(), 16).ok()?;
                if self.chunk == 0 {
                    return None;
                }
            }
            let read = self.lines.by_ref().take(self.chunk as u64).read_until(b'\n', &mut line).ok()?;
            self.chunk -= read;
            if self.chunk == 0 {
                let mut end = [0; 2];
                self.lines.read_exact(&mut end).ok()?;
            }
            if line.ends_with(b"\n") {
                line.pop();
                return Some(String::from_utf8(line).unwrap());
            }
        }
    }

    /// The lines up to an empty one, the ids among them noted.
    fn block(&mut self) -> Option<Vec<String>> {
        let mut block = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Some(block);
            }
            if let Some(id) = line.strip_prefix("id: ") {
                self.last = id.parse().unwrap();
            }
            block.push(line);
        }
    }

    /// The next event; comments are passed over.
    pub(crate) fn event(&mut self) -> Option<Value> {
        loop {
            let block = self.block()?;
            let field = |name: &str| block.iter().find_map(|line| line.strip_prefix(name));
            let Some(data) = field("data: ") else { continue };
            let event: Value = serde_json::from_str(data).unwrap();
            assert_eq!(event["position"], self.last);
            assert_eq!(field("event: "), event["type"].as_str());
            super::contract::check_event(&event);
            return Some(event);
        }
    }
}

/// Whoever has seen a position that there is not has seen another history, as after a restore: it is told so, and does not
/// wait there for an event that is another one.
#[test]
fn a_position_beyond_the_newest_event_is_refused() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 10);
    reserve(wire, 1);
    let stream = || Call::get("/v1/events/stream");
    for call in [
        Call::get("/v1/events?after=3"),
        Call::get("/v1/events?after=18446744073709551615"),
        stream().query("after=3"),
        stream().header("Last-Event-ID", "3"),
        stream().query("after=0").header("Last-Event-ID", "18446744073709551615"),
    ] {
        let answer = server.ask(&call);
        let own = assert_problem(wire, &answer, 400, "position_out_of_range");
        assert_eq!(own["newest_position"], 2);
        let detail = answer.json()["detail"].to_string();
        assert!(detail.contains("is at position 2") && detail.contains("continue with after=2"), "{detail}");
    }
    // The newest itself is where most readers are.
    assert_eq!(server.ask(&Call::get("/v1/events?after=2")).json()["data"], json!([]));
    let mut reader = Reader::open(&server, &stream().header("Last-Event-ID", "2"));
    reserve(wire, 2);
    assert_eq!(reader.event().unwrap()["position"], 3);
}

fn reserve(wire: &mut Wire, n: usize) {
    let body = json!({ "owner_id": format!("o-{n}") });
    assert_eq!(wire.ask(&Call::post("/v1/inventory/tea/reserve").json(&body)).status, 200);
}

fn all_events(wire: &mut Wire) -> Vec<Value> {
    let (mut all, mut page) = (Vec::new(), json!({ "next_cursor": "0" }));
    while page["has_more"] != json!(false) {
        let after = page["next_cursor"].as_str().unwrap();
        page = wire.ask(&Call::get(format!("/v1/events?after={after}&limit=1000"))).json();
        all.extend(page["data"].as_array().unwrap().iter().cloned());
    }
    all
}

#[test]
fn where_a_stream_begins() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 100);
    for n in 0..5 {
        reserve(wire, n);
    }
    let all = all_events(wire);
    assert_eq!(all.len(), 6);
    let mut from_the_first = Reader::after(&server, 0);
    for event in &all {
        assert_eq!(from_the_first.event().as_ref(), Some(event));
    }
    let mut resumed = Reader::open(&server, &Call::get("/v1/events/stream").header("Last-Event-ID", "4"));
    assert_eq!(resumed.event().as_ref(), Some(&all[4]));
    // A reader that comes back names the query that it began with, too.
    let both = Call::get("/v1/events/stream?after=1").header("Last-Event-ID", "5");
    assert_eq!(Reader::open(&server, &both).event().as_ref(), Some(&all[5]));

    let mut from_now =
        Reader::open(&server, &Call::get("/v1/events/stream").header("Accept", "text/event-stream"));
    assert_eq!(from_now.last, 6);
    let mut at_the_end = Reader::after(&server, 6);
    for n in 5..8 {
        reserve(wire, n);
    }
    for reader in [&mut from_the_first, &mut from_now] {
        for position in 7..10 {
            assert_eq!(reader.event().unwrap()["position"], position);
        }
    }
    assert_eq!(at_the_end.event().unwrap()["position"], 7);
    let head = wire.ask(&Call::new("HEAD", "/v1/events/stream"));
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!(wire.ask(&Call::get("/v1/inventory/tea")).status, 200);
}

#[test]
fn resumed_again_and_again_under_load() {
    const BUYERS: usize = 4;
    const EACH: usize = 400;
    let server = Server::start();
    server.stock("tea", 1_000_000);
    let seen = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen: Vec<Value> = Vec::new();
            let mut breaks = 0;
            loop {
                let after = seen.last().map_or(0, |event| event["position"].as_u64().unwrap());
                let mut reader = Reader::open(
                    &server,
                    &Call::get("/v1/events/stream").header("Last-Event-ID", after.to_string()),
                );
                // It hangs up in the middle of whatever comes.
                for _ in 0..=breaks * 37 % 101 {
                    let last = seen.last().map_or(0, |event| event["position"].as_u64().unwrap());
                    if last == (1 + BUYERS * EACH) as u64 {
                        return (seen, breaks);
                    }
                    seen.push(reader.event().unwrap());
                }
                breaks += 1;
            }
        });
        let buyers = (0..BUYERS).map(|buyer| {
            let server = &server;
            scope.spawn(move || {
                let mut wire = server.connect();
                (0..EACH).for_each(|n| reserve(&mut wire, buyer * EACH + n));
            })
        });
        buyers.collect::<Vec<_>>().into_iter().for_each(|buyer| buyer.join().unwrap());
        reader.join().unwrap()
    });
    let (seen, breaks) = seen;
    assert!(breaks > 5, "it was not resumed");
    assert_eq!(seen, all_events(&mut server.connect()));
}

#[test]
fn a_stream_over_a_crash() {
    let mut server = Server::start();
    server.stock("tea", 100);
    let mut reader = Reader::after(&server, 0);
    for n in 0..3 {
        reserve(&mut server.connect(), n);
    }
    for position in 1..=4 {
        assert_eq!(reader.event().unwrap()["position"], position);
    }
    server.kill();
    assert_eq!(reader.event(), None);
    server.start_again();
    let mut again = Reader::after(&server, reader.last);
    reserve(&mut server.connect(), 9);
    let event = again.event().unwrap();
    assert_eq!((&event["position"], &event["owner_id"]), (&json!(5), &json!("o-9")));
}

#[test]
fn streams_end_with_the_server() {
    let mut server = Server::start();
    server.stock("tea", 100);
    let mut readers = (0..20).map(|_| Reader::after(&server, 0)).collect::<Vec<_>>();
    for reader in &mut readers {
        assert_eq!(reader.event().unwrap()["position"], 1);
    }
    server.terminate();
    for reader in &mut readers {
        assert_eq!(reader.event(), None);
    }
    assert_eq!(server.ended().code(), Some(0));
}

#[test]
fn there_are_only_so_many_streams() {
    let server = Server::start();
    server.stock("tea", 100);
    let mut readers = (0..STREAMS).map(|_| Reader::after(&server, 0)).collect::<Vec<_>>();
    let wire = &mut server.connect();
    let refused = wire.ask(&Call::get("/v1/events/stream"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_problem(wire, &refused, 503, "overloaded");
    let gauge = || server.metric("stockhold_event_streams");
    assert_eq!(gauge(), 256);
    // All of them follow.
    reserve(wire, 1);
    for reader in &mut readers {
        assert_eq!(reader.event().unwrap()["position"], 1);
        assert_eq!(reader.event().unwrap()["position"], 2);
    }
    drop(readers.split_off(STREAMS / 2));
    wait_for("the streams to be given up", || (gauge() <= 128).then_some(()));
    assert_eq!(Reader::after(&server, 1).event().unwrap()["position"], 2);
    drop(readers);
    wait_for("the streams to be given up", || (gauge() == 0).then_some(()));
}

#[test]
fn a_reader_that_does_not_read_is_cut_off_and_costs_nobody() {
    const BATCHES: usize = 12;
    const EACH: usize = 1_000;
    let server = Server::start();
    server.stock("tea", 1_000_000);
    let deaf = Reader::after(&server, 0);
    let before = server.resident_kib();
    let wire = &mut server.connect();
    // Far more than the sockets between hold.
    let note = "x".repeat(2_000);
    for _ in 0..BATCHES {
        let command = json!({ "op": "reserve", "owner_id": "o", "sku": "tea", "metadata": { "note": note } });
        let answer = wire.ask(&Call::post("/v1/commands").json(&json!({ "commands": vec![command; EACH] })));
        assert_eq!(answer.status, 200);
    }
    let mut good = Reader::after(&server, 0);
    for position in 1..=BATCHES * EACH + 1 {
        assert_eq!(good.event().unwrap()["position"], position);
    }
    wait_for("the reader to be cut off", || (server.metric("stockhold_event_streams") == 1).then_some(()));
    assert_eq!(server.metric("stockhold_slow_consumers_total"), 1);
    // What is held anyway: 12,000 active holds with their metadata. What is not held: another copy for who does not read.
    let grown = server.resident_kib().saturating_sub(before);
    assert!(grown < 300 * 1024, "{grown} KiB more than before");
    let mut resumed = Reader::after(&server, deaf.last);
    assert_eq!(resumed.event().unwrap()["position"], deaf.last + 1);
}

/// Events of other types are not sent. A block without data says how far they were passed, so that a reader that comes
/// back does not begin before them.
#[test]
fn a_stream_of_some_types() {
    let server = Server::start();
    server.stock("tea", 100);
    let call = Call::get("/v1/events/stream?after=0&type=sale.paused,reservation.confirmed");
    let mut reader = Reader::open(&server, &call);
    reader.lines.get_ref().set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let wire = &mut server.connect();
    for n in 0..100 {
        reserve(wire, n);
    }
    assert_eq!(wire.ask(&Call::post("/v1/sale/pause").json(&json!({}))).status, 200);
    assert_eq!(reader.event().unwrap()["position"], 102);
    assert_eq!(wire.ask(&Call::post("/v1/sale/resume").json(&json!({}))).status, 200);
    assert_eq!(reader.block().unwrap(), ["id: 103"]);
    assert_eq!(wire.ask(&Call::post("/v1/sale/pause").json(&json!({}))).status, 200);
    assert_eq!(reader.event().unwrap()["position"], 104);
}

#[test]
fn a_quiet_stream_is_kept_alive() {
    let server = Server::start();
    let mut reader = Reader::after(&server, 0);
    reader.lines.get_ref().set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    assert_eq!(reader.block().unwrap(), [":"]);
    server.stock("tea", 1);
    assert_eq!(reader.event().unwrap()["type"], "stock.set");
}
