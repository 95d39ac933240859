//! What database servers need of a machine: an account that is not root, a folder of their own, and an end without a word.

use crate::spawn::Process;
use crate::{Outcome, fail};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest that a database may take to do as it is told.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(5);

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

/// Asks again until it is so.
pub(super) fn until(what: &str, mut so: impl FnMut() -> Outcome<bool>) -> Outcome<()> {
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
pub(super) fn program(name: &str, folders: &[PathBuf]) -> Outcome<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path: Vec<_> = std::env::split_paths(&path).collect();
    let found = folders.iter().chain(&path).map(|folder| folder.join(name)).find(|file| file.exists());
    found.ok_or_else(|| {
        format!("`{name}` is not there: install the database's server (see scripts/test)").into()
    })
}

/// SIGKILL to a process and to all that it has started, with nothing in between that any of them could do.
pub(super) fn kill_all(process: &mut Process) -> Outcome<()> {
    let parent = pid(process)?;
    kill_process(parent, Signal::STOP)?;
    let children = children(process.pid());
    process.kill()?;
    for child in &children {
        // One may have ended by itself.
        kill_process(*child, Signal::KILL).ok();
    }
    until("the killed processes are gone", || Ok(children.iter().all(|child| is_gone(*child))))
}

/// Sends a signal that ends it, and waits for the end.
pub(super) fn end(process: &mut Process, signal: Signal) -> Outcome<()> {
    kill_process(pid(process)?, signal)?;
    process.wait(PATIENCE).map(drop)
}

fn pid(process: &Process) -> Outcome<Pid> {
    let pid = i32::try_from(process.pid()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| "no such process".into())
}

fn children(parent: u32) -> Vec<Pid> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let of_parent = pids.filter(|pid| stat(*pid).is_some_and(|(_, of)| of == parent));
    of_parent.filter_map(Pid::from_raw).collect()
}

fn is_gone(pid: Pid) -> bool {
    stat(pid.as_raw_nonzero().get()).is_none_or(|(state, _)| state == 'Z')
}

/// State and parent of a process.
fn stat(pid: i32) -> Option<(char, u32)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may hold anything.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
