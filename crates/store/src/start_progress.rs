//! The progress of a start. A store writes it while it opens; health checks and the log of a server read it.
//!
//! What must never happen: a start waits for a reader of its progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// What a store does while it opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StartStep {
    /// It makes the data directory if there is none, and takes its lock.
    Prepare,
    /// It opens its files, and SQLite recovers their write-ahead logs.
    OpenFiles,
    /// It loads active reservations from the index.
    LoadReservations,
    /// It loads items from the index.
    LoadItems,
    /// It loads units with ids from the index.
    LoadUnits,
    /// It applies the batches of the log that the index does not have.
    ApplyLog,
    /// It copies the write-ahead log of the log into its file.
    CheckpointLog,
    /// It connects to the database, and brings the schema up to date.
    ConnectToDatabase,
    /// It connects to the read replica.
    ConnectToReplica,
}

impl StartStep {
    /// Every step, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::Prepare,
        Self::OpenFiles,
        Self::LoadReservations,
        Self::LoadItems,
        Self::LoadUnits,
        Self::ApplyLog,
        Self::CheckpointLog,
        Self::ConnectToDatabase,
        Self::ConnectToReplica,
    ];

    /// Its name in answers and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::OpenFiles => "open_files",
            Self::LoadReservations => "load_reservations",
            Self::LoadItems => "load_items",
            Self::LoadUnits => "load_units",
            Self::ApplyLog => "apply_log",
            Self::CheckpointLog => "checkpoint_log",
            Self::ConnectToDatabase => "connect_to_database",
            Self::ConnectToReplica => "connect_to_replica",
        }
    }
}

/// The step of a start and how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartStatus {
    /// The step.
    pub step: StartStep,
    /// How many records of the step are done.
    pub done: u64,
    /// How many records the step has, if that is known.
    pub total: Option<u64>,
}

/// The progress of a start. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct StartProgress(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    step: AtomicU8,
    done: AtomicU64,
    total: AtomicU64,
}

/// A total that is not known.
const UNKNOWN: u64 = u64::MAX;

impl Default for Counts {
    fn default() -> Self {
        Self { step: AtomicU8::new(0), done: AtomicU64::new(0), total: AtomicU64::new(UNKNOWN) }
    }
}

impl StartProgress {
    /// Begins a step.
    pub fn begin(&self, step: StartStep, total: Option<u64>) {
        self.0.done.store(0, Ordering::Relaxed);
        self.0.total.store(total.unwrap_or(UNKNOWN), Ordering::Relaxed);
        self.0.step.store(step as u8, Ordering::Relaxed);
    }

    /// Counts more records of the step as done.
    pub fn add(&self, records: u64) {
        self.0.done.fetch_add(records, Ordering::Relaxed);
    }

    /// Where the start is now. The three values may be of two steps if a step begins at this moment.
    pub fn status(&self) -> StartStatus {
        let step = usize::from(self.0.step.load(Ordering::Relaxed));
        let total = self.0.total.load(Ordering::Relaxed);
        StartStatus {
            step: StartStep::ALL.get(step).copied().unwrap_or(StartStep::Prepare),
            done: self.0.done.load(Ordering::Relaxed),
            total: (total != UNKNOWN).then_some(total),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_steps_are_places() {
        for (place, step) in StartStep::ALL.iter().enumerate() {
            assert_eq!(*step as usize, place);
        }
    }

    #[test]
    fn a_step_begins_at_nothing() {
        let progress = StartProgress::default();
        let status = |step, done, total| StartStatus { step, done, total };
        assert_eq!(progress.status(), status(StartStep::Prepare, 0, None));
        progress.begin(StartStep::LoadItems, Some(3));
        progress.add(1);
        assert_eq!(progress.clone().status(), status(StartStep::LoadItems, 1, Some(3)));
        progress.begin(StartStep::ConnectToDatabase, None);
        assert_eq!(progress.status(), status(StartStep::ConnectToDatabase, 0, None));
    }
}
