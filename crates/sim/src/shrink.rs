//! Shortens a failing history: leaves out steps as long as the rest breaks the same invariant. It is delta debugging
//! (A. Zeller, R. Hildebrandt: "Simplifying and Isolating Failure-Inducing Input", 2002). Every step is valid by
//! itself, so any selection of steps is a history.

use crate::flaw::Flaw;
use crate::step::Step;
use crate::world;

/// Most histories that are tried.
const TRIES: u32 = 2_000;

/// A part of the steps that breaks the same invariant, in order.
pub(crate) fn shrink(seed: u64, steps: &[Step], flaw: Option<Flaw>, rule: &str) -> Vec<Step> {
    let mut tries = 0;
    let mut breaks = |steps: &[Step]| {
        tries += 1;
        let stop = world::run(seed, steps, flaw, false).err()?;
        (stop.broken.rule == rule).then_some(stop.step)
    };
    let mut left = steps.to_vec();
    if let Some(last) = breaks(&left) {
        left.truncate(last + 1);
    }
    let mut piece = left.len().div_ceil(2);
    let mut budget = TRIES;
    while piece > 0 && budget > 0 {
        let mut shorter = false;
        let mut from = 0;
        while from < left.len() && budget > 0 {
            let to = (from + piece).min(left.len());
            let without = [&left[..from], &left[to..]].concat();
            budget -= 1;
            match breaks(&without) {
                Some(last) => {
                    left = without;
                    left.truncate(last + 1);
                    shorter = true;
                }
                None => from = to,
            }
        }
        if piece == 1 && !shorter {
            break;
        }
        piece = if piece == 1 { 1 } else { piece / 2 };
    }
    left
}
