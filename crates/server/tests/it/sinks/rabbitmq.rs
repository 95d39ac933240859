//! A `RabbitMQ` server of a test's own.

use crate::support::{free_port, wait_for};
use std::fs;
use std::process::{Command, Stdio};

/// A `RabbitMQ` server with a data directory of its own, stopped when dropped.
pub(super) struct RabbitMq {
    port: u16,
    distribution_port: u16,
    epmd_port: u16,
    node: String,
    dir: tempfile::TempDir,
}

impl RabbitMq {
    pub(super) fn start() -> Self {
        Self::start_with("")
    }

    /// One with further lines of its configuration.
    pub(super) fn start_with(lines: &str) -> Self {
        let (port, distribution_port, epmd_port) = (free_port(), free_port(), free_port());
        let node = format!("test{port}@localhost");
        let server = Self { port, distribution_port, epmd_port, node, dir: tempfile::tempdir().unwrap() };
        let config = format!(
            "listeners.tcp.1 = 127.0.0.1:{port}\nloopback_users = none\nlog.console = false\n{lines}"
        );
        fs::write(server.dir.path().join("rabbitmq.conf"), config).unwrap();
        fs::write(server.dir.path().join("plugins"), "[].\n").unwrap();
        server.spawn();
        server
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port)
    }

    /// Starts it on its data.
    pub(super) fn spawn(&self) {
        let mut command = self.command("/usr/lib/rabbitmq/bin/rabbitmq-server");
        let started = command.arg("-detached").stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(started.expect("rabbitmq-server does not start: scripts/servers installs it").success());
        wait_for("RabbitMQ", || {
            let check = self.control().args(["await_startup"]).output().unwrap();
            check.status.success().then_some(())
        });
    }

    /// Stops it. Its messages stay.
    pub(super) fn stop(&self) {
        let stopped = self.control().arg("stop").output().unwrap();
        assert!(stopped.status.success(), "{stopped:?}");
    }

    /// Makes a user who may do everything.
    pub(super) fn add_user(&self, name: &str, password: &str) {
        for arguments in [&["add_user", name, password][..], &["set_permissions", name, ".*", ".*", ".*"]] {
            let done = self.control().args(arguments).output().unwrap();
            assert!(done.status.success(), "{done:?}");
        }
    }

    /// Makes a user who may write to these exchanges, and do nothing else.
    pub(super) fn add_publisher(&self, name: &str, password: &str, exchanges: &str) {
        for arguments in
            [&["add_user", name, password][..], &["set_permissions", name, "^$", exchanges, "^$"]]
        {
            let done = self.control().args(arguments).output().unwrap();
            assert!(done.status.success(), "{done:?}");
        }
    }

    fn control(&self) -> Command {
        let mut command = self.command("/usr/lib/rabbitmq/bin/rabbitmqctl");
        command.args(["-n", &self.node, "--quiet"]);
        command
    }

    fn command(&self, program: &str) -> Command {
        let dir = self.dir.path();
        let mut command = Command::new(program);
        command
            .env("HOME", dir)
            .env("RABBITMQ_NODENAME", &self.node)
            .env("RABBITMQ_DIST_PORT", self.distribution_port.to_string())
            .env("RABBITMQ_CONFIG_FILE", dir.join("rabbitmq.conf"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", dir.join("plugins"))
            .env("RABBITMQ_MNESIA_BASE", dir.join("data"))
            .env("RABBITMQ_LOG_BASE", dir.join("log"))
            .env("RABBITMQ_PID_FILE", dir.join("pid"))
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("ERL_EPMD_PORT", self.epmd_port.to_string())
            .stdin(Stdio::null());
        command
    }
}

impl Drop for RabbitMq {
    fn drop(&mut self) {
        // The process of the server is not a child of this one.
        let _ = self.control().arg("stop").output();
        let _ = Command::new("epmd").env("ERL_EPMD_PORT", self.epmd_port.to_string()).arg("-kill").output();
    }
}
