//! A private PostgreSQL for tests: its own data directory, reached by a Unix socket and on demand by a port of the loopback
//! interface, gone when dropped. A server of a test's own syncs as in production. The shared server, which no test kills, does
//! not. No test is skipped for want of a server: a machine without one fails loudly.

#[path = "citus.rs"]
pub(crate) mod citus;
#[path = "pgbouncer.rs"]
pub(crate) mod pgbouncer;
#[path = "ports.rs"]
pub(crate) mod ports;

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tempfile::TempDir;

/// Oldest major version that is good enough.
const OLDEST: u32 = 15;
/// Patience with a server that starts or stops. Its end fails the test; nothing is concluded from its passing sooner.
const PATIENCE: Duration = Duration::from_secs(90);

/// A running server.
pub(crate) struct Server {
    postgres: Mutex<Option<Child>>,
    directory: TempDir,
    account: Account,
    /// The port that it listens on, if it does.
    port: Option<u16>,
    databases: AtomicU32,
    /// Databases that tests have left, without any objects. To create a database and to remove it takes longer than most tests.
    unused: Mutex<Vec<String>>,
    /// Whether commits reach the disk. Without syncs the tests are faster, but a server that is killed may lose commits.
    syncs: bool,
    /// Where its programs are.
    binaries: PathBuf,
    /// Settings that it is started with besides those of every server.
    settings: Vec<&'static str>,
}

impl Server {
    /// The server that tests share while any of them runs. It does not sync: no test kills it.
    pub(crate) fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Self::prepare(None, false, binaries()));
            server.run();
            *shared = Arc::downgrade(&server);
            server
        })
    }

    /// One of its own, for a test that changes the server's settings.
    pub(crate) fn start() -> Self {
        let server = Self::prepare(None, true, binaries());
        server.run();
        server
    }

    /// An asynchronous standby of another, that can be read.
    pub(crate) fn standby_of(primary: &Self) -> Self {
        let directory = TempDir::with_prefix("stockhold-pg-").expect("a temporary directory");
        let account = Account::for_server();
        account.own(directory.path());
        let data = directory.path().join("data");
        let source = primary.directory.path().to_str().expect("a path in UTF-8");
        // Beside the server, or where the packages put what clients use.
        let beside = binaries().join("pg_basebackup");
        let program = if beside.exists() { beside } else { PathBuf::from("pg_basebackup") };
        let mut copy = account.command(&program);
        copy.args(["-h", source, "-U", "stockhold", "-c", "fast", "-X", "stream", "--no-sync", "-D"]);
        let made = copy.arg(&data).output().expect("pg_basebackup runs");
        assert!(made.status.success(), "pg_basebackup failed:\n{}", String::from_utf8_lossy(&made.stderr));
        let follow = format!("primary_conninfo = 'host={source} user=stockhold'\n");
        std::fs::write(data.join("postgresql.auto.conf"), follow).expect("whom it follows");
        std::fs::write(data.join("standby.signal"), "").expect("that it follows");
        let (postgres, databases, unused) = (Mutex::new(None), AtomicU32::new(0), Mutex::default());
        let (binaries, settings) = (binaries(), Vec::new());
        let standby = Self {
            postgres,
            directory,
            account,
            port: None,
            databases,
            unused,
            syncs: true,
            binaries,
            settings,
        };
        standby.run();
        standby
    }

    /// One that listens on this port, where it asks for passwords. `prepare` gets its data directory before it starts; what it
    /// returns is added to the server's settings.
    pub(crate) fn listening(port: u16, prepare: impl FnOnce(&Path) -> String) -> Self {
        let server = Self::prepare(Some(port), true, binaries());
        let data = server.directory.path().join("data");
        let settings = prepare(&data);
        for (file, text) in [
            ("postgresql.conf", settings.as_str()),
            ("pg_hba.conf", "host all all 127.0.0.1/32 scram-sha-256\n"),
        ] {
            let file = std::fs::OpenOptions::new().append(true).open(data.join(file));
            std::io::Write::write_all(&mut file.expect("a file of settings"), text.as_bytes())
                .expect("it is written");
        }
        server.account.own_all(&data);
        server.run();
        server
    }

    fn prepare(port: Option<u16>, syncs: bool, binaries: PathBuf) -> Self {
        let directory = TempDir::with_prefix("stockhold-pg-").expect("a temporary directory");
        let account = Account::for_server();
        account.own(directory.path());
        let data = directory.path().join("data");
        let made = account
            .command(&binaries.join("initdb"))
            .args([
                "--no-sync",
                "--auth=trust",
                "--username=stockhold",
                "--encoding=UTF8",
                "--locale=C",
                "-D",
            ])
            .arg(&data)
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "initdb failed:\n{}", String::from_utf8_lossy(&made.stderr));
        // `initdb` lets everybody in from the loopback interface as well.
        let hba = "local all all trust\nlocal replication all trust\n";
        std::fs::write(data.join("pg_hba.conf"), hba).expect("the file of who may come in");
        let (postgres, databases, unused) = (Mutex::new(None), AtomicU32::new(0), Mutex::default());
        Self { postgres, directory, account, port, databases, unused, syncs, binaries, settings: Vec::new() }
    }

    /// Starts it, or starts it again.
    pub(crate) fn run(&self) {
        let log = std::fs::File::create(self.directory.path().join("log")).expect("a log file");
        let listen = if self.port.is_some() { "listen_addresses=127.0.0.1" } else { "listen_addresses=" };
        let mut command = self.account.command(&self.binaries.join("postgres"));
        command.arg("-D").arg(self.directory.path().join("data")).arg("-k").arg(self.directory.path());
        command.args([
            "-c",
            listen,
            "-c",
            "max_connections=300",
            "-c",
            if self.syncs { "fsync=on" } else { "fsync=off" },
        ]);
        if let Some(port) = self.port {
            command.arg("-p").arg(port.to_string());
        }
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        let postgres = command.stdout(Stdio::null()).stderr(log).spawn().expect("postgres starts");
        *self.postgres.lock().unwrap_or_else(PoisonError::into_inner) = Some(postgres);
        self.wait_until_ready();
    }

    /// Stops it at once, as a crash of the server does: what was not committed is gone.
    pub(crate) fn stop(&self) {
        let running = self.postgres.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut postgres) = running else { return };
        // Immediate shutdown takes its children along; a SIGKILL would leave them for a while.
        let pid = postgres.id().to_string();
        let told = Command::new("kill").args(["-QUIT", &pid]).status();
        if !told.is_ok_and(|status| status.success()) {
            let _ = postgres.kill();
        }
        let _ = postgres.wait();
    }

    /// Where its socket is.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join(format!(".s.PGSQL.{}", self.port.unwrap_or(5432)))
    }

    /// The address by its port.
    pub(crate) fn port(&self) -> u16 {
        self.port.expect("a server that listens")
    }

    fn wait_until_ready(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let config: tokio_postgres::Config = self.url("postgres").parse().expect("a valid URL");
        let started = std::time::Instant::now();
        while let Err(error) = runtime.block_on(config.connect(tokio_postgres::NoTls)) {
            if started.elapsed() > PATIENCE {
                let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
                panic!("PostgreSQL did not start: {error}\n{log}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// How a database of it is reached.
    pub(crate) fn url(&self, database: &str) -> String {
        let socket = self.directory.path().to_str().expect("a path in UTF-8").replace('/', "%2F");
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("postgres://stockhold@{socket}{port}/{database}")
    }

    /// A new, empty database.
    pub(crate) fn database(self: &Arc<Self>) -> Database {
        let unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let name = unused.unwrap_or_else(|| {
            let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
            Session::open(&self.url("postgres")).run(&format!("CREATE DATABASE {name}"));
            name
        });
        Database { url: self.url(&name), server: Arc::clone(self) }
    }

    /// Removes everything from a database, so that another test can use it.
    fn reuse(&self, name: &str) {
        let mut session = Session::open(&self.url(name));
        let others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
        session.run(&format!("SELECT pg_terminate_backend(pid) {others}"));
        session.wait_for(&format!("SELECT count(*) = 0 {others}"));
        let emptied = session.try_run(
            "DROP SCHEMA IF EXISTS stockhold CASCADE; DROP SCHEMA public CASCADE; CREATE SCHEMA public;
             GRANT USAGE ON SCHEMA public TO PUBLIC; SELECT pg_stat_reset()",
        );
        // The settings of some tests do not allow it.
        if emptied.is_ok() {
            self.unused.lock().unwrap_or_else(PoisonError::into_inner).push(name.to_owned());
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A database of a test's own.
pub(crate) struct Database {
    /// How it is reached.
    pub(crate) url: String,
    server: Arc<Server>,
}

impl Drop for Database {
    fn drop(&mut self) {
        if !self.server.syncs && !std::thread::panicking() {
            self.server.reuse(self.name());
        }
    }
}

impl Database {
    /// How another database of the same server is reached.
    pub(crate) fn url_of(&self, name: &str) -> String {
        self.server.url(name)
    }

    /// The server it is on.
    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        self.url.rsplit('/').next().unwrap_or_default()
    }
}

/// A plain session, for what a store would never do.
pub(crate) struct Session {
    client: tokio_postgres::Client,
    runtime: tokio::runtime::Runtime,
}

impl Session {
    /// Connects.
    pub(crate) fn open(url: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let (client, connection) =
            runtime.block_on(tokio_postgres::connect(url, tokio_postgres::NoTls)).expect("a session");
        runtime.spawn(connection);
        Self { client, runtime }
    }

    /// Runs statements.
    pub(crate) fn run(&mut self, statements: &str) {
        self.try_run(statements).unwrap_or_else(|error| panic!("{statements}: {error:?}"));
    }

    /// Runs statements that may fail.
    pub(crate) fn try_run(&mut self, statements: &str) -> Result<(), tokio_postgres::Error> {
        self.runtime.block_on(self.client.batch_execute(statements))
    }

    /// The first column of every row, as text.
    pub(crate) fn texts(&mut self, query: &str) -> Vec<String> {
        let messages = self.runtime.block_on(self.client.simple_query(query));
        let messages = messages.unwrap_or_else(|error| panic!("{query}: {error:?}"));
        let text = |message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
            _ => None,
        };
        messages.into_iter().filter_map(text).collect()
    }

    /// The only column of the only row.
    pub(crate) fn text(&mut self, query: &str) -> String {
        let mut texts = self.texts(query);
        assert_eq!(texts.len(), 1, "rows of {query}");
        texts.remove(0)
    }

    /// Asks again until the query yields `true`.
    pub(crate) fn wait_for(&mut self, query: &str) {
        let started = std::time::Instant::now();
        while self.texts(query).first().map(String::as_str) != Some("t") {
            assert!(started.elapsed() < PATIENCE, "never became true: {query}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Whom the server runs as: it refuses to run as root.
struct Account(Option<(u32, u32)>);

impl Account {
    fn for_server() -> Self {
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let me = std::fs::metadata("/proc/self").map(|meta| std::os::unix::fs::MetadataExt::uid(&meta)).ok();
        if me != Some(0) {
            return Self(None);
        }
        let ids = |name: &str| {
            let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
            fields.filter(|fields| fields.first() == Some(&name)).find_map(|fields| {
                Some((fields.get(2)?.parse::<u32>().ok()?, fields.get(3)?.parse::<u32>().ok()?))
            })
        };
        let other = ids("postgres").or_else(|| ids("nobody"));
        Self(Some(other.expect("root needs a user `postgres` or `nobody` to run PostgreSQL as")))
    }

    fn own(&self, directory: &Path) {
        if let Some((user, group)) = self.0 {
            chown(directory, Some(user), Some(group)).expect("the directory changes hands");
        }
    }

    /// A directory and what is in it.
    fn own_all(&self, directory: &Path) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            self.own(&entry.path());
        }
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/").stdin(Stdio::null());
        if let Some((user, group)) = self.0 {
            command.uid(user).gid(group);
        }
        command
    }
}

/// The variable that names another PostgreSQL than the newest: the directory of its programs.
const POSTGRES: &str = "STOCKHOLD_TEST_POSTGRES";

/// Where `initdb` and `postgres` are: where the variable says, else Debian's place for the newest version, else the path.
fn binaries() -> PathBuf {
    let complete =
        |directory: &Path| directory.join("initdb").exists() && directory.join("postgres").exists();
    if let Some(named) = std::env::var_os(POSTGRES).map(PathBuf::from) {
        assert!(complete(&named), "{POSTGRES} names {}, which has no PostgreSQL", named.display());
        return named;
    }
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let version = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let debian =
        debian.map(|entry| entry.path()).filter_map(|path| Some((version(&path)?, path.join("bin"))));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::split_paths(&path).filter_map(|directory| {
        let said = Command::new(directory.join("postgres")).arg("--version").output().ok()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let number = said.split_whitespace().nth(2)?.split('.').next()?.parse().ok()?;
        Some((number, directory))
    });
    let newest = debian.chain(path).filter(|(version, at)| *version >= OLDEST && complete(at)).max();
    let Some((_, directory)) = newest else {
        panic!(
            "these tests need PostgreSQL {OLDEST} or newer and found no `initdb` and `postgres` in \
             /usr/lib/postgresql/*/bin or on the PATH: install it, on Debian with `apt-get install postgresql`"
        );
    };
    directory
}
