//! A private PgBouncer in front of a private PostgreSQL: one process, on a port of the loopback interface, gone when dropped.

use super::{Account, PATIENCE, Server, ports::free_port};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A running PgBouncer, whose connections to the server are those of one role.
pub(crate) struct PgBouncer {
    child: Child,
    file: PathBuf,
    /// Settings that stay.
    fixed: String,
    url: String,
    _directory: TempDir,
}

impl PgBouncer {
    /// In front of a server, with settings of PgBouncer such as `pool_mode = transaction`, a line each.
    pub(crate) fn start(server: &Server, role: &str, settings: &str) -> Self {
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
        let program = target.join("servers/pgbouncer/bin/pgbouncer");
        assert!(program.exists(), "these tests need PgBouncer, which `scripts/servers` installs");
        let directory = TempDir::with_prefix("stockhold-pgbouncer-").expect("a temporary directory");
        let account = Account::for_server();
        account.own(directory.path());
        let (socket, port) = (server.socket(), free_port());
        let fixed = format!(
            "[databases]\n* = host={} port={} user={role}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n",
            socket.parent().expect("a directory").display(),
            socket.extension().expect("a port").display(),
        );
        let file = directory.path().join("pgbouncer.ini");
        std::fs::write(&file, format!("{fixed}{settings}\n")).expect("a file of settings");
        let log = directory.path().join("log");
        let output = std::fs::File::create(&log).expect("a log file");
        let mut command = account.command(&program);
        let child =
            command.arg(&file).stdout(Stdio::null()).stderr(output).spawn().expect("pgbouncer starts");
        let url = format!("postgres://{role}@127.0.0.1:{port}");
        let pooler = Self { child, file, fixed, url, _directory: directory };
        let started = Instant::now();
        while !std::fs::read_to_string(&log).is_ok_and(|said| said.contains("process up")) {
            assert!(
                started.elapsed() < PATIENCE,
                "PgBouncer did not start: {:?}",
                std::fs::read_to_string(&log)
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        pooler
    }

    /// Gives it other settings, which it takes over soon, without a restart.
    pub(crate) fn reload(&self, settings: &str) {
        std::fs::write(&self.file, format!("{}{settings}\n", self.fixed)).expect("a file of settings");
        let told = Command::new("kill").args(["-HUP", &self.child.id().to_string()]).status();
        assert!(told.is_ok_and(|status| status.success()), "PgBouncer is told");
    }

    /// The address of a database behind it.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("{}/{database}", self.url)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        // What has ended by itself needs no end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
