//! The routes of stock masters. They concern all items, so a caller with restrictions may neither see nor change them.

use super::reply;
use super::request_error::RequestError;
use super::worker::{HandlerResult, Worker};
use stockhold_api::decode::Invalid;
use stockhold_api::problem::Problem;
use stockhold_api::resources::reconciliation::{ReconcileAction, ReconciliationReport, StockMasterList};
use stockhold_relay::ReconciliationError;
use stockhold_store::Failure;

impl Worker {
    /// `GET /v1/reconciliation`
    pub(super) async fn reconciliation(&self) -> HandlerResult {
        let data = self.relay.stock_masters().await.map_err(|failure| RequestError::from_store(&failure))?;
        Ok(reply::shape(&StockMasterList { data }))
    }

    /// `POST /v1/reconciliation`
    pub(super) async fn reconcile(&self, (stock_master, action): (String, ReconcileAction)) -> HandlerResult {
        let dry_run = match action {
            ReconcileAction::Compare { dry_run } => dry_run,
            ReconcileAction::AcceptBatch(batch) => {
                self.relay.accept_batch(&stock_master, batch.as_str()).await.map_err(refusal)?;
                true
            }
        };
        let report = self.relay.reconcile(&stock_master, dry_run).await.map_err(refusal)?;
        Ok(reply::shape(&ReconciliationReport::from(&report)))
    }

    /// `DELETE /v1/reconciliation/{stock_master}`
    pub(super) async fn forget_stock_master(&self, name: String) -> HandlerResult {
        self.relay.forget_stock_master(&name).await.map_err(refusal)?;
        Ok(reply::empty(204))
    }
}

fn refusal(error: ReconciliationError) -> RequestError {
    match error {
        ReconciliationError::UnknownStockMaster(known) => {
            let detail = match &known[..] {
                [] => "is no stock master: tables [stock_masters.NAME] in the configuration make them"
                    .to_owned(),
                known => format!("is no stock master; there are {}", known.join(", ")),
            };
            Problem::from(Invalid::new("/stock_master", detail)).into()
        }
        ReconciliationError::NotRefused => {
            let detail =
                "is no batch that the stock master refuses; GET /v1/reconciliation shows it as `batch`";
            Problem::from(Invalid::new("/accept_batch", detail)).into()
        }
        ReconciliationError::InUse => {
            let detail =
                "is in the configuration of this server, or another server serves it: remove it there first";
            Problem::from(Invalid::new("/stock_master", detail)).into()
        }
        ReconciliationError::Timeout => RequestError::from_store(&Failure::Unavailable(
            "the comparison takes longer than 60 seconds; GET /v1/reconciliation shows its report later"
                .to_owned(),
        )),
        ReconciliationError::Store(failure) => RequestError::from_store(&failure),
    }
}
