//! `stockhold verify`: recounts everything and says whether it adds up.

use crate::config::DataDir;
use crate::exit;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::process::ExitCode;
use stockhold_embedded::{OpenError, Verdict};

/// What is recounted, and how it is told.
#[derive(Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    place: DataDir,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// How often the bar moves, in batches.
const BAR_STEP: u64 = 256;

impl Verify {
    pub(crate) fn run(&self) -> ExitCode {
        let dir = match self.place.find() {
            Ok(dir) => dir,
            Err(error) => return exit::because(exit::USAGE, error),
        };
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("recounting {wide_bar} {pos}/{len} batches") {
            bar.set_style(style);
        }
        let verdict = stockhold_embedded::verify(&dir, |done, all| {
            if done.is_multiple_of(BAR_STEP) {
                bar.set_length(all);
                bar.set_position(done);
            }
        });
        bar.finish_and_clear();
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(error @ OpenError::Io { .. }) => return exit::because(exit::FAILED, error),
            Err(error) => return exit::because(exit::DATA, error),
        };
        if self.json {
            println!("{:#}", json(&verdict));
        } else {
            tell(&verdict);
        }
        ExitCode::from(if verdict.drift == 0 { exit::DONE } else { exit::FAILED })
    }
}

fn json(verdict: &Verdict) -> serde_json::Value {
    let [active, confirmed, cancelled, expired] = verdict.reservations;
    serde_json::json!({
        "adds_up": verdict.drift == 0,
        "drift": verdict.drift,
        "findings": verdict.findings,
        "batches": verdict.batches,
        "events": verdict.events,
        "items": verdict.items,
        "idempotency_keys": verdict.keys,
        "reservations": { "active": active, "confirmed": confirmed, "cancelled": cancelled, "expired": expired },
    })
}

fn tell(verdict: &Verdict) {
    let [active, confirmed, cancelled, expired] = verdict.reservations;
    println!(
        "{} events in {} batches, {} items, {} keys",
        verdict.events, verdict.batches, verdict.items, verdict.keys
    );
    println!(
        "reservations: {active} active, {confirmed} confirmed, {cancelled} cancelled, {expired} expired"
    );
    for finding in &verdict.findings {
        println!("drift: {finding}");
    }
    let unlisted = verdict.drift.saturating_sub(verdict.findings.len() as u64);
    if unlisted > 0 {
        println!("drift: and {unlisted} more");
    }
    println!("{}", if verdict.drift == 0 { "it adds up" } else { "it does not add up" });
}
