//! The suite against a world that does everything right, and against worlds that do one thing wrong each.

use crate::flaw::Flaw;
use crate::memory_world::MemoryWorld;
use stockhold_conformance::{case_groups, cases, random_history, run_cases, stepping_history, units_history};

/// Seeds of random histories that every run tries.
const SEEDS: u64 = 40;
const STEPS: u32 = 120;

#[test]
fn a_right_world_passes_every_case_alone_and_together() {
    for case in cases() {
        if let Err(what) = (case.run)(&mut MemoryWorld::new(None)) {
            panic!("{}: {what}", case.name);
        }
    }
    for group in case_groups() {
        let failed = run_cases(&mut MemoryWorld::new(None), &group);
        assert!(failed.is_empty(), "on a shared world: {failed:#?}");
    }
}

#[test]
fn every_case_has_a_name_of_its_own() {
    let mut names: Vec<_> = cases().iter().map(|case| case.name).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn every_flaw_is_caught_by_its_case() {
    let mut passed = Vec::new();
    for (flaw, name) in Flaw::CAUGHT_BY {
        let case = cases().into_iter().find(|case| case.name == name);
        let case = case.unwrap_or_else(|| panic!("no case is called {name:?}"));
        if (case.run)(&mut MemoryWorld::new(Some(flaw))).is_ok() {
            passed.push((flaw, name));
        }
    }
    assert!(passed.is_empty(), "not caught: {passed:?}");
}

#[test]
fn a_right_world_passes_random_histories() {
    for seed in 0..SEEDS {
        random_history(&mut MemoryWorld::new(None), seed, STEPS).unwrap();
        stepping_history(&mut MemoryWorld::new(None), seed, STEPS).unwrap();
        units_history(&mut MemoryWorld::new(None), seed, STEPS).unwrap();
    }
}

#[test]
fn a_history_ends_the_same_way_twice() {
    let flawed = || random_history(&mut MemoryWorld::new(Some(Flaw::DueAMicrosecondLate)), 7, STEPS);
    let first = flawed().unwrap_err();
    assert!(first.starts_with("seed 7, "), "{first}");
    assert_eq!(flawed().unwrap_err(), first);
}

/// Flaws that a random history finds without knowing what to look for.
#[test]
fn random_histories_catch_flaws_too() {
    for flaw in [
        Flaw::ForgetsKeysOnRestart,
        Flaw::ForgetsPausesOnRestart,
        Flaw::LosesTheLastBatchOnRestart,
        Flaw::ForgetsDeadlinesOnRestart,
        Flaw::DueAMillisecondEarly,
        Flaw::DueAMicrosecondLate,
        Flaw::IgnoresFingerprints,
        Flaw::DecidesOnAStaleState,
        Flaw::DecidesBackwards,
        Flaw::RemembersRefusals,
        Flaw::ReplaysTheFirstAnswer,
        Flaw::DropsExpiriesOfRefusals,
        Flaw::SkipsPositions,
        Flaw::WritesReplays,
    ] {
        let caught =
            (0..SEEDS).any(|seed| random_history(&mut MemoryWorld::new(Some(flaw)), seed, STEPS).is_err());
        assert!(caught, "{flaw:?} passed {SEEDS} random histories");
    }
    for flaw in [Flaw::ExpiryIsAPredicate, Flaw::DoesNotFloorTheClock, Flaw::ForgetsInstantsOnRestart] {
        let caught =
            (0..SEEDS).any(|seed| stepping_history(&mut MemoryWorld::new(Some(flaw)), seed, STEPS).is_err());
        assert!(caught, "{flaw:?} passed {SEEDS} histories with a stepping clock");
    }
}
