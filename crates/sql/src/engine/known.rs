//! What an instance remembers of what it has seen, to save round trips. Nothing here is ever the ground of an answer: what it
//! says is used to find out what to lock, and is judged again under the locks.

use super::combine::units_of;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use stockhold_domain::{Command, Hold, ItemKey, LineUnits, Outcome, Reply, ReservationId};

/// Reservations whose items are remembered: those made in the last minute or so at full load, at about 150 bytes each.
const RESERVATIONS: usize = 65_536;
/// Items that are remembered to have fallen short.
const SHORT: usize = 4_096;
/// Items of which it is remembered whether they are shared.
const SHARED: usize = 4_096;
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
    short: HashSet<ItemKey>,
    /// The sequence that an item had when this instance last moved it.
    sequences: HashMap<ItemKey, u64>,
    /// Items that somebody else has moved in between.
    shared: HashSet<ItemKey>,
    halls: HashSet<ItemKey>,
}

impl Known {
    /// What a reservation is about.
    pub(super) fn held_by(&self, id: ReservationId) -> Option<Held> {
        self.held.get(&id).cloned()
    }

    /// Remembers a reservation.
    pub(super) fn learn(&mut self, hold: &Hold) {
        if let std::collections::hash_map::Entry::Vacant(place) = self.held.entry(hold.id) {
            place.insert(Held::by(hold));
            self.oldest.push_back(hold.id);
        }
        if self.oldest.len() > RESERVATIONS
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.held.remove(&oldest);
        }
    }

    /// Remembers what an answer shows.
    pub(super) fn learn_from(&mut self, outcome: &Outcome) {
        if let Outcome::Done(Reply::Reservation(hold)) | Outcome::Replayed(Reply::Reservation(hold)) = outcome
        {
            self.learn(hold);
        }
        if let Outcome::Done(Reply::Reservation(hold)) = outcome {
            for line in &*hold.lines {
                self.moved(&line.item, line.sequence);
            }
        }
    }

    /// An item's sequence counts each of its moves, so whoever sees one left out is not alone.
    fn moved(&mut self, item: &ItemKey, sequence: u64) {
        let known = self.sequences.len();
        match self.sequences.get_mut(item) {
            Some(last) => {
                if sequence > *last + 1 && self.shared.len() < SHARED {
                    self.shared.insert(item.clone());
                }
                *last = sequence;
            }
            None if known < SHARED => {
                self.sequences.insert(item.clone(), sequence);
            }
            None => {}
        }
    }

    /// Whether other instances move one of the items too, as far as was seen lately.
    pub(super) fn shares(&self, items: &HashSet<ItemKey>) -> bool {
        !self.shared.is_empty() && items.iter().any(|item| self.shared.contains(item))
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

    /// Units with ids that a command takes any of, as far as items are known to have such.
    pub(super) fn any_units(&self, command: &Command) -> usize {
        let Command::Reserve(reserve) = command else { return 0 };
        let wants = reserve.basket.wants().iter().enumerate();
        let any =
            wants.filter(|(n, want)| reserve.basket.choice(*n).is_none() && self.halls.contains(&want.item));
        any.map(|(_, want)| units_of(want)).sum()
    }

    /// Stock comes back, so what fell short once is not expected to for ever; nor is what was shared once.
    pub(super) fn forget_short(&mut self) {
        self.short.clear();
        self.sequences.clear();
        self.shared.clear();
    }
}
