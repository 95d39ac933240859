//! The server of a test: the real binary on free loopback ports and a data directory of its own, killed when dropped.

use super::wire::{Answer, Call, Wire};
use crate::support::{free_port, stockhold, wait_for};
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use tempfile::TempDir;

/// The server of a test.
pub(crate) struct Server {
    child: Child,
    ports: [u16; 2],
    flags: Vec<String>,
    root_key: Option<String>,
    dir: TempDir,
}

impl Server {
    /// Starts one and waits until it is ready.
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// The same for callers with credentials only.
    pub(crate) fn with_root_key(root_key: &str) -> Self {
        Self::configured(&[], Some(root_key.to_owned()))
    }

    /// The same with more flags.
    pub(crate) fn with(flags: &[&str]) -> Self {
        Self::configured(flags, None)
    }

    fn configured(flags: &[&str], root_key: Option<String>) -> Self {
        let dir = TempDir::new().unwrap();
        let flags = flags.iter().map(|&flag| flag.to_owned()).collect::<Vec<_>>();
        let (child, ports) = started(dir.path(), &flags, root_key.as_deref());
        Self { child, ports, flags, root_key, dir }
    }

    /// Kills it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again on the same data.
    pub(crate) fn start_again(&mut self) {
        (self.child, self.ports) = started(self.dir.path(), &self.flags, self.root_key.as_deref());
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits until it has ended.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        wait_for("the server's end", || self.child.try_wait().unwrap())
    }

    /// One request on a connection of its own.
    #[track_caller]
    pub(crate) fn ask(&self, call: &Call) -> Answer {
        self.connect().ask(call)
    }

    /// One request to the admin listener.
    #[track_caller]
    pub(crate) fn ask_admin(&self, call: &Call) -> Answer {
        Wire::connect(local(self.ports[1])).ask_elsewhere(call)
    }

    /// A metric without labels that counts something, as it is now.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let scrape = self.ask_admin(&Call::get("/metrics")).text();
        let line = scrape.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {scrape}")).parse().unwrap()
    }

    /// Memory of the process that is in use, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Where its API listens.
    pub(crate) fn address(&self) -> SocketAddr {
        local(self.ports[0])
    }

    /// Where its admin listener listens.
    pub(crate) fn admin_address(&self) -> SocketAddr {
        local(self.ports[1])
    }

    /// A connection to the API.
    pub(crate) fn connect(&self) -> Wire {
        Wire::connect(local(self.ports[0]))
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    /// The log as soon as it has all of these words: it is written by a thread of its own, so a line may come after the answer.
    pub(crate) fn log_with(&self, words: &[&str]) -> String {
        crate::support::wait_for("the lines of the log", || {
            Some(self.log()).filter(|log| words.iter().all(|part| log.contains(part)))
        })
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Makes an item with so many units.
    #[track_caller]
    pub(crate) fn stock(&self, sku: &str, total: u64) {
        let path = format!("/v1/inventory/{sku}");
        let answer = self.ask(&Call::put(path).json(&serde_json::json!({ "total_units": total })));
        assert_eq!(answer.status, 201, "{}", answer.text());
    }

    /// An item as the server shows it.
    #[track_caller]
    pub(crate) fn item(&self, sku: &str) -> serde_json::Value {
        let answer = self.ask(&Call::get(format!("/v1/inventory/{sku}")));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended on its own.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !std::thread::panicking() {
            let log = fs::read_to_string(self.dir.path().join("log")).unwrap();
            assert!(!log.contains("panicked") && !log.contains("invariant"), "the server's log:\n{log}");
        }
    }
}

pub(crate) fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

fn started(dir: &Path, flags: &[String], root_key: Option<&str>) -> (Child, [u16; 2]) {
    let ports = [free_port(), free_port()];
    let log = File::options().create(true).append(true).open(dir.join("log")).unwrap();
    let mut command = stockhold(dir);
    if let Some(root_key) = root_key {
        command.env("STOCKHOLD_ROOT_KEY", root_key);
    }
    let mut child = command
        .args(["serve", "--data-dir", "data", "--threads", "2"])
        .args(["--listen", &local(ports[0]).to_string(), "--admin-listen", &local(ports[1]).to_string()])
        .args(flags)
        .stderr(log)
        .spawn()
        .unwrap();
    wait_for("the server to be ready", || {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "{ended:?}: {}", fs::read_to_string(dir.join("log")).unwrap());
        is_ready(local(ports[1])).then_some(())
    });
    (child, ports)
}

fn is_ready(admin: SocketAddr) -> bool {
    // A server that ends accepts nothing more, or closes its connections without an answer. Its caller sees the end and shows the log.
    let Some(mut wire) = Wire::try_connect(admin) else { return false };
    wire.try_send(&Call::get("/readyz").bytes())
        && wire.next_answer(true).is_some_and(|answer| answer.status == 200)
}
