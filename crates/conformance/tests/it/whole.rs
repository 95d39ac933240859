//! Seeded histories of the embedded store, and of a store that loses what it has answered.

use stockhold_conformance::bench::Bench;
use stockhold_conformance::whole::{HistoryCounts, run};
use stockhold_conformance::{CrashWorld, World};
use stockhold_domain::{Envelope, Instant, Outcome};
use stockhold_store::{Failure, Query, QueryResult};

const HISTORIES: u64 = 25;
const STEPS: u32 = 60;

#[test]
fn histories_with_crashes_go_as_the_model_says() {
    let mut all = HistoryCounts::default();
    for seed in 0..HISTORIES {
        all.add(run(&mut Bench::new(), seed, STEPS).unwrap());
    }
    println!("{all:?}");
    assert!(all.crashes > 100 && all.unanswered > 50 && all.replays > 0 && all.expired > 0, "{all:?}");
}

/// A store that loses the last answered batch at a crash.
struct Forgetful(Bench);

impl World for Forgetful {
    fn submit(&mut self, commands: Vec<Envelope>) -> Vec<Result<Outcome, Failure>> {
        self.0.submit(commands)
    }
    fn set_clock(&mut self, now: Instant) {
        self.0.set_clock(now);
    }
    fn restart(&mut self) {
        self.0.restart();
    }
    fn submit_in_order(&mut self, commands: Vec<Envelope>) -> Vec<Result<Outcome, Failure>> {
        self.0.submit_in_order(commands)
    }
    fn find(&mut self, query: Query) -> Result<QueryResult, Failure> {
        self.0.find(query)
    }
}

impl CrashWorld for Forgetful {
    fn crash_with(&mut self, commands: Vec<Envelope>) -> Vec<Option<Result<Outcome, Failure>>> {
        let before = self.0.image();
        let answers = self.0.submit(commands);
        self.0.restore(before);
        answers.into_iter().map(Some).collect()
    }
}

#[test]
fn a_store_that_answers_before_it_is_durable_is_caught() {
    let caught = (0..HISTORIES).filter(|seed| run(&mut Forgetful(Bench::new()), *seed, STEPS).is_err());
    assert_eq!(caught.count() as u64, HISTORIES);
}
