//! Checks each durable commit against the model and against the events before it.

use super::{AUDIT_EVERY, Checked, Checker, branches, broken, command_checks, event_checks, limit_answers};
use crate::counters::{Count, Counters};
use std::collections::BTreeSet;
use stockhold_domain::{
    Command, Envelope, Event, Hold, HoldChange, Instant, KeyRecord, KeyTarget, Label, Outcome, Rejection,
    Reply, State, Status, StockChange, Transition, Unit, UnitIndex, UnitMove, limits, moved,
};
use stockhold_embedded::stepped::{Commit, Decision, TraceEntry};
use stockhold_model::{holds_agree, outcomes_agree};
use stockhold_store::{Query, QueryResult};

/// The parts of a commit that were not checked yet.
struct Rest {
    events: std::vec::IntoIter<Event>,
    keys: std::vec::IntoIter<KeyRecord>,
    /// Number of expiries so far, and of their lines and units with ids.
    expired: u32,
    expired_weight: u64,
    /// The newest instant in the commit so far.
    at: Instant,
}

impl Rest {
    fn new(at: Instant) -> Self {
        let (events, keys) = (Vec::new().into_iter(), Vec::new().into_iter());
        Self { events, keys, expired: 0, expired_weight: 0, at }
    }

    fn is_full(&self) -> bool {
        self.expired >= limits::EXPIRIES_PER_BATCH
            || self.expired_weight >= u64::from(limits::EXPIRED_LINES_PER_BATCH)
    }

    fn expire(&mut self, hold: &Hold) -> Checked {
        self.release_pool()?;
        self.expired_weight += hold.lines.iter().map(|line| 1 + line.units().len() as u64).sum::<u64>();
        Ok(())
    }
}

impl Rest {
    /// A released pool counts like an expired hold.
    fn release_pool(&mut self) -> Checked {
        if self.is_full() {
            return broken("2.3", format!("a batch expired more than {} holds", self.expired));
        }
        self.expired += 1;
        Ok(())
    }
}

impl Checker {
    /// Checks a batch that is durable, or that had nothing to commit.
    pub(crate) fn commits(
        &mut self,
        commit: Option<Commit>,
        decided: Vec<TraceEntry>,
        counters: &mut Counters,
    ) -> Checked {
        let mut rest = Rest::new(self.at);
        let newest = commit.as_ref().map(|commit| commit.at);
        if let Some(Commit { number, position, at, events, keys, .. }) = commit {
            if (number, position) != (self.number + 1, self.next_position) {
                return broken(
                    "S12",
                    format!("commit {number} at position {position} follows {}", self.number),
                );
            }
            if at < self.at || at > self.newest {
                let (before, shown) = (self.at, self.newest);
                return broken(
                    "time",
                    format!("commit {number} is of {at:?}, after {before:?}, shown {shown:?}"),
                );
            }
            counters.one(Count::Commits);
            self.number = number;
            self.next_position += events.len() as u64;
            (rest.events, rest.keys) = (events.into_iter(), keys.into_iter());
        }
        for decided in decided {
            match decided {
                TraceEntry::Command(decision) => self.decided(decision, &mut rest, counters)?,
                TraceEntry::Query(ticket) => self.queried(ticket),
            }
        }
        if let Some(event) = rest.events.next() {
            return broken("S12", format!("nobody made this event: {event:?}"));
        }
        if let Some(key) = rest.keys.next() {
            return broken("S6", format!("nobody used this key: {key:?}"));
        }
        if let Some(at) = newest {
            if at < rest.at {
                return broken("time", format!("a commit of {at:?} was decided at {:?}", rest.at));
            }
            self.at = at;
            if self.number.is_multiple_of(AUDIT_EVERY) {
                self.recount()?;
            }
        }
        Ok(())
    }

    fn decided(&mut self, decision: Decision, rest: &mut Rest, counters: &mut Counters) -> Checked {
        let Decision { by, now, outcome, events } = decision;
        let Some((envelope, _)) = self.commands.get(&by).cloned() else {
            return broken("one answer", format!("nobody asked for what was decided: {outcome:?}"));
        };
        if now < rest.at || now > self.newest {
            let (at, shown) = (rest.at, self.newest);
            return broken(
                "time",
                format!("{:?} at {now:?}, after {at:?}, shown {shown:?}", envelope.command),
            );
        }
        rest.at = now;
        let mut own = Vec::new();
        for _ in 0..events {
            let Some(event) = rest.events.next() else {
                return broken("S12", format!("an event of {:?} is not durable", envelope.command));
            };
            self.happened(&event, &envelope, now, rest, counters)?;
            own.push(event);
        }
        command_checks::check(&envelope, &outcome, &own)?;
        limit_answers::check(&self.fold, &envelope.command, &outcome, &own, now)?;
        match (&outcome, &envelope.command) {
            (Outcome::Later, _) => self.put_off(&own, now, rest, counters),
            (_, Command::Sweep) => self.swept(&own, &outcome, now, rest),
            _ => self.as_the_model_says(&envelope, now, &outcome, &own, rest, counters),
        }?;
        if outcome == Outcome::Later {
            counters.one(Count::Later);
            return Ok(());
        }
        if self.undone.contains(&by) && matches!(outcome, Outcome::Done(_)) {
            return broken(
                "S7",
                format!("its caller was told that nothing was done: {:?}", envelope.command),
            );
        }
        if self.unknown.contains(&by) && !own.is_empty() {
            counters.one(Count::UnknownKept);
        }
        self.agree(&own)?;
        self.outcomes.insert(by, outcome);
        Ok(())
    }

    /// Checks one event.
    fn happened(
        &mut self,
        event: &Event,
        envelope: &Envelope,
        now: Instant,
        rest: &mut Rest,
        counters: &mut Counters,
    ) -> Checked {
        if event.origin != envelope.origin || event.at != now {
            return broken("S12", format!("{event:?} is not of {envelope:?} at {now:?}"));
        }
        event_checks::check(&self.fold, event)?;
        if !self.event_ids.insert(event.id) {
            return broken("S12", format!("its id was used before: {event:?}"));
        }
        if let Transition::Hold { change, hold, figures, limits } = &event.transition {
            let by = envelope.fresh.event;
            for (n, (line, figures)) in hold.lines.iter().zip(figures).enumerate() {
                if line.units.is_none() && line.sequence == figures.sequence {
                    self.turns.entry(((line.item.clone(), None), line.sequence)).or_insert(by);
                }
                for UnitMove { unit, .. } in moved(change, hold, line, n) {
                    let unit_of = (line.item.clone(), Some(unit.id.clone()));
                    self.turns.insert((unit_of, unit.version), by);
                }
            }
            // A command that comes too late always expires its own hold.
            let counts = match &envelope.command {
                Command::Reserve(_)
                | Command::DeleteItem(_)
                | Command::RetireUnit(_)
                | Command::SetUnitPool(_)
                | Command::Sweep => true,
                Command::Amend(_) | Command::Confirm(_) => envelope.command.reservation() != Some(hold.id),
                _ => false,
            };
            if *change == HoldChange::Expired && counts {
                rest.expire(hold)?;
            }
            let before = self.fold.holds.get(&hold.id).cloned();
            self.count(change, before.as_ref(), hold, &envelope.command, counters);
            let overridden = limits.as_ref().is_some_and(|limits| !limits.overridden.is_empty());
            counters.more(Count::LimitsOverridden, overridden.into());
            self.promise(change, hold);
        }
        if let Transition::Stock { change, item } = &event.transition {
            match change {
                StockChange::UnitsAdded(_) => counters.one(Count::UnitsAdded),
                StockChange::UnitsRetired(units) => {
                    counters.one(Count::UnitRetired);
                    let unit = |unit: &Label| (item.key.clone(), Some(unit.clone()));
                    self.retired.extend(units.iter().map(unit));
                }
                StockChange::Deleted => {
                    counters.one(Count::ItemDeleted);
                    self.retired.insert((item.key.clone(), None));
                }
                StockChange::Set
                | StockChange::Adjusted { .. }
                | StockChange::PoolSet { .. }
                | StockChange::PoolDeleted { .. }
                | StockChange::UnitsPooled { .. } => {}
                StockChange::PoolReleased { .. } => rest.release_pool()?,
            }
        }
        if let Transition::Limit { limit } = &event.transition {
            branches::count_limit(&self.fold, limit, counters);
        }
        if let Transition::Record { record, .. } = &event.transition {
            counters.one(if record.value.is_some() { Count::RecordPut } else { Count::RecordDeleted });
        }
        self.fold.apply(event);
        Ok(())
    }

    /// The command is repeated in the next batch, because this one reached its limit of expiries. Its expiries count.
    fn put_off(&mut self, own: &[Event], now: Instant, rest: &Rest, counters: &mut Counters) -> Checked {
        counters.more(Count::LaterExpired, own.len() as u64);
        if !rest.is_full() {
            return broken("2.3", format!("put off after {} expiries", rest.expired));
        }
        for event in own {
            match &event.transition {
                Transition::Hold { change: HoldChange::Expired, hold, .. } => self.model.expire(hold.id, now),
                Transition::Stock { item, .. } if command_checks::pool_released(event).is_some() => {
                    self.model.release_due(&item.key, now);
                }
                _ => return broken("2.3", format!("done by what was put off: {event:?}")),
            }
        }
        self.agree(own)
    }

    /// A sweep expires the earliest deadlines first, until none is due or the batch is full.
    fn swept(&mut self, own: &[Event], outcome: &Outcome, now: Instant, rest: &Rest) -> Checked {
        let mut latest = None;
        let is_expiry = |event: &&Event| command_checks::pool_released(event).is_none();
        let (expiries, of_pools) = own.split_at(own.iter().take_while(is_expiry).count());
        for event in expiries {
            let Transition::Hold { change: HoldChange::Expired, hold, .. } = &event.transition else {
                return broken("2.3", format!("done by a sweep: {event:?}"));
            };
            let place = Some((hold.expires_at, hold.id));
            if place < latest {
                return broken("2.3", format!("expired out of order: {event:?}"));
            }
            latest = place;
            self.model.expire(hold.id, now);
        }
        let mut items = BTreeSet::new();
        for event in of_pools {
            let Some(key) = command_checks::pool_released(event) else {
                return broken("2.3", format!("done by a sweep: {event:?}"));
            };
            self.model.release_due(key, now);
            items.insert(key);
        }
        let due = self.model.holds().iter().filter(|hold| hold.status == Status::Active && hold.is_due(now));
        let is_due = |item: &stockhold_domain::Item| item.pools.release_due_at().is_some_and(|at| at <= now);
        let left = due.count() + self.fold.items.values().filter(|item| is_due(item)).count();
        if left > 0 && !rest.is_full() {
            return broken("L1", format!("a sweep left {left} that are due"));
        }
        let count = |events: usize| u32::try_from(events).unwrap_or(u32::MAX);
        let (expired, released) = (count(expiries.len()), count(items.len()));
        if *outcome != Outcome::Done(Reply::Swept { expired, released }) {
            return broken("2.3", format!("a sweep of {expired}: {outcome:?}"));
        }
        Ok(())
    }

    fn as_the_model_says(
        &mut self,
        envelope: &Envelope,
        now: Instant,
        outcome: &Outcome,
        own: &[Event],
        rest: &mut Rest,
        counters: &mut Counters,
    ) -> Checked {
        let key = envelope.key_in_use();
        let expected = if let Some(key) = key
            && self.may_be_forgotten(key.hash)
            && !self.is_of_key(envelope, now, outcome, own)
        {
            counters.one(Count::KeyRetired);
            self.model.run_without_key_record(envelope, now)
        } else {
            self.model.run(envelope, now)
        };
        if !outcomes_agree(&expected, outcome) {
            let (micros, command) = (now.micros(), &envelope.command);
            return broken(
                "the model",
                format!("{command:?} at {micros}:\n expected {expected:?}\n got      {outcome:?}"),
            );
        }
        branches::count_outcome(&envelope.command, outcome, counters);
        branches::count_limited(&self.fold, &envelope.command, outcome, own, counters);
        match (outcome, key) {
            (Outcome::Replayed(_), Some(key)) => {
                // The model finds keys by the same digests. So the principal and the request are compared once more.
                let used = self.key_used.get(&key.hash);
                let Some((number, _, _)) = used.filter(|(_, actor, command)| {
                    (actor, command) == (&envelope.origin.actor, &envelope.command)
                }) else {
                    return broken("2.5", format!("a replay of {used:?}: {envelope:?}"));
                };
                counters.more(Count::ReplayAfterCrash, u64::from(*number <= self.started_at));
                Ok(())
            }
            (Outcome::Refused(Rejection::IdempotencyMismatch), Some(key)) => {
                match self.key_used.get(&key.hash) {
                    Some((_, actor, command))
                        if *actor == envelope.origin.actor && *command != envelope.command =>
                    {
                        Ok(())
                    }
                    used => broken("2.5", format!("a mismatch with {used:?}: {envelope:?}")),
                }
            }
            (Outcome::Done(reply), Some(key)) => {
                let target = match (reply, envelope.command.changed_item()) {
                    (Reply::ItemDeleted, Some(item)) => KeyTarget::Item(item.clone()),
                    (Reply::Reservation(hold), _) => KeyTarget::Reservation(hold.id),
                    (Reply::Item { item, .. }, _) => KeyTarget::Item(item.key.clone()),
                    (Reply::Record(record), _) => KeyTarget::Record(record.key.clone()),
                    (
                        Reply::ItemDeleted
                        | Reply::Units { .. }
                        | Reply::Limit { .. }
                        | Reply::Sale { .. }
                        | Reply::Swept { .. },
                        _,
                    ) => return Ok(()),
                };
                let record = KeyRecord { hash: key.hash, fingerprint: key.fingerprint, target, at: now };
                let kept = rest.keys.next();
                if kept.as_ref() != Some(&record) {
                    return broken("S6", format!("{:?}\n used {record:?}\n kept {kept:?}", envelope.command));
                }
                let used = (self.number, envelope.origin.actor.clone(), envelope.command.clone());
                self.key_used.insert(key.hash, used);
                self.fold.remember(&record);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whether an outcome was found by the command's key, which the store could have forgotten. Also the refusals of a known
    /// key are such outcomes: another request, or an item that was deleted since.
    fn is_of_key(&self, envelope: &Envelope, now: Instant, outcome: &Outcome, own: &[Event]) -> bool {
        match outcome {
            Outcome::Replayed(_) => true,
            Outcome::Refused(_) if own.is_empty() => {
                outcomes_agree(&self.model.clone().run(envelope, now), outcome)
            }
            Outcome::Refused(_) | Outcome::Done(_) | Outcome::Later => false,
        }
    }

    /// Everything that the events changed has to be equal in the model.
    fn agree(&self, events: &[Event]) -> Checked {
        let mut items = BTreeSet::new();
        let mut holds = BTreeSet::new();
        let mut records = BTreeSet::new();
        let mut limits = BTreeSet::new();
        for event in events {
            match &event.transition {
                Transition::Hold { hold, .. } => {
                    holds.insert(hold.id);
                    items.extend(hold.lines.iter().map(|line| &line.item));
                }
                Transition::Stock { item, .. } => {
                    items.insert(&item.key);
                }
                Transition::Sale { .. } => {}
                Transition::Limit { limit } => {
                    limits.insert(&limit.id);
                }
                Transition::Record { record, .. } => {
                    records.insert(&record.key);
                }
            }
        }
        for key in records {
            let there = self.fold.records.get(key).filter(|record| record.value.is_some());
            let expected = self.model.service_record(key);
            if expected.as_ref() != there {
                return broken("the model", format!("{key:?}:\n expected {expected:?}\n got      {there:?}"));
            }
        }
        for id in limits {
            let (expected, got) = (self.model.limit(id), self.fold.limits.get(id));
            if expected.as_ref() != got {
                return broken("the model", format!("{id:?}:\n expected {expected:?}\n got      {got:?}"));
            }
        }
        for key in items {
            let (expected, got) = (self.model.item(key), self.fold.items.get(key));
            if expected.as_ref() != got {
                return broken("the model", format!("{key:?}:\n expected {expected:?}\n got      {got:?}"));
            }
            let stand = |unit: &Unit| {
                let Unit { id, place, status, version, pool } = unit.clone();
                (id, place, status, version, pool)
            };
            let got: Vec<_> =
                self.fold.unit_indexes.get(key).into_iter().flat_map(UnitIndex::iter).map(stand).collect();
            let expected = self.model.units(key);
            if expected != got {
                return broken(
                    "the model",
                    format!("units of {key:?}:\n expected {expected:?}\n got      {got:?}"),
                );
            }
        }
        for id in holds {
            let (expected, got) = (self.model.hold(id), self.fold.holds.get(&id));
            if !expected.as_ref().zip(got).is_some_and(|(expected, got)| holds_agree(expected, got)) {
                return broken("the model", format!("{id}:\n expected {expected:?}\n got      {got:?}"));
            }
        }
        Ok(())
    }

    fn queried(&mut self, ticket: u64) {
        let Some(query) = self.asked.get(&ticket).and_then(super::SentRequest::query) else { return };
        let found = match query {
            Query::Reservation(id) => QueryResult::Reservation(self.fold.holds.get(id).cloned()),
            Query::Items(keys) => {
                QueryResult::Items(keys.iter().map(|key| self.fold.items.get(key).cloned()).collect())
            }
            Query::LimitUsage(request) => QueryResult::LimitUsage(limit_answers::usage(&self.fold, request)),
            _ => return,
        };
        self.found.insert(ticket, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_domain::{EventId, HoldTerms, Line, LineUnit, LineUnits, ReservationId, ReserveTerms};
    use stockhold_model::maker::label;
    use stockhold_model::{Maker, START};

    /// A hold of one line with this many units with ids.
    fn hold(units: u32) -> Hold {
        let unit = |number: u32| LineUnit {
            id: label(&number.to_string()),
            pool: None,
            version: 2,
            fulfilled: false,
            returned: false,
        };
        let line = Line {
            item: Maker::new(0, "").item("hall"),
            requested: units,
            quantity: units,
            fulfilled: 0,
            returned: 0,
            sequence: 0,
            units: Some(LineUnits::new((0..units).map(unit).collect()).into()),
            details: None,
        };
        let terms = HoldTerms {
            reserve: ReserveTerms { owner_id: label("owner"), optional: None },
            created_at: START,
            max_expires_at: START,
        };
        Hold {
            id: ReservationId::from_u128(7),
            status: Status::Expired,
            expires_at: START,
            terms: terms.into(),
            lines: [line].into(),
            closing: None,
            details: None,
            version: 1,
            last_event: EventId::from_u128(7),
        }
    }

    #[test]
    fn units_with_ids_count_like_lines_of_what_a_batch_expires() {
        let half = hold(limits::EXPIRED_LINES_PER_BATCH / 2 - 1);
        let mut rest = Rest::new(START);
        assert_eq!(rest.expire(&half), Ok(()));
        assert!(!rest.is_full());
        assert_eq!(rest.expire(&half), Ok(()));
        assert!(rest.is_full());
        assert!(rest.expire(&hold(1)).is_err());
    }
}
