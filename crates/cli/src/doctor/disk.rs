//! Checks the disk of the data directory: permissions, kind of file system, duration of a sync, free space.

use super::{Finding, look, mib, ok, wrong};
use rustix::fs::{statfs, statvfs};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stockhold_config::Config;

/// Syncs that are measured.
const SYNCS: usize = 200;
/// Longest time of the measurement.
const TIMING: Duration = Duration::from_secs(2);
/// Median sync from which on the disk is slow: every answer waits for at least one sync.
const SLOW: Duration = Duration::from_millis(10);
/// Median sync below which syncs do not reach a disk.
const TOO_FAST: Duration = Duration::from_micros(5);
/// Bytes of one write.
const PAGE: usize = 4_096;

/// File systems by their number (linux/magic.h), and whether data is safe there.
const KINDS: [(u64, &str, FileSystemFit); 16] = [
    (0xEF53, "ext4", FileSystemFit::Good),
    (0x5846_5342, "xfs", FileSystemFit::Good),
    (0x9123_683E, "btrfs", FileSystemFit::Good),
    (0x2FC1_2FC1, "zfs", FileSystemFit::Good),
    (0xF2F5_2010, "f2fs", FileSystemFit::Good),
    (0xCA45_1A4E, "bcachefs", FileSystemFit::Good),
    (0x0102_1994, "tmpfs", FileSystemFit::Memory),
    (0x8584_58F6, "ramfs", FileSystemFit::Memory),
    (0x794C_7630, "overlayfs", FileSystemFit::Layer),
    (0x6969, "nfs", FileSystemFit::Remote),
    (0xFF53_4D42, "cifs", FileSystemFit::Remote),
    (0xFE53_4D42, "smb", FileSystemFit::Remote),
    (0x0102_1997, "9p", FileSystemFit::Remote),
    (0x6573_5546, "fuse", FileSystemFit::Remote),
    (0x00C3_6400, "ceph", FileSystemFit::Remote),
    (0x4D44, "vfat", FileSystemFit::Simple),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum FileSystemFit {
    Good,
    /// Lost with the power.
    Memory,
    /// Removed with the container.
    Layer,
    /// Locks and shared memory don't work as SQLite needs them.
    Remote,
    /// No journal.
    Simple,
}

pub(super) fn check(config: &Config, timed: bool) -> Vec<Finding> {
    let dir = &config.data_dir;
    let place = match nearest(dir) {
        Ok(place) => place,
        Err(finding) => return vec![finding],
    };
    let mut findings = vec![rights(dir, &place), kind(&place)];
    if findings.iter().all(|finding| finding.check != "rights" || finding.advice.is_none()) && timed {
        findings.push(sync_time(&place));
    }
    findings.push(free_space(config, &place));
    findings
}

/// The directory, or its nearest parent that exists.
fn nearest(dir: &Path) -> Result<PathBuf, Finding> {
    let at = |dir: &Path| if dir.as_os_str().is_empty() { PathBuf::from(".") } else { dir.to_owned() };
    let found = dir.ancestors().map(at).find(|dir| dir.exists());
    let place = found.unwrap_or_else(|| PathBuf::from("."));
    if place.is_dir() {
        return Ok(place);
    }
    let says = format!("{} is not a directory", place.display());
    Err(wrong("rights", says, "move it away, or name another directory with --data-dir"))
}

fn rights(dir: &Path, place: &Path) -> Finding {
    if let Err(error) = tempfile::NamedTempFile::new_in(place) {
        let says = format!("no file can be written in {}: {error}", place.display());
        return wrong("rights", says, "run as the user that owns it, or change its owner");
    }
    if place != dir {
        return ok("rights", format!("{} does not exist yet and can be created", dir.display()));
    }
    let own = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    for entry in entries {
        let Ok(owner) = entry.metadata().map(|facts| facts.uid()) else { continue };
        if owner != own {
            let says = format!(
                "{} belongs to user {owner}, and this is user {own}: new files would belong to user {own}",
                entry.path().display()
            );
            let advice =
                format!("run as user {owner}, or `chown -R` the directory to the user that runs the server");
            return look("rights", says, advice);
        }
    }
    ok("rights", format!("{} can be written", dir.display()))
}

fn kind(place: &Path) -> Finding {
    let stat = match statfs(place) {
        Ok(stat) => stat,
        Err(error) => {
            return look("file system", format!("it can't be read: {error}"), "see `df -T`");
        }
    };
    #[expect(clippy::cast_sign_loss, reason = "a number of 32 bits")]
    let magic = stat.f_type as u64 & 0xFFFF_FFFF;
    let Some((_, name, fit)) = KINDS.iter().find(|(known, ..)| *known == magic) else {
        return ok("file system", format!("{magic:#x}, an unknown kind"));
    };
    let bad = |says: &str, advice: &str| wrong("file system", format!("{name}: {says}"), advice);
    match fit {
        FileSystemFit::Good => ok("file system", *name),
        FileSystemFit::Memory => look(
            "file system",
            format!("{name}: it is in memory, and a power cut or a reboot loses all data"),
            "fine for a test; put real data on a disk (--data-dir)",
        ),
        FileSystemFit::Layer => look(
            "file system",
            format!("{name}: the layer of a container, which is removed with the container"),
            "mount a volume, and name it with --data-dir",
        ),
        FileSystemFit::Remote => bad(
            "locks and shared memory of a network file system do not work as SQLite needs them",
            "use a disk of this machine, or a block device",
        ),
        FileSystemFit::Simple => bad("it has no journal", "use ext4, xfs, btrfs or zfs"),
    }
}

fn sync_time(place: &Path) -> Finding {
    let mut times = match time_syncs(place) {
        Ok(times) => times,
        Err(error) => {
            let says = format!("a write with a sync failed: {error}");
            return wrong("disk sync", says, "see the kernel's log (dmesg): a failing disk loses data");
        }
    };
    times.sort_unstable();
    let at = |part: usize| times.get((times.len() - 1) * part / 100).copied().unwrap_or_default();
    let (half, most, worst) = (at(50), at(99), at(100));
    let says =
        format!("p50 {half:.1?}, p99 {most:.1?}, longest {worst:.1?} of {} syncs of 4 KiB", times.len());
    if half > SLOW {
        let advice = "every answer waits for at least one: use a disk with a write cache that survives a power cut (NVMe, or \
                      provisioned IOPS)";
        return look("disk sync", says, advice);
    }
    if half < TOO_FAST {
        let advice = "no disk is so fast: syncs are ignored (memory, eatmydata, a disk image with an unsafe cache), and a power cut \
                      loses acknowledged data";
        return look("disk sync", says, advice);
    }
    ok("disk sync", says)
}

/// Overwrites blocks in place, as commits of the log do.
fn time_syncs(place: &Path) -> std::io::Result<Vec<Duration>> {
    let mut file = tempfile::NamedTempFile::new_in(place)?;
    let page = vec![0x5A; PAGE];
    for _ in 0..16 {
        file.write_all(&page)?;
    }
    file.as_file().sync_all()?;
    let begun = Instant::now();
    let mut times = Vec::with_capacity(SYNCS);
    for number in 0..SYNCS {
        let from = Instant::now();
        file.as_file().write_all_at(&page, (number % 16 * PAGE) as u64)?;
        file.as_file().sync_data()?;
        times.push(from.elapsed());
        if begun.elapsed() > TIMING {
            break;
        }
    }
    Ok(times)
}

fn free_space(config: &Config, place: &Path) -> Finding {
    let stat = match statvfs(place) {
        Ok(stat) => stat,
        Err(error) => {
            return look("free space", format!("it can't be read: {error}"), "see `df`");
        }
    };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let floor = config.free_space_floor_mib << 20;
    let says = format!("{} free; below {} new reservations are refused", mib(free), mib(floor));
    if free < floor {
        let advice = "free some space, or use a larger disk; confirm and release continue meanwhile";
        return wrong("free space", says, advice);
    }
    if free < floor.saturating_mul(4) {
        return look("free space", says, "free some space before the limit is reached: the log only grows");
    }
    ok("free space", says)
}
