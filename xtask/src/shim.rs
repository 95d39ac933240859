//! The preloaded disk of `shim/syncshim.c` and the preloaded clock of `shim/clockshim.c`: compiled when needed, armed and
//! read through small shared files.

use crate::{Outcome, fail};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = include_str!("../shim/syncshim.c");
const CLOCK_SOURCE: &str = include_str!("../shim/clockshim.c");
/// Five counters of eight bytes: armed, syncs, bytes, fired, writes.
const CONTROL_BYTES: u64 = 40;

/// What the disk does once it is armed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DiskFault {
    /// Syncs do nothing.
    SyncOff,
    /// Every sync takes this many microseconds longer.
    SyncDelay(u64),
    /// The n-th sync and all after it fail.
    SyncFails(u64),
    /// The n-th sync fails, those after it work.
    SyncFailsOnce(u64),
    /// The process is killed at the n-th sync, before or after it.
    KilledAtSync(u64),
    /// The n-th write and all after it fail.
    WriteFails(u64),
    /// The n-th write fails, those after it work.
    WriteFailsOnce(u64),
    /// Half of the n-th write is made, and the process is killed.
    KilledAtWrite(u64),
    /// No room after so many bytes.
    NoSpaceAfter(u64),
}

/// One preloaded disk, for one start of a server.
#[derive(Debug)]
pub(crate) struct Shim {
    library: PathBuf,
    control: PathBuf,
    file: File,
    trick: DiskFault,
}

impl Shim {
    /// Compiles the shim into `folder` unless it is there, and makes a fresh control file.
    pub(crate) fn prepare(folder: &Path, trick: DiskFault) -> Outcome<Self> {
        let library = library(folder, "syncshim", SOURCE)?;
        let control = folder.join("syncshim.control");
        // A server that still maps the file of an earlier use must not see this one's counters.
        std::fs::remove_file(&control).ok();
        let file = OpenOptions::new().create_new(true).read(true).write(true).open(&control)?;
        file.set_len(CONTROL_BYTES)?;
        Ok(Self { library, control, file, trick })
    }

    /// What the server's environment needs.
    pub(crate) fn env(&self) -> Vec<(String, String)> {
        let (name, value) = match self.trick {
            DiskFault::SyncOff => ("SYNCSHIM_OFF", 1),
            DiskFault::SyncDelay(micros) => ("SYNCSHIM_DELAY_US", micros),
            DiskFault::SyncFails(nth) => ("SYNCSHIM_FAIL_SYNC_AT", nth),
            DiskFault::SyncFailsOnce(nth) => ("SYNCSHIM_FAIL_SYNC_ONCE", nth),
            DiskFault::KilledAtSync(nth) => ("SYNCSHIM_KILL_SYNC_AT", nth),
            DiskFault::WriteFails(nth) => ("SYNCSHIM_FAIL_WRITE_AT", nth),
            DiskFault::WriteFailsOnce(nth) => ("SYNCSHIM_FAIL_WRITE_ONCE", nth),
            DiskFault::KilledAtWrite(nth) => ("SYNCSHIM_KILL_WRITE_AT", nth),
            DiskFault::NoSpaceAfter(bytes) => ("SYNCSHIM_ENOSPC_AFTER", bytes),
        };
        vec![
            ("LD_PRELOAD".to_owned(), self.library.display().to_string()),
            ("SYNCSHIM_CONTROL".to_owned(), self.control.display().to_string()),
            (name.to_owned(), value.to_string()),
        ]
    }

    /// From here on the disk does what it was made for.
    pub(crate) fn arm(&self) -> Outcome<()> {
        Ok(self.file.write_all_at(&1_u64.to_ne_bytes(), 0)?)
    }

    /// Syncs since arming.
    pub(crate) fn syncs(&self) -> Outcome<u64> {
        self.counter(1)
    }

    /// Faults that really happened.
    pub(crate) fn fired(&self) -> Outcome<u64> {
        self.counter(3)
    }

    fn counter(&self, index: u64) -> Outcome<u64> {
        let mut bytes = [0_u8; 8];
        self.file.read_exact_at(&mut bytes, index * 8)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}

/// A wall clock that the harness moves while a server runs.
#[derive(Debug)]
pub(crate) struct Clock {
    library: PathBuf,
    control: PathBuf,
    file: File,
}

impl Clock {
    /// Compiles the clock into `folder` unless it is there; it shows the right time until it is moved.
    pub(crate) fn prepare(folder: &Path) -> Outcome<Self> {
        let library = library(folder, "clockshim", CLOCK_SOURCE)?;
        let control = folder.join("clockshim.control");
        std::fs::remove_file(&control).ok();
        let file = OpenOptions::new().create_new(true).read(true).write(true).open(&control)?;
        file.set_len(8)?;
        Ok(Self { library, control, file })
    }

    /// What the server's environment needs.
    pub(crate) fn env(&self) -> Vec<(String, String)> {
        vec![
            ("LD_PRELOAD".to_owned(), self.library.display().to_string()),
            ("CLOCKSHIM_CONTROL".to_owned(), self.control.display().to_string()),
        ]
    }

    /// From here on the wall clock is ahead by so many seconds, or behind.
    pub(crate) fn set(&self, seconds: i64) -> Outcome<()> {
        const NANOS: i64 = 1_000_000_000;
        Ok(self.file.write_all_at(&(seconds * NANOS).to_ne_bytes(), 0)?)
    }
}

/// A library to preload, compiled into `folder` unless it is there.
pub(crate) fn library(folder: &Path, name: &str, text: &str) -> Outcome<PathBuf> {
    let library = folder.join(format!("{name}.so"));
    if library.exists() {
        return Ok(library);
    }
    let source = folder.join(format!("{name}.c"));
    std::fs::write(&source, text)?;
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o"])
        .args([&library, &source])
        .output()?;
    if output.status.success() {
        return Ok(library);
    }
    fail(format!("cc: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a small program under the shim: so many syncs of a file, the exit code being the number that failed.
    fn syncs_that_fail(trick: DiskFault, armed: bool) -> (Option<i32>, u64) {
        let folder = tempfile::tempdir().unwrap();
        let shim = Shim::prepare(folder.path(), trick).unwrap();
        if armed {
            shim.arm().unwrap();
        }
        let script = "n=0; for i in 1 2 3 4; do sync -d \"$0\" || n=$((n+1)); done 2>/dev/null; exit $n";
        let file = folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let mut command = Command::new("sh");
        let status = command.args(["-c", script]).arg(&file).envs(shim.env()).status().unwrap();
        (status.code(), shim.syncs().unwrap())
    }

    #[test]
    fn syncs_fail_from_the_nth_on() {
        assert_eq!(syncs_that_fail(DiskFault::SyncFails(3), true), (Some(2), 4));
    }

    #[test]
    fn one_sync_fails_and_those_after_it_work() {
        assert_eq!(syncs_that_fail(DiskFault::SyncFailsOnce(2), true), (Some(1), 4));
    }

    #[test]
    fn a_write_is_cut_in_half_by_a_kill() {
        let folder = tempfile::tempdir().unwrap();
        let shim = Shim::prepare(folder.path(), DiskFault::KilledAtWrite(1)).unwrap();
        shim.arm().unwrap();
        let file = folder.path().join("file");
        let status = Command::new("sh")
            .args(["-c", "printf 12345678 | cp /dev/stdin \"$0\""])
            .arg(&file)
            .envs(shim.env())
            .status()
            .unwrap();
        assert!(!status.success());
        assert_eq!((std::fs::read(&file).unwrap(), shim.fired().unwrap()), (b"1234".to_vec(), 1));
    }

    #[test]
    fn a_clock_is_moved_while_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::prepare(folder.path()).unwrap();
        let hour = || {
            let said = Command::new("date").arg("+%s").envs(clock.env()).output().unwrap().stdout;
            String::from_utf8(said).unwrap().trim().parse::<i64>().unwrap()
        };
        let before = hour();
        clock.set(-3_600).unwrap();
        let after = hour();
        assert!((after + 3_600 - before) < 60, "{before} {after}");
    }

    #[test]
    fn nothing_happens_until_it_is_armed() {
        assert_eq!(syncs_that_fail(DiskFault::SyncFails(1), false), (Some(0), 0));
    }

    #[test]
    fn writes_fail_when_the_room_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let shim = Shim::prepare(folder.path(), DiskFault::NoSpaceAfter(10)).unwrap();
        shim.arm().unwrap();
        let file = folder.path().join("file");
        // From a pipe, cp reads and writes like any program; both share the counters.
        let copy = "printf 12345678 | cp /dev/stdin";
        let script = format!("{copy} \"$0\" && {copy} \"$0.second\" 2>/dev/null");
        let mut command = Command::new("sh");
        let status = command.args(["-c", &script]).arg(&file).envs(shim.env()).output().unwrap().status;
        assert!(!status.success());
        assert_eq!((std::fs::metadata(&file).unwrap().len(), shim.fired().unwrap()), (8, 1));
    }
}
