use stockhold_conformance::bench::Bench;
use stockhold_conformance::{
    archive_cases, case_groups, random_history, run_cases, stepping_history, units_history,
};
use stockhold_embedded::verify;

fn passes(bench: fn() -> Bench) {
    let mut events = 0;
    for group in case_groups() {
        let mut bench = bench();
        let failed = run_cases(&mut bench, &group);
        assert!(failed.is_empty(), "{failed:#?}");
        bench.stop();
        let verdict = verify(&bench.dir(), |_, _| ()).unwrap();
        assert_eq!(verdict.findings, Vec::<String>::new());
        events += verdict.events;
    }
    assert!(events > 1_000);
}

#[test]
fn passes_every_case() {
    passes(Bench::new);
}

#[test]
fn passes_every_case_when_restarts_are_in_order() {
    passes(Bench::in_order);
}

#[test]
fn passes_every_case_of_archives() {
    let failed = archive_cases().into_iter().filter_map(|case| {
        let failed = (case.run)(&mut Bench::new()).err()?;
        Some((case.name, failed))
    });
    let failed: Vec<_> = failed.collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn random_histories_go_as_the_model_says() {
    for seed in 0..12 {
        let mut bench = Bench::new();
        random_history(&mut bench, seed, 250).unwrap();
        bench.crash();
        let verdict = verify(&bench.dir(), |_, _| ()).unwrap();
        assert_eq!(verdict.findings, Vec::<String>::new(), "seed {seed}");
    }
}

#[test]
fn random_histories_keep_the_invariants_while_the_clock_steps() {
    for seed in 0..12 {
        stepping_history(&mut Bench::new(), seed, 250).unwrap();
    }
}

#[test]
fn random_histories_of_units_go_as_the_model_says() {
    for seed in 0..12 {
        let mut bench = Bench::new();
        units_history(&mut bench, seed, 250).unwrap();
        // What the index has of units is as right as what the log has: after a crash, and after a stop.
        if seed % 2 == 0 {
            bench.crash();
        } else {
            bench.stop();
        }
        let verdict = verify(&bench.dir(), |_, _| ()).unwrap();
        assert_eq!(verdict.findings, Vec::<String>::new(), "seed {seed}");
    }
}
