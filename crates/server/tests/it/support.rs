//! A server process of a test's own that comes back on its own ports, and commands that run beside it.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};
use stockhold_api::client::{At, Client};
use stockhold_api::wire::Item;

/// How long anything may take before a test is given up.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Ports below those that systems give to outgoing connections, above the demo's.
const FIRST_PORT: u16 = 12_000;
const PORTS: u16 = 8_000;

/// The binary with nothing of the surroundings in it.
pub(crate) fn stockhold(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stockhold"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("STOCKHOLD_") {
            command.env_remove(name);
        }
    }
    command.current_dir(dir).stdin(Stdio::null());
    command
}

/// A committed file of tests.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Calls until there is something, or panics.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// A server, killed when dropped. Its data stays as long as the test does.
pub(crate) struct Server {
    dir: PathBuf,
    data: String,
    /// The address of a database, if the data is there.
    store: Option<String>,
    /// Environment variables besides.
    variables: Vec<(String, String)>,
    ports: [u16; 2],
    child: Child,
    /// Removed with the server that it was made for.
    _made: Option<tempfile::TempDir>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let made = tempfile::tempdir().unwrap();
        Self::begin(made.path().to_owned(), "data", None, Some(made))
    }

    /// One whose callers need credentials.
    pub(crate) fn with_root_key(root_key: &str) -> Self {
        let made = tempfile::tempdir().unwrap();
        let variables = vec![("STOCKHOLD_ROOT_KEY".to_owned(), root_key.to_owned())];
        let server = Self::spawned_with(made.path().to_owned(), "data", None, variables, Some(made));
        server.wait_until_ready();
        server
    }

    /// One on data that is there, with these environment variables.
    pub(crate) fn with_variables(dir: &Path, data: &str, variables: &[(&str, &str)]) -> Self {
        let variables =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let server = Self::spawned_with(dir.to_owned(), data, None, variables, None);
        server.wait_until_ready();
        server
    }

    /// One over a database.
    pub(crate) fn over(store: &str) -> Self {
        let made = tempfile::tempdir().unwrap();
        Self::begin(made.path().to_owned(), "data", Some(store.to_owned()), Some(made))
    }

    /// One over a database, with these environment variables.
    pub(crate) fn over_with(store: &str, variables: &[(&str, &str)]) -> Self {
        let made = tempfile::tempdir().unwrap();
        let variables =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let store = Some(store.to_owned());
        let server = Self::spawned_with(made.path().to_owned(), "data", store, variables, Some(made));
        server.wait_until_ready();
        server
    }

    /// One over a database that may not answer yet. It is not waited for.
    pub(crate) fn starting_over(store: &str) -> Self {
        let made = tempfile::tempdir().unwrap();
        Self::spawned(made.path().to_owned(), "data", Some(store.to_owned()), Some(made))
    }

    /// One on data that is there, which is not waited for.
    pub(crate) fn starting_on(dir: &Path, data: &str) -> Self {
        Self::spawned(dir.to_owned(), data, None, None)
    }

    /// One on data that is there, below a directory that is there.
    pub(crate) fn on(dir: &Path, data: &str) -> Self {
        Self::begin(dir.to_owned(), data, None, None)
    }

    fn begin(dir: PathBuf, data: &str, store: Option<String>, made: Option<tempfile::TempDir>) -> Self {
        let server = Self::spawned(dir, data, store, made);
        server.wait_until_ready();
        server
    }

    fn spawned(dir: PathBuf, data: &str, store: Option<String>, made: Option<tempfile::TempDir>) -> Self {
        Self::spawned_with(dir, data, store, Vec::new(), made)
    }

    fn spawned_with(
        dir: PathBuf,
        data: &str,
        store: Option<String>,
        variables: Vec<(String, String)>,
        made: Option<tempfile::TempDir>,
    ) -> Self {
        let ports = [free_port(), free_port()];
        let child = Self::spawn(&dir, data, store.as_deref(), &variables, ports, &[]);
        Self { dir, data: data.to_owned(), store, variables, ports, child, _made: made }
    }

    /// Tells it to end as an operator does, and waits: its exit status.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        kill(self.child.id(), "TERM");
        wait_for("the server's end", || self.child.try_wait().unwrap())
    }

    /// Kills it as kill -9 does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again on the same data and ports.
    pub(crate) fn restart(&mut self) {
        self.restart_with(&[]);
    }

    /// The same with these flags.
    pub(crate) fn restart_with(&mut self, flags: &[&str]) {
        let store = self.store.as_deref();
        self.child = Self::spawn(&self.dir, &self.data, store, &self.variables, self.ports, flags);
        self.wait_until_ready();
    }

    /// The id of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    pub(crate) fn metrics(&self) -> String {
        self.admin("/metrics").expect("the admin listener answers").1
    }

    /// The status and the body of an answer of the admin listener, if it answers.
    pub(crate) fn admin(&self, path: &str) -> Option<(u16, String)> {
        let admin = Client::new(&self.admin_url()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let raw = runtime.block_on(admin.send_raw("GET", path, b"")).ok()?;
        Some((raw.status, text(&raw.body)))
    }

    pub(crate) fn admin_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[1])
    }

    /// The answer of the startup probe once there is one, with its status.
    pub(crate) fn startup(&self) -> (u16, Value) {
        let (status, body) = wait_for("the admin listener", || self.admin("/startupz"));
        (status, serde_json::from_str(&body).unwrap())
    }

    /// Those of the API and of health and metrics.
    pub(crate) fn ports(&self) -> [u16; 2] {
        self.ports
    }

    /// A directory for the test's files.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// An item, if the server knows it.
    pub(crate) fn item(&self, sku: &str) -> Option<Item> {
        self.ask(async |client| client.item(At { sku, location: None }).await).ok()
    }

    pub(crate) fn ask<T>(&self, ask: impl AsyncFnOnce(&Client) -> T) -> T {
        let client = Client::new(&self.url()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(ask(&client))
    }

    fn spawn(
        dir: &Path,
        data: &str,
        store: Option<&str>,
        variables: &[(String, String)],
        [api, admin]: [u16; 2],
        flags: &[&str],
    ) -> Child {
        let log = std::fs::File::options().create(true).append(true).open(dir.join("server.log")).unwrap();
        let mut command = stockhold(dir);
        command
            .arg("serve")
            .arg(format!("--listen=127.0.0.1:{api}"))
            .arg(format!("--admin-listen=127.0.0.1:{admin}"))
            .arg(format!("--data-dir={data}"))
            .args(flags);
        if let Some(store) = store {
            command.env("STOCKHOLD_STORE", store);
        }
        command.envs(variables.iter().cloned());
        command.stderr(log).spawn().unwrap()
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("server.log")).unwrap()
    }

    /// The log as soon as it has all of these words: it is written by a thread of its own, so a line may come after the answer.
    pub(crate) fn log_with(&self, words: &[&str]) -> String {
        wait_for("the lines of the log", || {
            Some(self.log()).filter(|log| words.iter().all(|part| log.contains(part)))
        })
    }

    pub(crate) fn wait_until_ready(&self) {
        wait_for("the server to be ready", || {
            self.admin("/readyz").is_some_and(|(status, _)| status == 200).then_some(())
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a process a signal by its name.
pub(crate) fn kill(process: u32, signal: &str) {
    let sent = Command::new("kill").args([format!("-{signal}"), process.to_string()]).status().unwrap();
    assert!(sent.success());
}

/// A port that nobody listens on and that no other test of this process is given.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let begin = u16::try_from(std::process::id().wrapping_mul(7_919) % u32::from(PORTS)).unwrap();
    wait_for("a free port", || {
        let port = FIRST_PORT + (begin + NEXT.fetch_add(1, Ordering::Relaxed)) % PORTS;
        // A bind would tell as well. But a child that another test starts at this moment would hold the bound socket until it executes
        // its program, and the server that gets the port could not bind it.
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err().then_some(port)
    })
}

/// A command that runs beside the test, killed when dropped.
pub(crate) struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    /// The next line of standard output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    /// Reads standard error up to a line with these words. Panics when it ends before.
    pub(crate) fn wait_for_line(&mut self, words: &str) {
        let mut seen = String::new();
        while !seen.contains(words) {
            let read = self.stderr.read_line(&mut seen).unwrap();
            assert!(read > 0, "it ended without saying {words:?}: {seen}");
        }
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end: the exit code and standard output.
    pub(crate) fn finish(mut self) -> (Option<i32>, String) {
        let mut out = String::new();
        self.stdout.read_to_string(&mut out).unwrap();
        (self.child.wait().unwrap().code(), out)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Standard output or standard error as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a command said, for a failed assertion.
pub(crate) fn said(output: &Output) -> String {
    format!("{}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr))
}

/// The values of a file with one in each line, to which a process may be writing. The end of a line that it has begun is missing.
pub(crate) fn json_lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let complete = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    complete.map(|line| serde_json::from_str(line).unwrap()).collect()
}
