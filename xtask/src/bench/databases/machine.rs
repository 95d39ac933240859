//! What the benchmark's database servers need of a machine: an account that is not root, and clients that are run to their end.

use crate::{Outcome, fail};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest that a database may take to start.
const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(20);

/// Lets other accounts through a folder.
pub(super) fn let_in(folder: &Path) -> Outcome<()> {
    Ok(std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?)
}

/// Whom a server runs as: it refuses to run as root.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account(Option<(u32, u32)>);

impl Account {
    /// The account of that name if this is root, else whoever this is.
    pub(super) fn named(name: &str) -> Outcome<Self> {
        if std::fs::metadata("/proc/self")?.uid() != 0 {
            return Ok(Self(None));
        }
        let users = std::fs::read_to_string("/etc/passwd")?;
        let ids = users.lines().find_map(|line| match line.split(':').collect::<Vec<_>>()[..] {
            [user, _, uid, gid, ..] if user == name => Some((uid.parse().ok()?, gid.parse().ok()?)),
            _ => None,
        });
        match ids {
            Some(ids) => Ok(Self(Some(ids))),
            None => fail(format!("root needs the account `{name}`: install the database's package")),
        }
    }

    /// A new folder of its own.
    pub(super) fn folder(self, path: &Path) -> Outcome<()> {
        std::fs::create_dir_all(path)?;
        if let Some((user, group)) = self.0 {
            chown(path, Some(user), Some(group))?;
        }
        Ok(())
    }

    /// A command that it runs.
    pub(super) fn command(self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/").stdin(Stdio::null());
        if let Some((user, group)) = self.0 {
            command.uid(user).gid(group);
        }
        command
    }
}

/// Runs a command to its end; what it said, or an error with it.
pub(super) fn done(command: &mut Command) -> Outcome<String> {
    let program = command.get_program().display().to_string();
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = [output.stdout, output.stderr].concat();
    fail(format!("{program}: {}: {}", output.status, String::from_utf8_lossy(&said).trim()))
}

/// Asks again until it does not fail.
pub(super) fn until(what: &str, mut asked: impl FnMut() -> Outcome<String>) -> Outcome<()> {
    let begun = Instant::now();
    loop {
        match asked() {
            Ok(_) => return Ok(()),
            Err(error) if begun.elapsed() > PATIENCE => {
                return fail(format!("not within {PATIENCE:?}: {what}: {error}"));
            }
            Err(_) => std::thread::sleep(POLL),
        }
    }
}

/// A program: in the newest of the folders where packages put it, or on the path.
pub(super) fn program(name: &str, folders: &[PathBuf]) -> Outcome<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path: Vec<_> = std::env::split_paths(&path).collect();
    let found = folders.iter().chain(&path).map(|folder| folder.join(name)).find(|file| file.exists());
    found.ok_or_else(|| {
        format!("`{name}` is not there: install the database's server (see scripts/test)").into()
    })
}

/// Three figures in one line.
pub(super) fn three(text: &str) -> Outcome<[u64; 3]> {
    let figures: Vec<u64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    <[u64; 3]>::try_from(figures).map_err(|found| format!("three figures, found {found:?}").into())
}
