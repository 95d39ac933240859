//! The metrics of a SQL store. The program installs the recorder; without one these functions do nothing.

use core::time::Duration;

/// Registers the metrics with their help texts.
pub(crate) fn describe() {
    metrics::describe_counter!(
        "stockhold_invariant_alarms_total",
        "Broken invariants: each is a bug or damage"
    );
    metrics::describe_histogram!(
        "stockhold_commit_seconds",
        "Time from a batch's writes to the end of its commit"
    );
    metrics::describe_histogram!("stockhold_batch_answers", "Answers that one commit made durable");
    metrics::describe_counter!(
        "stockhold_database_retries_total",
        "Batches that were rolled back and run again"
    );
    metrics::describe_counter!(
        "stockhold_database_deadlocks_total",
        "Deadlocks and serialization errors of which a batch was the victim"
    );
    metrics::describe_counter!("stockhold_database_lock_timeouts_total", "Locks that were not given in time");
    metrics::describe_histogram!(
        "stockhold_database_lock_wait_seconds",
        "Time in which a batch got its locks and read its state"
    );
    metrics::describe_counter!(
        "stockhold_database_pool_waits_total",
        "Times that work was ready and no connection was free"
    );
    metrics::describe_gauge!("stockhold_database_connections", "Open connections to the database");
    metrics::describe_counter!("stockhold_database_outcomes_unknown_total", "Commits of which nobody knows");
    metrics::describe_gauge!(
        "stockhold_sweeper_lag_seconds",
        "How long the oldest overdue hold is overdue, as the sweeper last saw it"
    );
    metrics::describe_counter!("stockhold_sweeper_expired_total", "Holds that the sweeper expired");
    metrics::describe_counter!("stockhold_sweeper_failures_total", "Holds that the sweeper could not expire");
    metrics::describe_gauge!(
        "stockhold_active_holds",
        "Active reservations, those of all instances, as counted once a minute"
    );
    // There from the start, so that a rise from nothing is a rise.
    for counter in [
        "stockhold_invariant_alarms_total",
        "stockhold_database_retries_total",
        "stockhold_database_deadlocks_total",
        "stockhold_database_lock_timeouts_total",
        "stockhold_database_pool_waits_total",
        "stockhold_database_outcomes_unknown_total",
        "stockhold_sweeper_failures_total",
    ] {
        metrics::counter!(counter).increment(0);
    }
}

pub(crate) fn alarm() {
    metrics::counter!("stockhold_invariant_alarms_total").increment(1);
}

pub(crate) fn locked(took: Duration) {
    metrics::histogram!("stockhold_database_lock_wait_seconds").record(took);
}

pub(crate) fn committed(took: Duration) {
    metrics::histogram!("stockhold_commit_seconds").record(took);
}

#[expect(clippy::cast_precision_loss, reason = "a batch has few hundred answers")]
pub(crate) fn answered(answers: usize) {
    metrics::histogram!("stockhold_batch_answers").record(answers as f64);
}

pub(crate) fn unknown() {
    metrics::counter!("stockhold_database_outcomes_unknown_total").increment(1);
}

pub(crate) fn deadlock() {
    metrics::counter!("stockhold_database_deadlocks_total").increment(1);
}

pub(crate) fn lock_timeout() {
    metrics::counter!("stockhold_database_lock_timeouts_total").increment(1);
}

pub(crate) fn retry() {
    metrics::counter!("stockhold_database_retries_total").increment(1);
}

pub(crate) fn pool_wait() {
    metrics::counter!("stockhold_database_pool_waits_total").increment(1);
}

#[expect(clippy::cast_precision_loss, reason = "few connections")]
pub(crate) fn connections(open: usize) {
    metrics::gauge!("stockhold_database_connections").set(open as f64);
}

#[expect(clippy::cast_precision_loss, reason = "the queue is bounded")]
pub(crate) fn waiting(depth: usize) {
    metrics::gauge!("stockhold_queue_depth").set(depth as f64);
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of a lag")]
pub(crate) fn lag(micros: i64) {
    metrics::gauge!("stockhold_sweeper_lag_seconds").set(micros.max(0) as f64 / 1e6);
}

#[expect(clippy::cast_precision_loss, reason = "a gauge")]
pub(crate) fn active_holds(holds: u64) {
    metrics::gauge!("stockhold_active_holds").set(holds as f64);
}

pub(crate) fn swept(holds: usize) {
    metrics::counter!("stockhold_sweeper_expired_total").increment(holds as u64);
}

pub(crate) fn sweep_failed() {
    metrics::counter!("stockhold_sweeper_failures_total").increment(1);
}
