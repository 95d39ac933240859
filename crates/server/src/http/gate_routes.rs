//! The routes of the gate. It concerns all items, so a caller with restrictions may neither see nor reload it.

use super::reply;
use super::request_error::RequestError;
use super::worker::{HandlerResult, Worker};
use stockhold_api::problem::Problem;
use stockhold_api::resources::gate::{GATE_ITEMS, Gate, GateReload};
use stockhold_store::GateSelection;

impl Worker {
    /// `GET /v1/gate`
    pub(super) async fn show_gate(&self) -> HandlerResult {
        let status = match &self.gate {
            Some(gate) => {
                Some(gate.status(GATE_ITEMS).await.map_err(|failure| RequestError::from_store(&failure))?)
            }
            None => None,
        };
        Ok(reply::shape(&Gate::from(status.as_ref())))
    }

    /// `POST /v1/gate/reload`
    pub(super) async fn reload_gate(&self, selection: GateSelection) -> HandlerResult {
        let gate = self.gate.as_ref().ok_or_else(Problem::no_gate)?;
        let summary = gate.reload(selection).await.map_err(|failure| RequestError::from_store(&failure))?;
        Ok(reply::shape(&GateReload::from(summary)))
    }
}
