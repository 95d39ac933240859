//! Checks the data directory, and the clock against it.

use super::{Finding, look, mib, ok, wrong};
use crate::plural::counted;
use std::path::Path;
use std::time::Duration;
use stockhold_config::StoreAddress;
use stockhold_domain::Instant;
use stockhold_embedded::{Inspection, LogStatus, OpenError};
use stockhold_store::clock::{Clock, WallClock, in_words};

/// Earliest time that a correct clock can show: 2026-01-01, in microseconds since 1970.
const EARLIEST: i64 = 1_767_225_600_000_000;
/// How far the clock may be behind the newest commit without a warning, in microseconds.
const BEHIND: i64 = 1_000_000;
/// Bytes in the write-ahead log from which on checkpoints are too slow.
const UNCOPIED: u64 = 256 << 20;

pub(super) fn check(dir: &Path) -> Vec<Finding> {
    let now = WallClock.now();
    if !dir.is_dir() {
        return vec![clock(now, None), ok("data", "it does not exist yet; the first start makes it")];
    }
    let inspection = match stockhold_embedded::inspect(dir) {
        Ok(inspection) => inspection,
        Err(error) => return vec![clock(now, None), unusable("data", &error)],
    };
    let Inspection { in_use, log, index } = inspection;
    let newest = log.as_ref().and_then(|log| log.as_ref().ok()).and_then(|log| log.at);
    let mut findings = vec![clock(now, newest)];
    findings.push(if in_use {
        ok("in use", "a stockhold process has the directory")
    } else {
        ok("in use", "no server has the directory")
    });
    let batches = match &log {
        Some(Ok(facts)) => facts.batches,
        _ => 0,
    };
    match log {
        None if index.is_some() => findings.push(wrong(
            "log",
            "there is an index but no log: the log has the data, and it is missing",
            "restore the log from a backup (docs/cli.md, Backup and restore) before you start a server here",
        )),
        None => findings.push(ok("log", "it does not exist yet; the first start makes it")),
        Some(Err(error)) => findings.push(unusable("log", &error)),
        Some(Ok(facts)) => findings.extend(of_log(&facts)),
    }
    match index {
        None if batches > 0 => {
            findings.push(ok("index", "it does not exist; the next start builds it from the log, which takes a while"));
        }
        None => {}
        Some(Err(error)) => findings.push(look(
            "index",
            error.to_string(),
            "stop the server, move index.db, index.db-wal and index.db-shm away, and start it again: the index is built from the log",
        )),
        Some(Ok((bytes, batch))) if batch > batches => findings.push(wrong(
            "index",
            format!("{}; it has batch {batch}, and the log ends at {batches}", mib(bytes)),
            "the end of the log is missing: restore the log from a backup (docs/cli.md, Backup and restore)",
        )),
        Some(Ok((bytes, batch))) => {
            findings.push(ok("index", format!("{}, {} batches behind the log", mib(bytes), batches - batch)));
        }
    }
    findings
}

/// The findings when the store is a database. A data directory in the default place is then not what is served.
pub(super) fn elsewhere(store: &StoreAddress) -> Vec<Finding> {
    let says =
        format!("{store} is not checked: doctor checks data directories only, and the store is a database");
    let advice = "`stockhold verify` recounts it, and /readyz of a server says whether it can be reached; --store embedded checks \
                  the data directory";
    vec![clock(WallClock.now(), None), look("store", says, advice)]
}

fn of_log(facts: &LogStatus) -> Vec<Finding> {
    let LogStatus { batches, position, bytes, wal_bytes, wal_backlog_bytes, .. } = facts;
    let log = format!(
        "format known; {}, {}, {}; only its end was checked, `stockhold verify` reads all of it",
        counted(*batches, "batch", "batches"),
        counted(*position, "event", "events"),
        mib(*bytes)
    );
    let wal = format!("{}, {} of it not in the log yet", mib(*wal_bytes), mib(*wal_backlog_bytes));
    let wal = if *wal_backlog_bytes > UNCOPIED {
        let advice =
            "checkpoints are too slow: does a program read log.db for a long time, or is the disk too slow?";
        look("log's wal", wal, advice)
    } else {
        ok("log's wal", wal)
    };
    vec![ok("log", log), wal]
}

fn unusable(check: &'static str, error: &OpenError) -> Finding {
    let advice = match error {
        OpenError::InUse(_) => "stop the process that has it",
        OpenError::IncompleteCopy(_) => "wait until the backup ends, or run it again",
        OpenError::UnknownFormat { .. } => "use the version that wrote it",
        OpenError::Damaged { .. } => {
            "keep the files, and restore the log from a backup (docs/cli.md, Backup and restore); `stockhold verify` says more"
        }
        OpenError::Io { .. } => "check who owns the file, and whether the disk has errors (dmesg)",
    };
    wrong(check, error.to_string(), advice)
}

fn clock(now: Instant, newest: Option<Instant>) -> Finding {
    let shown = stockhold_api::encode::time(now);
    if now.micros() < EARLIEST {
        let says = format!("it shows {shown}");
        return wrong("clock", says, "set it (timedatectl set-ntp true): deadlines depend on it");
    }
    match newest {
        Some(newest) if newest.micros() > now.micros().saturating_add(BEHIND) => {
            let behind = Duration::from_micros(newest.micros().abs_diff(now.micros()));
            let says = format!(
                "it shows {shown}, and the newest commit was made at {}: in a server that starts now, time stands still for {}",
                stockhold_api::encode::time(newest),
                in_words(behind)
            );
            look(
                "clock",
                says,
                "one of the two times is wrong: compare the clock with another machine's (timedatectl); if the newest commit is, \
                 `serve --accept-clock-step` lets time run on from there (docs/operating.md, Clocks)",
            )
        }
        _ => ok("clock", shown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;

    #[test]
    fn a_clock_is_held_against_the_newest_commit() {
        let at = |micros| Instant::from_micros(micros);
        assert_eq!(clock(at(0), None).grade, Severity::Wrong);
        assert_eq!(clock(at(EARLIEST), None).grade, Severity::Ok);
        assert_eq!(clock(at(EARLIEST), Some(at(EARLIEST + BEHIND))).grade, Severity::Ok);
        let behind = clock(at(EARLIEST), Some(at(EARLIEST + 90 * BEHIND)));
        assert_eq!(behind.grade, Severity::Look);
        assert!(behind.says.contains("stands still for 1 min 30 s"), "{}", behind.says);
    }
}
