//! Panics in the tasks of the store: callers get their replies, claims are released, and the store continues. The database is a
//! few maps, and a test chooses the step that panics.

use super::store::SqlStore;
use crate::engine::db_error::DbError;
use crate::engine::dialect::{
    Changes, CommitOutcome, CommitSent, Deadline, Dialect, LockSet, LockedRows, Release, ReservationScan,
    Rows, ScanPage, Session, SkipLockedResult,
};
use crate::engine::options::{OpenError, Options};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{
    Hold, Instant, Item, ItemKey, Label, Limit, LimitCounter, LimitSet, Outcome, Record, RecordKind,
    ReservationId, Status, Subject, Unit,
};
use stockhold_store::{
    Answer, CustomerRequest, CustomerResult, EventRow, Failure, Inbox, ItemPageRequest, Job, Query, ReplyTo,
    Request, ReservationFilter, Store,
};

/// Patience with an answer that has to come.
const PATIENCE: Duration = Duration::from_secs(90);
/// Work that may wait: little, so that any that is counted for ever shows.
const QUEUE: usize = 4;

/// A step of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Open,
    Read,
    Lock,
    Commit,
    ItemPage,
    Number,
    Overdue,
    LockFree,
    ForgetKeys,
}

#[derive(Default)]
struct State {
    items: BTreeMap<ItemKey, Item>,
    holds: BTreeMap<ReservationId, Hold>,
    now: i64,
    panics: BTreeSet<Step>,
    panicked: usize,
    lost: bool,
    /// Whether every connection but the first is refused.
    has_room_for_one: bool,
    done: BTreeMap<Step, usize>,
    /// Whether a session came back within a transaction.
    left_open: bool,
}

/// The maps, and what is to go wrong.
#[derive(Clone, Default)]
struct Maps {
    shared: Arc<(Mutex<State>, Condvar)>,
    in_transaction: bool,
}

impl Maps {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.shared.0.lock().unwrap());
        self.shared.1.notify_all();
        changed
    }

    /// Panics once if the test has chosen this step, else counts it. The lock is released before the panic, so that it is not poisoned.
    fn step(&self, step: Step) {
        let panics = self.with(|state| {
            let panics = state.panics.remove(&step);
            state.panicked += usize::from(panics);
            *state.done.entry(step).or_default() += usize::from(!panics);
            panics
        });
        assert!(!panics, "{step:?} was told to panic");
    }

    fn panic_at(&self, step: Step) {
        self.with(|state| state.panics.insert(step));
    }

    fn wait_until(&self, what: &str, mut so: impl FnMut(&mut State) -> bool) {
        let state = self.shared.0.lock().unwrap();
        let (state, late) = self.shared.1.wait_timeout_while(state, PATIENCE, |state| !so(state)).unwrap();
        drop(state);
        assert!(!late.timed_out(), "never: {what}");
    }

    fn rows(&self, lock_set: &LockSet) -> Rows {
        self.with(|state| {
            let queue = |key: Option<&ItemKey>| -> BTreeSet<Deadline> {
                let of_it =
                    |hold: &&Hold| key.is_none_or(|key| hold.lines.iter().any(|line| line.item == *key));
                let active = state.holds.values().filter(|hold| hold.status == Status::Active).filter(of_it);
                active.map(|hold| (hold.expires_at, hold.id)).collect()
            };
            Rows {
                items: lock_set.items.iter().filter_map(|key| state.items.get(key).cloned()).collect(),
                holds: lock_set.holds.iter().filter_map(|id| state.holds.get(id).cloned()).collect(),
                due: lock_set.due.keys().map(|key| (key.clone(), queue(Some(key)))).collect(),
                any_due: lock_set.any_due.map(|_| queue(None)).unwrap_or_default(),
                limits: lock_set.limits.then(Arc::default),
                ..Rows::default()
            }
        })
    }
}

impl Dialect for Maps {
    type Session = Self;

    const NAME: &'static str = "maps";

    async fn open(&self) -> Result<Self, OpenError> {
        self.step(Step::Open);
        if self.with(|state| state.has_room_for_one && state.done.get(&Step::Open) > Some(&1)) {
            return Err(OpenError::Unreachable("there is room for one".to_owned()));
        }
        Ok(self.clone())
    }
}

impl Session for Maps {
    fn is_lost(&self) -> bool {
        self.with(|state| {
            state.left_open |= self.in_transaction;
            core::mem::take(&mut state.lost)
        })
    }

    async fn read(&mut self, lock_set: &LockSet) -> Result<Rows, DbError> {
        self.step(Step::Read);
        Ok(self.rows(lock_set))
    }

    async fn lock(&mut self, lock_set: &LockSet) -> Result<LockedRows, DbError> {
        self.in_transaction = true;
        self.step(Step::Lock);
        let now = Instant::from_micros(self.with(|state| state.now));
        Ok(LockedRows { now, serial: 1, rows: self.rows(lock_set) })
    }

    async fn commit(&mut self, changes: &Changes<'_>, sent: &CommitSent) -> Result<CommitOutcome, DbError> {
        sent.mark();
        self.with(|state| {
            for item in changes.new_items.iter().chain(&changes.changed_items) {
                state.items.insert(item.key.clone(), (*item).clone());
            }
            for hold in changes.new_holds.iter().chain(&changes.changed_holds) {
                state.holds.insert(hold.id, (*hold).clone());
            }
        });
        self.in_transaction = false;
        // The panic comes after the commit took effect, so the reply must not say that nothing was done.
        self.step(Step::Commit);
        Ok(CommitOutcome::Durable)
    }

    async fn roll_back(&mut self) -> Result<(), DbError> {
        self.in_transaction = false;
        Ok(())
    }

    async fn shelf(&mut self, _: &ItemPageRequest) -> Result<Vec<Item>, DbError> {
        self.step(Step::ItemPage);
        Ok(self.with(|state| state.items.values().cloned().collect()))
    }

    async fn units(&mut self, _: &ItemKey, _: Option<&(u64, Label)>, _: usize) -> Result<Vec<Unit>, DbError> {
        Ok(Vec::new())
    }

    async fn unit(&mut self, _: &ItemKey, _: &Label) -> Result<Option<(Unit, Vec<u64>)>, DbError> {
        Ok(None)
    }

    async fn paused(&mut self) -> Result<Vec<String>, DbError> {
        Ok(Vec::new())
    }

    async fn due_payments(&mut self, _: Instant, _: usize) -> Result<Vec<ReservationId>, DbError> {
        Ok(Vec::new())
    }

    async fn record_page(
        &mut self,
        _: RecordKind,
        _: Option<&Label>,
        _: usize,
    ) -> Result<Vec<Record>, DbError> {
        Ok(Vec::new())
    }

    async fn customers(&mut self, _: &CustomerRequest) -> Result<CustomerResult, DbError> {
        Ok(CustomerResult::Row(None))
    }

    async fn scan(&mut self, _: &ReservationScan<'_>) -> Result<ScanPage, DbError> {
        Ok(ScanPage { holds: Vec::new(), next: None })
    }

    async fn serials(&mut self, _: ReservationId) -> Result<Option<Vec<u64>>, DbError> {
        Ok(None)
    }

    async fn batches(&mut self, _: &[u64]) -> Result<Vec<EventRow>, DbError> {
        Ok(Vec::new())
    }

    async fn events(&mut self, _: u64, _: usize) -> Result<Vec<EventRow>, DbError> {
        Ok(Vec::new())
    }

    async fn number(&mut self) -> Result<u64, DbError> {
        self.step(Step::Number);
        Ok(0)
    }

    async fn is_unfinished(&mut self) -> Result<bool, DbError> {
        Ok(false)
    }

    async fn overdue(
        &mut self,
        after: Option<Deadline>,
        limit: usize,
    ) -> Result<(Instant, Vec<Deadline>), DbError> {
        self.step(Step::Overdue);
        let now = Instant::from_micros(self.with(|state| state.now));
        let all = self.rows(&LockSet { any_due: Some(limit), ..LockSet::default() }).any_due;
        let overdue = all.into_iter().take_while(|(due, _)| *due <= now);
        Ok((now, overdue.filter(|deadline| Some(*deadline) > after).take(limit).collect()))
    }

    async fn releases(
        &mut self,
        _after: Option<&Release>,
        _limit: usize,
    ) -> Result<(Instant, Vec<Release>), DbError> {
        Ok((Instant::from_micros(self.with(|state| state.now)), Vec::new()))
    }

    async fn lock_skip_locked(&mut self, lock_set: &LockSet) -> Result<SkipLockedResult, DbError> {
        self.in_transaction = true;
        self.step(Step::LockFree);
        Ok(SkipLockedResult {
            items: lock_set.items.clone(),
            holds: lock_set.holds.clone(),
            ..SkipLockedResult::default()
        })
    }

    fn known_limits(&self) -> Arc<LimitSet> {
        Arc::default()
    }

    async fn counter_page(
        &mut self,
        _: &Limit,
        _: Option<&Subject>,
        _: usize,
    ) -> Result<Vec<(Subject, LimitCounter)>, DbError> {
        Ok(Vec::new())
    }

    async fn forget_counters(&mut self, _: &Label, _: u64, _: usize) -> Result<usize, DbError> {
        Ok(0)
    }

    async fn active_holds(&mut self) -> Result<u64, DbError> {
        Ok(0)
    }

    async fn keep_keys(&mut self, at_least: i64) -> Result<i64, DbError> {
        Ok(at_least)
    }

    async fn move_release(&mut self, _: &Release, _: Option<Instant>) -> Result<(), DbError> {
        Ok(())
    }

    async fn forget_keys(&mut self, _: Instant, _: usize) -> Result<usize, DbError> {
        self.step(Step::ForgetKeys);
        Ok(0)
    }
}

#[derive(Default)]
struct TestInbox {
    answers: Mutex<Vec<Result<Answer, Failure>>>,
    bell: Condvar,
}

impl Inbox for TestInbox {
    fn put(&self, _: u64, answer: Result<Answer, Failure>) {
        self.answers.lock().unwrap().push(answer);
    }

    fn flush(&self) {
        self.bell.notify_all();
    }
}

fn ask(store: &SqlStore, ask: Request) -> Result<Answer, Failure> {
    let desk = Arc::new(TestInbox::default());
    let reply = ReplyTo { inbox: Arc::clone(&desk) as Arc<dyn Inbox>, ticket: 0 };
    store.submit(Job { request: ask, reply });
    store.flush();
    let answers = desk.answers.lock().unwrap();
    let (mut answers, late) = desk.bell.wait_timeout_while(answers, PATIENCE, |all| all.is_empty()).unwrap();
    assert!(!late.timed_out(), "an answer never came");
    assert_eq!(answers.len(), 1, "one answer each");
    answers.remove(0)
}

struct Shop {
    maps: Maps,
    store: SqlStore,
    maker: Maker,
    item: ItemKey,
}

impl Drop for Shop {
    fn drop(&mut self) {
        let left_open = self.maps.with(|state| state.left_open);
        assert!(!left_open || std::thread::panicking(), "a session came back within a transaction");
    }
}

impl Shop {
    /// With the sweeper's pause.
    fn new(sweep_every: Option<Duration>) -> Self {
        Self::over(Maps::default(), sweep_every)
    }

    fn over(maps: Maps, sweep_every: Option<Duration>) -> Self {
        let options = Options {
            connections: 3,
            most_connections: 3,
            queue: QUEUE,
            batch: 4,
            sweep_every,
            ..Options::default()
        };
        let store = SqlStore::open(maps.clone(), options).unwrap();
        let mut maker = Maker::new(1, "crash-");
        let item = maker.item("a");
        let made = ask(&store, Request::Command(Box::new(maker.wrap(maker::set_stock(&item, 1_000)))));
        assert!(matches!(made, Ok(Answer::Outcome(Outcome::Done(_)))), "{made:?}");
        Self { maps, store, maker, item }
    }

    fn reserve(&mut self) -> Request {
        Request::Command(Box::new(self.maker.wrap(maker::reserve_for(60, &[(&self.item, 1)]))))
    }

    /// Requests whose task panics get an unknown outcome, more often than the queue is long. The next request succeeds.
    fn survives(&mut self, step: Step, mut asked: impl FnMut(&mut Self) -> Request) {
        for _ in 0..=QUEUE {
            self.maps.panic_at(step);
            let work = asked(self);
            let told = ask(&self.store, work);
            match &told {
                Err(Failure::OutcomeUnknown) => {}
                Ok(Answer::Outcomes(all)) => {
                    assert!(all.contains(&Err(Failure::OutcomeUnknown)), "{told:?}");
                }
                _ => panic!("{told:?}"),
            }
        }
        assert_eq!(self.maps.with(|state| state.panicked), QUEUE + 1);
        let work = asked(self);
        let told = ask(&self.store, work);
        assert!(told.is_ok(), "{told:?}");
        let work = self.reserve();
        let told = ask(&self.store, work);
        assert!(matches!(told, Ok(Answer::Outcome(Outcome::Done(_)))), "the item is free: {told:?}");
    }
}

#[test]
fn a_batch_that_panics_before_its_commit_frees_its_items() {
    Shop::new(None).survives(Step::Lock, Shop::reserve);
}

#[test]
fn a_batch_that_panics_at_its_commit_is_unknown() {
    Shop::new(None).survives(Step::Commit, Shop::reserve);
}

#[test]
fn a_sequence_of_several_batches_is_ended_by_a_panic_in_one() {
    let mut shop = Shop::new(None);
    let many = |shop: &mut Shop| {
        let wrap = |_| shop.maker.wrap(maker::reserve_for(60, &[(&shop.item, 1)]));
        Request::Commands((0..11).map(wrap).collect())
    };
    shop.survives(Step::Commit, many);
}

#[test]
fn a_look_up_of_reservations_that_panics_is_done_again_for_others() {
    let mut shop = Shop::new(None);
    let confirm = |shop: &mut Shop| {
        let nobody = shop.maker.no_reservation();
        Request::Command(Box::new(shop.maker.wrap(maker::confirm(nobody))))
    };
    shop.survives(Step::Read, confirm);
    let mut shop = Shop::new(None);
    let many = |shop: &mut Shop| {
        let nobody: Vec<_> = (0..11).map(|_| shop.maker.no_reservation()).collect();
        Request::Commands(nobody.into_iter().map(|id| shop.maker.wrap(maker::confirm(id))).collect())
    };
    shop.survives(Step::Read, many);
}

#[test]
fn reads_that_panic_are_answered_and_others_are_read() {
    let quick = |shop: &mut Shop| Request::Query(Query::Items(vec![shop.item.clone()]));
    Shop::new(None).survives(Step::Read, quick);
    let slow = |_: &mut Shop| {
        Request::Query(Query::ItemPage(ItemPageRequest { location: None, after: None, limit: 9 }))
    };
    Shop::new(None).survives(Step::ItemPage, slow);
    let list = ask(
        &Shop::new(None).store,
        Request::Query(Query::Reservations(ReservationFilter { limit: 1, ..ReservationFilter::default() })),
    );
    assert!(list.is_ok());
}

#[test]
fn with_one_connection_commands_have_their_turn_and_so_do_those_who_read_all_the_time() {
    let maps = Maps::default();
    maps.with(|state| state.has_room_for_one = true);
    let mut shop = Shop::over(maps, Some(Duration::from_millis(5)));
    let work: Vec<_> = (0..20).map(|_| shop.reserve()).collect();
    let (store, item, over) = (&shop.store, &shop.item, AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let told = ask(store, Request::Query(Query::Items(vec![item.clone()])));
                    assert!(told.is_ok(), "{told:?}");
                }
            });
        }
        for work in work {
            let told = ask(store, work);
            assert!(matches!(told, Ok(Answer::Outcome(Outcome::Done(_)))), "{told:?}");
        }
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_sweep_that_panics_is_swept_again() {
    for step in [Step::Overdue, Step::LockFree, Step::Lock] {
        let mut shop = Shop::new(Some(Duration::from_millis(5)));
        let work = shop.reserve();
        ask(&shop.store, work).unwrap();
        shop.maps.panic_at(step);
        shop.maps.with(|state| state.now = 61_000_000);
        shop.maps.wait_until("it is expired", |state| {
            state.panicked == 1 && state.holds.values().all(|hold| hold.status == Status::Expired)
        });
        let work = shop.reserve();
        assert!(ask(&shop.store, work).is_ok(), "{step:?}: the item is free");
    }
}

#[test]
fn chores_that_panic_are_done_the_next_time() {
    let mut shop = Shop::new(None);
    let count = |state: &State| state.done.get(&Step::Number).copied().unwrap_or(0);
    shop.maps.panic_at(Step::Number);
    shop.maps.wait_until("numbering panics", |state| state.panicked == 1);
    let before = shop.maps.with(|state| count(state));
    let work = shop.reserve();
    ask(&shop.store, work).unwrap();
    shop.maps.wait_until("it is numbered", |state| count(state) > before);
}

#[test]
fn a_connection_whose_opening_panics_is_opened_again() {
    let mut shop = Shop::new(None);
    shop.maps.wait_until("all are open", |state| state.done.get(&Step::Open) == Some(&3));
    shop.maps.panic_at(Step::Open);
    shop.maps.with(|state| state.lost = true);
    // Looked at when somebody asks.
    let work = shop.reserve();
    assert!(ask(&shop.store, work).is_ok());
    shop.maps.wait_until("another is open", |state| {
        state.panicked == 1 && state.done.get(&Step::Open) == Some(&4)
    });
    let work = shop.reserve();
    assert!(ask(&shop.store, work).is_ok());
}
