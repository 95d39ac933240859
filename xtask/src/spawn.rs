//! Child processes: the server and its private ports, pinned and preloaded as asked. Every child is killed by
//! its own pid when its handle goes; nothing is ever ended by name.

use crate::http::{Connection, Request};
use crate::{Outcome, fail};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::OpenOptions;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Longest that a start may take until the server says it is ready.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest that a stop may take.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Ports that are tried, each free a moment before.
const PORTS: u32 = 5;
const PORT_TAKEN: &str = "Address already in use (os error 98)";
const POLL: Duration = Duration::from_millis(2);
const LOG_TAIL_LINES: usize = 15;

/// A child that dies with its handle.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a command with both its outputs appended to `log`.
    pub(crate) fn start(mut command: Command, log: &Path) -> Outcome<Self> {
        let out = OpenOptions::new().create(true).append(true).open(log)?;
        let both = out.try_clone()?;
        command.stdin(Stdio::null()).stdout(out).stderr(both);
        let child =
            command.spawn().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        Ok(Self { child, log: log.to_owned() })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, and waits until it is gone.
    pub(crate) fn kill(&mut self) -> Outcome<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// SIGTERM.
    pub(crate) fn terminate(&self) -> Outcome<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::TERM)?)
    }

    /// Whether it has ended, and how.
    pub(crate) fn ended(&mut self) -> Outcome<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for its end; an error when it does not come in time.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Outcome<ExitStatus> {
        let deadline = Instant::now() + timeout;
        while Instant::now() < deadline {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            std::thread::sleep(POLL);
        }
        fail(format!("still running after {timeout:?}\n{}", self.log_tail()))
    }

    /// Everything it has said.
    pub(crate) fn log(&self) -> String {
        std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// The last of what it has said.
    pub(crate) fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already; then there is nothing left to kill and nothing to report.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A command, held to one core when asked.
pub(crate) fn pinned(program: &Path, cpu: Option<usize>) -> Command {
    match cpu {
        None => Command::new(program),
        Some(cpu) => {
            let mut command = Command::new("taskset");
            command.arg("-c").arg(cpu.to_string()).arg(program);
            command
        }
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_address() -> Outcome<SocketAddr> {
    Ok(listening()?.local_addr()?)
}

/// Two of them: given back one after the other they might be the same.
fn free_addresses() -> Outcome<(SocketAddr, SocketAddr)> {
    let (one, other) = (listening()?, listening()?);
    Ok((one.local_addr()?, other.local_addr()?))
}

fn listening() -> std::io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
}

/// The root of the workspace.
pub(crate) fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// A program or folder that scripts/servers has installed.
pub(crate) fn installed(path: &str) -> Outcome<PathBuf> {
    let path = workspace().join("target/servers").join(path);
    if path.exists() { Ok(path) } else { fail(format!("{} is missing: run scripts/servers", path.display())) }
}

/// How a server is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    /// As it is shipped, for measurements.
    Dist,
    /// With fault points and checked arithmetic, for everything that tries to break it: the build of the tests.
    Dev,
}

impl Build {
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Dist => &["--profile", "dist"],
            Self::Dev => &[],
        }
    }

    /// The folder under `target`.
    fn folder(self) -> &'static str {
        match self {
            Self::Dist => "dist",
            Self::Dev => "debug",
        }
    }
}

/// The server to run: the given file, or one that is built now.
pub(crate) fn server_binary(given: Option<&Path>, build: Build) -> Outcome<PathBuf> {
    if let Some(given) = given {
        return Ok(given.canonicalize().map_err(|error| format!("{}: {error}", given.display()))?);
    }
    let status = cargo()
        .args(["build", "--quiet", "--locked", "--package", "stockhold-server"])
        .args(build.arguments())
        .status()?;
    if !status.success() {
        return fail("the server does not build");
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from);
    let binary = target.join(build.folder()).join("stockhold");
    if binary.exists() { Ok(binary) } else { fail(format!("{} is missing", binary.display())) }
}

/// Cargo in the root of the workspace.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace());
    command
}

/// How to start a server.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) binary: PathBuf,
    pub(crate) data: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) cpu: Option<usize>,
    pub(crate) env: Vec<(String, String)>,
}

impl Launch {
    /// A server on `data`, whose log stands beside it.
    pub(crate) fn new(binary: &Path, data: &Path) -> Self {
        Self {
            binary: binary.to_owned(),
            data: data.to_owned(),
            log: data.with_extension("log"),
            cpu: None,
            env: Vec::new(),
        }
    }
}

/// A running `stockhold serve`.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Server {
    /// Starts it and does not wait for anything.
    pub(crate) fn spawn(launch: &Launch) -> Outcome<Self> {
        let (address, admin) = free_addresses()?;
        let mut command = pinned(&launch.binary, launch.cpu);
        command.arg("serve");
        command.arg("--listen").arg(address.to_string());
        command.arg("--admin-listen").arg(admin.to_string());
        command.arg("--data-dir").arg(&launch.data);
        command.envs(launch.env.iter().map(|(name, value)| (name, value)));
        Ok(Self { process: Process::start(command, &launch.log)?, address, admin })
    }

    /// Starts it and waits until it is ready. Tries another port when a process has taken this one meanwhile.
    pub(crate) fn start(launch: &Launch) -> Outcome<Self> {
        for _ in 0..PORTS {
            let mut server = Self::spawn(launch)?;
            match server.until_ready(START_TIMEOUT)? {
                Readiness::Ready => return Ok(server),
                Readiness::Ended(_) if server.process.log_tail().ends_with(PORT_TAKEN) => {}
                Readiness::Ended(status) => {
                    return fail(format!(
                        "the server ended at its start: {status}\n{}",
                        server.process.log_tail()
                    ));
                }
            }
        }
        fail("no port stays free until a server listens on it")
    }

    /// Waits until it is ready or has ended; an error when neither happens in time.
    pub(crate) fn until_ready(&mut self, timeout: Duration) -> Outcome<Readiness> {
        let deadline = Instant::now() + timeout;
        while Instant::now() < deadline {
            if let Some(status) = self.process.ended()? {
                return Ok(Readiness::Ended(status));
            }
            if self.is_ready() {
                return Ok(Readiness::Ready);
            }
            std::thread::sleep(POLL);
        }
        fail(format!("neither ready nor ended after {timeout:?}\n{}", self.process.log_tail()))
    }

    /// Whether it says that it is ready.
    pub(crate) fn is_ready(&self) -> bool {
        let asked = Connection::open(self.admin).and_then(|mut admin| admin.call(&Request::get("/readyz")));
        asked.is_ok_and(|answer| answer.status == 200)
    }

    /// SIGTERM, and insists on a clean exit.
    pub(crate) fn stop(mut self) -> Outcome<()> {
        self.process.terminate()?;
        let status = self.process.wait(STOP_TIMEOUT)?;
        if status.success() {
            return Ok(());
        }
        fail(format!("the server did not stop cleanly: {status}\n{}", self.process.log_tail()))
    }
}

/// A metric of a server, by its name or the beginning of that. `None` if there is none.
pub(crate) fn metric<T: std::str::FromStr>(admin: SocketAddr, name: &str) -> Outcome<Option<T>> {
    let answer = Connection::open(admin)?.call(&Request::get("/metrics"))?;
    let text = String::from_utf8_lossy(&answer.body);
    Ok(text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().last()?.parse().ok()))
}

/// What a start led to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Readiness {
    Ready,
    Ended(ExitStatus),
}

/// Runs `stockhold verify` on a data directory that no server uses; an error with its words when it finds drift.
pub(crate) fn verify(binary: &Path, data: &Path) -> Outcome<()> {
    verified(Command::new(binary).arg("verify").arg("--data-dir").arg(data))
}

/// The same on a database.
pub(crate) fn verify_store(binary: &Path, url: &str) -> Outcome<()> {
    verified(Command::new(binary).arg("verify").env("STOCKHOLD_STORE", url))
}

fn verified(verify: &mut Command) -> Outcome<()> {
    let output = verify.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    fail(format!("verify: {}\n{}", output.status, String::from_utf8_lossy(&said)))
}

/// A temporary folder, removed when its guard is dropped. It is under the build folder unless another disk is given.
pub(crate) fn scratch(disk: Option<&Path>, prefix: &str) -> Outcome<tempfile::TempDir> {
    let disk = disk.map_or_else(|| workspace().join("target"), Path::to_owned);
    std::fs::create_dir_all(&disk)?;
    Ok(tempfile::Builder::new().prefix(prefix).tempdir_in(disk.canonicalize()?)?)
}

/// Copies a data directory, file by file; it has no folders.
pub(crate) fn copy_dir(from: &Path, to: &Path) -> Outcome<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        if !entry.file_type()?.is_file() {
            return fail(format!("{} is no file", entry.path().display()));
        }
        std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
