//! Pools: parts of an item's stock that are set aside, such as a presale's. These are plain values. The rules in `decide` change them.

use crate::label::Label;
use crate::limits::FORMER_POOLS;
use crate::time::{Instant, Seconds};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A part of an item's stock that only reserves draw from that name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name, unique within the item.
    pub name: Label,
    /// What an operator said about it.
    pub terms: PoolTerms,
    /// Units in active reservations that were drawn from it.
    pub held: u64,
    /// Units sold that were drawn from it, less returns.
    pub sold: u64,
    /// When it was set, or when units were last drawn from it, whichever is later.
    pub used_at: Instant,
    /// When it was released or deleted. Its free units went to general sale. What comes back goes there too.
    pub released_at: Option<Instant>,
}

/// What an operator says about a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolTerms {
    /// Units that are set aside, those that were drawn included. Of a released pool: those that were drawn and are still out. Where units
    /// have ids, it is the number of units that are in the pool.
    pub allocated: u64,
    /// Whether a reserve that names the pool gets general stock when the pool is empty.
    pub fallback: bool,
    /// When the pool is released.
    pub releases_at: Option<Instant>,
    /// How long nothing is drawn before the pool is released.
    pub idle_release: Option<Seconds>,
}

impl Pool {
    /// Units that were drawn and have not come back.
    pub fn drawn(&self) -> u64 {
        self.held.saturating_add(self.sold)
    }

    /// Units that can be drawn.
    pub fn free(&self) -> u64 {
        self.terms.allocated.saturating_sub(self.drawn())
    }

    /// When it is to be released. `None` when it has been, and when nothing releases it. A released pool may have free units with ids
    /// left. They are to be taken out at once.
    pub fn release_due_at(&self) -> Option<Instant> {
        if self.released_at.is_some() {
            return self.released_at.filter(|_| self.free() > 0);
        }
        let idle = self.terms.idle_release.map(|time| self.used_at.deadline(time));
        match (self.terms.releases_at, idle) {
            (Some(at), Some(idle)) => Some(at.min(idle)),
            (at, idle) => at.or(idle),
        }
    }

    /// Whether it was released and all of its units came back. Only its name is known then.
    pub fn is_former(&self) -> bool {
        self.released_at.is_some() && self.terms.allocated == 0
    }

    /// Whether a reserve that names it gets general stock too.
    pub fn falls_back(&self) -> bool {
        self.terms.fallback || self.released_at.is_some()
    }

    /// The pool after it was released at this instant, with its free units going at once.
    #[must_use]
    pub fn released(&self, at: Instant) -> Self {
        Self { released_at: Some(at), ..self.with_allocated(self.drawn()) }
    }

    /// The pool after it was released at this instant. Its free units have ids and go in events of their own.
    #[must_use]
    pub fn released_with_units(&self, at: Instant) -> Self {
        Self { released_at: Some(at), ..self.clone() }
    }

    /// The pool with this many units.
    #[must_use]
    pub fn with_allocated(&self, allocated: u64) -> Self {
        Self { terms: PoolTerms { allocated, ..self.terms.clone() }, ..self.clone() }
    }

    /// The pool after a change of a reservation; `None` when a counter would leave its range.
    #[must_use]
    pub fn after(&self, effect: &PoolEffect) -> Option<Self> {
        let (held, sold) =
            (self.held.checked_add_signed(effect.held)?, self.sold.checked_add_signed(effect.sold)?);
        let drawn = held.checked_add(sold)?;
        let allocated = if self.released_at.is_some() {
            // Nothing is drawn from what is left in it.
            drawn.checked_add(self.free())?
        } else {
            Some(self.terms.allocated).filter(|all| drawn <= *all)?
        };
        let used_at = effect.drawn_at.map_or(self.used_at, |at| at.max(self.used_at));
        let terms = PoolTerms { allocated, ..self.terms.clone() };
        Some(Self { terms, held, sold, used_at, ..self.clone() })
    }
}

/// How a change of a reservation moves the counters of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolEffect {
    /// Units in active reservations.
    pub held: i64,
    /// Units sold, less returns.
    pub sold: i64,
    /// When units were drawn; `None` if none were.
    pub drawn_at: Option<Instant>,
}

/// The pools of an item, in order of their names. Clones share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pools(Option<Arc<[Pool]>>);

impl Pools {
    /// These pools, each name once.
    pub fn new(mut pools: Vec<Pool>) -> Self {
        pools.sort_by(|one, other| one.name.cmp(&other.name));
        Self((!pools.is_empty()).then(|| pools.into()))
    }

    /// All of them, former ones included.
    pub fn all(&self) -> &[Pool] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Those that have units.
    pub fn current(&self) -> impl Iterator<Item = &Pool> {
        self.all().iter().filter(|pool| !pool.is_former())
    }

    /// The pool of this name, current or former.
    pub fn get(&self, name: &Label) -> Option<&Pool> {
        self.all().iter().find(|pool| pool.name == *name)
    }

    /// Units that are set aside and not drawn.
    pub fn set_aside(&self) -> u64 {
        self.all().iter().map(Pool::free).fold(0, u64::saturating_add)
    }

    /// Units that are set aside, drawn ones included.
    pub fn allocated(&self) -> u64 {
        self.all().iter().map(|pool| pool.terms.allocated).fold(0, u64::saturating_add)
    }

    /// When the next pool is to be released.
    pub fn release_due_at(&self) -> Option<Instant> {
        self.all().iter().filter_map(Pool::release_due_at).min()
    }

    /// These pools with one put in place of the one of its name.
    #[must_use]
    pub fn with(&self, pool: Pool) -> Self {
        let mut pools: Vec<Pool> =
            self.all().iter().filter(|known| known.name != pool.name).cloned().collect();
        pools.push(pool);
        Self::new(pools)
    }

    /// These pools without the oldest former ones: the latest [`FORMER_POOLS`] stay. A change of a reservation never forgets one, because
    /// the next event of the same command may draw from it again.
    #[must_use]
    pub fn without_oldest_former(&self) -> Self {
        let mut pools = self.all().to_vec();
        while pools.iter().filter(|pool| pool.is_former()).count() > FORMER_POOLS {
            let former = pools.iter().enumerate().filter(|(_, pool)| pool.is_former());
            let Some((oldest, _)) = former.min_by_key(|(_, pool)| pool.released_at) else { break };
            pools.remove(oldest);
        }
        Self::new(pools)
    }
}

/// Units of a line that were drawn from a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolDraw {
    /// Which pool.
    pub pool: Label,
    /// How many units, at least 1.
    pub units: u32,
}

/// The pools of an item after a change of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolsAfter {
    /// The number of the line on the item, from 0.
    pub line: u32,
    /// Its pools.
    pub pools: Pools,
}
