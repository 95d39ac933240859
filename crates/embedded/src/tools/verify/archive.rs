//! A recount from the first event ever on: the files of an archive are folded before the log, and the result is compared with the base.

use super::{Map, Recount};
use crate::log::Log;
use crate::log::start::LogStart;
use crate::tools::archive::{check_previous, compare};
use stockhold_domain::{CounterKey, ItemKey, LimitCounter, Record};
use stockhold_store::{EventArchive, Sha256};

/// The state at the start of the log, folded from the archive. If the archive can't be used, it is the state of the base.
pub(super) fn fold(base: Recount, start: &LogStart, log: &Log, archive: &mut dyn EventArchive) -> Recount {
    let (mut fold, previous) = match fold_files(start, archive) {
        Ok((fold, previous)) => (join(fold, base), previous),
        Err(why) => {
            let mut base = base;
            base.find(format!("archive: {why}"));
            return base;
        }
    };
    if start.head.number > 0 && previous != start.sha256 {
        fold.find(format!(
            "archive: the file that ends at position {} is not the one whose events left the log",
            start.through()
        ));
    }
    compare_rest(&mut fold, previous, start, log, archive);
    fold
}

/// Folds the files up to the start of the log. Also returns the hash of the last one of them.
fn fold_files(start: &LogStart, archive: &mut dyn EventArchive) -> Result<(Recount, Option<Sha256>), String> {
    let (mut fold, mut previous) = (Recount::default(), None);
    for file in archive.files()? {
        if file.1 > start.through() {
            break;
        }
        if file.0 != fold.verdict.events + 1 {
            return Err(format!("it begins at position {}, not with the first event", file.0));
        }
        let read = archive.read(file, &mut |row| {
            fold.event(&row.event);
            Ok(())
        })?;
        if read.previous != previous {
            return Err(format!(
                "the file that begins at position {} does not name the file before it",
                read.first
            ));
        }
        previous = Some(read.sha256);
    }
    let (end, through) = (fold.verdict.events, start.through());
    if end == through {
        Ok((fold, previous))
    } else {
        Err(format!(
            "no file of it ends at position {through}, after which the log begins; the files before that end at {end}"
        ))
    }
}

/// Files whose events are still in the log have the same events.
fn compare_rest(
    fold: &mut Recount,
    mut previous: Option<Sha256>,
    start: &LogStart,
    log: &Log,
    archive: &mut dyn EventArchive,
) {
    let files = archive.files().unwrap_or_default();
    for file in files.into_iter().filter(|(_, last)| *last > start.through()) {
        match compare(log, archive, file).and_then(|file| check_previous(&file, previous).map(|()| file)) {
            Ok(read) => previous = Some(read.sha256),
            Err(why) => return fold.find(format!("archive: {why}")),
        }
    }
}

/// Compares what the archive comes to with the base. The recount goes on with the former, without the reservations that left.
fn join(mut fold: Recount, base: Recount) -> Recount {
    let mut found = Vec::new();
    if fold.items != base.items {
        found.push("the items differ");
    }
    if fold.units != base.units {
        found.push("the units with ids differ");
    }
    if fold.paused != base.paused {
        found.push("the pauses differ");
    }
    if fold.active != base.active {
        found.push("the active reservations differ");
    }
    let kept = |id, digest| fold.closed.get(id).is_some_and(|closed| closed.digest == digest);
    if !base.closed.iter().all(|(id, closed)| kept(id, closed.digest)) {
        found.push("the closed reservations that are kept differ");
    }
    let without_values = |record: &Record| (record.key.clone(), record.version, record.value.is_some());
    if !fold.records.values().map(without_values).eq(base.records.values().map(without_values)) {
        found.push("the records differ");
    }
    if fold.due_payments != base.due_payments {
        found.push("the due payments differ");
    }
    if fold.limits.limits != base.limits.limits || fold.limits.counters != base.limits.counters {
        found.push("the limits or their counters differ");
    }
    let sums = |recount: &Recount| {
        let sums = recount.limits.current_sums();
        sums.filter(|(_, counter)| **counter != LimitCounter::default())
            .map(|(key, counter)| (key.clone(), *counter))
            .collect::<Vec<(CounterKey, LimitCounter)>>()
    };
    if sums(&fold) != sums(&base) {
        found.push("what reservations have under limits differs");
    }
    if not_zero(&fold.sold) != not_zero(&base.sold)
        || not_zero(&fold.fulfilled) != not_zero(&base.fulfilled)
        || fold.pools.sums() != base.pools.sums()
    {
        found.push("what reservations have sold differs");
    }
    for what in found {
        fold.find(format!("archive: at the start of the log, {what} from those of the base"));
    }
    fold.closed.retain(|id, _| base.closed.contains_key(id));
    fold.records = base.records;
    (fold.verdict.archived, fold.verdict.batches) = (base.verdict.archived, base.verdict.batches);
    fold
}

fn not_zero(sums: &Map<ItemKey, i128>) -> Map<ItemKey, i128> {
    sums.iter().filter(|(_, units)| **units != 0).map(|(key, units)| (key.clone(), *units)).collect()
}
