//! What database servers need of a machine: their programs, an account that is not root, a folder of its own, and patience.

use crate::{Outcome, fail};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest that a database may take to do as it is told.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(5);

/// Lets other accounts through a folder.
pub(crate) fn make_readable(folder: &Path) -> Outcome<()> {
    Ok(std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?)
}

/// Whom a server runs as: it refuses to run as root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account(Option<(u32, u32)>);

impl Account {
    /// The account of that name if this is root, else whoever this is.
    pub(crate) fn named(name: &str) -> Outcome<Self> {
        if std::fs::metadata("/proc/self")?.uid() != 0 {
            return Ok(Self(None));
        }
        let users = std::fs::read_to_string("/etc/passwd")?;
        let ids = users.lines().map(|line| line.split(':').collect::<Vec<_>>()).find_map(
            |fields| match fields[..] {
                [user, _, uid, gid, ..] if user == name => Some((uid.parse().ok()?, gid.parse().ok()?)),
                _ => None,
            },
        );
        match ids {
            Some(ids) => Ok(Self(Some(ids))),
            None => {
                fail(format!("root needs the account `{name}` to run the server as: install its package"))
            }
        }
    }

    /// A new folder of its own.
    pub(crate) fn folder(self, path: &Path) -> Outcome<()> {
        std::fs::create_dir_all(path)?;
        if let Some((user, group)) = self.0 {
            chown(path, Some(user), Some(group))?;
        }
        Ok(())
    }

    /// A command that it runs.
    pub(crate) fn command(self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/").stdin(Stdio::null());
        if let Some((user, group)) = self.0 {
            command.uid(user).gid(group);
        }
        command
    }
}

/// Runs a command to its end; what it said, or an error with it.
pub(crate) fn done(command: &mut Command) -> Outcome<String> {
    let program = command.get_program().display().to_string();
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = [output.stdout, output.stderr].concat();
    fail(format!("{program}: {}: {}", output.status, String::from_utf8_lossy(&said).trim()))
}

/// Asks again until it is so.
pub(crate) fn until(what: &str, mut so: impl FnMut() -> Outcome<bool>) -> Outcome<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let last = so();
        if let Ok(true) = last {
            return Ok(());
        }
        if Instant::now() > deadline {
            let why = last.err().map(|error| format!(": {error}")).unwrap_or_default();
            return fail(format!("not within {PATIENCE:?}: {what}{why}"));
        }
        std::thread::sleep(POLL);
    }
}

/// A program: in the newest of the folders where packages put it, or on the path.
pub(crate) fn program(name: &str, folders: &[PathBuf]) -> Outcome<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path: Vec<_> = std::env::split_paths(&path).collect();
    let found = folders.iter().chain(&path).map(|folder| folder.join(name)).find(|file| file.exists());
    found.ok_or_else(|| {
        format!("`{name}` is not there: install the database's server (see scripts/test)").into()
    })
}
