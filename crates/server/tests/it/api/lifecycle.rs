//! The process from its start to its end: what it refuses to start on, how it ends, and what it leaves behind.

use super::server::{Server, local};
use super::shape::assert_problem;
use super::wire::{Call, Wire};
use crate::support::{free_port, said, stockhold, text, wait_for};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

fn serve(dir: &Path, data_dir: &Path, listen: &str) -> Output {
    let admin = local(free_port()).to_string();
    let mut command = stockhold(dir);
    command.args(["serve", "--listen", listen, "--admin-listen", &admin, "--data-dir"]).arg(data_dir);
    command.output().unwrap()
}

fn verify(data_dir: &Path, flags: &[&str]) -> Output {
    let dir = TempDir::new().unwrap();
    stockhold(dir.path()).args(["verify", "--data-dir"]).arg(data_dir).args(flags).output().unwrap()
}

#[track_caller]
fn assert_fails(output: &Output, code: i32, words: &[&str]) {
    assert_eq!(output.status.code(), Some(code), "{}", said(output));
    let stderr = text(&output.stderr);
    for word in words {
        assert!(stderr.contains(word), "{word:?} is not said: {}", said(output));
    }
    assert!(!stderr.contains("panicked"), "{}", said(output));
}

#[test]
fn a_second_server_on_the_same_data() {
    let server = Server::start();
    server.stock("tea", 10);
    let dir = TempDir::new().unwrap();
    let free = local(free_port()).to_string();
    // With its addresses as well, which is how a service that is started twice looks: it is not to be tried again.
    for address in [&free, &server.address().to_string()] {
        let second = serve(dir.path(), &server.data_dir(), address);
        assert_fails(&second, 3, &["in use by another stockhold", "data", "--data-dir"]);
    }
    assert_eq!(server.item("tea")["available"], 10);
}

#[test]
fn addresses_that_it_does_not_listen_on() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    for address in ["0.0.0.0:18101", "192.0.2.1:18101", "[::]:18101"] {
        assert_fails(&serve(dir.path(), &data, address), 2, &["listen", address, "loopback"]);
    }
    for address in ["here", "127.0.0.1", "127.0.0.1:99999"] {
        assert_fails(&serve(dir.path(), &data, address), 2, &["--listen", address]);
    }
    assert!(!data.exists(), "a start that was refused made a data directory");

    let taken = std::net::TcpListener::bind(local(0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    assert_fails(&serve(dir.path(), &data, &address), 1, &["listening on", &address]);
    let free = local(free_port()).to_string();
    let admin =
        ["serve", "--listen", &free, "--admin-listen", &address, "--data-dir", data.to_str().unwrap()];
    assert_fails(&stockhold(dir.path()).args(admin).output().unwrap(), 1, &["listening on", &address]);
    assert!(!data.exists(), "a start that found its address taken made a data directory");
}

#[test]
fn a_data_directory_that_cannot_be_made() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = serve(dir.path(), &file.join("data"), &local(free_port()).to_string());
    assert_fails(&output, 1, &["file/data"]);
}

/// Sends reserves until the server no longer takes any; answers with how many were made.
fn buy_until_the_end(mut wire: Wire, made: &AtomicU64) -> u64 {
    let call = Call::post("/v1/inventory/tea/reserve").json(&json!({ "owner_id": "o" }));
    let mut count = 0;
    loop {
        // Nothing that was sent before the server hung up may stay without an answer; what is sent after it was not
        // read by anybody.
        wire.send_what_is_taken(&call.bytes());
        let Some(answer) = wire.next_answer(true) else { return count };
        assert_eq!(answer.status, 200, "{}", answer.text());
        count += 1;
        made.fetch_add(1, Ordering::Relaxed);
        if answer.header("connection") == Some("close") {
            assert!(wire.is_closed());
            return count;
        }
    }
}

#[test]
fn an_end_in_order() {
    const BUYERS: usize = 20;
    let mut server = Server::start();
    server.stock("tea", 1_000_000);
    let made = AtomicU64::new(0);
    let idle = server.connect();
    let answered = thread::scope(|scope| {
        let buyers = (0..BUYERS).map(|_| {
            let wire = server.connect();
            scope.spawn(|| buy_until_the_end(wire, &made))
        });
        let buyers = buyers.collect::<Vec<_>>();
        wait_for("sales to be under way", || (made.load(Ordering::Relaxed) > 200).then_some(()));
        server.terminate();
        buyers.into_iter().map(|buyer| buyer.join().unwrap()).sum::<u64>()
    });
    assert_eq!(server.ended().code(), Some(0));
    drop(idle);

    let verdict = verify(&server.data_dir(), &["--json"]);
    assert_eq!(verdict.status.code(), Some(0), "{}", said(&verdict));
    let verdict: Value = serde_json::from_slice(&verdict.stdout).unwrap();
    assert_eq!((&verdict["adds_up"], &verdict["drift"]), (&json!(true), &json!(0)));
    assert_eq!(verdict["reservations"]["active"], answered, "an answer was lost, or one was given to nobody");
    server.start_again();
    assert_eq!(server.item("tea")["held_units"], answered);
}

#[test]
fn not_ready_while_it_drains() {
    let mut server = Server::start();
    server.stock("tea", 10);
    let mut wire = server.connect();
    let bytes = Call::post("/v1/inventory/tea/reserve").json(&json!({ "owner_id": "o" })).bytes();
    // Half a request holds the drain open for as long as this test needs.
    wire.send(&bytes[..bytes.len() - 1]);
    assert_eq!(server.ask_admin(&Call::get("/readyz")).status, 200);
    server.terminate();
    wait_for("the server to say that it is not ready", || {
        let answer = server.ask_admin(&Call::get("/readyz"));
        (answer.status == 503).then(|| assert!(answer.text().contains("stopping"), "{}", answer.text()))
    });
    assert_eq!(server.ask_admin(&Call::get("/livez")).status, 200);
    wire.send(&bytes[bytes.len() - 1..]);
    let answer = wire.answer();
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    assert!(wire.is_closed());
    assert_eq!(server.ended().code(), Some(0));
}

/// Whether the caller has said that it is the last, or nobody has.
#[test]
fn a_long_answer_is_sent_to_its_end_while_it_drains() {
    let mut server = Server::start();
    let skus: Vec<String> = (0..100).map(|n| format!("tea-{n}")).collect();
    for sku in &skus {
        server.stock(sku, 1_000);
    }
    let lines: Vec<_> = skus.iter().map(|sku| json!({ "sku": sku, "quantity": 1 })).collect();
    let reserve = json!({ "op": "reserve", "owner_id": "o", "lines": lines });
    let many = Call::post("/v1/commands").json(&json!({ "commands": vec![reserve; 250] }));
    for _ in 0..4 {
        assert_eq!(server.ask(&many).status, 200);
    }
    // Longer than the sockets between hold.
    let call = || Call::get("/v1/events?after=100&limit=1000");
    let page = server.ask(&call()).text();
    let calls = [call().header("Connection", "close"), call().header("Upgrade", "none")];
    let mut wires = calls.map(|call| {
        let mut wire = server.connect();
        wire.send(&call.bytes());
        wire
    });
    wait_for("the answers to be written", || {
        (server.metric("stockhold_bytes_in_flight") > 1_000_000).then_some(())
    });
    server.terminate();
    wait_for("the server to stop", || (server.ask_admin(&Call::get("/readyz")).status == 503).then_some(()));
    thread::sleep(Duration::from_secs(1));
    for wire in &mut wires {
        let answer = wire.answer();
        assert!(
            answer.status == 200 && answer.text() == page,
            "{} of {} bytes",
            answer.text().len(),
            page.len()
        );
    }
    assert_eq!(server.ended().code(), Some(0));
}

#[test]
fn verify_on_a_directory() {
    let mut server = Server::start();
    server.stock("tea", 10);
    let reserve = Call::post("/v1/inventory/tea/reserve").json(&json!({ "owner_id": "o" }));
    assert_eq!(server.ask(&reserve).status, 200);
    let running = verify(&server.data_dir(), &[]);
    assert_eq!(running.status.code(), Some(0), "{}", said(&running));
    server.kill();
    let killed = verify(&server.data_dir(), &[]);
    assert_eq!(killed.status.code(), Some(0), "{}", said(&killed));
    assert!(
        text(&killed.stdout).contains("1 active")
            && text(&killed.stdout).contains("everything is consistent")
    );

    let empty = TempDir::new().unwrap();
    assert_fails(&verify(empty.path(), &[]), 1, &[&empty.path().display().to_string()]);
    assert_fails(&verify(&empty.path().join("none"), &["--json"]), 1, &["none"]);
    assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0, "verify wrote something");
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "figures far below 2^52")]
#[expect(clippy::too_many_lines, reason = "one request after the other")]
fn the_admin_listener() {
    let server = Server::start();
    server.stock("s3cret-sku", 10);
    let body = json!({ "owner_id": "o", "quantity": 99 });
    for _ in 0..3 {
        let call = Call::post("/v1/inventory/s3cret-sku/reserve").json(&body);
        assert_eq!(server.ask(&call).status, 409);
    }
    assert_eq!(server.ask(&Call::get("/nowhere")).status, 404);
    let one = Call::post("/v1/inventory/s3cret-sku/reserve").json(&json!({ "owner_id": "o" }));
    assert_eq!(server.ask(&one).status, 200);

    let (text, json) = ("text/plain; charset=utf-8", "application/json");
    for (path, kind, body) in
        [("/livez", text, "ok\n"), ("/startupz", json, "{\"started\":true}"), ("/readyz", text, "ready\n")]
    {
        let answer = server.ask_admin(&Call::get(path));
        assert_eq!((answer.status, &*answer.text()), (200, body), "{path}");
        assert_eq!(answer.header("content-type"), Some(kind));
        assert_eq!(server.ask_admin(&Call::new("HEAD", path)).status, 200);
        let answer = server.ask_admin(&Call::post(path));
        assert_eq!(answer.header("allow"), Some("GET, HEAD"), "{path}");
        assert_problem(&mut server.connect(), &answer, 405, "method_not_allowed");
    }
    for call in [Call::get("/v1/inventory/s3cret-sku"), Call::get("/"), Call::post("/nowhere")] {
        let answer = server.ask_admin(&call);
        assert_problem(&mut server.connect(), &answer, 404, "unknown_route");
    }
    assert_eq!(server.ask_admin(&Call::get("/problems/unknown_route")).status, 200);
    let batch = json!({ "commands": [
        { "op": "reserve", "owner_id": "o", "sku": "s3cret-sku", "quantity": 99 },
        { "op": "reserve", "owner_id": "o", "sku": "s3cret-sku", "idempotency_key": "k" },
        { "op": "reserve", "owner_id": "o", "sku": "s3cret-sku", "idempotency_key": "k" },
        { "op": "reserve" },
    ] });
    assert_eq!(server.ask(&Call::post("/v1/commands").json(&batch)).status, 200);
    // Whoever reads an answer may be quicker than the room that it took is given back.
    wait_for("the room to be given back", || (server.metric("stockhold_bytes_in_flight") == 0).then_some(()));

    let basket = |quantity: u64| {
        let made = server.ask(
            &Call::post("/v1/inventory/s3cret-sku/reserve")
                .json(&json!({ "owner_id": "o", "quantity": quantity })),
        );
        made.json()["reservation_id"].as_str().unwrap().to_owned()
    };
    let (sold, released) = (basket(3), basket(2));
    // A repeated command closes nothing again.
    for _ in 0..2 {
        assert_eq!(server.ask(&Call::post(format!("/v1/reservations/{sold}/confirm"))).status, 200);
        assert_eq!(server.ask(&Call::delete(format!("/v1/reservations/{released}"))).status, 204);
    }
    let short = Call::post("/v1/inventory/s3cret-sku/reserve")
        .json(&json!({ "owner_id": "o", "quantity": 1, "ttl_seconds": 1 }));
    assert_eq!(server.ask(&short).status, 200);
    wait_for("the sweeper", || {
        let scrape = server.ask_admin(&Call::get("/metrics")).text();
        scrape.contains("stockhold_reservations_closed_total{outcome=\"expired\"} 1\n").then_some(())
    });

    let scrape = server.ask_admin(&Call::get("/metrics"));
    assert_eq!(scrape.status, 200);
    let text = scrape.text();
    let lines = [
        "stockhold_requests_total{route=\"reserve\",outcome=\"refused\"} 3",
        "stockhold_requests_total{route=\"reserve\",outcome=\"done\"} 4",
        "stockhold_requests_total{route=\"none\",outcome=\"refused\"} 1",
        "stockhold_requests_total{route=\"set_stock\",outcome=\"done\"} 1",
        "stockhold_active_holds 2",
        "stockhold_commands_total{command=\"reserve\",outcome=\"insufficient_inventory\"} 4",
        "stockhold_commands_total{command=\"reserve\",outcome=\"done\"} 5",
        "stockhold_commands_total{command=\"reserve\",outcome=\"replayed\"} 1",
        "stockhold_reservations_closed_total{outcome=\"confirmed\"} 1",
        "stockhold_reservations_closed_total{outcome=\"cancelled\"} 1",
        "stockhold_units_closed_total{outcome=\"confirmed\"} 3",
        "stockhold_units_closed_total{outcome=\"cancelled\"} 2",
        "stockhold_units_closed_total{outcome=\"expired\"} 1",
        "stockhold_batch_commands_sum 4",
        "stockhold_invariant_alarms_total 0",
        "stockhold_event_streams 0",
        "stockhold_bytes_in_flight 0",
        "stockhold_slow_consumers_total 0",
        "stockhold_sweeper_lag_seconds 0",
        "stockhold_queue_depth 0",
        "stockhold_request_seconds_count{route=\"reserve\"} 7",
        "# TYPE stockhold_requests_total counter",
        "# TYPE stockhold_commit_seconds histogram",
        "# TYPE stockhold_batch_answers histogram",
    ];
    for line in lines {
        assert!(text.lines().any(|found| found == line), "{line} is not there:\n{text}");
    }
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let name = line.split(' ').next().unwrap();
        assert!(text.contains(&format!("# HELP {name} ")), "nobody says what {name} is");
    }
    let value = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    };
    let kib = server.resident_kib() as f64;
    let resident = value("process_resident_memory_bytes") / 1024.0;
    assert!(resident > kib / 4.0 && resident < kib * 4.0, "{resident} KiB, and {kib} KiB");
    assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
    // Listeners, the log and the index, at least.
    assert!(value("process_open_fds") > 5.0 && value("process_open_fds") < value("process_max_fds"));
    assert!(value("process_cpu_seconds_total") > 0.0);
    let now = jiff::Timestamp::now().as_millisecond() as f64 / 1e3;
    let started = value("process_start_time_seconds");
    assert!(started > 1_600_000_000.0 && started <= now, "{started}");
    assert!(!text.contains("s3cret"), "a SKU is in the metrics:\n{text}");
}
