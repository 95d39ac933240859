//! The counter of one item in Redis. Two scripts change it, each in one step: `move.lua` and `reload.lua`. They say what its fields are.
//!
//! An item has one counter. Redis runs one script at a time, and all counters of an item would have to be on one server, so several
//! counters for an item would save nothing.

use redis::{FromRedisValue, ParsingError, RedisError, Script, Value};
use stockhold_domain::{Instant, ItemKey};

use crate::connection::RedisConnection;

/// The scripts.
pub(crate) struct CounterScripts {
    moving: Script,
    reloading: Script,
}

/// The result of an admission that the store has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settlement {
    pub(crate) admission: Admission,
    /// What the store took. `None` if it took nothing.
    pub(crate) taken: Option<CommittedUnits>,
}

/// Units that the store has taken of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommittedUnits {
    pub(crate) units: u64,
    /// The item's sequence after that.
    pub(crate) sequence: u64,
}

/// Units that the gate has admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admission {
    pub(crate) units: u64,
    /// The epoch of the counter.
    pub(crate) epoch: u64,
}

/// What the store has committed of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Committed {
    /// Units that can be reserved without a pool.
    pub(crate) available: u64,
    /// The item's sequence.
    pub(crate) sequence: u64,
}

/// Units for which an admission is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) units: u64,
    /// Whether fewer units will do.
    pub(crate) fewer: bool,
}

/// What one call of `move.lua` does, in this order.
#[derive(Debug, Default)]
pub(crate) struct CounterMoves {
    pub(crate) settled: Vec<Settlement>,
    pub(crate) committed: Option<Committed>,
    pub(crate) wanted: Vec<Wanted>,
}

/// A counter after a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counter {
    /// Units that can be admitted. Below 0 if more are admitted than the store has.
    pub(crate) left: i64,
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
    /// Units that were admitted and not settled.
    pub(crate) pending: u64,
    /// The admitted units of each [`CounterMoves::wanted`].
    pub(crate) admitted: Vec<u64>,
}

/// The result of `reload.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reloaded {
    /// The counter is new. `corrected`: it was wrong before.
    Written { corrected: bool },
    /// Another reload was quicker.
    Overtaken,
}

impl CounterScripts {
    pub(crate) fn new() -> Self {
        Self {
            moving: Script::new(include_str!("move.lua")),
            reloading: Script::new(include_str!("reload.lua")),
        }
    }

    /// Moves a counter. `None` if Redis has none, or what it has is none.
    pub(crate) async fn run(
        &self,
        connection: &mut RedisConnection,
        item: &ItemKey,
        moves: &CounterMoves,
        now: Instant,
    ) -> Result<Option<Counter>, RedisError> {
        let mut call = self.moving.key(key_of(item));
        call.arg(now.micros()).arg(moves.settled.len());
        for Settlement { admission, taken } in &moves.settled {
            call.arg(admission.epoch).arg(admission.units).arg(taken.map_or(0, |taken| taken.units));
            call.arg(number_or_none(taken.map(|taken| taken.sequence)));
        }
        match moves.committed {
            Some(Committed { available, sequence }) => call.arg(1).arg(available).arg(sequence),
            None => call.arg(0),
        };
        for Wanted { units, fewer } in &moves.wanted {
            call.arg(*units).arg(u8::from(*fewer));
        }
        let Answer(counter) = call.invoke_async(connection).await?;
        Ok(counter.filter(|counter| counter.admitted.len() == moves.wanted.len()))
    }

    /// Writes a counter anew. `read` is the counter before `committed` was read from the store.
    pub(crate) async fn reload(
        &self,
        connection: &mut RedisConnection,
        item: &ItemKey,
        committed: Committed,
        read: Option<&Counter>,
        now: Instant,
    ) -> Result<Reloaded, RedisError> {
        let mut call = self.reloading.key(key_of(item));
        call.arg(committed.available).arg(committed.sequence);
        call.arg(number_or_none(read.map(|read| read.epoch)));
        call.arg(number_or_none(read.map(|read| read.sequence)));
        let available = read.map_or(-1, |read| read.left.saturating_add_unsigned(read.pending));
        let answer: Vec<u64> = call.arg(now.micros()).arg(available).invoke_async(connection).await?;
        Ok(match answer[..] {
            [1, _, corrected] => Reloaded::Written { corrected: corrected == 1 },
            _ => Reloaded::Overtaken,
        })
    }

    /// Deletes a counter.
    pub(crate) async fn delete(connection: &mut RedisConnection, item: &ItemKey) -> Result<(), RedisError> {
        redis::cmd("DEL").arg(key_of(item)).query_async(connection).await
    }
}

/// The answer of `move.lua`.
struct Answer(Option<Counter>);

impl FromRedisValue for Answer {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let numbers = Vec::<i64>::from_redis_value(value)?;
        let [1, left, epoch, sequence, pending, ref admitted @ ..] = numbers[..] else {
            return Ok(Self(None));
        };
        // What somebody else wrote into Redis may be below 0. Then there is no counter.
        let count = |number: i64| u64::try_from(number).ok();
        let counter = || {
            Some(Counter {
                left,
                epoch: count(epoch)?,
                sequence: count(sequence)?,
                pending: count(pending)?,
                admitted: admitted.iter().map(|units| count(*units)).collect::<Option<_>>()?,
            })
        };
        Ok(Self(counter()))
    }
}

/// The name of an item's counter. The length keeps two items apart whose names together are the same text.
fn key_of(item: &ItemKey) -> String {
    format!("stockhold:gate:{}:{}:{}", item.location().len(), item.location(), item.sku())
}

fn number_or_none(number: Option<u64>) -> i64 {
    number.and_then(|number| i64::try_from(number).ok()).unwrap_or(-1)
}
