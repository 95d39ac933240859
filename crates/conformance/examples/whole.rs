//! Many histories of whole embedded stores, with their threads and files (`stockhold_conformance::whole`): the long form of what the
//! tests do a few times. `cargo xtask sim --whole -- [--seed N] [--histories N] [--steps N]`.

use std::process::ExitCode;
use stockhold_conformance::bench::Bench;
use stockhold_conformance::whole::{HistoryCounts, run};

fn main() -> ExitCode {
    let (mut first, mut histories, mut steps) = (1_u64, 200_u64, 80_u32);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        let understood = match name.as_str() {
            "--seed" => value.parse().map(|value| first = value).is_ok(),
            "--histories" => value.parse().map(|value| histories = value).is_ok(),
            "--steps" => value.parse().map(|value| steps = value).is_ok(),
            _ => false,
        };
        if !understood {
            eprintln!("not understood: {name} {value}; usage: whole [--seed N] [--histories N] [--steps N]");
            return ExitCode::from(2);
        }
    }
    let mut all = HistoryCounts::default();
    for done in 0..histories {
        let seed = first.wrapping_add(done);
        match run(&mut Bench::new(), seed, steps) {
            Ok(counters) => all.add(counters),
            Err(violation) => {
                eprintln!("{violation}\nagain: --seed {seed} --histories 1 --steps {steps}");
                return ExitCode::FAILURE;
            }
        }
    }
    let HistoryCounts { commands, crashes, unanswered, kept, replays, expired } = all;
    println!("{histories} histories from seed {first}, {commands} commands, {crashes} crashes, 0 violations");
    println!(
        "{unanswered} commands unanswered by a crash, {kept} of them kept; {replays} replays, {expired} expired"
    );
    ExitCode::SUCCESS
}
