//! The sinks `rabbitmq` and `nats`.

use super::rabbitmq::RabbitMq;
use super::{check, feed, sell, sink, stock, wait_for_state, wait_until_delivered};
use crate::ctl::done;
use crate::support::{Server, free_port, wait_for};
use lapin::options::{BasicGetOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn channel(url: &str) -> (Connection, Channel) {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    (connection, channel)
}

/// Makes a queue and binds it to the exchange.
pub(super) async fn bind(url: &str, routing_key: &str) {
    let (_connection, channel) = channel(url).await;
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare("all".into(), durable, FieldTable::default()).await.unwrap();
    let options = QueueBindOptions::default();
    channel
        .queue_bind("all".into(), "stockhold".into(), routing_key.into(), options, FieldTable::default())
        .await
        .unwrap();
}

/// Takes all messages out of the queue. Their ids are the events' ids.
pub(super) async fn take_all(url: &str) -> Vec<Value> {
    let (_connection, channel) = channel(url).await;
    let mut all = Vec::new();
    let options = BasicGetOptions { no_ack: true };
    while let Some(message) = channel.basic_get("all".into(), options).await.unwrap() {
        let event: Value = serde_json::from_slice(&message.delivery.data).unwrap();
        let id = message.delivery.properties.message_id().as_ref().unwrap().as_str().to_owned();
        assert_eq!(event["id"], id);
        assert_eq!(event["type"], message.delivery.routing_key.as_str());
        all.push(event);
    }
    all
}

/// Has a sink skip the event that it refuses. Returns the sink once it refuses another one.
fn next_refusal(server: &Server, refused: &Value, skip: &[&str]) -> Value {
    done(server, skip);
    wait_for("another refusal", || {
        let next = sink(server, "orders");
        let error = &next["last_error"];
        (error.is_object() && error["event_id"] != refused["last_error"]["event_id"]).then_some(next)
    })
}

#[test]
fn rabbitmq_gets_every_event_over_a_restart_and_an_unroutable_one_blocks() {
    let (dir, rabbitmq) = (tempfile::tempdir().unwrap(), RabbitMq::start());
    let url = rabbitmq.url();
    let variables = [
        ("STOCKHOLD_SINKS__ORDERS__KIND", "rabbitmq"),
        ("STOCKHOLD_SINKS__ORDERS__START", "beginning"),
        ("STOCKHOLD_SINKS__ORDERS__URL", url.as_str()),
    ];
    let server = Server::with_variables(dir.path(), "data", &variables);
    stock(&server, "tee", 1_000);
    // No queue takes the event.
    let blocked = wait_for_state(&server, "orders", "blocked");
    let position = blocked["last_error"]["position"].as_u64().unwrap();
    assert!(
        blocked["last_error"]["message"].as_str().unwrap().contains("no queue takes the event"),
        "{blocked}"
    );
    block_on(bind(&url, "stockhold.reservation.*"));
    block_on(bind(&url, "stockhold.sink.*"));
    // Neither the event of the stock nor what is derived from it finds a queue, and both have the same position.
    let skip = ["sinks", "skip", "orders", "--position", &position.to_string()];
    let derived = next_refusal(&server, &blocked, &skip);
    assert_eq!(derived["last_error"]["position"], position);
    sell(&server, "tee", 20);
    let other = next_refusal(&server, &derived, &skip);
    // What is behind a refused event is not sent again with each attempt.
    wait_for("attempts", || {
        let error = &sink(&server, "orders")["last_error"];
        (error["event_id"] != other["last_error"]["event_id"] || error["attempts"].as_u64()? >= 4)
            .then_some(())
    });
    block_on(bind(&url, "#"));
    wait_until_delivered(&server, "orders");

    rabbitmq.stop();
    sell(&server, "tee", 20);
    wait_for_state(&server, "orders", "retrying");
    rabbitmq.spawn();
    wait_until_delivered(&server, "orders");
    let (mut feed, all) = (feed(&server), block_on(take_all(&url)));
    let skip = all.iter().find(|event| event["type"] == "stockhold.sink.event_skipped").unwrap();
    assert_eq!(
        (&skip["data"]["sink"], &skip["data"]["skipped_position"]),
        (&"orders".into(), &position.into())
    );
    feed.retain(|_, other| *other != position);
    check(&all, &feed);
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for event in &all {
        *times.entry(event["id"].as_str().unwrap()).or_default() += 1;
    }
    assert!(times.values().all(|times| *times <= 3), "{times:?}");
}

#[test]
fn rabbitmq_needs_the_right_to_publish_and_takes_an_exchange_of_any_kind() {
    let (dir, rabbitmq) = (tempfile::tempdir().unwrap(), RabbitMq::start());
    rabbitmq.add_publisher("publisher", "pass", "^stockhold$");
    rabbitmq.add_publisher("nobody", "pass", "^$");
    let of = |user: &str| rabbitmq.url().replace("guest:guest", &format!("{user}:pass"));
    let (publisher, nobody) = (of("publisher"), of("nobody"));
    let variables = [
        ("STOCKHOLD_SINKS__ORDERS__KIND", "rabbitmq"),
        ("STOCKHOLD_SINKS__ORDERS__START", "beginning"),
        ("STOCKHOLD_SINKS__ORDERS__URL", publisher.as_str()),
        ("STOCKHOLD_SINKS__OTHER__KIND", "rabbitmq"),
        ("STOCKHOLD_SINKS__OTHER__START", "beginning"),
        ("STOCKHOLD_SINKS__OTHER__URL", nobody.as_str()),
    ];
    let server = Server::with_variables(dir.path(), "data", &variables);
    stock(&server, "tee", 100);
    // The exchange does not exist, and the user may not make it.
    let blocked = wait_for_state(&server, "orders", "blocked");
    let error = &blocked["last_error"];
    assert!(error["message"].as_str().unwrap().contains("ACCESS_REFUSED"), "{blocked}");
    assert!(error["action"].as_str().unwrap().contains("make the exchange stockhold"), "{blocked}");
    let url = rabbitmq.url();
    block_on(async {
        let (_connection, channel) = channel(&url).await;
        let mut arguments = FieldTable::default();
        arguments.insert("alternate-exchange".into(), AMQPValue::LongString("unrouted".into()));
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        channel.exchange_declare("stockhold".into(), ExchangeKind::Fanout, durable, arguments).await.unwrap();
    });
    block_on(bind(&url, ""));
    wait_until_delivered(&server, "orders");
    check(&block_on(take_all(&url)), &feed(&server));
    let blocked = wait_for_state(&server, "other", "blocked");
    let message = blocked["last_error"]["message"].as_str().unwrap();
    assert!(message.contains("access to exchange 'stockhold'"), "{blocked}");
    assert!(!server.log().contains("pass@"), "{}", server.log());
}

/// A NATS server with `JetStream`, killed when dropped.
pub(super) struct Nats {
    child: Child,
    port: u16,
    dir: tempfile::TempDir,
    arguments: Vec<String>,
}

impl Nats {
    pub(super) fn start() -> Self {
        Self::start_with(&[])
    }

    /// One with further arguments.
    pub(super) fn start_with(arguments: &[&str]) -> Self {
        let (port, dir) = (free_port(), tempfile::tempdir().unwrap());
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let nats = Self { child: spawn_nats(port, dir.path(), &arguments), port, dir, arguments };
        nats.wait_until_it_listens();
        nats
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn restart(&mut self) {
        self.child = spawn_nats(self.port, self.dir.path(), &self.arguments);
        self.wait_until_it_listens();
    }

    fn wait_until_it_listens(&self) {
        wait_for("NATS", || TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok());
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where scripts/servers puts the program.
fn nats_program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/servers/nats/bin/nats-server")
}

fn spawn_nats(port: u16, dir: &Path, arguments: &[String]) -> Child {
    Command::new(nats_program())
        .args(["--addr", "127.0.0.1", "--port", &port.to_string(), "--jetstream", "--store_dir"])
        .arg(dir)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nats-server does not start: scripts/servers installs it")
}

/// All messages of the stream, from its beginning.
pub(super) async fn stream_messages(url: &str) -> Vec<Value> {
    messages_of(async_nats::connect(url).await.unwrap()).await
}

/// The same by a client that is connected.
pub(super) async fn messages_of(client: async_nats::Client) -> Vec<Value> {
    let mut stream = async_nats::jetstream::new(client).get_stream("STOCKHOLD").await.unwrap();
    let state = stream.info().await.unwrap().state.clone();
    let mut all = Vec::new();
    for sequence in state.first_sequence..=state.last_sequence {
        let message = stream.get_raw_message(sequence).await.unwrap();
        let event: Value = serde_json::from_slice(&message.payload).unwrap();
        assert_eq!(event["type"], message.subject.as_str());
        all.push(event);
    }
    all
}

#[test]
fn nats_gets_every_event_once_over_a_kill() {
    let (dir, mut nats) = (tempfile::tempdir().unwrap(), Nats::start());
    let url = nats.url();
    let variables = [
        ("STOCKHOLD_SINKS__BUS__KIND", "nats"),
        ("STOCKHOLD_SINKS__BUS__START", "beginning"),
        ("STOCKHOLD_SINKS__BUS__URL", url.as_str()),
    ];
    let server = Server::with_variables(dir.path(), "data", &variables);
    stock(&server, "tee", 1_000);
    // There is no stream.
    wait_for_state(&server, "bus", "blocked");
    done(&server, &["sinks", "init", "bus"]);
    sell(&server, "tee", 30);
    nats.kill();
    sell(&server, "tee", 30);
    wait_for_state(&server, "bus", "retrying");
    std::thread::sleep(Duration::from_millis(300));
    nats.restart();
    wait_until_delivered(&server, "bus");
    let all = block_on(stream_messages(&url));
    check(&all, &feed(&server));
    // The broker recognizes what was sent twice.
    let mut ids: Vec<_> = all.iter().map(|event| event["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count);
    // A replay is new messages.
    done(&server, &["sinks", "replay", "bus", "--from-position", "1"]);
    let most = count + feed(&server).len();
    wait_for("the replay", || (block_on(stream_messages(&url)).len() >= most).then_some(()));
}
