//! Nothing that happens to standard error ends a command or a server, or makes a server wait.

use crate::support::{Server, free_port, kill, said, stockhold, text, wait_for};
use std::fs::File;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use stockhold_api::client::Client;

/// A server whose standard error is the test's, killed when dropped.
struct Logging {
    child: Child,
    ports: [u16; 2],
}

impl Logging {
    /// Starts one that writes much, and waits until it is ready.
    fn start(dir: &Path, stderr: Stdio) -> Self {
        let ports = [free_port(), free_port()];
        let mut command = stockhold(dir);
        command
            .args(["serve", "--data-dir=data", "--log-level=trace"])
            .arg(format!("--listen=127.0.0.1:{}", ports[0]))
            .arg(format!("--admin-listen=127.0.0.1:{}", ports[1]));
        let server = Self { child: command.stderr(stderr).spawn().unwrap(), ports };
        wait_for("the server to be ready", || server.get(1, "/readyz").filter(|(status, _)| *status == 200));
        server
    }

    /// The status and the body of an answer of the API (0) or of the admin listener (1), if it answers.
    fn get(&self, port: usize, path: &str) -> Option<(u16, String)> {
        let client = Client::new(&format!("http://127.0.0.1:{}", self.ports[port])).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let raw = runtime.block_on(client.send_raw("GET", path, b"")).ok()?;
        Some((raw.status, text(&raw.body)))
    }

    fn dropped_lines(&self) -> u64 {
        let (_, metrics) = self.get(1, "/metrics").unwrap();
        let name = "stockhold_log_lines_dropped_total ";
        let line = metrics.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap()
    }

    /// Sends requests until lines are dropped, and some after that.
    #[track_caller]
    fn write_more_than_is_read(&self) {
        let client = Client::new(&format!("http://127.0.0.1:{}", self.ports[0])).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // On many connections: each of them is worth some lines.
        let ask = || {
            runtime.block_on(async {
                let mut asking = tokio::task::JoinSet::new();
                for _ in 0..64 {
                    let client = client.clone();
                    asking.spawn(async move { client.send_raw("GET", "/v1/inventory/none", b"").await });
                }
                while let Some(answer) = asking.join_next().await {
                    assert_eq!(answer.unwrap().unwrap().status, 404);
                }
            });
        };
        wait_for("a line to be dropped", || {
            ask();
            (self.dropped_lines() > 0).then_some(())
        });
        ask();
    }

    fn terminate(&mut self) -> ExitStatus {
        kill(self.child.id(), "TERM");
        wait_for("the server's end", || self.child.try_wait().unwrap())
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_serves_and_drains_after_the_reader_of_its_log_has_gone() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Logging::start(dir.path(), Stdio::piped());
    drop(server.child.stderr.take());
    server.write_more_than_is_read();
    assert_eq!(server.terminate().code(), Some(0));
}

#[test]
fn a_server_serves_and_drains_with_a_full_disk_below_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut server = Logging::start(dir.path(), full.into());
    server.write_more_than_is_read();
    assert_eq!(server.terminate().code(), Some(0));
}

#[test]
fn a_server_serves_and_drains_while_the_reader_of_its_log_hangs() {
    let dir = tempfile::tempdir().unwrap();
    // Nobody reads the pipe, and it stays open.
    let mut server = Logging::start(dir.path(), Stdio::piped());
    server.write_more_than_is_read();
    assert_eq!(server.terminate().code(), Some(0));
}

#[test]
fn a_command_ends_as_otherwise_if_its_errors_cannot_be_written() {
    let server = Server::start();
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    let url = server.url();
    let run = |arguments: &[&str]| {
        let mut command = stockhold(server.dir());
        command.args(arguments).env("STOCKHOLD_SERVER", &url).stderr(full()).output().unwrap()
    };
    let made = run(&["ctl", "stock", "set", "tea", "--total", "3"]);
    assert_eq!(made.status.code(), Some(0), "{}", said(&made));
    // It prints the idempotency key that it has made.
    let held = run(&["ctl", "reserve", "tea", "--owner", "cart"]);
    assert_eq!(held.status.code(), Some(0), "{}", said(&held));
    let refused = run(&["ctl", "get", "none"]);
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    let invalid = run(&["serve", "--log-level", "loud"]);
    assert_eq!(invalid.status.code(), Some(2), "{}", said(&invalid));
}

#[test]
fn signals_that_do_not_end_a_server() {
    let mut server = Server::start();
    for signal in ["HUP", "USR1", "USR2", "HUP"] {
        kill(server.id(), signal);
    }
    wait_for("the files to be read again", || server.log().contains("SIGHUP").then_some(()));
    assert!(server.item("none").is_none());
    assert_eq!(server.admin("/livez"), Some((200, "ok\n".to_owned())));
    assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
}
