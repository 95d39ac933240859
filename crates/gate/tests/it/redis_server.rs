//! A Redis server of a test's own.

use crate::ports::free_port;
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A Redis server without persistence, killed when dropped.
pub(crate) struct RedisServer {
    child: Child,
    port: u16,
    arguments: Vec<String>,
    dir: tempfile::TempDir,
}

impl RedisServer {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// One with further arguments. The name of a configuration file comes first. A node of a cluster also listens on the port that is
    /// 10,000 higher, so its own may not be above 55,535.
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        let port = free_port();
        let dir = tempfile::tempdir().unwrap();
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let server = Self { child: spawn(port, &arguments, &dir), port, arguments, dir };
        server.wait_until_it_listens();
        server
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
        self.child = spawn(self.port, &self.arguments, &self.dir);
        self.wait_until_it_listens();
    }

    /// Stops it from answering, or lets it go on.
    pub(crate) fn suspend(&self, suspended: bool) {
        let signal = if suspended { "-STOP" } else { "-CONT" };
        assert!(
            Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success()
        );
    }

    /// Runs a command.
    pub(crate) fn run<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        self.try_run(words).unwrap()
    }

    /// Runs a command on a server that may end its connections, as one does that gets another role.
    pub(crate) fn try_run<T: redis::FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        let mut connection = redis::Client::open(self.url())?.get_connection()?;
        redis::cmd(words[0]).arg(&words[1..]).query(&mut connection)
    }

    fn wait_until_it_listens(&self) {
        for _ in 0..1_000 {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("Redis does not listen");
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(port: u16, arguments: &[String], dir: &tempfile::TempDir) -> Child {
    Command::new("redis-server")
        .args(arguments)
        .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no"])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server does not start: scripts/servers installs it")
}
