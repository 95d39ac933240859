//! A recount from the first event ever on: the files of an archive are folded before the events of the database, and the result is compared
//! with what the database keeps of the events that have left.

use super::{FINDINGS, Verifier, VerifyProgress, VerifyReport};
use crate::audit::database_log::DatabaseLog;
use crate::audit::ledger::Ledger;
use crate::audit::{AuditError, AuditSession};
use std::collections::BTreeMap;
use stockhold_domain::{Event, Hold, ReservationId, Status, Transition};
use stockhold_store::{EventArchive, compare_kept, fold_archived};
use tokio::runtime::Runtime;

/// Recounts with an archive. Uses memory for every item, and for the reservations that were active at one time.
pub(crate) fn verify_from_archive<S: AuditSession>(
    runtime: &Runtime,
    session: &mut S,
    archive: &mut dyn EventArchive,
    progress: &mut (dyn FnMut(VerifyProgress) + Send),
) -> Result<VerifyReport, AuditError> {
    let mut verifier = runtime.block_on(Verifier::begin(session))?;
    runtime.block_on(verifier.balances())?;
    let mark = verifier.opening.mark();
    let mut fold = ArchivedState::default();
    let folded = fold_archived(archive, &mark, &mut |event| {
        fold.take(event);
        if fold.events.is_multiple_of(PROGRESS_EVENTS) {
            progress(VerifyProgress::Archived(fold.events, mark.position));
        }
    });
    match folded {
        Ok(newest) => {
            verifier.join(fold);
            let mut log = DatabaseLog { runtime, session: &mut *verifier.session, mark };
            if let Err(why) = compare_kept(&mut log, archive, newest) {
                verifier.find(format!("archive: {why}"));
            }
        }
        Err(why) => verifier.find(format!("archive: {why}")),
    }
    runtime.block_on(verifier.finish(progress))
}

/// The events between two reports of the progress.
const PROGRESS_EVENTS: u64 = 10_000;

/// What the events of an archive lead to.
#[derive(Default)]
struct ArchivedState {
    ledger: Ledger,
    events: u64,
    findings: Vec<String>,
    /// What else does not follow.
    unlisted: u64,
    /// Reservations that have not ended.
    going_on: BTreeMap<ReservationId, Hold>,
}

impl ArchivedState {
    fn take(&mut self, event: &Event) {
        self.events += 1;
        self.ledger.take(event);
        for what in self.ledger.findings.drain(..) {
            if self.findings.len() < FINDINGS {
                self.findings.push(what);
            } else {
                self.unlisted += 1;
            }
        }
        if let Transition::Hold { hold, .. } = &event.transition {
            if hold.status == Status::Active || hold.has_unsettled_payment() {
                self.going_on.insert(hold.id, hold.without_removed_lines());
            } else {
                self.going_on.remove(&hold.id);
            }
        }
    }
}

impl<S: AuditSession> Verifier<'_, S> {
    /// Compares what the archive comes to with the balances. The recount goes on with the former. What archived reservations have sold is
    /// taken from the balances: with what the others have sold, it has to be what the events lead to.
    fn join(&mut self, fold: ArchivedState) {
        let ArchivedState { mut ledger, events, findings, unlisted, going_on } = fold;
        let balances = core::mem::take(&mut self.ledger);
        let mut found = findings;
        for (key, account) in &mut ledger.items {
            match balances.items.get(key) {
                Some(balance) if balance.item == account.item => {
                    account.sold = balance.sold;
                    account.drawn.clone_from(&balance.drawn);
                }
                _ => found.push(format!("the balance of {key:?} is not what the archived events lead to")),
            }
        }
        let others = balances.items.keys().filter(|key| !ledger.items.contains_key(*key));
        found.extend(others.map(|key| format!("no archived event made {key:?}, and it has a balance")));
        if ledger.pauses != balances.pauses {
            found.push("the pauses are not what the archived events lead to".to_owned());
        }
        ledger.without_values = ledger.records.keys().cloned().collect();
        ledger.of_holds = 0;
        self.ledger = ledger;
        self.going_on = going_on;
        self.verdict.events += events;
        self.verdict.drift += unlisted;
        for what in found {
            self.find(format!("archive: {what}"));
        }
    }
}
