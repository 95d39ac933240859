//! A Redis server of one's own: a child process without persistence, killed when it is dropped.

use super::super::server_process::free_ports;
use crate::client::CallError;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long a start may take.
const START: Duration = Duration::from_secs(15);
const START_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Tells these ports from those that the servers try first.
const PORT_SEED: u32 = 1_000;

/// The program, if it is installed.
pub(super) fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join("redis-server"))
        .find(|program| program.is_file())
}

pub(super) struct RedisProcess {
    child: Child,
    port: u16,
    /// Its working directory.
    _directory: TempDir,
}

impl RedisProcess {
    /// Starts it, and waits until it answers.
    pub(super) async fn start(program: &Path) -> Result<Self, CallError> {
        let [port, _] = free_ports(PORT_SEED)?;
        let directory = super::directory()?;
        let child = Command::new(program)
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &port.to_string()])
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| CallError::Unexpected(format!("starting {}: {error}", program.display())))?;
        let mut redis = Self { child, port, _directory: directory };
        let begun = Instant::now();
        while redis.command("PING").await.is_err() {
            if begun.elapsed() > START {
                return Err(CallError::Unexpected(format!("{} did not start", program.display())));
            }
            tokio::time::sleep(START_POLL_INTERVAL).await;
        }
        // Another Redis may have taken the port, and must not be emptied.
        match redis.child.try_wait() {
            Ok(None) => Ok(redis),
            _ => Err(CallError::Unexpected(format!("{} ended at its start", program.display()))),
        }
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Removes everything that it has.
    pub(super) async fn flush(&self) -> Result<(), CallError> {
        self.command("FLUSHALL").await
    }

    /// Sends a command, which must be answered with a word that is no error.
    async fn command(&self, command: &str) -> Result<(), CallError> {
        let failed = |error: std::io::Error| CallError::Unexpected(format!("Redis: {command}: {error}"));
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.map_err(failed)?;
        stream.write_all(format!("{command}\r\n").as_bytes()).await.map_err(failed)?;
        let first = stream.read_u8().await.map_err(failed)?;
        if first == b'+' { Ok(()) } else { Err(CallError::Unexpected(format!("Redis refused {command}"))) }
    }
}

impl std::ops::Drop for RedisProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
