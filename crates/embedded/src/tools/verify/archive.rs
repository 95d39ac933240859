//! A recount from the first event ever on: the files of an archive are folded before the log, and the result is compared with the base.

use super::{Map, Recount};
use crate::log::Log;
use crate::log::start::LogStart;
use crate::tools::archive::mark_of;
use stockhold_domain::{CounterKey, ItemKey, LimitCounter, Record};
use stockhold_store::{EventArchive, compare_kept, fold_archived};

/// The state at the start of the log, folded from the archive. If the archive can't be used, it is the state of the base.
pub(super) fn fold(
    mut base: Recount,
    start: &LogStart,
    mut log: &Log,
    archive: &mut dyn EventArchive,
) -> Recount {
    let mut fold = Recount::default();
    let newest = match fold_archived(archive, &mark_of(start), &mut |event| fold.event(event)) {
        Ok(newest) => newest,
        Err(why) => {
            base.find(format!("archive: {why}"));
            return base;
        }
    };
    let mut fold = join(fold, base);
    if let Err(why) = compare_kept(&mut log, archive, newest) {
        fold.find(format!("archive: {why}"));
    }
    fold
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
