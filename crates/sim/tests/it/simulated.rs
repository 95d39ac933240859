//! The deterministic simulator.

use stockhold_sim::{Count, Flaw, STEPS, broken_history, fresh_seeds, history};

/// Histories of a short run.
const HISTORIES: u64 = 180;
/// Seeds within which each flaw has to be noticed.
const CAUGHT_WITHIN: u64 = 20;
/// The same for a flaw that shows only where a commit fails and its command is asked about before the restart.
const RARE_CAUGHT_WITHIN: u64 = 40;
/// Histories that found an error. In the first, a partial amend names a line that gets nothing and changes nothing, and
/// it was an event all the same. In the second, a merge cut a deadline after a closed payment window to an instant in the
/// past. In the third, a key that could have been forgotten answers that its item was deleted since, and the checker
/// thought that the command was executed again. In the fourth, a report about a payment came with a key, and was remembered for it.
const FOUND: [u64; 4] = [132, 245, 1_007_299, 116];

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

/// The model notices wrong events too. The checks of events have to notice them by themselves, and first.
#[test]
fn wrong_events_are_noticed_by_the_checks_of_events() {
    for (flaw, what) in [
        (Flaw::SplitKeepsUnit, "S8: units were lost or made"),
        (Flaw::MergeLosesUnit, "S8: units were lost or made"),
        (Flaw::ClosedWindowKeepsDeadline, "S2: its deadline moved"),
        (Flaw::ConfirmsReplaced, "S3: its status"),
        (Flaw::FulfilsUncounted, "S8: from Share"),
        (Flaw::WritesNothingOff, "S1: stock moved"),
        (Flaw::ExpiryKeepsLimitCounters, "a limit: counters moved by {}"),
    ] {
        let found: Vec<String> = (0..CAUGHT_WITHIN)
            .filter_map(|seed| broken_history(flaw, seed, STEPS).err())
            .map(|failure| failure.what)
            .collect();
        assert!(found.iter().any(|found| found.starts_with(what)), "{flaw:?}: {found:#?}");
        assert!(found.iter().all(|found| !found.starts_with("the model")), "{flaw:?}: {found:#?}");
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
