//! The decisions of an earlier run of the same replay that was interrupted.
//!
//! A refused basket leaves nothing on the server. Sent again it might get a hold now, while the cancellation that
//! came after it was already booked as an adjustment, since there had been nothing to return. So a basket that has no
//! hold, but whose customer's later cancellation is booked, stays refused.
//!
//! Whether a key is known is found with a request that can never take effect. If the key is known, the request is
//! refused as a different one. If not, it breaks a rule.

use super::plan::{ReplayStep, StepKind};
use super::steps::{AdjustBody, BasketBody, ReplayRun, ReturnBody};
use crate::client::{CallError, RESERVATIONS, item_path};
use serde::Serialize;
use serde_json::Value;
use std::collections::HashSet;
use stockhold_api::problem::Reason;
use stockhold_domain::{ReservationId, limits};

/// A reservation that never was.
const NOBODYS: ReservationId = ReservationId::from_u128(0);

impl ReplayRun {
    /// The baskets that an earlier run went on without.
    pub(super) async fn refused_earlier(&self) -> Result<HashSet<usize>, CallError> {
        let mut refused_before = HashSet::new();
        for chain in &self.plan.chains {
            let mut booked = false;
            for number in chain.iter().rev() {
                let Some(step) = self.plan.steps.get(*number) else { continue };
                match step.what {
                    StepKind::Cancellation if !booked => booked = self.knows_cancellation(step).await?,
                    StepKind::Sale if booked && !self.knows_hold(step).await? => {
                        refused_before.insert(*number);
                    }
                    _ => {}
                }
            }
        }
        Ok(refused_before)
    }

    /// Twice the most units that a line may ask for, on one item, is refused whatever the stock.
    async fn knows_hold(&self, step: &ReplayStep) -> Result<bool, CallError> {
        let Some((sku, _)) = step.lines.first() else { return Ok(false) };
        let lines = [self.want(sku, limits::LINE_QUANTITY), self.want(sku, limits::LINE_QUANTITY)];
        let idempotency_key = self.key(&step.order, "hold");
        let basket = BasketBody { lines: &lines, terms: self.terms(step), idempotency_key };
        self.knows(RESERVATIONS, &basket).await
    }

    /// A cancellation begins with its first line: as a return, or as an adjustment.
    async fn knows_cancellation(&self, step: &ReplayStep) -> Result<bool, CallError> {
        let Some((sku, _)) = step.lines.first() else { return Ok(false) };
        let body = ReturnBody {
            lines: [self.want(sku, 1)],
            reason: &step.order,
            idempotency_key: self.part_key(&step.order, "return", (0, 0)),
        };
        if self.knows(&format!("{RESERVATIONS}/{NOBODYS}/return"), &body).await? {
            return Ok(true);
        }
        let body = AdjustBody {
            delta: i64::MIN,
            reason: &step.order,
            idempotency_key: self.part_key(&step.order, "adjust", (0, 0)),
        };
        self.knows(&item_path(sku, &self.location, "/adjust"), &body).await
    }

    async fn knows(&self, path: &str, impossible: &impl Serialize) -> Result<bool, CallError> {
        match self.caller.post::<Value>(path, impossible).await {
            Ok(_) => Err(CallError::Unexpected(format!("{path} took a request that breaks the rules"))),
            Err(CallError::Refused(problem)) => Ok(problem.reason == Reason::IdempotencyMismatch.name()),
            Err(other) => Err(other),
        }
    }
}
