//! Limits: which counters count the units that a command adds, whether the limits leave as many, and how the counters move.

use super::grants::Request;
use super::hold::expire;
use super::{CommandContext, DecideError};
use crate::command::Fulfilment;
use crate::event::LimitEffects;
use crate::hold::{Hold, Line, ReserveTerms, Status};
use crate::item::ItemKey;
use crate::label::Label;
use crate::limit::{CounterKey, LimitCounter, LimitTerms, LineCount, SubjectKind};
use crate::pool::PoolsAfter;
use crate::rejection::{ExceededLimit, Rejection};
use crate::state::State;
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// The units that a command adds to lines, and the counters that count them.
#[derive(Default)]
pub(super) struct LimitPlan {
    /// In the order of the lines; empty when no limit concerns any of them.
    lines: Vec<PlannedLine>,
    /// Units that the same command takes off counters.
    returned: BTreeMap<CounterKey, u64>,
    /// Limits per customer that are passed by because the reservation has no customer.
    nameless: BTreeSet<Label>,
}

#[derive(Default)]
struct PlannedLine {
    added: u64,
    keys: Vec<CounterKey>,
}

/// The decision of the limits about a request.
pub(super) enum LimitDecision {
    /// It goes on, with what the limits leave if its lines have to be clipped.
    Within(Option<LimitsLeft>),
    /// It is refused.
    Refused(Rejection),
    /// The batch has no expiries left and more holds are due.
    Later,
}

/// What the limits leave for the lines of a request, as far as earlier lines have not taken it.
pub(super) struct LimitsLeft(BTreeMap<CounterKey, u64>);

impl LimitPlan {
    /// The counters of what a request adds to its own lines.
    pub(super) fn of_request<S: State>(
        context: &CommandContext<'_, S>,
        request: &Request<'_>,
        terms: &ReserveTerms,
        overrides: bool,
    ) -> Result<Result<Self, Rejection>, DecideError> {
        let lines = request.basket.lines().iter().enumerate();
        let added = lines.map(|(number, line)| {
            let own = request.own(number).map_or(0, |line| u64::from(line.quantity));
            (&line.item, line.quantity.saturating_sub(own))
        });
        Ok(Self::new(context, added, terms, overrides, |_| true)?
            .map(|plan| plan.returning(request.returned())))
    }

    /// The same plan of a command that takes these units off counters.
    pub(super) fn returning(self, returned: BTreeMap<CounterKey, u64>) -> Self {
        Self { returned, ..self }
    }

    /// The counters of units that a reservation with these terms gets. `concerns` selects limits by whom they count for.
    pub(super) fn new<'a, S: State>(
        context: &CommandContext<'_, S>,
        added: impl Iterator<Item = (&'a ItemKey, u64)>,
        terms: &ReserveTerms,
        overrides: bool,
        concerns: impl Fn(Option<SubjectKind>) -> bool,
    ) -> Result<Result<Self, Rejection>, DecideError> {
        let limits = context.state.limits()?;
        if limits.is_empty() {
            return Ok(Ok(Self::default()));
        }
        let channel = terms.optional.as_ref().and_then(|optional| optional.channel.as_ref());
        let mut plan = Self::default();
        for (item, added) in added {
            let mut keys = Vec::new();
            for (limit, limit_terms) in limits.matching(item, channel) {
                if added == 0 || !concerns(limit_terms.per) {
                    continue;
                }
                let (id, generation) = (limit.id.clone(), limit.generation);
                match terms.subject(limit_terms.per) {
                    Some(subject) => keys.push(CounterKey { limit: id, generation, subject }),
                    None if overrides => {
                        plan.nameless.insert(id);
                    }
                    None => return Ok(Err(Rejection::CustomerRequired { limit_id: id })),
                }
            }
            plan.lines.push(PlannedLine { added, keys });
        }
        if plan.lines.iter().all(|line| line.keys.is_empty()) {
            plan.lines.clear();
        }
        Ok(Ok(plan))
    }

    /// The units that are added under each counter.
    fn needs(&self) -> BTreeMap<&CounterKey, u64> {
        let mut needs: BTreeMap<&CounterKey, u64> = BTreeMap::new();
        for line in &self.lines {
            for key in &line.keys {
                let sum = needs.entry(key).or_default();
                *sum = sum.saturating_add(line.added);
            }
        }
        needs
    }

    /// Judges what is added, after due holds that are in the way were expired. `Within` has what the limits leave for the lines of a
    /// partial request.
    pub(super) fn check<S: State>(
        &self,
        context: &mut CommandContext<'_, S>,
        fulfilment: Fulfilment,
        overrides: bool,
        now: Instant,
    ) -> Result<LimitDecision, DecideError> {
        if self.lines.is_empty() && self.nameless.is_empty() {
            return Ok(LimitDecision::Within(None));
        }
        if !self.expire_until_it_fits(context, now)? {
            return Ok(LimitDecision::Later);
        }
        let exceeded = self.exceeded(context)?;
        if overrides {
            self.note_overridden(context, exceeded);
            return Ok(LimitDecision::Within(None));
        }
        if exceeded.is_empty() {
            return Ok(LimitDecision::Within(None));
        }
        if fulfilment == Fulfilment::All || self.leaves_nothing(context)? {
            return Ok(LimitDecision::Refused(Rejection::LimitExceeded(exceeded)));
        }
        Ok(LimitDecision::Within(Some(self.limits_left(context)?)))
    }

    /// Whether limits leave nothing for any of the lines, so that stock does not matter.
    fn leaves_nothing<S: State>(&self, context: &CommandContext<'_, S>) -> Result<bool, DecideError> {
        let limits_left = self.limits_left(context)?;
        Ok((0..self.lines.len()).all(|number| self.most(number, &limits_left) == 0))
    }

    /// Expires due holds that count for a limit, earliest first, until the limit leaves what is added or none is due. `false` when the
    /// batch has no expiries left and more holds are due.
    fn expire_until_it_fits<S: State>(
        &self,
        context: &mut CommandContext<'_, S>,
        now: Instant,
    ) -> Result<bool, DecideError> {
        for (key, need) in self.needs() {
            while self.left(context, key)? < need {
                match context.state.earliest_counted(key)? {
                    Some((due, id)) if due <= now => {
                        if !context.may_expire() {
                            return Ok(false);
                        }
                        expire(context, id, now)?;
                    }
                    _ => break,
                }
            }
        }
        Ok(true)
    }

    /// The units that a limit leaves, with those that the command takes off its counter.
    pub(super) fn left<S: State>(
        &self,
        context: &CommandContext<'_, S>,
        key: &CounterKey,
    ) -> Result<u64, DecideError> {
        let terms = terms_of(context, key)?;
        let left = terms.limit.saturating_sub(context.state.counter(key)?.used(terms.counts));
        Ok(left.saturating_add(self.returned_to(key)))
    }

    fn returned_to(&self, key: &CounterKey) -> u64 {
        self.returned.get(key).copied().unwrap_or(0)
    }

    /// The limits that leave less than is added.
    pub(super) fn exceeded<S: State>(
        &self,
        context: &CommandContext<'_, S>,
    ) -> Result<Vec<ExceededLimit>, DecideError> {
        let mut exceeded = Vec::new();
        for (key, need) in self.needs() {
            let requested = need.saturating_sub(self.returned_to(key));
            if need > self.left(context, key)? {
                let terms = terms_of(context, key)?;
                exceeded.push(ExceededLimit {
                    limit_id: key.limit.clone(),
                    limit: terms.limit,
                    used: context.state.counter(key)?.used(terms.counts),
                    requested,
                    subject: key.subject.name().cloned(),
                });
            }
        }
        Ok(exceeded)
    }

    /// Notes the limits that are passed by, for the event of the command.
    pub(super) fn note_overridden<S: State>(
        &self,
        context: &mut CommandContext<'_, S>,
        exceeded: Vec<ExceededLimit>,
    ) {
        let mut all = self.nameless.clone();
        all.extend(exceeded.into_iter().map(|exceeded| exceeded.limit_id));
        context.overridden = all.into_iter().collect();
    }

    /// What the limits leave for the lines.
    fn limits_left<S: State>(&self, context: &CommandContext<'_, S>) -> Result<LimitsLeft, DecideError> {
        let mut limits_left = BTreeMap::new();
        for key in self.needs().into_keys() {
            limits_left.insert(key.clone(), self.left(context, key)?);
        }
        Ok(LimitsLeft(limits_left))
    }

    /// The counters that count the units of the line with this number.
    pub(super) fn keys(&self, number: usize) -> &[CounterKey] {
        self.lines.get(number).map(|line| &*line.keys).unwrap_or_default()
    }

    /// The most units that the line with this number can add.
    pub(super) fn most(&self, number: usize, limits_left: &LimitsLeft) -> u64 {
        self.keys(number).iter().filter_map(|key| limits_left.0.get(key)).copied().min().unwrap_or(u64::MAX)
    }

    /// Takes the units that a line adds from what is left.
    pub(super) fn take(&self, number: usize, units: u64, limits_left: &mut LimitsLeft) {
        for key in self.keys(number) {
            if let Some(left) = limits_left.0.get_mut(key) {
                *left = left.saturating_sub(units);
            }
        }
    }

    /// What counts a line afterwards that was counted as `before` and gets more or fewer units.
    pub(super) fn counted(&self, number: usize, before: &[LineCount], had: u32, has: u32) -> Vec<LineCount> {
        let more = has.saturating_sub(had);
        let mut counted = less(before, had.saturating_sub(has));
        if more > 0 {
            add(
                &mut counted,
                self.keys(number).iter().map(|key| LineCount { key: key.clone(), units: more }),
            );
        }
        counted
    }
}

fn terms_of<'s, S: State>(
    context: &'s CommandContext<'_, S>,
    key: &CounterKey,
) -> Result<&'s LimitTerms, DecideError> {
    context
        .state
        .limits()?
        .current(key)
        .ok_or(DecideError::InvariantViolated("a limit disappeared while a command was decided"))
}

/// Adds counts to those of a line.
pub(super) fn add(counted: &mut Vec<LineCount>, more: impl Iterator<Item = LineCount>) {
    for more in more {
        match counted.iter_mut().find(|known| known.key == more.key) {
            Some(known) => known.units = known.units.saturating_add(more.units),
            None => counted.push(more),
        }
    }
}

/// The counts of a line that loses units: those that came last leave first.
pub(super) fn less(counted: &[LineCount], units: u32) -> Vec<LineCount> {
    let left = |count: &LineCount| LineCount { units: count.units.saturating_sub(units), ..count.clone() };
    counted.iter().map(left).filter(|count| count.units > 0).collect()
}

/// The counts of the part of a line that has this many units.
pub(super) fn part(counted: &[LineCount], units: u32) -> Vec<LineCount> {
    counted.iter().map(|count| LineCount { units: count.units.min(units), ..count.clone() }).collect()
}

/// The units that lines lose, by counter: as many of each line as it says.
pub(super) fn lost<'a>(lines: impl Iterator<Item = (&'a Line, u32)>) -> BTreeMap<CounterKey, u64> {
    let mut lost: BTreeMap<CounterKey, u64> = BTreeMap::new();
    for (line, units) in lines {
        for count in &line.details().counted {
            *lost.entry(count.key.clone()).or_default() += u64::from(count.units.min(units));
        }
    }
    lost
}

/// Whether limits count units of a reservation.
pub(super) fn is_counted(hold: &Hold) -> bool {
    hold.lines.iter().any(|line| !line.details().counted.is_empty())
}

/// The effects of a change of a reservation on limits. `before` is the reservation before it, if limits counted units of it.
pub(super) fn effects<S: State>(
    context: &mut CommandContext<'_, S>,
    before: Option<&Hold>,
    after: &Hold,
    pools: Box<[PoolsAfter]>,
) -> Result<Option<Box<LimitEffects>>, DecideError> {
    let overridden: Box<[Label]> = core::mem::take(&mut context.overridden).into();
    let mut moves: BTreeMap<CounterKey, (i64, i64)> = BTreeMap::new();
    for (hold, sign) in before.map(|hold| (hold, -1)).into_iter().chain([(after, 1)]) {
        for count in hold.lines.iter().flat_map(|line| &line.details().counted) {
            let units = i64::from(count.units) * sign;
            let (held, sold) = moves.entry(count.key.clone()).or_default();
            match hold.status {
                Status::Active => *held += units,
                Status::Confirmed => *sold += units,
                Status::Cancelled | Status::Expired => {}
            }
        }
    }
    let mut counters = Vec::new();
    for (key, (held, sold)) in moves {
        // Nobody compares the counter of an ended generation with anything.
        if (held, sold) == (0, 0) || context.state.limits()?.current(&key).is_none() {
            continue;
        }
        let counter = context.state.counter(&key)?;
        let after = |count: u64, by: i64| {
            count
                .checked_add_signed(by)
                .ok_or(DecideError::InvariantViolated("a limit's counter left its range"))
        };
        counters
            .push((key, LimitCounter { held: after(counter.held, held)?, sold: after(counter.sold, sold)? }));
    }
    let effects = LimitEffects { counters: counters.into(), overridden, pools };
    Ok((effects != LimitEffects::default()).then(|| Box::new(effects)))
}
