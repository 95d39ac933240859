//! MariaDB with a lossless semi-synchronous replica: a commit is answered, and seen by others, when the replica has it. The
//! servers know an address that moves. Every other primary goes with its machine, so that its connections stay open.

use super::forward::Forwarder;
use super::{Databases, PrimaryLoss, SERVERS};
use crate::database::{Account, PATIENCE, done, program, until};
use crate::process_end::end;
use crate::spawn::{Process, free_address};
use crate::{Outcome, fail};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whom the servers come as, with rights to their database alone.
const USER: &str = "stockhold";
/// Whom the replica and the harness come as.
const ADMIN: &str = "harness";
const SETTINGS: [&str; 24] = [
    "--bind-address=127.0.0.1",
    "--socket=server.sock",
    "--pid-file=server.pid",
    "--skip-name-resolve",
    "--skip-slave-start",
    "--max-connections=200",
    "--innodb-flush-log-at-trx-commit=1",
    "--sync-binlog=1",
    "--log-bin=binlog",
    "--log-slave-updates",
    "--binlog-format=ROW",
    "--gtid-strict-mode=ON",
    "--relay-log=relay",
    "--sync-relay-log=1",
    "--rpl-semi-sync-master-wait-point=AFTER_SYNC",
    // For ever: an answer that came without the replica is one that can be lost.
    "--rpl-semi-sync-master-timeout=18446744073709551615",
    "--rpl-semi-sync-master-wait-no-slave=ON",
    "--innodb-buffer-pool-size=64M",
    // As it was made with.
    "--innodb-log-file-size=48M",
    "--innodb-buffer-pool-dump-at-shutdown=0",
    "--innodb-buffer-pool-load-at-startup=0",
    "--innodb-fast-shutdown=1",
    "--key-buffer-size=1M",
    "--aria-pagecache-buffer-size=1M",
];

/// A MariaDB primary and its replica.
pub(super) struct MariaDbPair {
    server: PathBuf,
    client: PathBuf,
    account: Account,
    nodes: [Node; 2],
    primary: usize,
    forwarder: Forwarder,
    kills: u64,
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

impl MariaDbPair {
    /// A primary without a standby.
    pub(super) fn start(folder: &Path) -> Outcome<Self> {
        let packaged = ["/usr/sbin", "/usr/bin", "/usr/libexec"].map(PathBuf::from);
        let server = program("mariadbd", &packaged)?;
        let (client, install) = (program("mariadb", &packaged)?, program("mariadb-install-db", &packaged)?);
        let account = Account::named("mysql")?;
        let node = |name: &str| -> Outcome<Node> {
            let folder = folder.join(name);
            account.folder(&folder)?;
            Ok(Node { folder, port: free_address()?.port(), process: None })
        };
        let nodes = [node("mariadb-a")?, node("mariadb-b")?];
        let name = done(account.command(&server).arg("--version"))?;
        let forwarder = Forwarder::start(nodes[0].port)?;
        let mut make = account.command(&install);
        make.args(["--no-defaults", "--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=48M"]);
        done(make.arg(format!("--datadir={}", nodes[0].data().display())))?;
        let mut this = Self { server, client, account, nodes, primary: 0, forwarder, kills: 0, name };
        let users = this.nodes[0].folder.join("users.sql");
        std::fs::write(
            &users,
            format!(
                "SET sql_log_bin = 0;\nCREATE DATABASE {USER};\n\
                 CREATE USER '{ADMIN}'@'127.0.0.1';\nGRANT ALL ON *.* TO '{ADMIN}'@'127.0.0.1';\n\
                 CREATE USER '{USER}'@'127.0.0.1';\nGRANT ALL ON {USER}.* TO '{USER}'@'127.0.0.1';\n"
            ),
        )?;
        this.run(0, &[format!("--init-file={}", users.display())])?;
        Ok(this)
    }

    fn run(&mut self, number: usize, more: &[String]) -> Outcome<()> {
        let node = &mut self.nodes[number];
        let mut command = self.account.command(&self.server);
        command.arg("--no-defaults").arg(format!("--datadir={}", node.data().display()));
        // A server that starts sweeps this for temporary tables, also those of other servers.
        command.arg(format!("--tmpdir={}", node.folder.display()));
        command.arg(format!("--port={}", node.port)).arg(format!("--server-id={}", number + 1));
        command.args(SETTINGS).args(more);
        node.process = Some(Process::start(command, &node.folder.join("log"))?);
        until("MariaDB takes connections", || {
            let node = &mut self.nodes[number];
            match node.process.as_mut().map(Process::ended) {
                Some(Ok(None)) => self.ask(number, "SELECT 1").map(|_| true),
                _ => fail(format!(
                    "it ended\n{}",
                    node.process.as_ref().map(Process::log_tail).unwrap_or_default()
                )),
            }
        })
    }

    fn ask(&self, number: usize, statements: &str) -> Outcome<String> {
        done(self.client(number).arg("--skip-column-names").arg("--execute").arg(statements))
    }

    fn client(&self, number: usize) -> Command {
        let mut command = self.account.command(&self.client);
        command.args(["--no-defaults", "--host=127.0.0.1", "--protocol=TCP", "--batch"]);
        command.arg(format!("--user={ADMIN}")).arg(format!("--port={}", self.nodes[number].port));
        command
    }

    /// The position up to which a replica has received whole transactions.
    fn received(&self, number: usize) -> Outcome<String> {
        let status = done(self.client(number).args(["--execute", "SHOW SLAVE STATUS\\G"]))?;
        let received = status.lines().find_map(|line| line.trim().strip_prefix("Gtid_IO_Pos: "));
        received.map(str::to_owned).ok_or_else(|| format!("a replica without a position:\n{status}").into())
    }

    fn standby(&self) -> usize {
        1 - self.primary
    }

    /// Waits until a server has applied everything up to a position.
    fn caught_up(&self, number: usize, position: &str) -> Outcome<()> {
        let waited = format!("SELECT MASTER_GTID_WAIT('{position}', {})", PATIENCE.as_secs());
        match self.ask(number, &waited)?.as_str() {
            "0" => Ok(()),
            other => fail(format!("the replica has not applied {position}: {other}")),
        }
    }

    fn stop(&mut self, number: usize) -> Outcome<()> {
        match self.nodes[number].process.take() {
            Some(mut process) => end(&mut process, Signal::TERM),
            None => Ok(()),
        }
    }
}

impl Databases for MariaDbPair {
    fn urls(&self) -> Vec<String> {
        vec![format!("mariadb://{USER}@{}/{USER}", self.forwarder.address); SERVERS]
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn kill(&mut self) -> Outcome<PrimaryLoss> {
        self.kills += 1;
        let loss = if self.kills.is_multiple_of(2) { PrimaryLoss::Machine } else { PrimaryLoss::Process };
        if loss == PrimaryLoss::Machine {
            self.forwarder.go_silent();
        }
        if let Some(mut process) = self.nodes[self.primary].process.take() {
            process.kill()?;
        }
        Ok(loss)
    }

    /// The relay log of the replica has all that it acknowledged. The replica is the primary once it has applied the log.
    fn promote(&mut self) -> Outcome<()> {
        let standby = self.standby();
        self.ask(standby, "STOP SLAVE IO_THREAD")?;
        self.caught_up(standby, &self.received(standby)?)?;
        self.ask(
            standby,
            "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL rpl_semi_sync_slave_enabled = OFF; SET GLOBAL read_only = OFF",
        )?;
        self.primary = standby;
        self.forwarder.move_to(self.nodes[standby].port);
        Ok(())
    }

    /// By a copy of the primary at rest: the servers see it restart.
    fn stand_by(&mut self) -> Outcome<()> {
        let (primary, standby) = (self.primary, self.standby());
        self.forwarder.forget();
        self.ask(primary, "FLUSH BINARY LOGS")?;
        let status = self.ask(primary, "SHOW MASTER STATUS")?;
        let newest = status.split_whitespace().next().unwrap_or_default().to_owned();
        self.ask(primary, &format!("PURGE BINARY LOGS TO '{newest}'"))?;
        self.stop(primary)?;
        let (from, to) = (self.nodes[primary].data(), self.nodes[standby].data());
        if to.exists() {
            std::fs::remove_dir_all(&to)?;
        }
        let mut copy = Command::new("cp");
        done(copy.args(["-a", "--sparse=always"]).arg(&from).arg(&to))?;
        self.run(primary, &[])?;
        self.run(standby, &["--read-only=ON".to_owned()])?;
        let port = self.nodes[primary].port;
        self.ask(
            standby,
            &format!(
                "SET GLOBAL gtid_slave_pos = @@GLOBAL.gtid_binlog_pos; SET GLOBAL rpl_semi_sync_slave_enabled = ON;
                 CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = '{ADMIN}',
                    MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos;
                 START SLAVE"
            ),
        )?;
        self.ask(primary, "SET GLOBAL rpl_semi_sync_master_enabled = ON")?;
        until("the replica is semi-synchronous", || {
            let status = "SHOW GLOBAL STATUS WHERE variable_name IN
                ('Rpl_semi_sync_master_clients', 'Rpl_semi_sync_master_status')";
            let status = self.ask(primary, status)?;
            Ok(status.split_whitespace().eq([
                "Rpl_semi_sync_master_clients",
                "1",
                "Rpl_semi_sync_master_status",
                "ON",
            ]))
        })?;
        // Commits that were answered before it was.
        let end = self.ask(primary, "SELECT @@GLOBAL.gtid_binlog_pos")?;
        self.caught_up(standby, &end)
    }
}
