//! Steps in the wrong order and wrong events, for stores that the simulator breaks on purpose. No other code may call them.

use super::{InFlightCommit, Machine};
use crate::log::batch;
use crate::threads::committer::deliver_answers;
use stockhold_domain::{Event, Outcome, State};
use stockhold_store::Answer;

impl Machine {
    /// Puts the refusals of the commit in flight before the state that they depend on is durable.
    pub fn deliver_refusals(&mut self) {
        let Some(in_flight) = &mut self.in_flight else { return };
        let (refusals, others): (Vec<_>, Vec<_>) = in_flight
            .waiting
            .by_ref()
            .partition(|(_, answer)| matches!(answer, Ok(Answer::Outcome(Outcome::Refused(_)))));
        in_flight.waiting = others.into_iter();
        deliver_answers(refusals);
    }

    /// The events of the commit in flight, for deliberate errors. A change of them reaches the log and the published items, and
    /// neither memory nor the answers.
    pub fn events_in_flight(&mut self) -> &mut [Event] {
        match &mut self.in_flight {
            Some(InFlightCommit { batch: Some(batch), .. }) => &mut batch.events,
            _ => &mut [],
        }
    }

    /// Publishes the items of the commit in flight before it is synced.
    pub fn publish_unsynced(&mut self) {
        if let Some(InFlightCommit { batch: Some(batch), .. }) = &self.in_flight {
            self.published.publish(&batch.events);
        }
    }

    /// Writes the commit in flight into the index before it is synced.
    pub fn index_unsynced(&mut self) -> Result<(), String> {
        let Some(row) = &self.disk.unsynced else { return Ok(()) };
        let (batch, sum) = (batch::decode(row, self.disk.rows.last().map_or(0, |row| row.sum))?, row.sum);
        for (batch, sum) in self.committed.drain(..) {
            self.backlog.add_batch(&self.disk.index, batch, sum);
        }
        self.backlog.add_batch(&self.disk.index, batch, sum);
        let memory = &self.core.memory;
        self.backlog.write_chunk(&mut self.disk, |key| memory.item(key).ok().flatten().cloned())?;
        Ok(())
    }

    /// Drops all keys from memory, also those that no run of the index has.
    pub fn forget_unindexed_keys(&mut self) {
        drop(self.core.on_keys_indexed(self.disk.len(), self.disk.index.filters()));
    }
}
