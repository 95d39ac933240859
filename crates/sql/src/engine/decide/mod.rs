//! Decides the commands of a locked batch and commits what they changed ([`attempt`]), and runs a batch again after a
//! retryable error ([`retry`]). No rule is here: the rules are [`stockhold_domain::decide`].

mod attempt;
mod retry;

pub(crate) use attempt::commit;
pub(crate) use retry::{AttemptCounts, BatchResult, jitter, run_batch};
