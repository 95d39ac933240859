//! States for tests: a small one that has everything, and a slice of it that has only what was loaded.

use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{
    Event, Got, Hold, Instant, Item, ItemKey, KeyHash, KeyRecord, Label, Missing, Name, ReservationId, Scope,
    State, Status, Transition,
};

/// Everything in sorted maps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Shop {
    pub(crate) items: BTreeMap<ItemKey, Item>,
    pub(crate) holds: BTreeMap<ReservationId, Hold>,
    pub(crate) keys: BTreeMap<KeyHash, KeyRecord>,
    pub(crate) paused: BTreeSet<Option<Label>>,
}

impl State for Shop {
    fn item(&self, key: &ItemKey) -> Got<'_, Item> {
        Ok(self.items.get(key))
    }

    fn hold(&self, id: ReservationId) -> Got<'_, Hold> {
        Ok(self.holds.get(&id))
    }

    fn key(&self, hash: KeyHash) -> Got<'_, KeyRecord> {
        Ok(self.keys.get(&hash))
    }

    fn paused(&self, location: Option<&str>) -> Result<bool, Missing> {
        Ok(self.paused.iter().any(|paused| paused.as_ref().map(Label::as_str) == location))
    }

    fn earliest(&self, item: Option<&ItemKey>) -> Result<Option<(Instant, ReservationId)>, Missing> {
        let about = |hold: &&Hold| item.is_none_or(|key| hold.lines.iter().any(|line| line.item == *key));
        let active = self.holds.values().filter(|hold| hold.status == Status::Active).filter(about);
        Ok(active.map(|hold| (hold.expires_at, hold.id)).min())
    }

    fn apply(&mut self, event: &Event) {
        match &event.transition {
            Transition::Hold { hold, figures, .. } => {
                assert_eq!(hold.lines.len(), figures.len(), "figures of every line");
                for (line, figures) in hold.lines.iter().zip(figures) {
                    self.items.get_mut(&line.item).expect("an item of a hold").figures = *figures;
                }
                self.holds.insert(hold.id, hold.clone());
            }
            Transition::Stock { item, .. } => {
                self.items.insert(item.key.clone(), item.clone());
            }
            Transition::Sale { scope: Scope::Item(key), paused, .. } => {
                self.items.get_mut(key).expect("an item that is paused").paused = *paused;
            }
            Transition::Sale { scope, paused, .. } => {
                let location = match scope {
                    Scope::Location(location) => Some(location.clone()),
                    Scope::Everything | Scope::Item(_) => None,
                };
                if *paused {
                    self.paused.insert(location)
                } else {
                    self.paused.remove(&location)
                };
            }
        }
    }

    fn remember(&mut self, key: &KeyRecord) {
        self.keys.insert(key.hash, key.clone());
    }
}

/// What a store that loads and locks has in its hands.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub(crate) shop: Shop,
    pub(crate) loaded: BTreeSet<Name>,
}

impl Slice {
    fn need(&self, name: Name) -> Result<(), Missing> {
        if self.loaded.contains(&name) { Ok(()) } else { Err(Missing(name)) }
    }
}

impl State for Slice {
    fn item(&self, key: &ItemKey) -> Got<'_, Item> {
        self.need(Name::Item(key.clone()))?;
        self.shop.item(key)
    }

    fn hold(&self, id: ReservationId) -> Got<'_, Hold> {
        // A fresh id is looked up to see that it is fresh: nothing has to be loaded for what can't exist.
        if !self.shop.holds.contains_key(&id) {
            return Ok(None);
        }
        self.need(Name::Hold(id))?;
        self.shop.hold(id)
    }

    fn key(&self, hash: KeyHash) -> Got<'_, KeyRecord> {
        self.need(Name::Key(hash))?;
        self.shop.key(hash)
    }

    fn paused(&self, location: Option<&str>) -> Result<bool, Missing> {
        self.need(Name::Pause(location.map(|location| Label::new(location).unwrap())))?;
        State::paused(&self.shop, location)
    }

    fn earliest(&self, item: Option<&ItemKey>) -> Result<Option<(Instant, ReservationId)>, Missing> {
        self.need(item.map_or(Name::AnyDue, |key| Name::Due(key.clone())))?;
        self.shop.earliest(item)
    }

    fn apply(&mut self, event: &Event) {
        if let Transition::Hold { hold, .. } = &event.transition {
            self.loaded.insert(Name::Hold(hold.id));
        }
        self.shop.apply(event);
    }

    fn remember(&mut self, key: &KeyRecord) {
        self.shop.remember(key);
    }
}
