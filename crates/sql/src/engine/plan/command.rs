//! A command with what is known of the reservation that it names, and how many rows it writes.

use crate::engine::options::BATCH_LINES;
use std::collections::HashSet;
use std::sync::Arc;
use stockhold_domain::{
    Basket, Command, CounterKey, Envelope, Hold, ItemKey, LineUnits, PoolSelection, RequestedLine,
    UnitSelection, limits,
};

/// The items and units of a reservation as they were last seen. An amend, a split or a merge changes them: what is missing is
/// found and locked when the reservation was loaded.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReservationRefs {
    /// The items of its lines.
    pub(crate) items: Arc<[ItemKey]>,
    /// The units of those lines whose units have ids.
    pub(crate) units: Arc<[(ItemKey, Arc<LineUnits>)]>,
    /// The counters of limits that count units of those lines.
    pub(crate) counters: Arc<[CounterKey]>,
}

impl ReservationRefs {
    /// The references of a loaded reservation.
    pub(crate) fn by(hold: &Hold) -> Self {
        let units =
            |line: &stockhold_domain::Line| Some((line.item.clone(), Arc::clone(line.units.as_ref()?)));
        let counters = hold.lines.iter().flat_map(|line| &line.details().counted);
        Self {
            counters: counters.map(|count| count.key.clone()).collect(),
            items: hold.lines.iter().map(|line| line.item.clone()).collect(),
            units: hold.lines.iter().filter_map(units).collect(),
        }
    }

    /// The number of rows that a command about the reservation writes: its lines, its units with ids, and its counters.
    pub(crate) fn lines(&self) -> usize {
        self.items.len()
            + self.counters.len()
            + self.units.iter().map(|(_, units)| units.all().len()).sum::<usize>()
    }
}

/// A command, with the items and units of the reservation that it names as far as they are known.
#[derive(Debug)]
pub(crate) struct PlannedCommand {
    /// The command.
    pub(crate) envelope: Box<Envelope>,
    /// The items and units of the named reservation. Empty if the reservation does not exist, `None` if it was not looked up.
    pub(crate) refs: Option<ReservationRefs>,
    /// Items of the command that are known to have units with ids.
    pub(crate) unit_items: HashSet<ItemKey>,
    /// The sequence of the command: commands of one sequence are always decided in the submitted order.
    pub(crate) sequence: Option<u64>,
}

impl PlannedCommand {
    /// The number of rows that the command writes.
    pub(crate) fn lines(&self) -> usize {
        lines_of(&self.envelope.command, self.refs.as_ref(), &self.unit_items)
    }
}

/// The number of lines that a command inserts or updates; a unit with an id counts as one more. A command about an existing
/// reservation writes all rows of `refs`, and counts as one line while `refs` is unknown. `unit_items` are the items that are known
/// to have units with ids.
pub(crate) fn lines_of(
    command: &Command,
    refs: Option<&ReservationRefs>,
    unit_items: &HashSet<ItemKey>,
) -> usize {
    match command {
        Command::Reserve(reserve) => basket_lines(&reserve.basket, unit_items),
        Command::Amend(amend) => {
            let requested = amend.basket.as_ref().map_or(0, |basket| basket_lines(basket, unit_items));
            requested + refs.map_or(1, |refs| refs.lines().max(1))
        }
        Command::AddUnits(add) => 1 + add.units.len(),
        // How many units sections have is not known here. They are a batch of their own.
        Command::SetUnitPool(set) => match &set.units {
            PoolSelection::Units(ids) => 1 + ids.len(),
            PoolSelection::Sections(_) => 1 + limits::UNITS_AT_ONCE,
        },
        Command::SetLimit(set) => 1 + set.terms.targets.len(),
        Command::SetRecord(set) => {
            let bytes = set.value.as_ref().map_or(0, |value| value.as_bytes().len());
            1 + bytes / limits::RECORD_BYTES_PER_LINE
        }
        // A merge writes the lines of its sources too, which are not known here.
        Command::Confirm(_)
        | Command::Release(_)
        | Command::Extend(_)
        | Command::Transfer(_)
        | Command::Split(_)
        | Command::Merge(_)
        | Command::OpenPayment(_)
        | Command::ClosePayment(_)
        | Command::StartCheckout(_)
        | Command::AdvancePayment(_)
        | Command::Refund(_)
        | Command::Fulfil(_)
        | Command::Return(_) => refs.map_or(1, |refs| refs.lines().max(1)),
        Command::SetStock(_)
        | Command::AdjustStock(_)
        | Command::DeleteItem(_)
        | Command::RetireUnit(_)
        | Command::SetSale(_)
        | Command::DeleteLimit(_)
        | Command::SetPool(_)
        | Command::DeletePool(_)
        | Command::Sweep => 1,
    }
}

fn basket_lines(basket: &Basket, unit_items: &HashSet<ItemKey>) -> usize {
    let lines = basket.lines().iter().enumerate().map(|(n, line)| match basket.selection(n) {
        Some(UnitSelection::Named(ids)) => 1 + ids.len(),
        Some(UnitSelection::BestAvailable(_)) => 1 + units_of(line),
        None if unit_items.contains(&line.item) => 1 + units_of(line),
        // Every item of a source is locked, and may become a line of its own.
        None => basket.items_of(n).len(),
    });
    lines.sum()
}

/// The number of units that a requested line may get where units have ids.
fn units_of(line: &RequestedLine) -> usize {
    usize::try_from(line.quantity.min(limits::LINE_UNITS)).unwrap_or(usize::MAX)
}

/// How many of the commands fit into one batch by their lines. At least one: a larger basket is a batch of its own.
pub(crate) fn fitting(lines: impl Iterator<Item = usize>) -> usize {
    let sums = lines.scan(0, |sum, lines| {
        *sum += lines;
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= BATCH_LINES).count().max(1)
}
