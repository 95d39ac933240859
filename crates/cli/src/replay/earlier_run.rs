//! The decisions of an earlier run of the same replay that was interrupted.
//!
//! A refused basket leaves nothing on the server. Sent again it might get a hold now, while the cancellation that
//! came after it was already booked as an adjustment, since there had been nothing to return. So a basket that has no
//! hold, but whose customer's later cancellation is booked, stays refused.
//!
//! Whether a key is known is found with a request that can never take effect. If the key is known, the request is
//! refused as a different one. If not, it breaks a rule.

use super::plan::{ReplayStep, StepKind};
use super::steps::{AdjustBody, BasketBody, Keyed, ReplayRun};
use crate::client::{CallError, RESERVATIONS, item_path};
use serde::Serialize;
use serde_json::Value;
use std::collections::HashSet;
use stockhold_api::problem::Reason;
use stockhold_api::wire::{Reservation, ReturnedUnits};
use stockhold_domain::{ReservationId, limits};

/// A unit that no counted line has.
const NO_UNIT: &str = "no unit of a replay";

impl ReplayRun {
    /// The baskets that an earlier run went on without.
    pub(super) async fn refused_earlier(&self) -> Result<HashSet<usize>, CallError> {
        let mut refused_before = HashSet::new();
        for chain in &self.plan.chains {
            let steps: Vec<(usize, &ReplayStep)> =
                chain.iter().filter_map(|number| Some((*number, self.plan.steps.get(*number)?))).collect();
            if steps.iter().all(|(_, step)| step.what != StepKind::Cancellation) {
                continue;
            }
            let first_hold = self.first_hold(&steps).await?;
            let mut booked = false;
            for (number, step) in steps.into_iter().rev() {
                match step.what {
                    StepKind::Cancellation if !booked => {
                        booked = self.knows_cancellation(step, first_hold).await?;
                    }
                    StepKind::Sale if booked && !self.knows_hold(step).await? => {
                        refused_before.insert(number);
                    }
                    _ => {}
                }
            }
        }
        Ok(refused_before)
    }

    /// The first reservation of a customer that an earlier run has made. The request that made it is sent again and
    /// changes nothing.
    async fn first_hold(&self, steps: &[(usize, &ReplayStep)]) -> Result<Option<ReservationId>, CallError> {
        for (_, step) in steps {
            if step.what == StepKind::Sale && self.knows_hold(step).await? {
                return match self.caller.post::<Reservation>(RESERVATIONS, &self.hold_request(step)).await {
                    Ok(answer) => Ok(Some(answer.body.reservation_id)),
                    // Another replay used the key. The step itself is refused for it, with what to do.
                    Err(CallError::Refused(_)) => Ok(None),
                    Err(error) => Err(error),
                };
            }
        }
        Ok(None)
    }

    /// Twice the most units that a line may ask for, on one item, is refused whatever the stock.
    async fn knows_hold(&self, step: &ReplayStep) -> Result<bool, CallError> {
        let Some((sku, _)) = step.lines.first() else { return Ok(false) };
        let lines = vec![self.want(sku, limits::LINE_QUANTITY), self.want(sku, limits::LINE_QUANTITY)];
        self.knows(RESERVATIONS, &BasketBody { lines, ..self.hold_request(step) }).await
    }

    /// A cancellation begins with its first line: as a return, or as an adjustment. A return needs a reservation of the
    /// customer, and the server looks at the key only if it knows the reservation.
    async fn knows_cancellation(
        &self,
        step: &ReplayStep,
        hold: Option<ReservationId>,
    ) -> Result<bool, CallError> {
        let Some((sku, _)) = step.lines.first() else { return Ok(false) };
        if let Some(hold) = hold {
            let returned = ReturnedUnits {
                lines: None,
                units: Some(vec![NO_UNIT.to_owned()]),
                from: None,
                disposition: stockhold_api::wire::Disposition::default(),
                reason: step.order.clone(),
            };
            let idempotency_key = self.part_key(&step.order, "return", (0, 0));
            let body = Keyed { body: returned, idempotency_key };
            if self.knows(&format!("{RESERVATIONS}/{hold}/return"), &body).await? {
                return Ok(true);
            }
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
