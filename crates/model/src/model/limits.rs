//! Limits in the model. Nothing is stored beside the limits themselves: what a limit counts is counted from the reservations.

use super::units::Offer;
use super::{Model, invalid};
use stockhold_domain::{
    CounterKey, DeleteLimit, ExceededLimit, Fulfilment, Hold, Instant, ItemKey, Label, Limit, LimitTarget,
    LimitedUnits, Line, LineCount, LineDetails, Precondition, Rejection, Reply, ReservationId, ReserveTerms,
    SetLimit, Status, Subject, SubjectKind, limits,
};

/// Units that a command adds to a line, and the counters that count them.
pub(super) struct Wanted {
    pub(super) added: u64,
    pub(super) keys: Vec<CounterKey>,
}

/// What limits leave for lines that are clipped, by counter.
pub(super) type LimitsLeft = Vec<(CounterKey, u64)>;

impl Model {
    /// A limit, also a deleted one.
    pub fn limit(&self, id: &Label) -> Option<Limit> {
        self.limits.iter().find(|limit| limit.id == *id).cloned()
    }

    pub(super) fn set_limit(&mut self, asked: &SetLimit) -> Result<Reply, Rejection> {
        let terms = &asked.terms;
        if !(1..=limits::LIMIT_TARGETS).contains(&terms.targets.len()) {
            return Err(invalid("/items"));
        }
        if terms.channels.len() > limits::LIMIT_CHANNELS {
            return Err(invalid("/channels"));
        }
        for (n, target) in terms.targets.iter().enumerate() {
            if terms.targets[..n].contains(target) {
                return Err(invalid(&format!("/items/{n}")));
            }
        }
        for (n, channel) in terms.channels.iter().enumerate() {
            if terms.channels[..n].contains(channel) {
                return Err(invalid(&format!("/channels/{n}")));
            }
        }
        if terms.limit > limits::TOTAL_UNITS {
            return Err(invalid("/limit"));
        }
        let mut sorted = terms.clone();
        sorted.targets.sort();
        sorted.channels.sort();
        let terms = &sorted;
        let before = self.limit(&asked.id);
        expect(before.as_ref(), asked.expected.as_ref())?;
        let old = before.as_ref().and_then(|limit| limit.terms.as_deref());
        if old == Some(terms) {
            return Ok(Reply::Limit { limit: before.expect("a limit"), created: false });
        }
        let created = old.is_none();
        let version = before.as_ref().map_or(1, |limit| limit.version + 1);
        let counts_the_same = old.is_some_and(|old| {
            old.targets == terms.targets && old.channels == terms.channels && old.per == terms.per
        });
        let generation = match &before {
            Some(before) if counts_the_same => before.generation,
            _ => version,
        };
        let limit = Limit { id: asked.id.clone(), version, generation, terms: Some(terms.clone().into()) };
        self.limits.retain(|limit| limit.id != asked.id);
        self.limits.push(limit.clone());
        self.limits.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(Reply::Limit { limit, created })
    }

    pub(super) fn delete_limit(&mut self, asked: &DeleteLimit) -> Result<Reply, Rejection> {
        let Some(limit) = self.limits.iter_mut().find(|limit| limit.id == asked.id) else {
            return Err(Rejection::UnknownLimit(asked.id.clone()));
        };
        if limit.terms.is_some() {
            expect(Some(limit), asked.expected.as_ref())?;
            limit.version += 1;
            limit.terms = None;
        }
        Ok(Reply::Limit { limit: limit.clone(), created: false })
    }

    /// The counters of units that a reservation with these terms gets, of limits that count for `kinds` only.
    pub(super) fn wanted(
        &self,
        added: Vec<(ItemKey, u64)>,
        terms: &ReserveTerms,
        overrides: bool,
        kinds: &dyn Fn(Option<SubjectKind>) -> bool,
    ) -> Result<Vec<Wanted>, Rejection> {
        let optional = terms.optional.as_deref().cloned().unwrap_or_default();
        let mut all = Vec::new();
        for (item, added) in added {
            let mut keys = Vec::new();
            for limit in self.limits.iter().filter(|_| added > 0) {
                let Some(said) = &limit.terms else { continue };
                let about = said.targets.iter().any(|target| match target {
                    LimitTarget::Sku(sku) => sku.as_str() == item.sku(),
                    LimitTarget::Location(location) => location.as_str() == item.location(),
                    LimitTarget::Item(key) => *key == item,
                });
                let through = said.channels.is_empty()
                    || said.channels.iter().any(|channel| optional.channel.as_ref() == Some(channel));
                if !about || !through || !kinds(said.per) {
                    continue;
                }
                let subject = match (said.per, &optional.customer_id) {
                    (None, _) => Subject::Everyone,
                    (Some(SubjectKind::Owner), _) => Subject::Owner(terms.owner_id.clone()),
                    (Some(SubjectKind::Customer), Some(customer)) => Subject::Customer(customer.clone()),
                    (Some(SubjectKind::Customer), None) if overrides => continue,
                    (Some(SubjectKind::Customer), None) => {
                        return Err(Rejection::CustomerRequired { limit_id: limit.id.clone() });
                    }
                };
                let (limit, generation) = (limit.id.clone(), limit.generation);
                keys.push(CounterKey { limit, generation, subject });
            }
            all.push(Wanted { added, keys });
        }
        Ok(all)
    }

    /// The most units of a counter, and those that it has: counted from all reservations.
    fn most_and_used(&self, key: &CounterKey) -> (u64, u64) {
        let limit = self.limits.iter().find(|limit| limit.id == key.limit).expect("a limit");
        let terms = limit.terms.as_ref().expect("a limit in force");
        let mut used = 0;
        for hold in &self.holds {
            let counts = match hold.status {
                Status::Active => true,
                Status::Confirmed => terms.counts == LimitedUnits::HeldAndSold,
                Status::Cancelled | Status::Expired => false,
            };
            let lines = hold.lines.iter().filter(|_| counts);
            let here = lines.flat_map(|line| &line.details().counted).filter(|count| count.key == *key);
            used += here.map(|count| u64::from(count.units)).sum::<u64>();
        }
        (terms.limit, used)
    }

    /// The limits that refuse, by how many units beyond those in use are requested.
    pub(super) fn exceeded(&self, wanted: &[Wanted], returned: &[(CounterKey, u64)]) -> Vec<ExceededLimit> {
        let mut exceeded = Vec::new();
        for key in keys_of(wanted) {
            let (most, used) = self.most_and_used(&key);
            let back = sum_of(returned, &key);
            let asked = need(wanted, &key);
            if asked > most.saturating_sub(used) + back {
                exceeded.push(ExceededLimit {
                    limit_id: key.limit.clone(),
                    limit: most,
                    used,
                    requested: asked.saturating_sub(back),
                    subject: key.subject.name().cloned(),
                });
            }
        }
        exceeded
    }

    /// Judges what a reserve adds, once due reservations that count for its limits are expired. `Some` has what limits leave when lines
    /// have to be clipped.
    pub(super) fn check_limits(
        &mut self,
        wanted: &[Wanted],
        returned: &[(CounterKey, u64)],
        fulfilment: Fulfilment,
        overrides: bool,
        now: Instant,
    ) -> Result<Option<LimitsLeft>, Rejection> {
        for key in keys_of(wanted) {
            loop {
                let (most, used) = self.most_and_used(&key);
                if need(wanted, &key) <= most.saturating_sub(used) + sum_of(returned, &key) {
                    break;
                }
                match self.first_counted(&key) {
                    Some((deadline, id)) if deadline <= now => self.expire(id, now),
                    _ => break,
                }
            }
        }
        let exceeded = self.exceeded(wanted, returned);
        if overrides || exceeded.is_empty() {
            return Ok(None);
        }
        let left = |key: CounterKey| {
            let (most, used) = self.most_and_used(&key);
            let left = most.saturating_sub(used) + sum_of(returned, &key);
            (key, left)
        };
        let limits_left: LimitsLeft = keys_of(wanted).into_iter().map(left).collect();
        let nothing = wanted.iter().all(|line| most_of(&line.keys, &limits_left) == 0);
        if fulfilment == Fulfilment::All || nothing {
            return Err(Rejection::LimitExceeded(exceeded));
        }
        Ok(Some(limits_left))
    }

    /// What a limit leaves beside units that are about to be counted, once due reservations that it counts are expired as far as
    /// these units are needed.
    pub(super) fn expire_for_limit(
        &mut self,
        key: &CounterKey,
        needed: u64,
        taken: u64,
        now: Instant,
    ) -> u64 {
        loop {
            let (most, used) = self.most_and_used(key);
            let left = most.saturating_sub(used).saturating_sub(taken);
            match self.first_counted(key) {
                Some((deadline, id)) if left < needed && deadline <= now => self.expire(id, now),
                _ => return left,
            }
        }
    }

    fn first_counted(&self, key: &CounterKey) -> Option<(Instant, ReservationId)> {
        let counts = |hold: &&Hold| {
            hold.lines.iter().any(|line| line.details().counted.iter().any(|count| count.key == *key))
        };
        let active = self.holds.iter().filter(|hold| hold.status == Status::Active).filter(counts);
        active.map(|hold| (hold.expires_at, hold.id)).min()
    }

    /// Refuses a transfer or a merge because of limits.
    pub(super) fn expect_limits(
        &self,
        wanted: &[Wanted],
        returned: &[(CounterKey, u64)],
        overrides: bool,
    ) -> Result<(), Rejection> {
        let exceeded = self.exceeded(wanted, returned);
        if overrides || exceeded.is_empty() { Ok(()) } else { Err(Rejection::LimitExceeded(exceeded)) }
    }
}

fn expect(limit: Option<&Limit>, expected: Option<&Precondition>) -> Result<(), Rejection> {
    let version = limit.filter(|limit| limit.terms.is_some()).map(|limit| limit.version);
    let met = match expected {
        None => true,
        Some(Precondition::Absent) => version.is_none(),
        Some(Precondition::Exists) => version.is_some(),
        Some(Precondition::VersionIn(versions)) => version.is_some_and(|one| versions.contains(&one)),
    };
    if met { Ok(()) } else { Err(Rejection::PreconditionFailed { version }) }
}

fn keys_of(wanted: &[Wanted]) -> Vec<CounterKey> {
    let mut keys: Vec<CounterKey> = wanted.iter().flat_map(|line| line.keys.clone()).collect();
    keys.sort();
    keys.dedup();
    keys
}

fn need(wanted: &[Wanted], key: &CounterKey) -> u64 {
    wanted.iter().filter(|line| line.keys.contains(key)).map(|line| line.added).sum()
}

fn sum_of(returned: &[(CounterKey, u64)], key: &CounterKey) -> u64 {
    returned.iter().filter(|(known, _)| known == key).map(|(_, units)| units).sum()
}

fn most_of(keys: &[CounterKey], limits_left: &LimitsLeft) -> u64 {
    keys.iter().map(|key| sum_of(limits_left, key)).min().unwrap_or(u64::MAX)
}

/// Clips what a line gets to what limits leave, and takes it from there.
pub(super) fn clip(offered: &mut Offer, wanted: &Wanted, had: u64, limits_left: &mut Option<LimitsLeft>) {
    let Some(limits_left) = limits_left else { return };
    let most = had.saturating_add(most_of(&wanted.keys, limits_left));
    offered.quantity = offered.quantity.min(most);
    if let Some(units) = &mut offered.units {
        units.truncate(usize::try_from(offered.quantity).expect("few units"));
    }
    for (key, left) in limits_left {
        if wanted.keys.contains(key) {
            *left = left.saturating_sub(offered.quantity.saturating_sub(had));
        }
    }
}

/// The counts of a line that had some units and has others now.
pub(super) fn count_line(line: &mut Line, before: &[LineCount], had: u32, keys: &[CounterKey]) {
    let mut counted: Vec<LineCount> = before.to_vec();
    for count in &mut counted {
        count.units = count.units.saturating_sub(had.saturating_sub(line.quantity));
    }
    counted.retain(|count| count.units > 0);
    let more = line.quantity.saturating_sub(had);
    for key in keys.iter().filter(|_| more > 0) {
        match counted.iter_mut().find(|count| count.key == *key) {
            Some(count) => count.units += more,
            None => counted.push(LineCount { key: key.clone(), units: more }),
        }
    }
    set_counted(line, counted);
}

pub(super) fn set_counted(line: &mut Line, counted: Vec<LineCount>) {
    let details = LineDetails { counted, ..line.details().clone() };
    line.details = (details != LineDetails::default()).then(|| Box::new(details));
}

/// What a line gives back of its counters when it loses units.
pub(super) fn given_back(line: &Line, units: u32) -> Vec<(CounterKey, u64)> {
    let counted = line.details().counted.iter();
    counted.map(|count| (count.key.clone(), u64::from(count.units.min(units)))).collect()
}
