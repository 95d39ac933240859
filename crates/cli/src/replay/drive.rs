//! In which order and how many at once.
//!
//! Steps begin in the order of time. A step waits for the one before it of the same customer, and with a pace for its
//! time; nothing else holds it up but the number of connections.

use super::steps::{Purchases, ReplayRun};
use crate::client::CallError;
use indicatif::ProgressBar;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::{JoinError, JoinSet};

/// How fast.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReplaySpeed {
    /// As fast as the server answers.
    FlatOut,
    /// So many times faster than it happened.
    Times(f64),
}

impl std::str::FromStr for ReplaySpeed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "flat-out" {
            return Ok(Self::FlatOut);
        }
        match text.parse::<f64>() {
            Ok(times) if times.is_finite() && times > 0.0 => Ok(Self::Times(times)),
            _ => Err("must be flat-out, or a number greater than 0".to_owned()),
        }
    }
}

/// One customer's steps as far as they are done.
struct CustomerChain {
    number: usize,
    next: usize,
    bought: Purchases,
}

/// Executes all steps of the plan, this many at once.
pub(super) async fn drive(
    run: &Rc<ReplayRun>,
    pace: ReplaySpeed,
    connections: usize,
    bar: &ProgressBar,
) -> Result<(), CallError> {
    let begun = Instant::now();
    let origin = run.plan.steps.first().map_or(0, |step| step.at);
    // When a step is due; flat out it is at once.
    let due = |step: usize| match (pace, run.plan.steps.get(step)) {
        (ReplaySpeed::Times(times), Some(step)) => {
            let seconds =
                Duration::from_secs(step.at.saturating_sub(origin).unsigned_abs()).as_secs_f64() / times;
            Duration::try_from_secs_f64(seconds)
                .ok()
                .and_then(|after| begun.checked_add(after))
                .unwrap_or(begun)
        }
        _ => begun,
    };
    let first = |number| CustomerChain { number, next: 0, bought: Purchases::default() };
    let mut resting: Vec<Option<CustomerChain>> =
        (0..run.plan.chains.len()).map(|number| Some(first(number))).collect();
    let mut ready = BinaryHeap::new();
    for (number, chain) in run.plan.chains.iter().enumerate() {
        ready.extend(chain.first().map(|step| Reverse((*step, number))));
    }
    let mut running: JoinSet<Result<CustomerChain, CallError>> = JoinSet::new();
    loop {
        let mut wait_until = None;
        while running.len() < connections
            && let Some(Reverse((step, number))) = ready.peek().copied()
        {
            let due = due(step);
            if due > Instant::now() {
                wait_until = Some(due);
                break;
            }
            ready.pop();
            let Some(mut chain) = resting.get_mut(number).and_then(Option::take) else { continue };
            let run = Rc::clone(run);
            running.spawn_local(async move {
                let due = if matches!(pace, ReplaySpeed::FlatOut) { Instant::now() } else { due };
                run.step(step, &mut chain.bought, due).await?;
                chain.next += 1;
                Ok(chain)
            });
        }
        let done = match wait_until {
            None if running.is_empty() => return Ok(()),
            None => running.join_next().await,
            Some(due) => tokio::select! {
                done = running.join_next(), if !running.is_empty() => done,
                () = tokio::time::sleep_until(due.into()) => None,
            },
        };
        let Some(chain) = done.transpose().map_err(|error| broken(&error))?.transpose()? else { continue };
        bar.inc(1);
        if let Some(next) = run.plan.chains.get(chain.number).and_then(|steps| steps.get(chain.next)) {
            ready.push(Reverse((*next, chain.number)));
        }
        let number = chain.number;
        if let Some(place) = resting.get_mut(number) {
            *place = Some(chain);
        }
    }
}

/// Runs a function for each element, this many at once.
pub(super) async fn for_each<T, W, F>(
    all: impl Iterator<Item = W>,
    at_once: usize,
    mut work: impl FnMut(W) -> F,
    mut done: impl FnMut(T),
) -> Result<(), CallError>
where
    T: 'static,
    F: Future<Output = Result<T, CallError>> + 'static,
{
    let mut running = JoinSet::new();
    let mut all = all.fuse();
    loop {
        while running.len() < at_once
            && let Some(one) = all.next()
        {
            running.spawn_local(work(one));
        }
        match running.join_next().await {
            None => return Ok(()),
            Some(result) => done(result.map_err(|error| broken(&error))??),
        }
    }
}

fn broken(error: &JoinError) -> CallError {
    CallError::Unexpected(format!("a task of the replay ended early, which is a bug: {error}"))
}
