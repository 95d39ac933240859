//! The deterministic simulator.

use stockhold_sim::{Count, Flaw, STEPS, broken_history, fresh_seeds, history};

/// Histories of a short run.
const HISTORIES: u64 = 120;
/// Seeds within which each flaw has to be noticed.
const CAUGHT_WITHIN: u64 = 20;
/// The same for a flaw that shows only where a commit fails and its command is asked about before the restart.
const RARE_CAUGHT_WITHIN: u64 = 40;
/// Histories that once found an error. In the first, one batch retires a seat whose hold is due and sweeps a crowd,
/// and the checker thought that the sweep ended too early. In the second, a forgotten key is used again, and a rebuilt
/// index brought its first use back. In the third, a power cut reset the index to a state before it had forgotten the
/// key.
const FOUND: [u64; 3] = [1_723_099_890, 1_300_227_501, 2_069_975_524];

#[test]
fn histories_keep_every_invariant() {
    let runs =
        fresh_seeds(1, STEPS, 1, &|begun| begun < HISTORIES).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!((runs.histories, runs.counters.get(Count::Histories)), (HISTORIES, HISTORIES));
    let never = runs.counters.missing();
    assert!(never.is_empty(), "never happened: {never:?}");
    assert!(runs.counters.get(Count::Recoveries) > 10 * HISTORIES, "{runs}");
}

#[test]
fn histories_that_something_was_found_in_keep_every_invariant() {
    for seed in FOUND {
        history(seed, STEPS).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn a_history_done_twice_is_the_same() {
    for seed in 100..104 {
        let runs = [history(seed, STEPS).unwrap(), history(seed, STEPS).unwrap()];
        assert_eq!(runs[0], runs[1]);
    }
    assert_ne!(history(100, STEPS).unwrap().trace, history(101, STEPS).unwrap().trace);
}

#[test]
fn broken_stores_are_caught() {
    for flaw in Flaw::ALL {
        let within =
            if flaw == Flaw::ReportsFailedCommitAsUndone { RARE_CAUGHT_WITHIN } else { CAUGHT_WITHIN };
        let caught = (0..within).find_map(|seed| broken_history(flaw, seed, STEPS).err());
        let failure = caught.unwrap_or_else(|| panic!("{flaw:?} was not noticed in {within} histories"));
        println!("{flaw:?}: {failure}\n");
        assert!(failure.history.len() > 1, "{flaw:?}: the failure has its history");
    }
}

#[test]
fn a_failure_is_shrunk_and_says_how_to_see_it_again() {
    let failure = broken_history(Flaw::AnswersBeforeSync, 0, STEPS).unwrap_err();
    let steps = failure.history.iter().filter(|line| !line.starts_with("      ")).count();
    assert!(steps <= 8, "{failure}");
    let text = failure.to_string();
    assert!(text.contains("sim --seed 0 --steps") && text.contains("durable"), "{text}");
}
