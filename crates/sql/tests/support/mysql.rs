//! A private server for tests, MariaDB or MySQL: its own data directory, reached by a Unix socket and on demand by a port of the
//! loopback interface, gone when dropped. A server of a test's own syncs as in production. The shared server, which no test kills, does
//! not. No test is skipped for want of a server: a machine without one fails loudly.

#[path = "mysql_programs.rs"]
mod programs;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Row, Value};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tempfile::TempDir;

pub(crate) use programs::Programs;

/// Patience with a server that starts or stops. Its end fails the test; nothing is concluded from its passing sooner.
const PATIENCE: Duration = Duration::from_secs(90);
/// Whom stores come as. Tests themselves come as `root`.
const USER: &str = "stockhold";

/// A running server.
pub(crate) struct Server {
    process: Mutex<Option<Child>>,
    directory: TempDir,
    account: Account,
    /// The port that it listens on, if it does.
    port: Option<u16>,
    settings: Vec<String>,
    programs: Programs,
    /// The program, and its arguments, that starts the server in a network namespace.
    launcher: Vec<String>,
    databases: AtomicU32,
}

impl Server {
    /// The server that tests share while any of them runs. It does not sync: no test kills it.
    pub(crate) fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Self::start(&UNSYNCED));
            *shared = Arc::downgrade(&server);
            server
        })
    }

    /// One of its own, for a test that changes its settings, counts what it counts or stops it.
    pub(crate) fn start(settings: &[&str]) -> Self {
        Self::prepared(None, |_| settings.iter().map(ToString::to_string).collect())
    }

    /// One that listens on this port. `prepare` gets its directory before it starts and returns settings.
    pub(crate) fn listening(port: u16, prepare: impl FnOnce(&Path) -> Vec<String>) -> Self {
        Self::prepared(Some(port), prepare)
    }

    fn prepared(port: Option<u16>, prepare: impl FnOnce(&Path) -> Vec<String>) -> Self {
        let server = Self::stopped(&Programs::chosen(), port, Vec::new(), prepare);
        server.run();
        server.make_user();
        server
    }

    /// One with an empty data directory that does not run yet.
    pub(crate) fn stopped(
        programs: &Programs,
        port: Option<u16>,
        launcher: Vec<String>,
        prepare: impl FnOnce(&Path) -> Vec<String>,
    ) -> Self {
        let directory = TempDir::with_prefix("stockhold-mariadb-").expect("a temporary directory");
        copy(&template(programs), &directory.path().join("data"));
        let programs = programs.clone();
        let settings = prepare(directory.path());
        let account = Account::for_server();
        account.own_all(directory.path());
        let (process, databases) = (Mutex::new(None), AtomicU32::new(0));
        Self { process, directory, account, port, settings, programs, launcher, databases }
    }

    /// Makes the user that stores come as, with rights to the databases of the tests and to nothing of the server's.
    pub(crate) fn make_user(&self) {
        let mut session = Session::open(&self.root());
        session.run(&format!("CREATE USER '{USER}'@'%'; GRANT ALL ON `test%`.* TO '{USER}'@'%'"));
    }

    /// Starts it, or starts it again.
    pub(crate) fn run(&self) {
        self.run_with(&[]);
        self.wait_until_ready();
    }

    /// Starts it with further settings, and does not wait for it.
    pub(crate) fn run_with(&self, settings: &[String]) {
        let at = |name: &str| self.directory.path().join(name).display().to_string();
        let log = std::fs::File::create(at("log")).expect("a log file");
        let mut command = self.account.command(&self.launcher, &self.programs.server);
        command
            .arg("--no-defaults")
            .arg(format!("--datadir={}", at("data")))
            // A server that starts deletes the temporary tables of all servers in its folder.
            .arg(format!("--tmpdir={}", self.directory.path().display()))
            .arg(format!("--socket={}", at("socket")));
        command.arg(format!("--pid-file={}", at("pid"))).args(self.programs.small()).args(DURABLE);
        match self.port {
            Some(port) => command.arg("--bind-address=127.0.0.1").arg(format!("--port={port}")),
            None => command.arg("--skip-networking"),
        };
        command.args(&self.settings).args(settings).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().expect("the server starts");
        *self.process.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
    }

    /// Kills it, as a crash of the server does: what was not committed is gone.
    pub(crate) fn kill(&self) {
        let running = self.process.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut process) = running else { return };
        // One that has ended by itself needs no killing.
        let _ = process.kill();
        let _ = process.wait();
    }

    pub(crate) fn wait_until_ready(&self) {
        let runtime = runtime();
        let started = std::time::Instant::now();
        while let Err(error) = runtime.block_on(Conn::new(opts(&self.root()))) {
            let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
            let ended = process.as_mut().is_none_or(|process| !matches!(process.try_wait(), Ok(None)));
            drop(process);
            if ended || started.elapsed() > PATIENCE {
                let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
                panic!("the server did not start: {error}\n{log}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether it is MySQL and not MariaDB.
    pub(crate) fn is_mysql(&self) -> bool {
        self.programs.is_mysql
    }

    /// Where its socket is.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// The port that it listens on.
    pub(crate) fn port(&self) -> u16 {
        self.port.expect("a server that listens")
    }

    /// How somebody reaches a database of it.
    pub(crate) fn url(&self, user: &str, database: &str) -> String {
        let socket = self.socket().display().to_string().replace('/', "%2F");
        format!("mysql://{user}@localhost/{database}?socket={socket}")
    }

    /// A plain session of a database of it.
    pub(crate) fn session(&self, database: Option<&str>) -> Session {
        Session::open(&Address { socket: self.socket(), database: database.map(str::to_owned) })
    }

    fn root(&self) -> Address {
        Address { socket: self.socket(), database: None }
    }

    /// A new, empty database.
    pub(crate) fn database(self: &Arc<Self>) -> Database {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        Session::open(&self.root()).run(&format!("CREATE DATABASE {name}"));
        Database { name, server: Arc::clone(self) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Commits are written but not synced: faster, and a server that is killed may lose them.
const UNSYNCED: [&str; 2] = ["--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0"];
const DURABLE: [&str; 2] = ["--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1"];

/// A database of a test's own.
pub(crate) struct Database {
    name: String,
    server: Arc<Server>,
}

impl Database {
    /// How a store reaches it.
    pub(crate) fn url(&self) -> String {
        self.url_as(USER, &self.name)
    }

    /// How somebody reaches a database of the same server.
    pub(crate) fn url_as(&self, user: &str, database: &str) -> String {
        self.server.url(user, database)
    }

    /// The server it is on.
    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A plain session.
    pub(crate) fn session(&self) -> Session {
        self.server.session(Some(&self.name))
    }
}

struct Address {
    socket: PathBuf,
    database: Option<String>,
}

fn opts(address: &Address) -> Opts {
    let socket = address.socket.to_str().expect("a path in UTF-8");
    OptsBuilder::default().user(Some("root")).socket(Some(socket)).db_name(address.database.as_deref()).into()
}

fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime")
}

/// A plain session, for what a store would never do.
pub(crate) struct Session {
    conn: Conn,
    runtime: tokio::runtime::Runtime,
}

impl Session {
    fn open(address: &Address) -> Self {
        let runtime = runtime();
        let conn = runtime.block_on(Conn::new(opts(address))).expect("a session");
        Self { conn, runtime }
    }

    /// Runs statements.
    pub(crate) fn run(&mut self, statements: &str) {
        self.try_run(statements).unwrap_or_else(|error| panic!("{statements}: {error:?}"));
    }

    /// Runs statements that may fail.
    pub(crate) fn try_run(&mut self, statements: &str) -> Result<(), mysql_async::Error> {
        self.runtime.block_on(self.conn.query_drop(statements))
    }

    /// The rows of a query, each as its columns.
    pub(crate) fn rows(&mut self, query: &str) -> Vec<Vec<String>> {
        let rows: Result<Vec<Row>, _> = self.runtime.block_on(self.conn.query(query));
        let text = |value| match value {
            Value::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Value::NULL => "NULL".to_owned(),
            other => panic!("{other:?}"),
        };
        let rows = rows.unwrap_or_else(|error| panic!("{query}: {error:?}"));
        rows.into_iter().map(|row| row.unwrap().into_iter().map(text).collect()).collect()
    }

    /// The first column of every row.
    pub(crate) fn texts(&mut self, query: &str) -> Vec<String> {
        self.rows(query).into_iter().map(|mut columns| columns.remove(0)).collect()
    }

    /// The only column of the only row.
    pub(crate) fn text(&mut self, query: &str) -> String {
        let mut texts = self.texts(query);
        assert_eq!(texts.len(), 1, "rows of {query}");
        texts.remove(0)
    }

    /// What the server has counted.
    pub(crate) fn status(&mut self, name: &str) -> String {
        self.rows(&format!("SHOW GLOBAL STATUS LIKE '{name}'")).remove(0).remove(1)
    }

    /// How many deadlocks the server has found.
    pub(crate) fn deadlocks(&mut self) -> u64 {
        let mut found = self.rows("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'");
        let counted = match found.pop() {
            Some(mut row) => row.remove(1),
            // Where MySQL counts them.
            None => {
                self.text("SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'")
            }
        };
        counted.parse().expect("a number")
    }

    /// Asks again until the query yields 1.
    pub(crate) fn wait_for(&mut self, query: &str) {
        self.wait_until(query, |session| session.texts(query).first().map(String::as_str) == Some("1"));
    }

    /// Asks again until it is so.
    pub(crate) fn wait_until(&mut self, what: &str, mut so: impl FnMut(&mut Self) -> bool) {
        let started = std::time::Instant::now();
        while !so(self) {
            assert!(started.elapsed() < PATIENCE, "never became true: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stores' connections to this session's database.
    pub(crate) fn store_connections(&mut self) -> Vec<String> {
        self.texts(&format!(
            "SELECT id FROM information_schema.processlist WHERE user = '{USER}' AND db = DATABASE()"
        ))
    }

    /// Kills all of them.
    pub(crate) fn kill_stores(&mut self) {
        for id in self.store_connections() {
            // One may be gone by itself.
            let _ = self.try_run(&format!("KILL {id}"));
        }
    }

    /// How many stores' connections to this session's database wait for a row's lock: for that of numbering events, or any other.
    pub(crate) fn locked_out(&mut self, numbering: bool) -> usize {
        let stores = self.store_connections();
        let status = self.rows("SHOW ENGINE INNODB STATUS").remove(0).remove(2);
        let waiting = status.split("---TRANSACTION").filter(|about| about.contains("LOCK WAIT"));
        let waiting = waiting.filter(|about| about.contains("stockhold_sequencer") == numbering);
        let thread = |about: &str| Some(about.split_once("thread id ")?.1.split_once(',')?.0.to_owned());
        waiting.filter_map(thread).filter(|id| stores.contains(id)).count()
    }
}

/// Numbers from 1 on, as a table with the column `seq`, on MariaDB and on MySQL.
pub(crate) fn numbers(count: u32) -> String {
    let array = format!("[1{}]", ",1".repeat(count.saturating_sub(1) as usize));
    format!("JSON_TABLE('{array}', '$[*]' COLUMNS (seq FOR ORDINALITY)) AS numbers")
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
        let other = ids("mysql").or_else(|| ids("nobody"));
        Self(Some(other.expect("root needs a user `mysql` or `nobody` to run MariaDB as")))
    }

    fn own_all(&self, path: &Path) {
        let Some((user, group)) = self.0 else { return };
        chown(path, Some(user), Some(group)).expect("a file changes hands");
        if path.is_dir() {
            for entry in std::fs::read_dir(path).expect("a directory") {
                self.own_all(&entry.expect("an entry").path());
            }
        }
    }

    /// A command of this user. A launcher runs as who runs the tests, and changes the user behind it.
    fn command(&self, launcher: &[String], program: &Path) -> Command {
        let Some((first, rest)) = launcher.split_first() else {
            let mut command = Command::new(program);
            command.current_dir("/").stdin(Stdio::null());
            if let Some((user, group)) = self.0 {
                command.uid(user).gid(group);
            }
            return command;
        };
        let mut command = Command::new(first);
        command.current_dir("/").stdin(Stdio::null()).args(rest);
        if let Some((user, group)) = self.0 {
            let ids = [format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()];
            command.arg("setpriv").args(ids);
        }
        command.arg(program);
        command
    }
}

fn copy(from: &Path, to: &Path) {
    let done =
        Command::new("cp").args(["-r", "--sparse=always"]).arg(from).arg(to).status().expect("cp runs");
    assert!(done.success(), "cp failed");
}

/// An empty data directory. It takes seconds to make one, so it is made once and kept beside what else was built.
fn template(programs: &Programs) -> PathBuf {
    static MADE: Mutex<()> = Mutex::new(());
    let _one_at_a_time = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(programs.name());
    if kept.exists() {
        return kept;
    }
    let directory = TempDir::with_prefix("stockhold-mariadb-").expect("a temporary directory");
    let account = Account::for_server();
    account.own_all(directory.path());
    let data = directory.path().join("data");
    let (program, arguments) = programs.makes_data();
    let mut command = account.command(&[], &program);
    let made = command.args(arguments).arg(format!("--datadir={}", data.display())).output();
    let made = made.expect("the data directory is made");
    let errors = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{} failed:\n{errors}", program.display());
    // The server's own name for itself in a group or beside a replica. Each makes its own.
    let _ = std::fs::remove_file(data.join("auto.cnf"));
    // By a name that is there as a whole or not at all, however many test programs make it at once.
    let whole = kept.with_file_name(format!("{}.{}", programs.name(), std::process::id()));
    copy(&data, &whole);
    if std::fs::rename(&whole, &kept).is_err() {
        std::fs::remove_dir_all(&whole).expect("what somebody else has made meanwhile is not needed twice");
    }
    kept
}
