//! A server of one's own: a child process on free ports of this machine, killed when it is dropped.
//!
//! It touches no other process: what it ends is the child that it started, by its handle.

use crate::client::CallError;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use stockhold_api::client::Client;
use stockhold_config as config;

/// Where free ports are looked for: below those that systems give to outgoing connections. A client that knocks on a
/// port of that range, while its server is away, may be given the very same one and meet itself.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// How often other ports are tried.
const STARTS: u32 = 3;
/// A prime that sets processes with neighbouring ids, and the tries of one of them, far apart from each other.
const APART: u32 = 7_919;
/// How long a start may take.
const START: Duration = Duration::from_secs(30);
/// How often a starting server is looked at.
const START_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long one look may take.
const LOOK: Duration = Duration::from_secs(2);
/// Lines of the server's log that a failed start shows.
const SHOWN_LINES: usize = 5;

/// A server that the demo starts, kills and starts again.
pub(super) struct ServerProcess {
    dir: PathBuf,
    /// Environment variables. Without any, the data is in the directory.
    variables: Vec<(String, String)>,
    ports: [u16; 2],
    child: Child,
}

impl ServerProcess {
    /// Starts a server with its data below `dir`, and waits until it serves. Somebody may take a port between its
    /// choice and the server's start: then it is tried on others.
    pub(super) async fn start(dir: &Path, variables: &[(String, String)]) -> Result<Self, CallError> {
        let mut tries = 1;
        loop {
            let ports = free_ports(tries)?;
            let mut server = Self {
                dir: dir.to_owned(),
                variables: variables.to_vec(),
                ports,
                child: spawn(dir, variables, ports)?,
            };
            match server.ready().await {
                Err(_) if tries < STARTS => tries += 1,
                ready => return ready.map(|()| server),
            }
        }
    }

    /// Starts it again on the same ports and data.
    pub(super) async fn restart(&mut self) -> Result<(), CallError> {
        self.kill()?;
        self.child = spawn(&self.dir, &self.variables, self.ports)?;
        self.ready().await
    }

    /// Kills it as kill -9 does: it can't do anything about it.
    pub(super) fn kill(&mut self) -> Result<(), CallError> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map(|_| ()).map_err(|error| CallError::Unexpected(format!("killing the server: {error}")))
    }

    /// The process's id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it serves.
    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    async fn ready(&mut self) -> Result<(), CallError> {
        let admin = Client::new(&format!("http://127.0.0.1:{}", self.ports[1]))
            .map_err(|error| CallError::Unexpected(error.to_string()))?
            .with_patience(NonZeroU32::MIN, LOOK);
        let begun = Instant::now();
        loop {
            if matches!(admin.send_raw("GET", "/readyz", b"").await, Ok(raw) if raw.status == 200) {
                return Ok(());
            }
            let ended = self.child.try_wait().map_err(|error| CallError::Unexpected(error.to_string()))?;
            if ended.is_some() || begun.elapsed() > START {
                let log = std::fs::read_to_string(log_file(&self.dir)).unwrap_or_default();
                let tail: Vec<&str> = log.lines().rev().take(SHOWN_LINES).collect();
                let tail = tail.into_iter().rev().collect::<Vec<_>>().join("\n");
                return Err(CallError::Unexpected(format!(
                    "the server did not start. Its log ends with:\n{tail}"
                )));
            }
            tokio::time::sleep(START_POLL_INTERVAL).await;
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended already, which is as well.
        let _ = self.kill();
    }
}

fn log_file(dir: &Path) -> PathBuf {
    dir.join("server.log")
}

/// The child sees neither a configuration file nor other variables: the demo is the same everywhere.
fn spawn(dir: &Path, variables: &[(String, String)], [api, admin]: [u16; 2]) -> Result<Child, CallError> {
    let failed = |error: std::io::Error| CallError::Unexpected(format!("starting a server: {error}"));
    let exe = std::env::current_exe().map_err(failed)?;
    let log = File::options().create(true).append(true).open(log_file(dir)).map_err(failed)?;
    let mut command = Command::new(exe);
    command.arg("serve");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with(config::PREFIX) {
            command.env_remove(name);
        }
    }
    if variables.is_empty() {
        // A laptop's full disk should not stop a demo that needs next to nothing.
        command.args(["--data-dir=data", "--free-space-floor-mib=0"]);
    }
    command
        .arg(format!("--listen=127.0.0.1:{api}"))
        .arg(format!("--admin-listen=127.0.0.1:{admin}"))
        .envs(variables.iter().cloned())
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .map_err(failed)
}

/// Two free ports. The search starts at a number that differs between processes.
pub(super) fn free_ports(tries: u32) -> Result<[u16; 2], CallError> {
    let range = PORTS.end - PORTS.start;
    let apart = std::process::id().wrapping_add(tries).wrapping_mul(APART) % u32::from(range);
    let begin = u16::try_from(apart).unwrap_or(0);
    let mut free = (0..range)
        .map(|step| PORTS.start + (begin + step) % range)
        .filter(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
    match (free.next(), free.next()) {
        (Some(api), Some(admin)) => Ok([api, admin]),
        _ => Err(CallError::Unexpected(format!("no free port from {} to {}", PORTS.start, PORTS.end))),
    }
}
