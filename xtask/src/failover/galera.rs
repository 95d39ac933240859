//! A Galera cluster of three nodes of MariaDB, with a server at each. One node after the other is killed, or cut off from the others by
//! a setting of Galera while its server still reaches it. Then it joins again: the others go on without it.

use super::{Databases, PrimaryLoss};
use crate::database::{Account, done, program, until};
use crate::process_end::end;
use crate::spawn::{Process, free_address};
use crate::{Outcome, fail};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::time::Duration;

const NODES: usize = 3;
/// The library of Galera, where Debian puts it.
const PROVIDER: &str = "/usr/lib/galera/libgalera_smm.so";
/// Whom the servers come as, with rights to their database alone.
const USER: &str = "stockhold";
/// Whom the harness comes as.
const ADMIN: &str = "harness";
/// How long a node stays cut off.
const CUT_OFF_FOR: Duration = Duration::from_secs(3);
const SETTINGS: [&str; 19] = [
    "--bind-address=127.0.0.1",
    "--socket=server.sock",
    "--pid-file=server.pid",
    "--skip-name-resolve",
    "--max-connections=200",
    "--innodb-flush-log-at-trx-commit=1",
    "--binlog-format=ROW",
    "--innodb-autoinc-lock-mode=2",
    "--innodb-buffer-pool-size=64M",
    // As it was made with.
    "--innodb-log-file-size=48M",
    "--innodb-buffer-pool-dump-at-shutdown=0",
    "--innodb-buffer-pool-load-at-startup=0",
    "--key-buffer-size=1M",
    "--aria-pagecache-buffer-size=1M",
    "--wsrep-on=ON",
    "--wsrep-cluster-name=stockhold",
    "--wsrep-node-address=127.0.0.1",
    "--wsrep-sst-method=rsync",
    "--wsrep-slave-threads=4",
];

/// Three nodes.
pub(super) struct GaleraCluster {
    server: PathBuf,
    client: PathBuf,
    account: Account,
    nodes: Vec<Node>,
    losses: usize,
    name: String,
}

/// A node, or its place.
struct Node {
    folder: PathBuf,
    port: u16,
    group_port: u16,
    /// For missed transactions, and for whole copies.
    transfer_ports: [u16; 2],
    process: Option<Process>,
}

impl Node {
    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }
}

impl GaleraCluster {
    /// Starts the nodes.
    pub(super) fn start(folder: &Path) -> Outcome<Self> {
        if !Path::new(PROVIDER).exists() {
            return fail(format!("{PROVIDER} is not there: install Galera (see scripts/servers)"));
        }
        let packaged = ["/usr/sbin", "/usr/bin", "/usr/libexec"].map(PathBuf::from);
        let server = program("mariadbd", &packaged)?;
        let (client, install) = (program("mariadb", &packaged)?, program("mariadb-install-db", &packaged)?);
        let account = Account::named("mysql")?;
        let port = || -> Outcome<u16> { Ok(free_address()?.port()) };
        let mut nodes = Vec::new();
        for number in 0..NODES {
            let folder = folder.join(format!("galera-{number}"));
            account.folder(&folder)?;
            let mut make = account.command(&install);
            make.args([
                "--no-defaults",
                "--skip-test-db",
                "--skip-name-resolve",
                "--innodb-log-file-size=48M",
            ]);
            done(make.arg(format!("--datadir={}", folder.join("data").display())))?;
            let transfer_ports = [port()?, port()?];
            nodes.push(Node { folder, port: port()?, group_port: port()?, transfer_ports, process: None });
        }
        let name = format!("Galera, {NODES} nodes, {}", done(account.command(&server).arg("--version"))?);
        let mut this = Self { server, client, account, nodes, losses: 0, name };
        let users = this.nodes[0].folder.join("users.sql");
        std::fs::write(
            &users,
            format!(
                "CREATE DATABASE {USER};\n\
                 CREATE USER '{ADMIN}'@'127.0.0.1';\nGRANT ALL ON *.* TO '{ADMIN}'@'127.0.0.1';\n\
                 CREATE USER '{USER}'@'127.0.0.1';\nGRANT ALL ON {USER}.* TO '{USER}'@'127.0.0.1';\n"
            ),
        )?;
        let first =
            ["--wsrep-cluster-address=gcomm://".to_owned(), format!("--init-file={}", users.display())];
        this.run(0, &first)?;
        for number in 1..NODES {
            this.join(number)?;
        }
        Ok(this)
    }

    /// Starts a node, which gets what it has missed from another one.
    fn join(&mut self, number: usize) -> Outcome<()> {
        let members: Vec<String> =
            self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.group_port)).collect();
        self.run(number, &[format!("--wsrep-cluster-address=gcomm://{}", members.join(","))])
    }

    fn run(&mut self, number: usize, more: &[String]) -> Outcome<()> {
        let node = &mut self.nodes[number];
        let mut command = self.account.command(&self.server);
        command.arg("--no-defaults").arg(format!("--datadir={}", node.data().display()));
        // A server that starts sweeps this for temporary tables, also those of other servers.
        command.arg(format!("--tmpdir={}", node.folder.display()));
        command.arg(format!("--port={}", node.port)).arg(format!("--wsrep-node-name=node{number}"));
        let [missed, whole] = node.transfer_ports;
        let port = node.group_port;
        command.arg(format!("--wsrep-provider={PROVIDER}"));
        command.arg(format!("--wsrep-sst-receive-address=127.0.0.1:{whole}"));
        command.arg(format!(
            "--wsrep-provider-options=base_host=127.0.0.1;base_port={port};gmcast.listen_addr=tcp://127.0.0.1:{port};\
             ist.recv_addr=127.0.0.1:{missed};gcache.size=128M"
        ));
        command.args(SETTINGS).args(more);
        node.process = Some(Process::start(command, &node.folder.join("log"))?);
        self.until_joined(number)
    }

    fn until_joined(&mut self, number: usize) -> Outcome<()> {
        until("the node has joined the cluster", || {
            let node = &mut self.nodes[number];
            match node.process.as_mut().map(Process::ended) {
                Some(Ok(None)) => {
                    let status = "SHOW GLOBAL STATUS WHERE variable_name IN
                        ('wsrep_local_state_comment', 'wsrep_ready')";
                    let status = self.ask(number, status)?;
                    Ok(status.split_whitespace().eq([
                        "wsrep_local_state_comment",
                        "Synced",
                        "wsrep_ready",
                        "ON",
                    ]))
                }
                _ => fail(format!(
                    "it ended\n{}",
                    node.process.as_ref().map(Process::log_tail).unwrap_or_default()
                )),
            }
        })
    }

    fn ask(&self, number: usize, statements: &str) -> Outcome<String> {
        let mut command = self.account.command(&self.client);
        command.args(["--no-defaults", "--host=127.0.0.1", "--protocol=TCP", "--batch"]);
        command.arg(format!("--user={ADMIN}")).arg(format!("--port={}", self.nodes[number].port));
        done(command.arg("--skip-column-names").arg("--execute").arg(statements))
    }

    fn isolate(&self, number: usize, is_cut_off: bool) -> Outcome<()> {
        let value = u8::from(is_cut_off);
        let set = format!("SET GLOBAL wsrep_provider_options = 'gmcast.isolate={value}'");
        self.ask(number, &set).map(drop)
    }

    /// The node that is lost.
    fn lost(&self) -> usize {
        self.losses % NODES
    }

    /// Nodes are killed in one round and cut off in the next.
    fn loss(&self) -> PrimaryLoss {
        if (self.losses / NODES).is_multiple_of(2) { PrimaryLoss::Process } else { PrimaryLoss::Machine }
    }
}

impl Databases for GaleraCluster {
    fn urls(&self) -> Vec<String> {
        let url = |node: &Node| format!("mariadb://{USER}@127.0.0.1:{}/{USER}", node.port);
        self.nodes.iter().map(url).collect()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn kill(&mut self) -> Outcome<PrimaryLoss> {
        self.losses += 1;
        let number = self.lost();
        match self.loss() {
            PrimaryLoss::Process => {
                if let Some(mut process) = self.nodes[number].process.take() {
                    process.kill()?;
                }
            }
            PrimaryLoss::Machine => self.isolate(number, true)?,
        }
        Ok(self.loss())
    }

    /// The lost node joins again. The others have not waited for it.
    fn promote(&mut self) -> Outcome<()> {
        let number = self.lost();
        match self.loss() {
            PrimaryLoss::Process => self.join(number),
            PrimaryLoss::Machine => {
                std::thread::sleep(CUT_OFF_FOR);
                self.isolate(number, false)?;
                self.until_joined(number)
            }
        }
    }

    fn stand_by(&mut self) -> Outcome<()> {
        (0..NODES).try_for_each(|number| self.until_joined(number))
    }
}

impl Drop for GaleraCluster {
    /// One after the other, so that each takes its leave.
    fn drop(&mut self) {
        for node in &mut self.nodes {
            if let Some(process) = &mut node.process {
                let _ = end(process, Signal::TERM);
            }
        }
    }
}
