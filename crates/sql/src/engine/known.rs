//! What an instance remembers of what it has seen, to save round trips. Nothing here is ever the ground of an answer: what it
//! says is used to find out what to lock, and is judged again under the locks.

use super::options::BATCH_LINES;
use super::wants::named_hold;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use stockhold_domain::{Command, Hold, ItemKey, LineUnits, Outcome, Reply, ReservationId};

/// Reservations whose items are remembered: those made in the last minute or so at full load, at about 150 bytes each.
const RESERVATIONS: usize = 65_536;
/// Lines and units with ids of all of them, at about 100 bytes each: four for each, were there as many.
const LINES: usize = 4 * RESERVATIONS;
/// Those of one that is remembered at all: a look-up costs little beside what moves more, and it would drive out many others.
const LARGEST: usize = BATCH_LINES;
const _: () = assert!(LARGEST <= LINES / 16);
/// Items that are remembered to have fallen short.
const SHORT: usize = 4_096;
/// Items that are remembered to have units with ids.
const HALLS: usize = 65_536;

/// What a reservation is about: it never changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    /// Its items.
    pub(super) items: Arc<[ItemKey]>,
    /// The units of those items whose units have ids.
    pub(super) units: Arc<[(ItemKey, Arc<LineUnits>)]>,
}

impl Held {
    /// By a reservation.
    pub(super) fn by(hold: &Hold) -> Self {
        let units =
            |line: &stockhold_domain::Line| Some((line.item.clone(), Arc::clone(line.units.as_ref()?)));
        Self {
            items: hold.lines.iter().map(|line| line.item.clone()).collect(),
            units: hold.lines.iter().filter_map(units).collect(),
        }
    }

    /// Rows that go with it: its lines, and its units with ids.
    pub(super) fn lines(&self) -> usize {
        self.items.len() + self.units.iter().map(|(_, units)| units.all().len()).sum::<usize>()
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Known {
    held: HashMap<ReservationId, Held>,
    oldest: VecDeque<ReservationId>,
    /// Of all that are in `held`.
    lines: usize,
    short: HashSet<ItemKey>,
    halls: HashSet<ItemKey>,
}

impl Known {
    /// What a reservation is about.
    pub(super) fn held_by(&self, id: ReservationId) -> Option<Held> {
        self.held.get(&id).cloned()
    }

    /// What the reservation is about that a command names.
    pub(super) fn held_of(&self, command: &Command) -> Option<Held> {
        self.held_by(named_hold(command)?)
    }

    /// Remembers a reservation, unless it is too large.
    pub(super) fn learn(&mut self, hold: &Hold) {
        if !self.held.contains_key(&hold.id) {
            self.remember(hold.id, Held::by(hold));
        }
    }

    /// One that is not remembered.
    fn remember(&mut self, id: ReservationId, held: Held) {
        let lines = held.lines();
        if lines > LARGEST {
            return;
        }
        self.held.insert(id, held);
        self.oldest.push_back(id);
        self.lines += lines;
        while self.oldest.len() > RESERVATIONS || self.lines > LINES {
            let Some(oldest) = self.oldest.pop_front() else { return };
            self.lines -= self.held.remove(&oldest).map_or(0, |held| held.lines());
        }
    }

    /// Remembers what an answer shows.
    pub(super) fn learn_from(&mut self, outcome: &Outcome) {
        if let Outcome::Done(Reply::Reservation(hold)) | Outcome::Replayed(Reply::Reservation(hold)) = outcome
        {
            self.learn(hold);
        }
    }

    /// Remembers items of which deadlines were asked for.
    pub(super) fn learn_short<'a>(&mut self, items: impl Iterator<Item = &'a ItemKey>) {
        self.short.extend(items.cloned());
        if self.short.len() > SHORT {
            self.short.clear();
        }
    }

    /// Those of the items that fell short lately.
    pub(super) fn short_of<'a>(
        &'a self,
        items: impl Iterator<Item = &'a ItemKey>,
    ) -> impl Iterator<Item = ItemKey> {
        items.filter(|item| self.short.contains(*item)).cloned()
    }

    /// Remembers items whose units have ids: how units are told apart never changes.
    pub(super) fn learn_halls<'a>(&mut self, items: impl Iterator<Item = &'a ItemKey>) {
        if self.halls.len() > HALLS {
            self.halls.clear();
        }
        self.halls.extend(items.cloned());
    }

    /// Those of the items whose units are known to have ids.
    pub(super) fn halls_of<'a>(
        &'a self,
        items: impl Iterator<Item = &'a ItemKey>,
    ) -> impl Iterator<Item = ItemKey> {
        items.filter(|item| self.halls.contains(*item)).cloned()
    }

    /// Items that a command reserves of and that are known to have units with ids.
    pub(super) fn halls_in(&self, command: &Command) -> HashSet<ItemKey> {
        match command {
            Command::Reserve(reserve) => {
                self.halls_of(reserve.basket.lines().iter().map(|want| &want.item)).collect()
            }
            _ => HashSet::new(),
        }
    }

    /// Stock comes back, so what fell short once is not expected to for ever.
    pub(super) fn forget_short(&mut self) {
        self.short.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_domain::{Label, LineUnit};
    use stockhold_store::conformance::maker;

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
    fn held(units: usize) -> Held {
        let unit = |n: usize| LineUnit { id: label(&n.to_string()), version: 1, returned: false };
        let units = LineUnits::new((0..units).map(unit).collect());
        Held { items: [item("hall")].into(), units: [(item("hall"), Arc::new(units))].into() }
    }

    #[test]
    fn the_oldest_reservations_are_forgotten_where_there_are_too_many() {
        let (mut known, small) = (Known::default(), Held { items: [item("a")].into(), ..Held::default() });
        for number in 0..RESERVATIONS + 3 {
            known.remember(id(number), small.clone());
        }
        let first = (0..10).find(|number| known.held_by(id(*number)).is_some());
        assert_eq!((first, known.held.len(), known.lines), (Some(3), RESERVATIONS, RESERVATIONS));
    }

    #[test]
    fn large_reservations_drive_out_as_many_as_they_weigh() {
        let (mut known, large) = (Known::default(), held(LARGEST - 1));
        for number in 0..LINES / LARGEST {
            known.remember(id(number), large.clone());
        }
        assert_eq!((known.held.len(), known.lines), (LINES / LARGEST, LINES));
        known.remember(id(1_000), held(1));
        assert!(known.held_by(id(0)).is_none() && known.held_by(id(1)).is_some());
        assert_eq!((known.oldest.len(), known.lines), (LINES / LARGEST, LINES - LARGEST + 2));
    }

    #[test]
    fn what_is_too_large_is_not_remembered_and_drives_out_nothing() {
        let mut known = Known::default();
        known.remember(id(1), held(1));
        known.remember(id(2), held(LARGEST));
        assert!(known.held_by(id(1)).is_some() && known.held_by(id(2)).is_none());
        assert_eq!((known.oldest.len(), known.lines), (1, 2));
    }

    #[test]
    fn halls_are_told_by_what_was_learnt_of_them() {
        let mut known = Known::default();
        let [hall, tins] = ["hall", "tins"].map(item);
        let command = maker::reserve_for(60, &[(&hall, 40), (&tins, 7)]);
        assert_eq!(known.halls_in(&command), HashSet::new());
        known.learn_halls([hall.clone()].iter());
        assert_eq!(known.halls_in(&command), HashSet::from([hall]));
        assert_eq!(known.halls_in(&maker::set_stock(&tins, 9)), HashSet::new());
    }
}
