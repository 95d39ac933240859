//! The requests on stock masters.

use super::body::{self, ReconciliationBody};
use super::{Invalid, both, path};

/// What a caller asks of a stock master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReconcileAction {
    /// To compare now.
    Compare {
        /// Whether nothing is changed.
        dry_run: bool,
    },
    /// To count a refused batch as booked.
    AcceptBatch(String),
}

/// `GET /v1/reconciliation`
pub fn reconciliation(query: Option<&str>) -> Result<(), Invalid> {
    path::no_query(query)
}

/// `DELETE /v1/reconciliation/{stock_master}`
pub fn forget_stock_master(name: &str, query: Option<&str>) -> Result<String, Invalid> {
    let (name, ()): (stockhold_domain::Label, ()) =
        both(path::label("/stock_master", name), path::no_query(query))?;
    Ok(name.as_str().to_owned())
}

/// `POST /v1/reconciliation`: the stock master, and what is asked of it.
pub fn reconcile(query: Option<&str>, body: &[u8]) -> Result<(String, ReconcileAction), Invalid> {
    let ((), body) = both(path::no_query(query), body::read::<ReconciliationBody>(body))?;
    let action = match (body.accept_batch, body.dry_run) {
        (Some(_), Some(_)) => {
            return Err(Invalid::new("/dry_run", "must be left out beside accept_batch"));
        }
        (Some(batch), None) => ReconcileAction::AcceptBatch(batch.0.as_str().to_owned()),
        (None, dry_run) => ReconcileAction::Compare { dry_run: super::is_set(dry_run) },
    };
    Ok((body.stock_master.0.as_str().to_owned(), action))
}
