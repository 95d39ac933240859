//! A command with what is known of the reservation that it names, and how many rows it writes.

use crate::engine::options::BATCH_LINES;
use std::collections::HashSet;
use std::sync::Arc;
use stockhold_domain::{
    Command, Envelope, Hold, ItemKey, LineUnits, RequestedLine, ReservationId, UnitSelection, limits,
};

/// What a reservation is about: it never changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReservationRefs {
    /// Its items.
    pub(crate) items: Arc<[ItemKey]>,
    /// The units of those items whose units have ids.
    pub(crate) units: Arc<[(ItemKey, Arc<LineUnits>)]>,
}

impl ReservationRefs {
    /// By a reservation.
    pub(crate) fn by(hold: &Hold) -> Self {
        let units =
            |line: &stockhold_domain::Line| Some((line.item.clone(), Arc::clone(line.units.as_ref()?)));
        Self {
            items: hold.lines.iter().map(|line| line.item.clone()).collect(),
            units: hold.lines.iter().filter_map(units).collect(),
        }
    }

    /// Rows that go with it: its lines, and its units with ids.
    pub(crate) fn lines(&self) -> usize {
        self.items.len() + self.units.iter().map(|(_, units)| units.all().len()).sum::<usize>()
    }
}

/// A command with what the reservation that it names is about, as far as it is known.
#[derive(Debug)]
pub(crate) struct PlannedCommand {
    /// The command.
    pub(crate) envelope: Box<Envelope>,
    /// What the reservation is about; nothing when there is no such reservation, `None` when it is not known.
    pub(crate) refs: Option<ReservationRefs>,
    /// Items that it reserves of and that are known to have units with ids.
    pub(crate) unit_items: HashSet<ItemKey>,
    /// Commands with the same number are decided in their order, come what may.
    pub(crate) sequence: Option<u64>,
}

impl PlannedCommand {
    /// Lines that it makes or rewrites.
    pub(crate) fn lines(&self) -> usize {
        lines_of(&self.envelope.command, self.refs.as_ref(), &self.unit_items)
    }

    /// Halls of which it claims units, by number or by name. The best of them are planned, and whoever else claims some then is
    /// in the way.
    pub(crate) fn only_claims_of(&self) -> impl Iterator<Item = &ItemKey> {
        let basket = match &self.envelope.command {
            Command::Reserve(reserve) => Some(&reserve.basket),
            _ => None,
        };
        let planned = move |n| {
            basket.is_some_and(|basket| matches!(basket.selection(n), Some(UnitSelection::BestAvailable(_))))
        };
        let lock_set = basket.into_iter().flat_map(stockhold_domain::Basket::lines).enumerate();
        let claimed = lock_set.filter(move |(n, line)| self.unit_items.contains(&line.item) && !planned(*n));
        claimed.map(|(_, line)| &line.item)
    }
}

/// The reservation that a command names.
pub(crate) fn named_hold(command: &Command) -> Option<ReservationId> {
    match command {
        Command::Confirm(confirm) => Some(confirm.id),
        Command::Release(release) => Some(release.id),
        Command::Extend(extend) => Some(extend.id),
        Command::Return(returned) => Some(returned.id),
        _ => None,
    }
}

/// Lines that a command makes or rewrites, a unit with an id being one more. `refs` is what the reservation that it names has,
/// which goes all together; one while that is not known. `unit_items` are those items that are known to have units with ids.
pub(crate) fn lines_of(
    command: &Command,
    refs: Option<&ReservationRefs>,
    unit_items: &HashSet<ItemKey>,
) -> usize {
    match command {
        Command::Reserve(reserve) => {
            let lines = reserve.basket.lines().iter().enumerate().map(|(n, line)| {
                match reserve.basket.selection(n) {
                    Some(UnitSelection::Named(ids)) => 1 + ids.len(),
                    Some(UnitSelection::BestAvailable(_)) => 1 + units_of(line),
                    None if unit_items.contains(&line.item) => 1 + units_of(line),
                    None => 1,
                }
            });
            lines.sum()
        }
        Command::AddUnits(add) => 1 + add.units.len(),
        Command::SetRecord(set) => {
            let bytes = set.value.as_ref().map_or(0, |value| value.as_bytes().len());
            1 + bytes / limits::RECORD_BYTES_PER_LINE
        }
        _ => refs.map_or(1, |refs| refs.lines().max(1)),
    }
}

/// Units that a wish may have where they have ids.
fn units_of(line: &RequestedLine) -> usize {
    usize::try_from(line.quantity.min(limits::LINE_UNITS)).unwrap_or(usize::MAX)
}

/// How many of these go into one batch, by their lines: one at least, since a larger basket comes alone.
pub(crate) fn fitting(lines: impl Iterator<Item = usize>) -> usize {
    let sums = lines.scan(0, |sum, lines| {
        *sum += lines;
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= BATCH_LINES).count().max(1)
}
