//! One attempt at a locked batch: decides its commands in order and commits what they changed.

use crate::engine::db_error::DbError;
use crate::engine::dialect::{Changes, CommitOutcome, CommitSent, LockedRows, Session};
use crate::engine::lock::{AttemptError, AttemptLimits, LockedBatch, attempt_within_deadline};
use crate::engine::plan::{BatchLockPlan, PlannedCommand, RetryPlan};
use crate::engine::state::LoadedState;
use std::collections::{BTreeSet, HashMap};
use stockhold_domain::{
    Basket, Command, DecideError, Effects, Envelope, HoldLimits, Item, ItemKey, KeyTarget, Label, Mode,
    Outcome, Pools, Resource, Source, State, Strategy, decide, footprint,
};

/// Decides the commands of a locked batch and of those that joined it, and commits.
pub(crate) async fn decide_and_commit<S: Session>(
    session: &mut S,
    limits: &AttemptLimits,
    batch: &[&PlannedCommand],
    mut locked_batch: LockedBatch,
    plan: &mut RetryPlan,
) -> Result<Vec<Outcome>, AttemptError> {
    let (first, joined) = batch.split_at(locked_batch.first.min(batch.len()));
    locked_batch.join(joined);
    let LockedBatch { lock_plan, locked: LockedRows { now, serial, mut rows }, .. } = locked_batch;
    if session.reads_keys_after_locking() {
        let mut keys = lock_plan.lock_set.keys.clone();
        keys.extend(joined.iter().filter_map(|planned| Some(planned.envelope.key?.hash)));
        let read = async { Ok(session.used_keys(&keys).await?) };
        rows.keys = attempt_within_deadline(limits.batch_deadline, read).await?;
    }
    let mut state = LoadedState::with_seat_maps(&lock_plan.lock_set, rows, &plan.maps);
    plan.learn_pools(&state);
    if plan.drop_stale_seat_maps(&state) {
        return Err(AttemptError::NotLoaded);
    }
    check_footprints(first, &lock_plan, &state, plan, now)?;
    for planned in joined {
        state.assume_key_is_unused(&planned.envelope);
    }
    let mut effects = Effects::default();
    let decider = BatchDecider { rules: &limits.rules, now, first: first.len() };
    let outcomes = decider.all(batch, &lock_plan, &mut state, &mut effects, plan)?;
    if plan.lock_planned_units(&state) {
        return Err(AttemptError::NotLoaded);
    }
    // A command that was to claim units has released a pool or written off units: it writes the row of the item.
    let seen = &lock_plan.lock_set.seen;
    let unlocked: Vec<ItemKey> = state.rewritten.iter().filter(|key| seen.contains(*key)).cloned().collect();
    if plan.lock_item_rows(unlocked.into_iter()) {
        return Err(AttemptError::NotLoaded);
    }
    if effects.is_empty() {
        attempt_within_deadline(limits.batch_deadline, async { Ok(session.roll_back().await?) }).await?;
    } else {
        commit(session, limits, &state.changes(&effects, serial, limits.counter_shard)).await?;
    }
    Ok(outcomes)
}

/// Commands may name more resources once their keys and reservations are loaded. The rules would ask for one resource at a time;
/// this adds all of them to the retry plan at once.
fn check_footprints(
    batch: &[&PlannedCommand],
    lock_plan: &BatchLockPlan,
    state: &LoadedState,
    plan: &mut RetryPlan,
    now: stockhold_domain::Instant,
) -> Result<(), AttemptError> {
    let mut names = Vec::new();
    for planned in batch {
        footprint(state, &planned.envelope, &mut names);
    }
    names.retain(|name| !matches!(name, Resource::Due(_)) && !state.has(name));
    let mut lacks = plan.extend(names, now);
    if !state.without_counters.is_empty() {
        let without = state.without_counters.iter();
        plan.expect_unit_items(without.map(|key| (key.clone(), Pools::default())));
        lacks = true;
    }
    lacks |= plan.lock_item_rows(items_to_lock(batch, lock_plan, state).into_iter());
    lacks |= plan.expect_expiries(asked_too_much(batch, state), state, now);
    if lacks { Err(AttemptError::NotLoaded) } else { Ok(()) }
}

/// Items that were only read and have to be locked. Some have a safety stock: the number of units left is a sum over rows that are
/// not locked, so a batch that reserves such an item has to lock the row of the item. Others had units with ids, were deleted
/// and created again as counted stock.
fn items_to_lock(batch: &[&PlannedCommand], lock_plan: &BatchLockPlan, state: &LoadedState) -> Vec<ItemKey> {
    let baskets = batch.iter().filter_map(|planned| planned.envelope.command.basket());
    let kept = baskets
        .flat_map(Basket::lines)
        .map(|line| &line.item)
        .filter(|key| lock_plan.lock_set.seen.contains(*key))
        .filter(|key| {
            let item = state.item(key).ok().flatten();
            item.is_some_and(|item| item.settings.safety_stock > 0)
        });
    let counted = lock_plan.lock_set.seen.iter().filter(|key| {
        let item = state.item(key).ok().flatten();
        item.is_some_and(|item| item.mode == Mode::Counted)
    });
    kept.chain(counted).cloned().collect()
}

/// Items of which more is requested than is available, and how much more. Reservations of them may have to be expired. What is
/// requested through different pools is compared apart.
fn asked_too_much<'a>(batch: &[&'a PlannedCommand], state: &LoadedState) -> Vec<(&'a ItemKey, u64)> {
    let mut asked_for: HashMap<(&ItemKey, Option<&Label>), u64> = HashMap::new();
    for planned in batch {
        let command = &planned.envelope.command;
        let pool = match command {
            Command::Reserve(reserve) => reserve.terms.pool(),
            _ => None,
        };
        if let Some(basket) = command.basket() {
            for (number, line) in basket.lines().iter().enumerate() {
                let of_items = match basket.source(number) {
                    None => vec![(&line.item, line.quantity)],
                    Some(source) => asked_of_source(source, line.quantity, pool, state),
                };
                for (item, units) in of_items {
                    let sum = asked_for.entry((item, pool)).or_default();
                    *sum = sum.saturating_add(units);
                }
            }
        }
    }
    let short = |((key, pool), sum): ((_, Option<&Label>), u64)| {
        let there = state.item(key).ok()??.available_through(pool, Item::available_now);
        Some((key, sum.checked_sub(there).filter(|short| *short > 0)?))
    };
    asked_for.into_iter().filter_map(short).collect()
}

/// The units that a line asks of each item of its source, as far as available units show: the items that are asked are those until
/// the line has all.
fn asked_of_source<'a>(
    source: &'a Source,
    quantity: u64,
    pool: Option<&Label>,
    state: &LoadedState,
) -> Vec<(&'a ItemKey, u64)> {
    let mut needed = quantity;
    let asked = |item: &'a ItemKey| {
        let asked = needed;
        let known = state.item(item).ok().flatten();
        let there = known.map_or(0, |known| known.available_through(pool, Item::available_now));
        match source.strategy() {
            Strategy::Priority => needed -= there.min(needed),
            Strategy::Single if there >= quantity => needed = 0,
            Strategy::Single => {}
            // Due reservations of all items are expired before their stock is compared.
            Strategy::MostStock => return Some((item, u64::MAX)),
        }
        (asked > 0).then_some((item, asked))
    };
    source.items().iter().map_while(asked).collect()
}

/// What the decisions of a batch share.
struct BatchDecider<'a> {
    rules: &'a HoldLimits,
    now: stockhold_domain::Instant,
    /// The number of commands whose keys were loaded. The commands after them have joined.
    first: usize,
}

impl BatchDecider<'_> {
    fn all(
        &self,
        batch: &[&PlannedCommand],
        lock_plan: &BatchLockPlan,
        state: &mut LoadedState,
        effects: &mut Effects,
        plan: &mut RetryPlan,
    ) -> Result<Vec<Outcome>, AttemptError> {
        let mut outcomes = Vec::with_capacity(batch.len());
        let mut deferred = DeferredCommands::default();
        for (n, planned) in batch.iter().enumerate() {
            if deferred.concerns(lock_plan, n, planned) {
                deferred.add(lock_plan, n, planned);
                outcomes.push(Outcome::Later);
                continue;
            }
            let decided = match without_key(planned, state) {
                Some(envelope) => decide(state, self.rules, &envelope, self.now, effects),
                None => decide(state, self.rules, &planned.envelope, self.now, effects),
            };
            if let Some(what) = state.violated_invariant {
                return Err(AttemptError::InvariantViolated(n, what));
            }
            match decided {
                Ok(outcome) => {
                    let is_final = n < self.first || matches!(outcome, Outcome::Done(_));
                    let outcome = if is_final { outcome } else { Outcome::Later };
                    if outcome == Outcome::Later {
                        deferred.add(lock_plan, n, planned);
                    }
                    outcomes.push(outcome);
                }
                Err(DecideError::NotLoaded(missing)) => {
                    plan.learn(&missing, state, self.now)?;
                    return Err(AttemptError::NotLoaded);
                }
                Err(DecideError::InvariantViolated(what)) => {
                    return Err(AttemptError::InvariantViolated(n, what));
                }
            }
        }
        Ok(outcomes)
    }
}

/// Returns the command without its key if the key was used for a reservation that has been archived since. Such a key can't be
/// replayed.
fn without_key(planned: &PlannedCommand, state: &LoadedState) -> Option<Envelope> {
    let (id, key) = (planned.envelope.command.reservation()?, planned.envelope.key?);
    let record = state.key(key.hash).ok()??;
    let outlived = record.fingerprint == key.fingerprint
        && record.target == KeyTarget::Reservation(id)
        && state.hold(id).is_ok_and(|hold| hold.is_none());
    outlived.then(|| Envelope { key: None, ..(*planned.envelope).clone() })
}

/// Commits, once. After COMMIT was sent, an error means that it may have taken effect, unless the server itself answered why it did
/// not.
pub(crate) async fn commit<S: Session>(
    session: &mut S,
    limits: &AttemptLimits,
    changes: &Changes<'_>,
) -> Result<(), AttemptError> {
    let sent = CommitSent::default();
    let begun = std::time::Instant::now();
    let committed = tokio::time::timeout(limits.commit_deadline, session.commit(changes, &sent)).await;
    match committed {
        Ok(Ok(CommitOutcome::Durable)) => {
            crate::engine::meters::committed(begun.elapsed());
            limits.closed.count(changes.events);
            Ok(())
        }
        Ok(Ok(CommitOutcome::InDoubt(why))) => Err(AttemptError::OutcomeUnknown(why)),
        Ok(Err(DbError::ConnectionLost(why))) if sent.is_marked() => Err(AttemptError::OutcomeUnknown(why)),
        Ok(Err(error)) => Err(AttemptError::Database(error)),
        Err(_) if sent.is_marked() => {
            Err(AttemptError::OutcomeUnknown("COMMIT was not answered in time".to_owned()))
        }
        Err(_) => Err(AttemptError::TimedOut),
    }
}

/// The resources and sequences of commands that are deferred to the next batch. A later command of this batch that shares one of
/// them is deferred as well, so that commands about one resource are decided in order.
#[derive(Default)]
struct DeferredCommands<'a> {
    names: BTreeSet<&'a Resource>,
    sequences: BTreeSet<u64>,
}

impl<'a> DeferredCommands<'a> {
    fn names(lock_plan: &'a BatchLockPlan, command: usize) -> impl Iterator<Item = &'a Resource> {
        let names = lock_plan.of_command.get(command).into_iter().flatten();
        names.filter(|name| !matches!(name, Resource::Pause(_) | Resource::Limits))
    }

    fn concerns(&self, lock_plan: &'a BatchLockPlan, command: usize, planned: &PlannedCommand) -> bool {
        let in_sequence = planned.sequence.is_some_and(|number| self.sequences.contains(&number));
        in_sequence
            || (!self.names.is_empty()
                && Self::names(lock_plan, command).any(|name| self.names.contains(name)))
    }

    fn add(&mut self, lock_plan: &'a BatchLockPlan, command: usize, planned: &PlannedCommand) {
        self.names.extend(Self::names(lock_plan, command));
        self.sequences.extend(planned.sequence);
    }
}
