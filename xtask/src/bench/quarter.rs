//! A server held to a quarter of its core: by a control group where one can be made, else by stopping and continuing it.

use super::lab::ServerOnData;
use crate::load::Run;
use crate::spawn::Server;
use crate::{Outcome, fail};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Of every period, what the server may use. Short, so that what is measured is the server and not the length of its pauses.
const PERIOD: Duration = Duration::from_millis(10);
const SHARE: Duration = Duration::from_micros(2_500);

/// Second and first version of control groups, where they are usually mounted.
const SECOND: &str = "/sys/fs/cgroup";
const FIRST: &str = "/sys/fs/cgroup/cpu";

/// Successes count when they come within so long.
pub(super) const IN_TIME: Duration = Duration::from_secs(1);

/// Successes per second that came in time.
pub(super) fn goodput(run: &Run) -> f64 {
    run.rate_within(IN_TIME)
}

/// A server and what holds it. It is killed in the end, before its data goes and before its group, which can't go while
/// someone is in it.
pub(super) struct ThrottledServer {
    running: ServerOnData,
    hold: Throttle,
}

enum Throttle {
    Group(Group),
    Pauses(Arc<AtomicBool>, Option<JoinHandle<()>>),
}

/// A control group. It goes with its last member.
struct Group(PathBuf);

impl ThrottledServer {
    pub(super) fn start(running: ServerOnData) -> Self {
        let pid = running.server.process.pid();
        let hold = second(pid).or_else(|_| first(pid)).map_or_else(|_| pauses(pid), Throttle::Group);
        Self { running, hold }
    }

    pub(super) fn server(&self) -> &Server {
        &self.running.server
    }

    /// How it is held, in words.
    pub(super) fn how(&self) -> &'static str {
        match &self.hold {
            Throttle::Group(Group(folder)) if folder.starts_with(FIRST) => {
                "control group, cfs_quota 2.5 of 10 ms"
            }
            Throttle::Group(_) => "control group, cpu.max 2.5 of 10 ms",
            Throttle::Pauses(..) => "SIGSTOP and SIGCONT, 2.5 of 10 ms",
        }
    }
}

impl Drop for ThrottledServer {
    fn drop(&mut self) {
        // Before the server goes, since afterwards its number may be another's.
        if let Throttle::Pauses(stop, thread) = &mut self.hold {
            stop.store(true, Ordering::Relaxed);
            thread.take().map(JoinHandle::join);
        }
    }
}

fn second(pid: u32) -> Outcome<Group> {
    let group = Group::new(SECOND, pid)?;
    std::fs::write(Path::new(SECOND).join("cgroup.subtree_control"), "+cpu")?;
    group.set("cpu.max", &format!("{} {}", SHARE.as_micros(), PERIOD.as_micros()))?;
    group.set("cgroup.procs", &pid.to_string())?;
    Ok(group)
}

fn first(pid: u32) -> Outcome<Group> {
    let group = Group::new(FIRST, pid)?;
    group.set("cpu.cfs_period_us", &PERIOD.as_micros().to_string())?;
    group.set("cpu.cfs_quota_us", &SHARE.as_micros().to_string())?;
    group.set("cgroup.procs", &pid.to_string())?;
    Ok(group)
}

impl Group {
    fn new(root: &str, pid: u32) -> Outcome<Self> {
        let root = Path::new(root);
        if !root.join("cgroup.procs").exists() {
            return fail("no control groups there");
        }
        let folder = root.join(format!("stockhold-bench-{pid}"));
        std::fs::create_dir(&folder)?;
        Ok(Self(folder))
    }

    fn set(&self, name: &str, value: &str) -> Outcome<()> {
        Ok(std::fs::write(self.0.join(name), value)?)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // One that stays behind is empty and costs nothing.
        std::fs::remove_dir(&self.0).ok();
    }
}

fn pauses(pid: u32) -> Throttle {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
        while !stopped.load(Ordering::Relaxed) {
            // A server that has ended needs no holding.
            if kill_process(pid, Signal::STOP).is_err() {
                return;
            }
            std::thread::sleep(PERIOD.saturating_sub(SHARE));
            if kill_process(pid, Signal::CONT).is_err() {
                return;
            }
            std::thread::sleep(SHARE);
        }
    });
    Throttle::Pauses(stop, Some(thread))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawn::Process;
    use std::process::Command;

    /// `T` while it is stopped.
    fn state(pid: u32) -> String {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        text.rsplit(')').next().unwrap().trim_start()[..1].to_owned()
    }

    #[test]
    fn pauses_stop_a_program_again_and_again_and_leave_it_running() {
        let folder = tempfile::tempdir().unwrap();
        let mut spin = Command::new("sh");
        spin.args(["-c", "while :; do :; done"]);
        let process = Process::start(spin, &folder.path().join("log")).unwrap();
        let pid = process.pid();
        let Throttle::Pauses(stop, thread) = pauses(pid) else { panic!("no pauses") };
        for _ in 0..3 {
            while state(pid) != "T" {}
            while state(pid) == "T" {}
        }
        stop.store(true, Ordering::Relaxed);
        thread.unwrap().join().unwrap();
        while state(pid) == "T" {}
    }
}
