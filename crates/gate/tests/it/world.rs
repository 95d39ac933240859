//! A store behind a gate. The store is the embedded one, which a server does not put a gate in front of: a gate knows only what a
//! store is, and this one is there at once.

use crate::redis_server::RedisServer;
use std::sync::Arc;
use std::time::{Duration, Instant as Monotonic};
use stockhold_conformance::bench::{AnswerInbox, open};
use stockhold_conformance::{START, World};
use stockhold_domain::{Envelope, HoldLimits, Instant, Item, ItemKey, Outcome};
use stockhold_embedded::EmbeddedStore;
use stockhold_gate::{GateAddress, GateOptions, GateStore};
use stockhold_store::clock::ManualClock;
use stockhold_store::{
    Answer, Failure, GateItem, GateSelection, GateStatus, Inbox, Job, Query, QueryResult, ReloadSummary,
    ReplyTo, Request, Store,
};

/// A store, its gate and its Redis server.
pub(crate) struct GateWorld {
    pub(crate) redis: Arc<RedisServer>,
    url: String,
    dir: tempfile::TempDir,
    clock: Arc<ManualClock>,
    store: Option<Arc<EmbeddedStore>>,
    gates: Vec<GateStore>,
    /// How often the store is asked although the gate is empty.
    ask_interval: Duration,
    /// Whether every counted item is gated.
    every_item: bool,
    /// Requests that were admitted before the latest restart.
    admitted_before: u64,
    runtime: tokio::runtime::Runtime,
}

impl GateWorld {
    /// A world whose refusals are never the gate's own, with all items gated, for the conformance suite.
    pub(crate) fn asking_always(redis: Arc<RedisServer>) -> Self {
        let url = redis.url();
        Self::new(redis, url, Duration::ZERO, true, 1)
    }

    /// A world with this many instances of the gate, which refuses by itself: the store is asked so rarely that a test does not see it.
    pub(crate) fn refusing(redis: Arc<RedisServer>, instances: usize) -> Self {
        let url = redis.url();
        Self::new(redis, url, Duration::from_hours(1), false, instances)
    }

    /// A world of one instance that asks the store once in this time although the gate is empty.
    pub(crate) fn refusing_for(redis: Arc<RedisServer>, ask_interval: Duration) -> Self {
        let url = redis.url();
        Self::refusing_at(redis, url, ask_interval)
    }

    /// Like [`Self::refusing_for`], with Redis at this address.
    pub(crate) fn refusing_at(redis: Arc<RedisServer>, url: String, ask_interval: Duration) -> Self {
        Self::new(redis, url, ask_interval, false, 1)
    }

    fn new(
        redis: Arc<RedisServer>,
        url: String,
        ask_interval: Duration,
        every_item: bool,
        instances: usize,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(START));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut world = Self {
            redis,
            url,
            dir,
            clock,
            store: None,
            gates: Vec::new(),
            ask_interval,
            every_item,
            admitted_before: 0,
            runtime,
        };
        world.open(instances);
        world
    }

    fn open(&mut self, instances: usize) {
        let store = Arc::new(open(self.dir.path(), &self.clock).unwrap());
        for _ in 0..instances {
            let options = GateOptions {
                address: GateAddress::parse(&self.url).unwrap(),
                // Tests may have to wait for a processor.
                timeout: Duration::from_secs(2),
                reconcile_interval: GateOptions::RECONCILE_INTERVAL,
                ask_interval: self.ask_interval,
                every_item: self.every_item,
                hold_limits: HoldLimits::default(),
                clock: self.clock.clone(),
            };
            self.gates.push(GateStore::start(Arc::clone(&store) as Arc<dyn Store>, options).unwrap());
        }
        self.store = Some(store);
        for instance in 0..instances {
            self.wait_for(instance, "Redis", |status| status.connected);
        }
    }

    /// The store behind the gates.
    pub(crate) fn store(&self) -> &EmbeddedStore {
        self.store.as_ref().unwrap()
    }

    /// The state of an instance's gate.
    pub(crate) fn status(&self, instance: usize) -> GateStatus {
        self.runtime.block_on(self.gates[instance].status(1_000)).unwrap()
    }

    /// Requests that the first instance has admitted.
    pub(crate) fn admitted(&self) -> u64 {
        self.admitted_before + self.status(0).admitted
    }

    /// Waits until the state of an instance's gate is as described.
    #[track_caller]
    pub(crate) fn wait_for(
        &self,
        instance: usize,
        what: &str,
        is_so: impl Fn(&GateStatus) -> bool,
    ) -> GateStatus {
        let begun = Monotonic::now();
        loop {
            let status = self.status(instance);
            if is_so(&status) {
                return status;
            }
            assert!(begun.elapsed() < Duration::from_mins(1), "waiting for {what}: {status:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the gate admits this many units of an item at an instance.
    #[track_caller]
    pub(crate) fn wait_for_units(&self, instance: usize, key: &ItemKey, units: u64) {
        self.wait_for(instance, &format!("{units} units of {key:?}"), |status| {
            units_of(status, key) == Some(units)
        });
    }

    pub(crate) fn reload(&self, instance: usize) -> Result<ReloadSummary, Failure> {
        self.runtime.block_on(self.gates[instance].reload(GateSelection::All))
    }

    /// Runs one command at an instance.
    pub(crate) fn run(&self, instance: usize, command: Envelope) -> Result<Outcome, Failure> {
        outcome_of(self.answers(instance, vec![Request::Command(Box::new(command))]).remove(0))
    }

    /// Submits all requests at an instance, and waits for all answers.
    pub(crate) fn answers(&self, instance: usize, requests: Vec<Request>) -> Vec<Result<Answer, Failure>> {
        let answers = Arc::new(AnswerInbox::default());
        let count = requests.len();
        let gate = &self.gates[instance];
        for (request, ticket) in requests.into_iter().zip(0..) {
            let inbox: Arc<dyn Inbox> = answers.clone();
            gate.submit(Job { request, reply: ReplyTo { inbox, ticket } });
        }
        gate.flush();
        let mut all = Vec::new();
        while all.len() < count {
            all.extend(answers.wait(1));
        }
        all.sort_by_key(|(ticket, _)| *ticket);
        assert!(all.iter().zip(0..).all(|((ticket, _), n)| *ticket == n), "one answer each");
        all.into_iter().map(|(_, answer)| answer).collect()
    }

    /// The item as the store has it.
    pub(crate) fn stored(&self, key: &ItemKey) -> Item {
        self.store().published_item(key).flatten().expect("an item")
    }
}

/// The units that the gate admits of an item.
pub(crate) fn units_of(status: &GateStatus, key: &ItemKey) -> Option<u64> {
    let item = |found: &&GateItem| found.item == *key;
    status.items.iter().find(item).and_then(|found| found.counter).map(|counter| counter.units)
}

pub(crate) fn outcome_of(answer: Result<Answer, Failure>) -> Result<Outcome, Failure> {
    match answer {
        Ok(Answer::Outcome(outcome)) => Ok(outcome),
        Ok(other) => panic!("the answer to a command was {other:?}"),
        Err(failure) => Err(failure),
    }
}

impl World for GateWorld {
    fn submit(&mut self, commands: Vec<Envelope>) -> Vec<Result<Outcome, Failure>> {
        // Requests that go through the gate may be overtaken by others, and the suite needs their order.
        commands.into_iter().map(|command| self.run(0, command)).collect()
    }

    fn set_clock(&mut self, now: Instant) {
        self.clock.set(now);
    }

    fn restart(&mut self) {
        let instances = self.gates.len();
        self.admitted_before += self.status(0).admitted;
        self.gates.clear();
        let store = self.store.take().unwrap();
        Arc::into_inner(store).expect("the gates have let go of the store").abandon();
        self.open(instances);
    }

    fn find(&mut self, query: Query) -> Result<QueryResult, Failure> {
        match self.answers(0, vec![Request::Query(query)]).remove(0) {
            Ok(Answer::QueryResult(found)) => Ok(found),
            Ok(other) => panic!("the answer to a query was {other:?}"),
            Err(failure) => Err(failure),
        }
    }

    fn submit_in_order(&mut self, commands: Vec<Envelope>) -> Vec<Result<Outcome, Failure>> {
        let count = commands.len();
        match self.answers(0, vec![Request::Commands(commands)]).remove(0) {
            Ok(Answer::Outcomes(outcomes)) => outcomes,
            Ok(other) => panic!("the answer to commands was {other:?}"),
            Err(failure) => vec![Err(failure); count],
        }
    }
}
