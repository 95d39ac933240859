//! PostgreSQL with a synchronous standby. The servers know both by one address, `target_session_attrs=read-write`, and find
//! out for themselves which of them is the primary.

use super::{Databases, PrimaryLoss, SERVERS};
use crate::Outcome;
use crate::database::{Account, done, program, until};
use crate::process_end::{end, kill_tree};
use crate::spawn::{Process, free_address};
use rustix::process::Signal;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const USER: &str = "stockhold";
const STANDBY: &str = "failover_standby";
const SETTINGS: [&str; 9] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "fsync=on",
    "synchronous_commit=on",
    "max_connections=100",
    "shared_buffers=64MB",
    "max_wal_size=2GB",
    // What a standby lacks that was copied while commits went on.
    "wal_keep_size=512MB",
    "log_min_messages=warning",
];

/// A PostgreSQL primary and its standby.
pub(super) struct PostgresPair {
    binaries: PathBuf,
    account: Account,
    nodes: [Node; 2],
    primary: usize,
    name: String,
}

/// One of the two, or its place.
struct Node {
    folder: PathBuf,
    port: u16,
    process: Option<Process>,
}

impl Node {
    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It takes its children along at once; nothing of it is wanted any more.
        if let Some(process) = &mut self.process {
            end(process, Signal::QUIT).ok();
        }
    }
}

impl PostgresPair {
    /// A primary without a standby.
    pub(super) fn start(folder: &Path) -> Outcome<Self> {
        let mut packaged: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path().join("bin"))
            .collect();
        packaged.sort_unstable();
        packaged.reverse();
        let postgres = program("postgres", &packaged)?;
        let binaries = postgres.parent().unwrap_or(Path::new("/")).to_owned();
        let account = Account::named("postgres")?;
        let node = |name: &str| -> Outcome<Node> {
            let folder = folder.join(name);
            account.folder(&folder)?;
            Ok(Node { folder, port: free_address()?.port(), process: None })
        };
        let nodes = [node("postgres-a")?, node("postgres-b")?];
        let name = done(account.command(&postgres).arg("--version"))?;
        let mut this = Self { binaries, account, nodes, primary: 0, name };
        let mut make = this.command("initdb");
        make.args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
        make.arg(format!("--username={USER}")).arg("-D").arg(this.nodes[0].data());
        done(&mut make)?;
        this.run(0)?;
        this.ask_of(0, "postgres", &format!("CREATE DATABASE {USER}"))?;
        Ok(this)
    }

    fn command(&self, name: &str) -> std::process::Command {
        self.account.command(&self.binaries.join(name))
    }

    fn run(&mut self, number: usize) -> Outcome<()> {
        let mut command = self.command("postgres");
        let node = &mut self.nodes[number];
        command.arg("-D").arg(node.data()).arg("-p").arg(node.port.to_string());
        for setting in SETTINGS {
            command.arg("-c").arg(setting);
        }
        node.process = Some(Process::start(command, &node.folder.join("log"))?);
        until("PostgreSQL takes connections", || self.ask_of(number, "postgres", "SELECT 1").map(|_| true))
    }

    fn ask(&self, number: usize, query: &str) -> Outcome<String> {
        self.ask_of(number, USER, query)
    }

    fn ask_of(&self, number: usize, database: &str, query: &str) -> Outcome<String> {
        let mut command = self.command("psql");
        command.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", USER]);
        command.arg("-p").arg(self.nodes[number].port.to_string()).args(["-d", database, "-c", query]);
        done(&mut command)
    }

    fn standby(&self) -> usize {
        1 - self.primary
    }
}

impl Databases for PostgresPair {
    fn urls(&self) -> Vec<String> {
        let hosts = self.nodes.each_ref().map(|node| format!("127.0.0.1:{}", node.port)).join(",");
        vec![format!("postgres://{USER}@{hosts}/{USER}?target_session_attrs=read-write"); SERVERS]
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn kill(&mut self) -> Outcome<PrimaryLoss> {
        if let Some(mut process) = self.nodes[self.primary].process.take() {
            kill_tree(&mut process)?;
        }
        Ok(PrimaryLoss::Process)
    }

    fn promote(&mut self) -> Outcome<()> {
        let standby = self.standby();
        self.ask_of(standby, "postgres", "SELECT pg_promote(true, 60)")?;
        self.primary = standby;
        Ok(())
    }

    fn stand_by(&mut self) -> Outcome<()> {
        let (primary, standby) = (self.primary, self.standby());
        let (data, port) = (self.nodes[standby].data(), self.nodes[primary].port.to_string());
        if data.exists() {
            std::fs::remove_dir_all(&data)?;
        }
        let mut copy = self.command("pg_basebackup");
        copy.args(["-h", "127.0.0.1", "-U", USER, "-p", &port, "-c", "fast", "-X", "stream", "--no-sync"]);
        done(copy.arg("-D").arg(&data))?;
        let source = format!("host=127.0.0.1 port={port} user={USER} application_name={STANDBY}");
        // Whom its primary waited for is no business of its own.
        let mut settings = String::new();
        writeln!(settings, "primary_conninfo = '{source}'")?;
        std::fs::write(data.join("postgresql.auto.conf"), settings)?;
        std::fs::write(data.join("standby.signal"), "")?;
        self.run(standby)?;
        self.ask(primary, &format!("ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'"))?;
        self.ask(primary, "SELECT pg_reload_conf()")?;
        until("the standby is synchronous", || {
            let query = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
            Ok(self.ask(primary, query)? == "1")
        })?;
        // Commits that were answered before it was.
        let end = self.ask(primary, "SELECT pg_current_wal_flush_lsn()")?;
        until("the standby has what was committed", || {
            let query = format!("SELECT coalesce(min(flush_lsn) >= '{end}', false) FROM pg_stat_replication");
            Ok(self.ask(primary, &query)? == "t")
        })
    }
}
