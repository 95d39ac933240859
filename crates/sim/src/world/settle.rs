//! The end of a history: there are no more faults, every request must be answered, and the store must serve normally.

use super::{HOUR, World};
use crate::checker::{Broken, Checked, broken};
use crate::counters::Count;
use stockhold_domain::{Command, Instant, Label, ReservationId, Scope, Status};
use stockhold_store::conformance::maker::{
    confirm, extend, release, reserve_for, resume, return_all, set_stock,
};

/// Rounds of reads and commits after which everything must be answered. A request waits for at most one key and its
/// reservation, and a crowd waits for a few batches.
const ROUNDS: usize = 24;

impl World {
    pub(super) fn settle(&mut self) -> Checked {
        if self.machine.poisoned().is_some() {
            self.restart()?;
        }
        self.disk_full(false);
        for sent in self.requests.drain() {
            self.hand_in(sent)?;
        }
        self.come_to_rest()?;
        self.everything_falls_due()?;
        self.full_service()?;
        let stats = std::mem::take(&mut self.machine.stats);
        self.look(stats);
        self.checker.stands(&self.machine)?;
        while self.machine.write_chunk(usize::MAX).or_else(|what| broken("S12", what))? {
            self.machine.forget();
        }
        self.machine.write_runs();
        self.checker.stands(&self.machine)?;
        self.restart()?;
        self.counters.one(Count::Histories);
        Ok(())
    }

    /// Every request is answered.
    fn come_to_rest(&mut self) -> Checked {
        for _ in 0..ROUNDS {
            self.read()?;
            self.let_go_on()?;
            self.commit()?;
            if self.machine.is_idle() {
                break;
            }
        }
        match &*self.checker.unanswered() {
            [] if self.machine.is_idle() => Ok(()),
            left => broken("L3", format!("never answered: {left:?}")),
        }
    }

    fn everything_falls_due(&mut self) -> Checked {
        let floor = self.machine.clamp_to_committed(Instant::from_micros(i64::MIN));
        let behind = floor.micros().saturating_sub(self.now().micros()).clamp(0, 100 * 24 * HOUR);
        self.advance(behind + 2 * HOUR);
        self.sweep_all()?;
        self.come_to_rest()?;
        let active = self.checker.durable().holds.values().filter(|hold| hold.status == Status::Active);
        match active.count() {
            0 => Ok(()),
            left => broken("L1", format!("{left} holds are never reclaimed")),
        }
    }

    /// Runs a sale from reserve to return. Every step must succeed.
    fn full_service(&mut self) -> Checked {
        let item = self.maker.item("full service");
        let lines = [(&item, 2)];
        let place = Label::new(item.location()).or_else(|error| broken("L2", error.to_string()))?;
        self.succeeds(resume(&Scope::Everything), 1)?;
        self.succeeds(resume(&Scope::Location(place)), 2)?;
        self.succeeds(set_stock(&item, 5), 3)?;
        let sold = self.succeeds(reserve_for(60, &lines), 4)?;
        self.succeeds(extend(sold, 600), 5)?;
        self.succeeds(confirm(sold), 6)?;
        let released = self.succeeds(reserve_for(60, &lines), 7)?;
        self.succeeds(release(released), 8)?;
        self.succeeds(return_all(sold), 9).map(drop)
    }

    /// Runs a command twice with a key of its own. The first must be done, and the second must be a replay. Returns
    /// the id of its reservation.
    fn succeeds(&mut self, command: Command, n: u8) -> Result<ReservationId, Broken> {
        let envelope = self.maker.keyed(&format!("full service {n}"), command);
        let id = envelope.fresh.reservation;
        let done = self.counters.get(Count::Done) + self.counters.get(Count::Replay);
        let again = self.maker.again(&envelope);
        for envelope in [envelope, again] {
            let ticket = self.ticket();
            self.command(ticket, envelope.clone(), envelope, self.now())?;
            self.come_to_rest()?;
        }
        if self.counters.get(Count::Done) + self.counters.get(Count::Replay) != done + 2 {
            return broken("L2", format!("step {n} of a plain sale did not succeed"));
        }
        Ok(id)
    }
}
