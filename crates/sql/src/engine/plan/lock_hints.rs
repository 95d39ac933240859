//! What this instance remembers of earlier batches, to save round trips. A hint only helps to plan the lock set: no answer is
//! made from it, and the commands are decided over the state that is read under the locks.

use super::command::ReservationRefs;
use crate::engine::options::BATCH_LINES;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use stockhold_domain::{Basket, Command, CounterKey, Hold, ItemKey, Outcome, Pools, Reply, ReservationId};

/// Maximum number of remembered reservations: about one minute at full load, about 150 bytes each.
const RESERVATIONS: usize = 65_536;
/// Maximum number of their lines and units, about 100 bytes each: four for each reservation.
const LINES: usize = 4 * RESERVATIONS;
/// A reservation with more lines and units is not remembered: it would evict many others, and its look-up costs little beside
/// its own writes.
const LARGEST: usize = BATCH_LINES;
const _: () = assert!(LARGEST <= LINES / 16);
/// Maximum number of remembered items that had too little stock.
const SHORT: usize = 4_096;
/// Maximum number of remembered counters of limits that were reached.
const REACHED: usize = 4_096;
/// Maximum number of remembered items whose units have ids.
const UNIT_ITEMS: usize = 65_536;
/// See the documentation of the module.
#[derive(Default)]
pub(crate) struct LockHints {
    refs: HashMap<ReservationId, ReservationRefs>,
    oldest: VecDeque<ReservationId>,
    /// The lines and units of all reservations in `refs`.
    lines: usize,
    short: HashSet<ItemKey>,
    unit_items: HashMap<ItemKey, Pools>,
    reached: Arc<HashSet<CounterKey>>,
}

impl LockHints {
    /// The items and units of a reservation, if they are remembered.
    pub(crate) fn refs_by_id(&self, id: ReservationId) -> Option<ReservationRefs> {
        self.refs.get(&id).cloned()
    }

    /// The items and units of the reservation that a command names, if they are remembered.
    pub(crate) fn refs_for(&self, command: &Command) -> Option<ReservationRefs> {
        self.refs_by_id(command.reservation()?)
    }

    /// Remembers a reservation, unless it is too large.
    pub(crate) fn learn(&mut self, hold: &Hold) {
        if !self.refs.contains_key(&hold.id) {
            self.remember(hold.id, ReservationRefs::by(hold));
        }
    }

    /// Adds a reservation that is not remembered yet.
    fn remember(&mut self, id: ReservationId, refs: ReservationRefs) {
        let lines = refs.lines();
        if lines > LARGEST {
            return;
        }
        self.refs.insert(id, refs);
        self.oldest.push_back(id);
        self.lines += lines;
        while self.oldest.len() > RESERVATIONS || self.lines > LINES {
            let Some(oldest) = self.oldest.pop_front() else { return };
            self.lines -= self.refs.remove(&oldest).map_or(0, |refs| refs.lines());
        }
    }

    /// Remembers the reservation of an outcome.
    pub(crate) fn learn_from(&mut self, outcome: &Outcome) {
        if let Outcome::Done(Reply::Reservation(hold)) | Outcome::Replayed(Reply::Reservation(hold)) = outcome
        {
            self.learn(hold);
        }
    }

    /// Remembers items that had too little stock, so that their deadlines were needed.
    pub(crate) fn learn_short<'a>(&mut self, items: impl Iterator<Item = &'a ItemKey>) {
        self.short.extend(items.cloned());
        if self.short.len() > SHORT {
            self.short.clear();
        }
    }

    /// The given items that recently had too little stock.
    pub(crate) fn short_of<'a>(
        &'a self,
        items: impl Iterator<Item = &'a ItemKey>,
    ) -> impl Iterator<Item = ItemKey> {
        items.filter(|item| self.short.contains(*item)).cloned()
    }

    /// Remembers items whose units have ids, with their pools as they were seen last. The mode of an item never changes.
    pub(crate) fn learn_unit_items<'a>(&mut self, items: impl Iterator<Item = (&'a ItemKey, &'a Pools)>) {
        if self.unit_items.len() > UNIT_ITEMS {
            self.unit_items.clear();
        }
        self.unit_items.extend(items.map(|(item, pools)| (item.clone(), pools.clone())));
    }

    /// The given items that are known to have units with ids.
    pub(crate) fn unit_items_among<'a>(
        &'a self,
        items: impl Iterator<Item = &'a ItemKey>,
    ) -> impl Iterator<Item = (ItemKey, Pools)> {
        items.filter_map(|item| Some((item.clone(), self.unit_items.get(item)?.clone())))
    }

    /// The items that a command asks for that are known to have units with ids.
    pub(crate) fn unit_items_reserved_by(&self, command: &Command) -> HashSet<ItemKey> {
        let items = self.unit_items_among(command.basket().into_iter().flat_map(Basket::items));
        items.map(|(item, _)| item).collect()
    }

    /// Remembers counters of limits that were reached, so that the deadlines of what they count were needed.
    pub(crate) fn learn_reached<'a>(&mut self, counters: impl Iterator<Item = &'a CounterKey>) {
        for key in counters.filter(|key| !self.reached.contains(key)).collect::<Vec<_>>() {
            let reached = Arc::make_mut(&mut self.reached);
            if reached.len() >= REACHED {
                reached.clear();
            }
            reached.insert(key.clone());
        }
    }

    /// The counters of limits that were reached recently.
    pub(crate) fn reached(&self) -> Arc<HashSet<CounterKey>> {
        Arc::clone(&self.reached)
    }

    /// Forgets the items with too little stock and the limits that were reached: units come back.
    pub(crate) fn forget_short(&mut self) {
        self.short.clear();
        self.reached = Arc::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_conformance::maker;
    use stockhold_domain::{Label, LineUnit, LineUnits};

    fn label(text: &str) -> Label {
        Label::new(text).unwrap()
    }

    fn item(sku: &str) -> ItemKey {
        ItemKey::new(&label("x"), &label(sku))
    }

    fn id(number: usize) -> ReservationId {
        ReservationId::from_u128(number as u128)
    }

    /// One line, and so many units.
    fn refs(units: usize) -> ReservationRefs {
        let unit = |n: usize| LineUnit {
            id: label(&n.to_string()),
            version: 1,
            fulfilled: false,
            returned: false,
            pool: None,
        };
        let units = LineUnits::new((0..units).map(unit).collect());
        let units = [(item("hall"), Arc::new(units))].into();
        ReservationRefs { items: [item("hall")].into(), units, ..ReservationRefs::default() }
    }

    #[test]
    fn the_oldest_reservations_are_forgotten_where_there_are_too_many() {
        let (mut hints, small) = (
            LockHints::default(),
            ReservationRefs { items: [item("a")].into(), ..ReservationRefs::default() },
        );
        for number in 0..RESERVATIONS + 3 {
            hints.remember(id(number), small.clone());
        }
        let first = (0..10).find(|number| hints.refs_by_id(id(*number)).is_some());
        assert_eq!((first, hints.refs.len(), hints.lines), (Some(3), RESERVATIONS, RESERVATIONS));
    }

    #[test]
    fn large_reservations_drive_out_as_many_as_they_weigh() {
        let (mut hints, large) = (LockHints::default(), refs(LARGEST - 1));
        for number in 0..LINES / LARGEST {
            hints.remember(id(number), large.clone());
        }
        assert_eq!((hints.refs.len(), hints.lines), (LINES / LARGEST, LINES));
        hints.remember(id(1_000), refs(1));
        assert!(hints.refs_by_id(id(0)).is_none() && hints.refs_by_id(id(1)).is_some());
        assert_eq!((hints.oldest.len(), hints.lines), (LINES / LARGEST, LINES - LARGEST + 2));
    }

    #[test]
    fn what_is_too_large_is_not_remembered_and_drives_out_nothing() {
        let mut hints = LockHints::default();
        hints.remember(id(1), refs(1));
        hints.remember(id(2), refs(LARGEST));
        assert!(hints.refs_by_id(id(1)).is_some() && hints.refs_by_id(id(2)).is_none());
        assert_eq!((hints.oldest.len(), hints.lines), (1, 2));
    }

    #[test]
    fn halls_are_told_by_what_was_learnt_of_them() {
        let mut hints = LockHints::default();
        let [unit_item, tins] = ["hall", "tins"].map(item);
        let command = maker::reserve_for(60, &[(&unit_item, 40), (&tins, 7)]);
        assert_eq!(hints.unit_items_reserved_by(&command), HashSet::new());
        hints.learn_unit_items([(&unit_item, &Pools::default())].into_iter());
        assert_eq!(hints.unit_items_reserved_by(&command), HashSet::from([unit_item]));
        assert_eq!(hints.unit_items_reserved_by(&maker::set_stock(&tins, 9)), HashSet::new());
    }
}
