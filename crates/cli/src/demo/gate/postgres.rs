//! A PostgreSQL of one's own: a child process with its data in a temporary directory, reached by a Unix socket, ended when it is
//! dropped. PostgreSQL refuses to run as root: then it runs as the user `postgres` or `nobody`.

use crate::client::CallError;
use rustix::process::{Pid, Signal, getuid, kill_process};
use std::fs::File;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Oldest major version that will do.
const OLDEST: u32 = 15;
/// How long a start may take.
const START: Duration = Duration::from_mins(1);
const START_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The line of the log that says that it serves.
const READY: &str = "database system is ready to accept connections";

/// The directory of `initdb` and `postgres`, if they are installed: the newest version.
pub(super) fn find() -> Option<PathBuf> {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let debian = debian.filter_map(|entry| {
        let version = entry.file_name().to_str()?.parse::<u32>().ok()?;
        Some((version, entry.path().join("bin")))
    });
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let path = path.into_iter().filter_map(|directory| {
        let printed = Command::new(directory.join("postgres")).arg("--version").output().ok()?;
        let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
        let version = printed.split_whitespace().nth(2)?.split('.').next()?.parse().ok()?;
        Some((version, directory))
    });
    let is_complete =
        |directory: &Path| ["initdb", "postgres"].iter().all(|program| directory.join(program).exists());
    let newest = debian.chain(path).filter(|(version, at)| *version >= OLDEST && is_complete(at)).max();
    newest.map(|(_, directory)| directory)
}

pub(super) struct PostgresProcess {
    child: Child,
    directory: TempDir,
}

impl PostgresProcess {
    /// Creates a database and starts the server, and waits until it serves.
    pub(super) async fn start(programs: &Path) -> Result<Self, CallError> {
        let directory = super::directory()?;
        let account = account()?;
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            CallError::Unexpected(format!("starting PostgreSQL: {what}: {error}"))
        };
        if let Some((user, group)) = account {
            chown(directory.path(), Some(user), Some(group))
                .map_err(|error| failed("its directory", &error))?;
        }
        let program = |name: &str| {
            let mut command = Command::new(programs.join(name));
            command.current_dir("/").stdin(Stdio::null());
            if let Some((user, group)) = account {
                command.uid(user).gid(group);
            }
            command
        };
        let data = directory.path().join("data");
        let made = program("initdb")
            .args([
                "--no-sync",
                "--auth=trust",
                "--username=stockhold",
                "--encoding=UTF8",
                "--locale=C",
                "-D",
            ])
            .arg(&data)
            .output()
            .map_err(|error| failed("initdb", &error))?;
        if !made.status.success() {
            return Err(failed("initdb", &String::from_utf8_lossy(&made.stderr)));
        }
        let log = directory.path().join("log");
        let file = File::create(&log).map_err(|error| failed("its log", &error))?;
        let child = program("postgres")
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(directory.path())
            .args(["-c", "listen_addresses=", "-c", "max_connections=200"])
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .map_err(|error| failed("postgres", &error))?;
        let mut postgres = Self { child, directory };
        let begun = Instant::now();
        loop {
            let printed = std::fs::read_to_string(&log).unwrap_or_default();
            if printed.contains(READY) {
                return Ok(postgres);
            }
            let ended = postgres.child.try_wait().map_err(|error| failed("postgres", &error))?;
            if ended.is_some() || begun.elapsed() > START {
                return Err(failed("its log ends with", &printed));
            }
            tokio::time::sleep(START_POLL_INTERVAL).await;
        }
    }

    /// The address of its database.
    pub(super) fn url(&self) -> String {
        let socket = self.directory.path().display().to_string().replace('/', "%2F");
        format!("postgres://stockhold@{socket}/postgres")
    }

    /// Where it is, for people.
    pub(super) fn shown(&self) -> String {
        format!("a socket in {}", self.directory.path().display())
    }
}

impl Drop for PostgresProcess {
    fn drop(&mut self) {
        // A SIGKILL would leave its children for a while.
        if kill_process(Pid::from_child(&self.child), Signal::QUIT).is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// The user and the group that it runs as, if they are not those of this process.
fn account() -> Result<Option<(u32, u32)>, CallError> {
    if !getuid().is_root() {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let ids = |name: &str| {
        let mut users = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let user = users.find(|fields| fields.first() == Some(&name))?;
        Some((user.get(2)?.parse().ok()?, user.get(3)?.parse().ok()?))
    };
    let other = ids("postgres").or_else(|| ids("nobody"));
    other.map(Some).ok_or_else(|| {
        CallError::Unexpected(
            "PostgreSQL does not run as root: it needs a user `postgres` or `nobody`".to_owned(),
        )
    })
}
