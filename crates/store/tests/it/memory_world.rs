//! A store in a few lines: one naive state, every batch appended to a list, which is all that a restart keeps. It
//! can be given one flaw, so that the suite can be seen to notice.

use crate::flaw::Flaw;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stockhold_conformance::{START, World};
use stockhold_domain::{
    Basket, BasketLine, Command, CounterKey, Effects, Envelope, Event, EventId, Fingerprint, Hold,
    HoldChange, HoldLimits, Instant, Item, ItemKey, KeyHash, KeyRecord, Label, LimitCounter, LimitSet,
    Lookup, NotLoaded, Outcome, Record, RecordKey, Rejection, RequestedLine, ReservationId, State, Status,
    Transition, UnitIndex, UnitStatus, decide,
};
use stockhold_model::{self, NaiveCustomers, NaiveState};
use stockhold_store::{EventRow, Failure, Query, QueryResult, UnitHistory, codec};

/// Commands that this store decides at once.
const BATCH: usize = 64;
/// How wrong a flawed clock is, in microseconds.
const MILLI: i64 = 1_000;

/// A store in memory, which may have one flaw.
pub(crate) struct MemoryWorld {
    state: Shown,
    now: Instant,
    /// What is durable: events, and keys.
    events: Vec<Event>,
    keys: Vec<KeyRecord>,
    /// How much of it there was before the newest batch.
    before: (usize, usize),
    /// Rows of customers, which are durable and in no event.
    customers: NaiveCustomers,
    flaw: Option<Flaw>,
    /// First answers by key, for worlds that should not keep them.
    answers: BTreeMap<KeyHash, Outcome>,
}

impl MemoryWorld {
    pub(crate) fn new(flaw: Option<Flaw>) -> Self {
        Self {
            state: Shown { flaw, ..Shown::default() },
            now: START,
            events: Vec::new(),
            keys: Vec::new(),
            before: (0, 0),
            customers: NaiveCustomers::default(),
            flaw,
            answers: BTreeMap::new(),
        }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn run(&mut self, commands: Vec<Envelope>) -> Vec<Result<Outcome, Failure>> {
        let mut answers: Vec<_> = commands.iter().map(|_| Err(Failure::OutcomeUnknown)).collect();
        let mut waiting: VecDeque<(usize, Envelope)> = commands.into_iter().enumerate().collect();
        if self.has(Flaw::DecidesBackwards) {
            waiting.make_contiguous().reverse();
        }
        while !waiting.is_empty() {
            let batch: Vec<_> = waiting.drain(..waiting.len().min(BATCH)).collect();
            let frozen = self.has(Flaw::DecidesOnAStaleState).then(|| self.state.clone());
            let mut effects = Effects::default();
            let mut later = Vec::new();
            for (n, envelope) in batch {
                answers[n] = match self.decide(&envelope, frozen.as_ref(), &mut effects) {
                    Ok(Outcome::Later) if !self.has(Flaw::AnswersLater) => {
                        later.push((n, envelope));
                        continue;
                    }
                    Ok(outcome) => Ok(outcome),
                    Err(failure) => {
                        // Half a command may stand in the state: back to what is durable.
                        effects = Effects::default();
                        self.restart();
                        Err(failure)
                    }
                };
            }
            self.commit(&effects);
            later.into_iter().rev().for_each(|again| waiting.push_front(again));
        }
        answers
    }

    fn decide(
        &mut self,
        envelope: &Envelope,
        frozen: Option<&Shown>,
        effects: &mut Effects,
    ) -> Result<Outcome, Failure> {
        let envelope = self.bent(envelope);
        let now = self.bent_clock(&envelope);
        if let Some(first) = envelope.key.and_then(|key| self.answers.get(&key.hash)) {
            return Ok(first.clone());
        }
        let undone = self.has(Flaw::DropsExpiriesOfRefusals).then(|| (self.state.clone(), effects.clone()));
        let seen = effects.events.len();
        let rules = HoldLimits::default();
        let decided = match frozen.cloned() {
            None => decide(&mut self.state, &rules, &envelope, now, effects),
            Some(mut frozen) => decide(&mut frozen, &rules, &envelope, now, effects),
        };
        let outcome = decided.map_err(|halt| Failure::Internal(format!("{halt:?}")))?;
        if frozen.is_some() {
            effects.events[seen..].iter().for_each(|event| self.state.apply(event));
        }
        if let (Outcome::Refused(_), Some(undone)) = (&outcome, undone) {
            (self.state, *effects) = undone;
        }
        match &outcome {
            Outcome::Later if self.has(Flaw::RefusesInsteadOfLater) => {
                return Ok(Outcome::Refused(Rejection::InsufficientInventory(Vec::new())));
            }
            Outcome::Refused(_) if self.has(Flaw::RemembersRefusals) => {
                self.answers.extend(envelope.key.map(|key| (key.hash, outcome.clone())));
            }
            Outcome::Done(reply) if self.has(Flaw::ReplaysTheFirstAnswer) => {
                let first = Outcome::Replayed(reply.clone());
                self.answers.extend(envelope.key.map(|key| (key.hash, first)));
            }
            Outcome::Replayed(_) if self.has(Flaw::WritesReplays) => {
                effects.events.extend(self.events.last().cloned());
            }
            _ => {}
        }
        Ok(outcome)
    }

    fn commit(&mut self, effects: &Effects) {
        if effects.is_empty() {
            return;
        }
        self.before = (self.events.len(), self.keys.len());
        // Through the bytes that a real store would write.
        for event in &effects.events {
            let mut bytes = Vec::new();
            codec::put_event(&mut bytes, event);
            self.events.push(codec::event(&mut codec::Reader::new(&bytes)).unwrap());
        }
        for key in &effects.keys {
            let mut bytes = Vec::new();
            codec::put_key_record(&mut bytes, key);
            self.keys.push(codec::key_record(&mut codec::Reader::new(&bytes)).unwrap());
        }
    }

    /// The command as a flawed store takes it.
    fn bent(&self, envelope: &Envelope) -> Envelope {
        let mut envelope = envelope.clone();
        match &mut envelope.command {
            Command::Reserve(reserve) => {
                let bent = |(n, want): (usize, &RequestedLine)| {
                    let line = RequestedLine { item: self.bent_key(&want.item), quantity: want.quantity };
                    let selection = reserve.basket.selection(n).cloned();
                    BasketLine { line, selection, source: reserve.basket.source(n).cloned() }
                };
                let wants = reserve.basket.lines().iter().enumerate().map(bent).collect();
                reserve.basket = Basket::with_sources(wants).unwrap();
            }
            Command::SetStock(set) => set.item = self.bent_key(&set.item),
            _ => {}
        }
        if self.has(Flaw::OneEventId) {
            envelope.fresh.event = EventId::from_u128(1 << 64);
        }
        if self.has(Flaw::IgnoresFingerprints)
            && let Some(key) = &mut envelope.key
        {
            key.fingerprint = Fingerprint(0);
        }
        envelope
    }

    fn bent_key(&self, key: &ItemKey) -> ItemKey {
        let sku = match self.flaw {
            Some(Flaw::IgnoresCase) => key.sku().to_lowercase(),
            Some(Flaw::IgnoresTrailingBlanks) => key.sku().trim_end().to_owned(),
            _ => return key.clone(),
        };
        ItemKey::new(&Label::new(key.location()).unwrap(), &Label::new(&sku).unwrap())
    }

    fn shown_item(&self, key: &ItemKey) -> Option<Item> {
        let key = self.bent_key(key);
        let mut item = self.state.state.items.get(&key)?.clone();
        if self.has(Flaw::ExpiryIsAPredicate) {
            for hold in self.state.state.holds.values() {
                let due = hold.status == Status::Active && hold.is_due(self.now);
                let lines = hold.lines.iter().filter(|line| due && line.item == key);
                lines.for_each(|line| item.figures.held -= u64::from(line.quantity));
            }
        }
        Some(item)
    }

    fn shown_hold(&self, id: ReservationId) -> Option<Hold> {
        let mut hold = self.state.state.holds.get(&id)?.clone();
        if self.has(Flaw::ExpiryIsAPredicate) && hold.status == Status::Active && hold.is_due(self.now) {
            hold.status = Status::Expired;
        }
        Some(hold)
    }

    fn rows(&self) -> Vec<EventRow> {
        let step = if self.has(Flaw::SkipsPositions) { 2 } else { 1 };
        let rows = self.events.iter().cloned().zip((1..).step_by(step));
        rows.map(|(event, position)| EventRow { position, event }).collect()
    }

    fn bent_clock(&self, envelope: &Envelope) -> Instant {
        let by = match (self.flaw, &envelope.command) {
            (_, Command::Reserve(_) | Command::SetStock(_) | Command::AdjustStock(_)) => 0,
            (Some(Flaw::DueAMillisecondEarly), _) => MILLI,
            (Some(Flaw::DueAMicrosecondLate), _) => -1,
            _ => 0,
        };
        Instant::from_micros(self.now.micros() + by)
    }
}

impl World for MemoryWorld {
    fn submit(&mut self, commands: Vec<Envelope>) -> Vec<Result<Outcome, Failure>> {
        self.run(commands)
    }

    fn set_clock(&mut self, now: Instant) {
        self.now = now;
    }

    fn restart(&mut self) {
        if self.has(Flaw::LosesTheLastBatchOnRestart) {
            self.events.truncate(self.before.0);
            self.keys.truncate(self.before.1);
        }
        if self.has(Flaw::ForgetsKeysOnRestart) {
            self.keys.clear();
        }
        let mut state = Shown { flaw: self.flaw, ..Shown::default() };
        self.events.iter().for_each(|event| state.apply(event));
        self.keys.iter().for_each(|key| state.remember(key));
        if self.has(Flaw::ForgetsPausesOnRestart) {
            state.state.paused.clear();
        }
        if self.has(Flaw::ForgetsDeadlinesOnRestart) {
            state.lost = state.state.holds.keys().copied().collect();
        }
        if self.has(Flaw::ForgetsInstantsOnRestart) {
            state.forget_instants();
        }
        self.state = state;
    }

    fn submit_in_order(&mut self, commands: Vec<Envelope>) -> Vec<Result<Outcome, Failure>> {
        self.run(commands)
    }

    fn find(&mut self, query: Query) -> Result<QueryResult, Failure> {
        let rows = self.rows();
        if self.has(Flaw::ListsDeletedRecords)
            && let Query::Records { kind, after, limit } = &query
        {
            let all = self.state.state.records.values().cloned();
            let page = all.filter(|record| {
                record.key.kind == *kind && after.as_ref().is_none_or(|after| record.key.id > *after)
            });
            return Ok(QueryResult::Records(page.take(*limit).collect()));
        }
        Ok(match query {
            Query::Customer(request) => QueryResult::Customer(self.customers.run(&request)),
            Query::Items(keys) => QueryResult::Items(keys.iter().map(|key| self.shown_item(key)).collect()),
            Query::Reservation(id) => QueryResult::Reservation(self.shown_hold(id)),
            Query::Unit { item, unit } => QueryResult::Unit(
                self.state
                    .state
                    .unit_indexes
                    .get(&item)
                    .and_then(|unit_index| unit_index.get(&unit))
                    .cloned(),
            ),
            Query::UnitHistory { item, unit } => {
                let mut history = UnitHistory::new(&item, &unit);
                rows.into_iter().rev().for_each(|row| history.add_older(row));
                let events = history.into_rows();
                QueryResult::UnitHistory(Some(events).filter(|events| !events.is_empty()))
            }
            other => stockhold_model::find(&rows, &other),
        })
    }
}

/// The naive state as a flawed store sees it.
#[derive(Clone, Default)]
struct Shown {
    state: NaiveState,
    flaw: Option<Flaw>,
    /// Reservations that no deadline leads to any more.
    lost: BTreeSet<ReservationId>,
}

impl Shown {
    /// What a flawed store makes of units beyond their events.
    fn flawed_units(&mut self, event: &Event) {
        let Transition::Hold { change, hold, .. } = &event.transition else { return };
        let (kept, freed) = (
            self.flaw == Some(Flaw::KeepsReturnedUnits) && matches!(change, HoldChange::Returned { .. }),
            self.flaw == Some(Flaw::FreesUnitsAtConfirm) && *change == HoldChange::Confirmed,
        );
        for line in hold.lines.iter().filter(|_| kept || freed) {
            let Some(unit_index) = self.state.unit_indexes.get_mut(&line.item) else { continue };
            for unit in line.units() {
                let status = if kept { UnitStatus::Sold(hold.id) } else { UnitStatus::Available };
                unit_index.set(&unit.id, status, unit.version, unit.pool.as_ref());
            }
        }
    }

    /// The record that a flawed store forgets altogether when it is deleted.
    fn flawed_record(&self, event: &Event) -> Option<RecordKey> {
        match &event.transition {
            Transition::Record { record, .. }
                if self.flaw == Some(Flaw::ForgetsVersionsOfDeletedRecords) && record.value.is_none() =>
            {
                Some(record.key.clone())
            }
            _ => None,
        }
    }

    fn forget_instants(&mut self) {
        for item in self.state.items.values_mut() {
            item.figures.at = Instant::from_micros(0);
        }
    }
}

impl State for Shown {
    fn item(&self, key: &ItemKey) -> Lookup<'_, Item> {
        self.state.item(key)
    }

    fn hold(&self, id: ReservationId) -> Lookup<'_, Hold> {
        self.state.hold(id)
    }

    fn key(&self, hash: KeyHash) -> Lookup<'_, KeyRecord> {
        self.state.key(hash)
    }

    fn paused(&self, location: Option<&str>) -> Result<bool, NotLoaded> {
        State::paused(&self.state, location)
    }

    fn earliest(&self, item: Option<&ItemKey>) -> Result<Option<(Instant, ReservationId)>, NotLoaded> {
        if self.lost.is_empty() {
            return self.state.earliest(item);
        }
        let mut found = self.state.clone();
        found.holds.retain(|id, _| !self.lost.contains(id));
        found.earliest(item)
    }

    fn earliest_release(&self) -> Result<Option<(Instant, ItemKey)>, NotLoaded> {
        self.state.earliest_release()
    }

    fn limits(&self) -> Result<&LimitSet, NotLoaded> {
        self.state.limits()
    }

    fn counter(&self, key: &CounterKey) -> Result<LimitCounter, NotLoaded> {
        self.state.counter(key)
    }

    fn earliest_counted(&self, key: &CounterKey) -> Result<Option<(Instant, ReservationId)>, NotLoaded> {
        self.state.earliest_counted(key)
    }

    fn record(&self, key: &RecordKey) -> Lookup<'_, Record> {
        self.state.record(key)
    }

    fn unit_index(&self, item: &ItemKey) -> Lookup<'_, UnitIndex> {
        self.state.unit_index(item)
    }

    fn apply(&mut self, event: &Event) {
        let before = self.flawed_record(event);
        let items = (self.flaw == Some(Flaw::ForgetsDraws)).then(|| self.state.items.clone());
        self.state.apply(event);
        for item in items.into_iter().flatten().map(|(_, item)| item) {
            if let (Transition::Hold { .. }, Some(after)) =
                (&event.transition, self.state.items.get_mut(&item.key))
            {
                after.pools = item.pools;
            }
        }
        if let Some(key) = before {
            self.state.records.remove(&key);
        }
        self.flawed_units(event);
        if self.flaw == Some(Flaw::DoesNotFloorTheClock) {
            self.forget_instants();
        }
    }

    fn remember(&mut self, key: &KeyRecord) {
        self.state.remember(key);
    }
}
