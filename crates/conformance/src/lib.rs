//! The suite that every adapter passes unchanged, over a [`World`] that the adapter's tests provide.
//!
//! [`cases`] are short histories, each for one rule. [`random_history`] is compared with the reference model. Their
//! building blocks are public, so that tests of adapters and the simulator use them too: [`maker`], [`Op`],
//! [`OpContext`] and [`Random`]. A case returns an error as text and never panics because of a store's answer.

#[macro_use]
mod case_context;

mod access;
mod amend_races;
mod amends;
mod archives;
mod backorders;
mod baskets;
mod change_keys;
mod changed_lists;
mod checkouts;
mod clocks;
mod crowds;
mod customers;
mod deadlines;
mod deletions;
mod events;
mod extensions;
mod figures;
mod fulfilments;
mod keys;
mod late_payers;
mod limits;
mod list_filters;
mod lists;
mod merges;
mod paid_reserves;
mod pauses;
mod payments;
mod pools;
mod prices;
mod records;
mod refunds;
mod returns;
mod sourcing;
mod splits;
mod unit_histories;
mod unit_pools;
mod units;
mod units_changed;
mod units_chosen;

mod history;
mod memory_archive;

pub mod bench;
pub mod mutate;
pub mod parsers;
pub mod whole;

// The embedded store compiles `bench` with its unit tests too, so it names this crate.
extern crate self as stockhold_conformance;

pub use archives::{ArchiveCase, ArchiveWorld, archive_cases};
pub use history::{random_history, stepping_history, units_history};
pub use memory_archive::{MemoryArchive, hash_of};
pub use stockhold_model::{
    ChangeKind, ChangeOp, Maker, Op, OpContext, Random, START, SourceOp, TTLS, TermsOp, checkout_maker, maker,
};

use stockhold_domain::{Envelope, Hold, Instant, Item, ItemKey, Outcome, Record, RecordKey, ReservationId};
use stockhold_store::{EventRow, Failure, Query, QueryResult};

/// A store under test. The suite sets its clock. Its limits are [`stockhold_domain::HoldLimits::default`].
pub trait World {
    /// Submits all commands in order before it waits for any answer. Returns the answers in the same order. The
    /// sweeper runs only when a [`stockhold_domain::Command::Sweep`] is submitted.
    fn submit(&mut self, commands: Vec<Envelope>) -> Vec<Result<Outcome, Failure>>;

    /// Moves the clock, forwards or back.
    fn set_clock(&mut self, now: Instant);

    /// Ends the store as a crash would, without an orderly stop, and starts it again from its durable state.
    fn restart(&mut self);

    /// Runs a query.
    fn find(&mut self, query: Query) -> Result<QueryResult, Failure>;

    /// Submits all commands as one [`stockhold_store::Request::Commands`].
    fn submit_in_order(&mut self, commands: Vec<Envelope>) -> Vec<Result<Outcome, Failure>>;

    /// The current state of an item. A world whose store publishes items asserts that it published the same.
    fn item(&mut self, key: &ItemKey) -> Option<Item> {
        match self.find(Query::Items(vec![key.clone()])) {
            Ok(QueryResult::Items(mut items)) if items.len() == 1 => items.remove(0),
            other => panic!("asked for one item, it answered {other:?}"),
        }
    }

    /// The current state of a reservation.
    fn hold(&mut self, id: ReservationId) -> Option<Hold> {
        match self.find(Query::Reservation(id)) {
            Ok(QueryResult::Reservation(hold)) => hold,
            other => panic!("asked for a reservation, it answered {other:?}"),
        }
    }

    /// A record as it is; `None` when it is deleted.
    fn record(&mut self, key: &RecordKey) -> Option<Record> {
        match self.find(Query::Record(key.clone())) {
            Ok(QueryResult::Record(record)) => record,
            other => panic!("asked for a record, it answered {other:?}"),
        }
    }

    /// All committed events, the oldest first, read in pages. Empty when `complete` is false and the adapter keeps
    /// none.
    fn events(&mut self) -> Vec<EventRow> {
        const PAGE: usize = 300;
        let mut all: Vec<EventRow> = Vec::new();
        loop {
            let after = all.last().map_or(0, |row| row.position);
            match self.find(Query::Events { after, limit: PAGE }) {
                Ok(QueryResult::Events(page)) if page.is_empty() => return all,
                Ok(QueryResult::Events(page)) => all.extend(page),
                other => panic!("asked for events, it answered {other:?}"),
            }
        }
    }
}

/// A world that can crash while commands are being executed.
pub trait CrashWorld: World {
    /// Submits commands, crashes some time later, and starts again. An answer from before the crash is `Some(Ok(_))`.
    /// `None` and a failure both mean that the outcome is unknown.
    fn crash_with(&mut self, commands: Vec<Envelope>) -> Vec<Option<Result<Outcome, Failure>>>;
}

/// One case of the suite. It uses items and owners of its own, so cases may share a world, in any order.
#[derive(Clone, Copy)]
pub struct Case {
    /// Its name: what holds for a store that passes.
    pub name: &'static str,
    /// Runs it.
    pub run: fn(&mut dyn World) -> Result<(), String>,
}

/// A case of the suite.
const fn case(name: &'static str, run: fn(&mut dyn World) -> Result<(), String>) -> Case {
    Case { name, run }
}

/// All cases. Every store passes all of them.
pub fn cases() -> Vec<Case> {
    [
        access::CASES,
        amend_races::CASES,
        amends::CASES,
        backorders::CASES,
        baskets::CASES,
        change_keys::CASES,
        changed_lists::CASES,
        clocks::CASES,
        crowds::CASES,
        customers::CASES,
        deadlines::CASES,
        events::CASES,
        extensions::CASES,
        figures::CASES,
        deletions::CASES,
        fulfilments::CASES,
        keys::CASES,
        limits::CASES,
        lists::CASES,
        list_filters::CASES,
        merges::CASES,
        late_payers::CASES,
        paid_reserves::CASES,
        pauses::CASES,
        checkouts::CASES,
        payments::CASES,
        pools::CASES,
        prices::CASES,
        unit_pools::CASES,
        records::CASES,
        refunds::CASES,
        returns::CASES,
        sourcing::CASES,
        splits::CASES,
        units::CASES,
        units_changed::CASES,
        units_chosen::CASES,
        unit_histories::CASES,
    ]
    .concat()
}

/// Worlds that share the cases of [`case_groups`].
const GROUPS: usize = 8;

/// The cases in groups, each for a world of its own. Many cases read all events of their world, so a few small worlds are faster than
/// one.
pub fn case_groups() -> Vec<Vec<Case>> {
    let all = cases();
    (0..GROUPS).map(|group| all.iter().skip(group).step_by(GROUPS).copied().collect()).collect()
}

/// Runs cases on one world and collects the failures, by case.
pub fn run_cases(world: &mut dyn World, cases: &[Case]) -> Vec<(&'static str, String)> {
    let run = |case: &Case| (case.run)(world).err().map(|what| (case.name, what));
    cases.iter().filter_map(run).collect()
}
