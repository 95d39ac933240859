//! The end of a history: there are no more faults, every request must be answered, and the store must serve normally.

use super::{HOUR, SECOND, World};
use crate::checker::{Broken, Checked, broken};
use crate::counters::Count;
use stockhold_domain::{
    Command, Disposition, Instant, ItemKey, Label, Patch, ReservationId, Return, ReturnFrom, SaleSelection,
    Scope, Status, Transfer,
};
use stockhold_model::maker::{
    amend, close_payment, confirm, confirm_late, extend, fulfil, label, merge, open_payment, release,
    reserve_for, resume, return_all, return_selected, set_stock, split,
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
        // These commands are the same in every history, so they do not count as seen.
        let seen = self.counters.clone();
        self.full_service()?;
        self.counters = seen;
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

    /// Runs sales from reserve to return. Every step must succeed.
    fn full_service(&mut self) -> Checked {
        let item = self.maker.item("full service");
        let lines = [(&item, 2)];
        let place = Label::new(item.location()).or_else(|error| broken("L2", error.to_string()))?;
        self.succeeds(resume(&Scope::Everything), "resume everything")?;
        self.succeeds(resume(&Scope::Location(place)), "resume a location")?;
        self.succeeds(set_stock(&item, 5), "stock")?;
        let sold = self.succeeds(reserve_for(60, &lines), "reserve")?;
        self.succeeds(extend(sold, 600), "extend")?;
        self.succeeds(confirm(sold), "confirm")?;
        let released = self.succeeds(reserve_for(60, &lines), "reserve again")?;
        self.succeeds(release(released), "release")?;
        self.succeeds(return_all(sold), "return")?;
        self.changed_and_paid(&item)?;
        self.paid_late(&item)
    }

    /// Changes a reservation in every way, sells it after a second payment, ships it, and writes off what came back.
    fn changed_and_paid(&mut self, item: &ItemKey) -> Checked {
        let hold = self.succeeds(reserve_for(60, &[(item, 1)]), "reserve to amend")?;
        self.succeeds(amend(hold, &[(item, 3)]), "amend")?;
        let transfer = Transfer {
            override_limits: false,
            id: hold,
            owner_id: Some(label("another")),
            customer_id: Patch::Keep,
            session_id: Patch::Clear,
            expected: None,
        };
        self.succeeds(Command::Transfer(transfer), "transfer")?;
        let part = self.succeeds(split(hold, &[(item, 1)]), "split")?;
        self.succeeds(merge(hold, &[part]), "merge")?;
        self.succeeds(open_payment(hold, "declined", 60), "first payment")?;
        self.succeeds(close_payment(hold), "close payment")?;
        self.succeeds(open_payment(hold, "accepted", 60), "second payment")?;
        self.succeeds(confirm(hold), "confirm payment")?;
        self.succeeds(fulfil(hold, &[(item, 2)]), "fulfil")?;
        let lost = Return {
            from: Some(ReturnFrom::Fulfilled),
            disposition: Disposition::WriteOff,
            ..return_selected(hold, SaleSelection::All)
        };
        self.succeeds(Command::Return(lost), "write off").map(drop)
    }

    /// Sells a reservation whose buyer paid too late.
    fn paid_late(&mut self, item: &ItemKey) -> Checked {
        let hold = self.succeeds(reserve_for(1, &[(item, 1)]), "reserve to expire")?;
        self.advance(2 * SECOND);
        let sold = self.succeeds(confirm_late(hold, "late"), "confirm late")?;
        self.succeeds(return_all(sold), "return of a late confirm").map(drop)
    }

    /// Runs a command twice with a key of its own. The first must be done, and the second must be a replay. Returns
    /// the id of its reservation.
    fn succeeds(&mut self, command: Command, step: &str) -> Result<ReservationId, Broken> {
        let envelope = self.maker.keyed(&format!("full service: {step}"), command);
        let id = envelope.fresh.reservation;
        let done = self.counters.get(Count::Done) + self.counters.get(Count::Replay);
        let again = self.maker.again(&envelope);
        for envelope in [envelope, again] {
            let ticket = self.ticket();
            self.command(ticket, envelope.clone(), envelope, self.now())?;
            self.come_to_rest()?;
        }
        if self.counters.get(Count::Done) + self.counters.get(Count::Replay) != done + 2 {
            return broken("L2", format!("{step:?} of a plain sale did not succeed"));
        }
        Ok(id)
    }
}
