//! The simulator that the binary carries.

use crate::support::{said, stockhold, text};
use serde_json::Value;

fn json(arguments: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let output = stockhold(dir.path()).arg("sim").args(arguments).arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_seed_has_one_history() {
    let runs = [json(&["--seed", "7"]), json(&["--seed", "7"]), json(&["--seed", "8"])];
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0]["trace"], runs[2]["trace"]);
    let longer = json(&["--seed", "7", "--steps", "900"]);
    assert!(longer["counters"]["commands"].as_u64() > runs[0]["counters"]["commands"].as_u64(), "{longer}");
}

#[test]
fn a_history_ends_with_counters_and_its_trace() {
    let dir = tempfile::tempdir().unwrap();
    let output = stockhold(dir.path()).args(["sim", "--seed", "7"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let lines = text(&output.stdout);
    let trace = json(&["--seed", "7"])["trace"].as_str().unwrap().to_owned();
    assert_eq!(lines.lines().last(), Some(&*format!("trace {trace}")));
    assert!(lines.contains("  recoveries\n"), "{lines}");
}

#[test]
fn fresh_seeds_are_counted_together() {
    let runs = json(&["--seed", "40", "--histories", "3", "--threads", "2"]);
    assert_eq!((&runs["histories"], &runs["first_seed"]), (&3.into(), &40.into()));
    let alone: u64 = ["40", "41", "42"]
        .map(|seed| json(&["--seed", seed])["counters"]["commits"].as_u64().unwrap())
        .iter()
        .sum();
    assert_eq!(runs["counters"]["commits"], alone);
}

#[test]
fn what_can_not_be_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for wrong in [["--steps", "0"], ["--seed", "x"], ["--minutes", "0"], ["--threads", "0"]] {
        let output = stockhold(dir.path()).arg("sim").args(wrong).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(wrong[0]), "{}", said(&output));
    }
}
