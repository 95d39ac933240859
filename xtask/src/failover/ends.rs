//! How a database server ends here: without a word, or with a signal.

use crate::Outcome;
use crate::database::{PATIENCE, until};
use crate::spawn::Process;
use rustix::process::{Pid, Signal, kill_process};

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
