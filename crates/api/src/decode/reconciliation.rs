//! The requests on stock masters.

use super::{Invalid, body, both, path};
use crate::resources::reconciliation::{ReconcileAction, ReconciliationRequest};

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
    let ((), body) = both(path::no_query(query), body::read_request::<ReconciliationRequest>(body))?;
    Ok((body.stock_master.to_string(), body.action()?))
}
