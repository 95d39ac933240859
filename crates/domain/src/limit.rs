//! Limits: how many units of some items one buyer, or all buyers together, may have. A counter of each limit and subject says how many
//! they have.

use crate::item_key::ItemKey;
use crate::label::Label;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A limit with its version. A deleted limit keeps its versions, so that they never repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Its id.
    pub id: Label,
    /// It begins at 1 and rises by 1 with every change.
    pub version: u64,
    /// The version with which its counters began at 0.
    pub generation: u64,
    /// What it says; `None` when it is deleted.
    pub terms: Option<Arc<LimitTerms>>,
}

/// What a limit says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitTerms {
    /// Whose units are counted: 1 to [`crate::limits::LIMIT_TARGETS`], each once, in ascending order. An item need not exist.
    pub targets: Box<[LimitTarget]>,
    /// The sales channels whose units are counted, in ascending order. Empty: all, and reservations without one.
    pub channels: Box<[Label]>,
    /// For whom units are counted. `None`: for all together.
    pub per: Option<SubjectKind>,
    /// The most units, at most [`crate::limits::TOTAL_UNITS`]. 0 refuses everybody.
    pub limit: u64,
    /// Which units count.
    pub counts: LimitedUnits,
}

/// The items that a limit is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitTarget {
    /// A SKU at every location.
    Sku(Label),
    /// Every item at a location.
    Location(Label),
    /// One item.
    Item(ItemKey),
}

/// For whom a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubjectKind {
    /// For each `customer_id`.
    Customer,
    /// For each `owner_id`.
    Owner,
}

/// Which units a limit counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitedUnits {
    /// Units that are held, and units that are sold and not returned.
    #[default]
    HeldAndSold,
    /// Units that are held.
    Held,
}

/// Whose units a counter counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// Those of all reservations.
    Everyone,
    /// Those of a customer.
    Customer(Label),
    /// Those of an owner.
    Owner(Label),
}

impl Subject {
    /// Its kind. `None`: all together.
    pub fn kind(&self) -> Option<SubjectKind> {
        match self {
            Self::Everyone => None,
            Self::Customer(_) => Some(SubjectKind::Customer),
            Self::Owner(_) => Some(SubjectKind::Owner),
        }
    }

    /// Its name. `None` for everyone.
    pub fn name(&self) -> Option<&Label> {
        match self {
            Self::Everyone => None,
            Self::Customer(name) | Self::Owner(name) => Some(name),
        }
    }
}

/// The key of a counter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterKey {
    /// Which limit.
    pub limit: Label,
    /// In which generation of it.
    pub generation: u64,
    /// Whose units.
    pub subject: Subject,
}

/// How many units a subject has under a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitCounter {
    /// Units in active reservations.
    pub held: u64,
    /// Units sold, less returns.
    pub sold: u64,
}

impl LimitCounter {
    /// The units that a limit compares with its limit.
    pub fn used(self, counts: LimitedUnits) -> u64 {
        match counts {
            LimitedUnits::HeldAndSold => self.held.saturating_add(self.sold),
            LimitedUnits::Held => self.held,
        }
    }
}

/// The units of a line that a counter counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineCount {
    /// Which counter.
    pub key: CounterKey,
    /// How many units of the line, at least 1.
    pub units: u32,
}

/// Every limit, and which of them concern an item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitSet {
    all: BTreeMap<Label, Limit>,
    of_skus: BTreeMap<Label, BTreeSet<Label>>,
    of_locations: BTreeMap<Label, BTreeSet<Label>>,
    of_items: BTreeMap<ItemKey, BTreeSet<Label>>,
}

impl LimitSet {
    /// Whether there is no limit, not even a deleted one.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// A limit, deleted or not.
    pub fn get(&self, id: &Label) -> Option<&Limit> {
        self.all.get(id)
    }

    /// All limits in order of their ids, deleted ones included.
    pub fn iter(&self) -> impl Iterator<Item = &Limit> {
        self.all.values()
    }

    /// Puts a limit in place of the one with its id.
    pub fn put(&mut self, limit: Limit) {
        if let Some(before) = self.all.remove(&limit.id) {
            for target in before.terms.iter().flat_map(|terms| &*terms.targets) {
                match target {
                    LimitTarget::Sku(sku) => forget(&mut self.of_skus, sku, &before.id),
                    LimitTarget::Location(location) => forget(&mut self.of_locations, location, &before.id),
                    LimitTarget::Item(key) => forget(&mut self.of_items, key, &before.id),
                }
            }
        }
        for target in limit.terms.iter().flat_map(|terms| &*terms.targets) {
            let ids = match target {
                LimitTarget::Sku(sku) => self.of_skus.entry(sku.clone()).or_default(),
                LimitTarget::Location(location) => self.of_locations.entry(location.clone()).or_default(),
                LimitTarget::Item(key) => self.of_items.entry(key.clone()).or_default(),
            };
            ids.insert(limit.id.clone());
        }
        self.all.insert(limit.id.clone(), limit);
    }

    /// The limits that concern an item sold through a channel, each with its terms, in order of their ids.
    pub fn matching(&self, item: &ItemKey, channel: Option<&Label>) -> Vec<(&Limit, &LimitTerms)> {
        if self.all.is_empty() {
            return Vec::new();
        }
        let ids: BTreeSet<&Label> =
            [self.of_skus.get(item.sku()), self.of_locations.get(item.location()), self.of_items.get(item)]
                .into_iter()
                .flatten()
                .flatten()
                .collect();
        let in_force = |id: &Label| {
            let limit = self.all.get(id)?;
            let terms = limit.terms.as_deref()?;
            let concerns =
                terms.channels.is_empty() || channel.is_some_and(|channel| terms.channels.contains(channel));
            concerns.then_some((limit, terms))
        };
        ids.into_iter().filter_map(in_force).collect()
    }

    /// The terms of the limit of a counter, if the counter is of its current generation.
    pub fn current(&self, key: &CounterKey) -> Option<&LimitTerms> {
        let limit = self.all.get(&key.limit).filter(|limit| limit.generation == key.generation)?;
        limit.terms.as_deref()
    }
}

/// Removes an id from those under a key, and the key with its last id.
fn forget<K: Ord>(all: &mut BTreeMap<K, BTreeSet<Label>>, key: &K, id: &Label) {
    let Some(ids) = all.get_mut(key) else { return };
    ids.remove(id);
    if ids.is_empty() {
        all.remove(key);
    }
}

/// The counters of the current generations of limits. A counter that is at 0 takes no room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitCounters(BTreeMap<Label, (u64, BTreeMap<Subject, LimitCounter>)>);

impl LimitCounters {
    /// A counter; 0 if nothing was counted.
    pub fn get(&self, key: &CounterKey) -> LimitCounter {
        let of_limit = self.0.get(&key.limit).filter(|(generation, _)| *generation == key.generation);
        of_limit.and_then(|(_, all)| all.get(&key.subject)).copied().unwrap_or_default()
    }

    /// Sets a counter. Counters of another generation of the limit are forgotten.
    pub fn put(&mut self, key: CounterKey, counter: LimitCounter) {
        let of_limit = self.0.entry(key.limit.clone()).or_default();
        if of_limit.0 != key.generation {
            *of_limit = (key.generation, BTreeMap::new());
        }
        if counter == LimitCounter::default() {
            of_limit.1.remove(&key.subject);
        } else {
            of_limit.1.insert(key.subject, counter);
        }
        if of_limit.1.is_empty() {
            self.0.remove(&key.limit);
        }
    }

    /// Forgets the counters of other generations of a limit than the current one.
    pub fn on_change(&mut self, limit: &Limit) {
        let is_over = |(generation, _): &(u64, _)| limit.terms.is_none() || *generation != limit.generation;
        if self.0.get(&limit.id).is_some_and(is_over) {
            self.0.remove(&limit.id);
        }
    }

    /// The counters of a limit's generation in order of their subjects, after this one.
    pub fn of_limit<'a>(
        &'a self,
        limit: &Limit,
        after: Option<&Subject>,
    ) -> impl Iterator<Item = (&'a Subject, LimitCounter)> {
        use core::ops::Bound::{Excluded, Unbounded};
        let of_limit = self.0.get(&limit.id).filter(|(generation, _)| *generation == limit.generation);
        let from = after.map_or(Unbounded, Excluded);
        of_limit
            .into_iter()
            .flat_map(move |(_, all)| all.range::<Subject, _>((from, Unbounded)))
            .map(|(subject, counter)| (subject, *counter))
    }

    /// Every counter.
    pub fn iter(&self) -> impl Iterator<Item = (CounterKey, LimitCounter)> {
        self.0.iter().flat_map(|(limit, (generation, all))| {
            all.iter().map(|(subject, counter)| {
                let (limit, generation, subject) = (limit.clone(), *generation, subject.clone());
                (CounterKey { limit, generation, subject }, *counter)
            })
        })
    }
}
