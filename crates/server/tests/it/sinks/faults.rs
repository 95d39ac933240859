//! What happens on the way to a system: under load, connections are cut in the middle of a batch and before its confirmation, are slow,
//! and are down. Every event arrives, those of one subject in their order.

use super::brokers::{Nats, bind, block_on, stream_messages, take_all};
use super::clickhouse::{self, ClickHouse};
use super::kafka::{TOPICS, Tansu};
use super::proxy::{Direction, Proxy};
use super::rabbitmq::RabbitMq;
use super::{check, feed, sell, stock, wait_until_delivered};
use crate::ctl::done;
use crate::support::{Server, free_port, wait_for};
use serde_json::Value;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes of requests after which a connection is cut: within the first event of a batch, and within a later one.
const REQUEST_BYTES: [u64; 3] = [600, 9_000, 50_000];
/// Bytes of answers after which a connection is cut.
const ANSWER_BYTES: [u64; 2] = [20, 300];
/// How long the system is slow, and down.
const FAULT: Duration = Duration::from_millis(2_500);
/// Pause before each 4 KiB while it is slow.
const PAUSE: Duration = Duration::from_millis(40);
/// Pause of the load, so that there are not more events than are needed.
const LOAD_PAUSE: Duration = Duration::from_millis(20);
const SINK: &str = "faulty";

/// A server whose sink of this kind sends through a proxy.
fn server(dir: &tempfile::TempDir, kind: &str, url: &str) -> Server {
    let variables = [
        ("STOCKHOLD_SINKS__FAULTY__KIND", kind),
        ("STOCKHOLD_SINKS__FAULTY__START", "beginning"),
        ("STOCKHOLD_SINKS__FAULTY__URL", url),
    ];
    Server::with_variables(dir.path(), "data", &variables)
}

/// Sells while all faults happen, and waits until everything is delivered.
fn sell_over_faults(server: &Server, proxy: &Proxy) {
    stock(server, "tee", 1_000_000);
    stock(server, "mug", 1_000_000);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for sku in ["tee", "mug"] {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    sell(server, sku, 10);
                    std::thread::sleep(LOAD_PAUSE);
                }
            });
        }
        let faults = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for (direction, all) in
                [(Direction::Requests, &REQUEST_BYTES[..]), (Direction::Answers, &ANSWER_BYTES)]
            {
                for bytes in all {
                    let before = proxy.cuts();
                    proxy.cut_after(*bytes, direction);
                    wait_for("a cut", || (proxy.cuts() > before).then_some(()));
                }
            }
            proxy.slow_down(PAUSE);
            std::thread::sleep(FAULT);
            proxy.slow_down(Duration::ZERO);
            proxy.set_down(true);
            std::thread::sleep(FAULT);
            proxy.set_down(false);
        }));
        stop.store(true, Ordering::SeqCst);
        if let Err(panic) = faults {
            std::panic::resume_unwind(panic);
        }
    });
    wait_until_delivered(server, SINK);
}

#[test]
fn rabbitmq_gets_every_event_over_faults() {
    let (dir, rabbitmq) = (tempfile::tempdir().unwrap(), RabbitMq::start());
    let proxy = Proxy::to(rabbitmq.port());
    let server = server(&dir, "rabbitmq", &format!("amqp://guest:guest@127.0.0.1:{}/%2f", proxy.port));
    done(&server, &["sinks", "init", SINK]);
    block_on(bind(&rabbitmq.url(), "#"));
    sell_over_faults(&server, &proxy);
    check(&block_on(take_all(&rabbitmq.url())), &feed(&server));
}

/// The client of `RabbitMQ` has a thread for each connection.
#[test]
fn rabbitmq_that_says_nothing_costs_no_threads() {
    let (dir, silent) = (tempfile::tempdir().unwrap(), TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let port = silent.local_addr().unwrap().port();
    // The connections stay open.
    std::thread::spawn(move || silent.incoming().flatten().collect::<Vec<_>>());
    let mut all = super::variables("plain", "rabbitmq", &format!("amqp://localhost:{port}"));
    all.extend(super::variables("secure", "rabbitmq", &format!("amqps://localhost:{port}")));
    let server = super::server_with(dir.path(), &all);
    stock(&server, "tee", 1);
    for name in ["plain", "secure"] {
        wait_for("three attempts", || {
            (super::sink(&server, name)["last_error"]["attempts"].as_u64()? >= 3).then_some(())
        });
    }
    let threads = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", server.id())).unwrap();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
        names.filter(|name| name.starts_with("lapin")).count()
    };
    wait_for("the threads of earlier attempts to end", || (threads() <= 2).then_some(()));
}

#[test]
fn nats_gets_every_event_once_over_faults() {
    let (dir, nats) = (tempfile::tempdir().unwrap(), Nats::start());
    let proxy = Proxy::to(nats.port());
    let server = server(&dir, "nats", &format!("nats://127.0.0.1:{}", proxy.port));
    done(&server, &["sinks", "init", SINK]);
    sell_over_faults(&server, &proxy);
    let all = block_on(stream_messages(&nats.url()));
    check(&all, &feed(&server));
    let mut ids: Vec<_> = all.iter().map(|event| event["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert!(ids.is_sorted_by(|one, other| one != other), "an event is in the stream twice");
}

#[test]
fn kafka_gets_every_event_over_faults() {
    let (dir, port) = (tempfile::tempdir().unwrap(), free_port());
    let proxy = Proxy::to(port);
    // Clients connect to the address that the broker tells them.
    let kafka = Tansu::advertised(port, proxy.port);
    let server = server(&dir, "kafka", &format!("kafka://127.0.0.1:{}", proxy.port));
    done(&server, &["sinks", "init", SINK]);
    sell_over_faults(&server, &proxy);
    let partitions = TOPICS.iter().flat_map(|topic| kafka.records(topic));
    let all: Vec<Value> = partitions.flatten().map(|(_, event)| event).collect();
    check(&all, &feed(&server));
}

#[test]
fn clickhouse_gets_every_event_over_faults() {
    let (dir, clickhouse) = (tempfile::tempdir().unwrap(), ClickHouse::start());
    let proxy = Proxy::to(clickhouse.port());
    let server = server(&dir, "clickhouse", &clickhouse::url(proxy.port));
    done(&server, &["sinks", "init", SINK]);
    sell_over_faults(&server, &proxy);
    check(&clickhouse::events(&clickhouse), &feed(&server));
}
