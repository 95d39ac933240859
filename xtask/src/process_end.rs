//! Ends processes that have started others: the whole tree at once with SIGKILL, or one process with a signal.

use crate::Outcome;
use crate::database::{PATIENCE, until};
use crate::spawn::Process;
use rustix::process::{Pid, Signal, kill_process};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(5);

/// Kills a process and all of its descendants. The process is stopped first, so that it starts no others meanwhile.
pub(crate) fn kill_tree(process: &mut Process) -> Outcome<()> {
    let parent = pid(process)?;
    kill_process(parent, Signal::STOP)?;
    let started = descendants(parent);
    process.kill()?;
    for child in &started {
        // One may have ended by itself.
        kill_process(*child, Signal::KILL).ok();
    }
    until("the killed processes are gone", || Ok(started.iter().all(|child| is_gone(*child))))
}

/// Waits for the end of a process. After `patience` it is killed with all of its descendants, and there is no status.
pub(crate) fn wait_within(process: &mut Process, patience: Duration) -> Outcome<Option<ExitStatus>> {
    let until = Instant::now() + patience;
    loop {
        match process.ended()? {
            Some(status) => return Ok(Some(status)),
            None if Instant::now() > until => return kill_tree(process).map(|()| None),
            None => std::thread::sleep(POLL),
        }
    }
}

/// Sends a signal that ends a process, and waits for the end.
pub(crate) fn end(process: &mut Process, signal: Signal) -> Outcome<()> {
    kill_process(pid(process)?, signal)?;
    process.wait(PATIENCE).map(drop)
}

fn pid(process: &Process) -> Outcome<Pid> {
    let pid = i32::try_from(process.pid()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| "no such process".into())
}

/// Children and their children, at all depths.
fn descendants(first: Pid) -> Vec<Pid> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let parents: Vec<(Pid, i32)> = pids.filter_map(|pid| Some((Pid::from_raw(pid)?, stat(pid)?.1))).collect();
    let mut found = vec![first];
    let mut looked_at = 0;
    while let Some(parent) = found.get(looked_at).map(|pid| pid.as_raw_nonzero().get()) {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child));
        looked_at += 1;
    }
    found.split_off(1)
}

fn is_gone(pid: Pid) -> bool {
    stat(pid.as_raw_nonzero().get()).is_none_or(|(state, _)| state == 'Z')
}

/// State and parent of a process.
fn stat(pid: i32) -> Option<(char, i32)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may hold anything.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_that_does_not_end_in_time_is_killed_with_its_descendants() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let mut shell = Command::new("sh");
        shell.args(["-c", "sh -c 'sleep 600 & echo $! >\"$0\"; wait' \"$0\"; true"]).arg(&file);
        let mut process = Process::start(shell, &folder.path().join("log")).unwrap();
        let started = || std::fs::read_to_string(&file).ok()?.trim().parse().ok().and_then(Pid::from_raw);
        until("the shell has started another", || Ok(started().is_some())).unwrap();
        assert_eq!(wait_within(&mut process, Duration::ZERO).unwrap(), None);
        assert!(is_gone(started().unwrap()));
    }
}
