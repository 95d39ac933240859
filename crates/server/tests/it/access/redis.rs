//! A Redis server of a test's own.

use crate::clock_fixture::MovedClock;
use crate::support::{free_port, wait_for};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};

/// A Redis server without persistence, killed when dropped.
pub(crate) struct Redis {
    child: Child,
    port: u16,
    arguments: Vec<String>,
    variables: Vec<(&'static str, String)>,
    dir: tempfile::TempDir,
}

impl Redis {
    /// One with further arguments. `PORT` in them is its port.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, Vec::new())
    }

    /// One on a port without TLS, with another clock.
    pub(crate) fn with_clock(clock: &MovedClock) -> Self {
        Self::start_with(&["--port", "PORT"], clock.variables().into())
    }

    fn start_with(arguments: &[&str], variables: Vec<(&'static str, String)>) -> Self {
        let (port, dir) = (free_port(), tempfile::tempdir().unwrap());
        let arguments: Vec<_> =
            arguments.iter().map(|argument| argument.replace("PORT", &port.to_string())).collect();
        let child = spawn(&dir, &arguments, &variables);
        let redis = Self { child, port, arguments, variables, dir };
        redis.wait_until_it_listens();
        redis
    }

    /// One on a port without TLS.
    pub(crate) fn plain() -> Self {
        Self::start(&["--port", "PORT"])
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again on its port, without its data.
    pub(crate) fn restart(&mut self) {
        self.child = spawn(&self.dir, &self.arguments, &self.variables);
        self.wait_until_it_listens();
    }

    /// Sends it a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Sends a command without quotation, and returns the beginning of the answer.
    pub(crate) fn command(&self, line: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut answer = [0; 4096];
        let length = stream.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..length]).into_owned()
    }

    fn wait_until_it_listens(&self) {
        wait_for("Redis", || TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok());
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(dir: &tempfile::TempDir, arguments: &[String], variables: &[(&'static str, String)]) -> Child {
    Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(arguments)
        .envs(variables.iter().cloned())
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server does not start: scripts/servers installs it")
}
