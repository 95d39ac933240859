//! Checks the state after a start: it must have everything that was durable and nothing else.

use super::{Checked, Checker, broken};
use stockhold_domain::{Hold, HoldDetails, Instant, Label, ReservationId, Status};
use stockhold_embedded::stepped::Machine;

impl Checker {
    /// Checks that a machine has exactly the durable state, after a start or when no commit is in flight.
    pub(crate) fn stands(&self, machine: &Machine) -> Checked {
        if machine.disk().len() != self.number {
            return broken("S2", format!("{} commits of {} are there", machine.disk().len(), self.number));
        }
        for (key, item) in &self.fold.items {
            let found = machine.item(key);
            if found.iter().any(|found| found.as_ref() != Some(item)) {
                return broken("S12", format!("{key:?}:\n durable {item:?}\n found   {found:?}"));
            }
        }
        for (key, units) in &self.fold.unit_indexes {
            let found = machine.units(key);
            if found != Some(units) && !(units.is_empty() && found.is_none()) {
                return broken("S12", format!("units of {key:?}:\n durable {units:?}\n found   {found:?}"));
            }
        }
        for (id, hold) in &self.fold.holds {
            let found = machine.hold(*id);
            if found.as_ref() != Some(hold) {
                return broken("S12", format!("{id}:\n durable {hold:?}\n found   {found:?}"));
            }
        }
        for (key, record) in &self.fold.records {
            let found = machine.record(key);
            if found.as_ref() != Some(record) {
                return broken("S12", format!("{key:?}:\n durable {record:?}\n found   {found:?}"));
            }
        }
        for (hash, record) in &self.fold.keys {
            let found = machine.key(*hash);
            if found.as_ref() != Some(record) && !self.may_be_forgotten(*hash) {
                return broken("S6", format!("a key:\n durable {record:?}\n found   {found:?}"));
            }
        }
        let durable = (self.fold.limits.iter().cloned().collect(), self.fold.counters.iter().collect());
        let found = machine.limits();
        if found != durable {
            return broken("S12", format!("limits:\n durable {durable:?}\n found   {found:?}"));
        }
        let places = self.fold.items.keys().map(|key| Some(key.location()));
        for place in places.chain([None]) {
            let paused = self.fold.paused.iter().any(|scope| scope.as_ref().map(Label::as_str) == place);
            if machine.paused(place) != paused {
                return broken("S12", format!("whether {place:?} is paused: durable {paused}"));
            }
        }
        let active = self.fold.holds.values().filter(|hold| hold.status == Status::Active);
        let releases = self.fold.items.values().filter_map(|item| item.pools.release_due_at());
        let due = active.map(|hold| hold.expires_at).chain(releases).min();
        if machine.next_due() != due {
            return broken("L1", format!("due first: durable {due:?}, found {:?}", machine.next_due()));
        }
        if machine.clamp_to_committed(Instant::from_micros(i64::MIN)) < self.at {
            return broken("time", "the newest committed instant is no floor any more");
        }
        self.kept()?;
        self.related()?;
        self.recount()
    }

    /// Checks that published items are the durable ones.
    pub(crate) fn published(&self, machine: &Machine) -> Checked {
        for (key, item) in &self.fold.items {
            let [_, published] = machine.item(key);
            if published.as_ref() != Some(item) {
                return broken("9.1", format!("{key:?}:\n durable   {item:?}\n published {published:?}"));
            }
        }
        Ok(())
    }

    /// Checks that everything that answers said is true, or was true before a later change.
    fn kept(&self) -> Checked {
        for (id, version) in &self.acknowledged {
            let (Some(hold), Some((quantity, deadline))) =
                (self.fold.holds.get(id), self.versions.get(&(*id, *version)))
            else {
                return broken("S2", format!("{id} was acknowledged and is gone"));
            };
            let changed = self.changed.get(id).copied().unwrap_or_default();
            let other_units = changed.units <= *version && hold.quantity() != *quantity;
            let earlier = changed.deadline <= *version && hold.expires_at < *deadline;
            if hold.version < *version || other_units || earlier {
                return broken("S2", format!("told {quantity} units until {deadline:?}: {hold:?}"));
            }
        }
        Ok(())
    }

    /// Checks that reservations which come from each other say so on both sides.
    fn related(&self) -> Checked {
        let names = |id: &ReservationId, is_related: &dyn Fn(&Hold) -> bool| {
            self.fold.holds.get(id).is_some_and(is_related)
        };
        for (id, hold) in &self.fold.holds {
            let HoldDetails {
                split_from, split_into, merged_from, merged_into, replaces, replaced_by, ..
            } = hold.details();
            let agree = split_from.iter().all(|id| self.fold.holds.contains_key(id))
                && split_into.iter().all(|part| names(part, &|part| part.details().split_from == Some(*id)))
                && merged_from.iter().all(|source| {
                    names(source, &|source| {
                        source.status == Status::Cancelled && source.details().merged_into == Some(*id)
                    })
                })
                && merged_into.iter().all(|id| self.fold.holds.contains_key(id))
                && replaces.iter().all(|old| {
                    names(old, &|old| old.status == Status::Expired && old.details().replaced_by == Some(*id))
                })
                && replaced_by.iter().all(|new| {
                    names(new, &|new| new.status == Status::Confirmed && new.details().replaces == Some(*id))
                });
            if !agree {
                return broken("S12", format!("its relations have only one side: {hold:?}"));
            }
        }
        Ok(())
    }
}
