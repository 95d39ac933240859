//! Repairs the positions of events. Until 2026-11 the numbering of events on MariaDB and MySQL could give an event of an item a position
//! before that of an earlier one. Nothing else was wrong: the order of the serials is the order of the commits of each item.
//!
//! Positions are kept as far as possible, because readers have seen them. Looked for are pairs of batches in the wrong order that changed
//! the same thing. From the first batch of such a pair to the second, batches get the positions of this range again, in the order of their
//! serials. Two ranges with a batch in common are one.
//!
//! A consumer that has read a part of a range would miss an event, so nothing is changed while the store knows of one. Memory is for two
//! numbers of each batch that is kept, and for the events of batches whose serials are in disorder.

use super::{AuditError, AuditSession, BatchRow};
use crate::engine::{DbError, events_from};
use core::future::Future;
use core::ops::RangeInclusive;
use std::collections::HashMap;
use stockhold_domain::{
    CounterKey, Event, HoldChange, ItemKey, Label, RecordKey, ReservationId, Scope, Transition,
};
use stockhold_store::{ReadPosition, for_each_unit};

/// Batches that are read at a time.
const BATCHES_AT_ONCE: usize = 1_024;

/// A session that can repair positions.
pub(crate) trait PositionSession: AuditSession {
    /// Begins a transaction in which nobody else numbers or archives events.
    fn begin_renumbering(&mut self) -> impl Future<Output = Result<(), DbError>> + Send;

    /// Batches behind a position, in order, without their events.
    fn numbers(
        &mut self,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<BatchNumber>, DbError>> + Send;

    /// Gives batches, by their serials, other last positions, and commits.
    fn renumber(&mut self, positions: &[(u64, u64)]) -> impl Future<Output = Result<(), DbError>> + Send;
}

/// Where a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchNumber {
    pub(crate) serial: u64,
    pub(crate) count: u64,
    pub(crate) last_position: u64,
}

impl BatchNumber {
    fn first_position(&self) -> u64 {
        self.last_position.saturating_sub(self.count) + 1
    }
}

/// What was repaired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PositionRepair {
    /// Ranges of positions whose events were put into another order.
    pub ranges: Vec<RangeInclusive<u64>>,
    /// Batches that got another position.
    pub batches: u64,
}

/// Repairs. `consumers` tells from records which consumers there are, and up to which position each has read.
pub(crate) async fn repair<S: PositionSession>(
    session: &mut S,
    consumers: &(dyn Fn(&[stockhold_domain::Record]) -> Vec<ReadPosition> + Sync),
) -> Result<PositionRepair, AuditError> {
    session.number().await?;
    session.begin_renumbering().await?;
    let done = in_transaction(session, consumers).await;
    if done.is_err() {
        session.roll_back().await?;
    }
    done
}

async fn in_transaction<S: PositionSession>(
    session: &mut S,
    consumers: &(dyn Fn(&[stockhold_domain::Record]) -> Vec<ReadPosition> + Sync),
) -> Result<PositionRepair, AuditError> {
    let mut batches: Vec<BatchNumber> = Vec::new();
    loop {
        let after = batches.last().map_or(0, |batch| batch.last_position);
        let page = session.numbers(after, BATCHES_AT_ONCE).await?;
        batches.extend(&page);
        if page.len() < BATCHES_AT_ONCE {
            break;
        }
    }
    let mut wrong = Vec::new();
    for block in disordered(&batches) {
        let mut touched = Vec::new();
        for some in batches.get(block.clone()).unwrap_or_default().chunks(BATCHES_AT_ONCE) {
            let mut serials: Vec<u64> = some.iter().map(|batch| batch.serial).collect();
            serials.sort_unstable();
            for row in session.batch_rows(&serials).await? {
                touched.push((row.serial, touched_by(&row)?));
            }
        }
        let touched: HashMap<u64, Touched> = touched.into_iter().collect();
        let of_block = batches.get(block.clone()).unwrap_or_default();
        let found = conflicts(of_block, &touched).into_iter();
        wrong.extend(found.map(|range| block.start + range.start()..=block.start + range.end()));
    }
    let mut repair = PositionRepair::default();
    let mut positions = Vec::new();
    for range in wrong {
        let of_range = batches.get(range).unwrap_or_default();
        let (Some(first), Some(last)) = (of_range.first(), of_range.last()) else { continue };
        repair.ranges.push(first.first_position()..=last.last_position);
        let mut position = first.first_position() - 1;
        let mut in_order = of_range.to_vec();
        in_order.sort_unstable_by_key(|batch| batch.serial);
        for batch in in_order {
            position += batch.count;
            if position != batch.last_position {
                positions.push((batch.serial, position));
            }
        }
    }
    repair.batches = positions.len() as u64;
    let read = consumers(&super::archive::consumer_records(session).await?);
    for range in &repair.ranges {
        if let Some((name, read)) = read.iter().find(|(_, read)| range.contains(read) && read != range.end())
        {
            return Err(AuditError::Refused(format!(
                "the consumer {name} has read up to position {read}, in the middle of the positions {} to {} that are to be repaired: \
                 let it read on first, with a server",
                range.start(),
                range.end()
            )));
        }
    }
    if positions.is_empty() {
        session.roll_back().await?;
    } else {
        session.renumber(&positions).await?;
    }
    Ok(repair)
}

/// The smallest ranges of batches behind each of which all serials are larger than all before, if they have more than one batch.
fn disordered(batches: &[BatchNumber]) -> Vec<core::ops::Range<usize>> {
    let mut least_behind = vec![u64::MAX; batches.len()];
    let mut least = u64::MAX;
    for (place, batch) in least_behind.iter_mut().zip(batches).rev() {
        *place = least;
        least = least.min(batch.serial);
    }
    let (mut blocks, mut start, mut largest) = (Vec::new(), 0, 0);
    for (number, (batch, least)) in batches.iter().zip(&least_behind).enumerate() {
        largest = largest.max(batch.serial);
        if largest < *least {
            if number > start {
                blocks.push(start..number + 1);
            }
            start = number + 1;
        }
    }
    blocks
}

/// Something whose changes have an order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Item(ItemKey),
    Unit(ItemKey, Label),
    Hold(ReservationId),
    Counter(CounterKey),
    Limit(Label),
    Pause(String),
    Record(RecordKey),
}

/// What the events of a batch changed, and what they were decided by beside that.
#[derive(Debug, Default)]
struct Touched {
    changed: Vec<Key>,
    read: Vec<Key>,
}

fn touched_by(row: &BatchRow) -> Result<Touched, DbError> {
    let mut touched = Touched::default();
    for row in events_from(&row.body, row.last_position.unwrap_or(row.count), row.count)? {
        touched.add(&row.event);
    }
    Ok(touched)
}

impl Touched {
    fn add(&mut self, event: &Event) {
        let Self { changed, read } = self;
        for_each_unit(&event.transition, |item, unit, _| changed.push(Key::Unit(item.clone(), unit.clone())));
        match &event.transition {
            Transition::Hold { change, hold, limits, .. } => {
                changed.push(Key::Hold(hold.id));
                for line in &*hold.lines {
                    // Where units have ids, two instances may change one item at the same time.
                    if line.units.is_none() {
                        changed.push(Key::Item(line.item.clone()));
                    }
                    if *change == HoldChange::Created {
                        read.push(Key::Pause(line.item.location().to_owned()));
                        read.push(Key::Pause(String::new()));
                    }
                }
                for (counter, _) in limits.iter().flat_map(|effects| &*effects.counters) {
                    read.push(Key::Limit(counter.limit.clone()));
                    changed.push(Key::Counter(counter.clone()));
                }
            }
            Transition::Stock { item, .. } => changed.push(Key::Item(item.key.clone())),
            Transition::Sale { scope, .. } => changed.push(match scope {
                Scope::Everything => Key::Pause(String::new()),
                Scope::Location(location) => Key::Pause(location.as_str().to_owned()),
                Scope::Item(item) => Key::Item(item.clone()),
            }),
            Transition::Limit { limit } => changed.push(Key::Limit(limit.id.clone())),
            Transition::Record { record, .. } => changed.push(Key::Record(record.key.clone())),
        }
    }
}

/// The batches of which each has a larger serial than all before it.
#[derive(Debug, Default)]
struct Largest(Vec<(u64, usize)>);

impl Largest {
    fn put(&mut self, serial: u64, number: usize) {
        if self.0.last().is_none_or(|(largest, _)| *largest < serial) {
            self.0.push((serial, number));
        }
    }

    /// The first batch with a larger serial.
    fn first_above(&self, serial: u64) -> Option<usize> {
        self.0.get(self.0.partition_point(|(one, _)| *one < serial)).map(|(_, number)| *number)
    }
}

/// From the first to the second batch of each pair in the wrong order, as numbers in the block. Those with a batch in common are one.
fn conflicts(block: &[BatchNumber], touched: &HashMap<u64, Touched>) -> Vec<RangeInclusive<usize>> {
    let (mut changes, mut all) = (HashMap::<&Key, Largest>::new(), HashMap::<&Key, Largest>::new());
    let mut found: Vec<RangeInclusive<usize>> = Vec::new();
    for (number, batch) in block.iter().enumerate() {
        let Some(Touched { changed, read }) = touched.get(&batch.serial) else { continue };
        let before = |of: &HashMap<&Key, Largest>, key: &Key| of.get(key)?.first_above(batch.serial);
        let first = changed
            .iter()
            .filter_map(|key| before(&all, key))
            .chain(read.iter().filter_map(|key| before(&changes, key)))
            .min();
        if let Some(mut first) = first {
            while let Some(last) = found.pop_if(|last| *last.end() >= first) {
                first = first.min(*last.start());
            }
            found.push(first..=number);
        }
        for key in changed {
            changes.entry(key).or_default().put(batch.serial, number);
        }
        for key in changed.iter().chain(read) {
            all.entry(key).or_default().put(batch.serial, number);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(serials: &[u64]) -> Vec<BatchNumber> {
        let batch =
            |(serial, last): (&u64, u64)| BatchNumber { serial: *serial, count: 2, last_position: 2 * last };
        serials.iter().zip(1..).map(batch).collect()
    }

    #[test]
    fn blocks_are_where_serials_are_in_disorder() {
        assert!(disordered(&batches(&[])).is_empty());
        assert!(disordered(&batches(&[1, 2, 5, 9])).is_empty());
        assert_eq!(disordered(&batches(&[1, 3, 2, 4, 7, 8, 5, 9])), [1..3, 4..7]);
        assert_eq!(disordered(&batches(&[4, 1, 3, 2, 5, 7, 6])), [0..4, 5..7]);
    }

    #[test]
    fn only_batches_that_changed_the_same_are_put_into_order() {
        let key = |name: &str| Key::Pause(name.to_owned());
        let conflicts_of = |block: &[(u64, &str, &str)]| {
            let touched = |(serial, changed, read): &(u64, &str, &str)| {
                let keys = |names: &str| names.split_whitespace().map(key).collect();
                (*serial, Touched { changed: keys(changed), read: keys(read) })
            };
            let serials: Vec<u64> = block.iter().map(|(serial, ..)| *serial).collect();
            conflicts(&batches(&serials), &block.iter().map(touched).collect())
        };
        assert_eq!(conflicts_of(&[(3, "a", ""), (2, "b", ""), (1, "c", "")]), []);
        assert_eq!(conflicts_of(&[(3, "a", ""), (2, "b", ""), (1, "a", "")]), [0..=2]);
        assert_eq!(conflicts_of(&[(3, "b", "a"), (2, "c", "a")]), [], "what is only read has no order");
        assert_eq!(conflicts_of(&[(3, "b", "a"), (2, "a", "")]), [0..=1]);
        assert_eq!(conflicts_of(&[(3, "a", ""), (2, "b", "a")]), [0..=1]);
        assert_eq!(
            conflicts_of(&[(4, "a", ""), (1, "a", ""), (5, "b", ""), (9, "c", ""), (3, "b", "")]),
            [0..=1, 2..=4]
        );
        assert_eq!(conflicts_of(&[(4, "a", ""), (6, "b", ""), (5, "b", ""), (1, "a", "")]), [0..=3]);
        assert_eq!(conflicts_of(&[(1, "a", ""), (2, "a", ""), (9, "b", ""), (3, "a", "")]), []);
    }
}
