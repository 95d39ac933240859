//! The error answer of a request: the problem that the caller reads, and the cause that only the log shows.

use super::request_head::RequestHead;
use super::route::Route;
use crate::access::RateVerdict;
use stockhold_api::problem::{Problem, Reason};
use stockhold_domain::RequestId;
use stockhold_store::Failure;

/// The error answer of a request.
pub(super) struct RequestError {
    pub(super) problem: Problem,
    /// The `Allow` header, for a wrong method.
    pub(super) allow: Option<&'static str>,
    /// The rate limit that refused it.
    pub(super) rate: Option<Box<RateVerdict>>,
    /// The cause, which only the log shows.
    pub(super) cause: Option<String>,
}

impl<P: Into<Problem>> From<P> for RequestError {
    fn from(problem: P) -> Self {
        Self { problem: problem.into(), allow: None, rate: None, cause: None }
    }
}

impl RequestError {
    /// An internal error.
    pub(super) fn internal(why: impl Into<String>) -> Self {
        Self { problem: Problem::internal(), allow: None, rate: None, cause: Some(why.into()) }
    }

    /// A failure of the store.
    pub(super) fn from_store(failure: &Failure) -> Self {
        let why = match failure {
            // It is counted, and log lines would add to the overload.
            Failure::Overloaded => None,
            other => Some(other.to_string()),
        };
        Self { problem: failure.into(), allow: None, rate: None, cause: why }
    }

    /// The store's answer does not fit the request.
    pub(super) fn wrong_answer() -> Self {
        Self::internal("the store answered another question")
    }

    /// Writes the error to the log.
    pub(super) fn log(&self, head: &RequestHead<'_>, route: Option<Route<'_>>, request_id: &RequestId) {
        let route = route.map_or("none", Route::name);
        let Some(why) = &self.cause else {
            // Refusals are frequent, so they are logged at level debug only.
            if tracing::enabled!(tracing::Level::DEBUG) {
                let reason = self.problem.reason();
                let (status, reason, detail) = (reason.status(), reason.name(), self.problem.detail());
                tracing::debug!(
                    status,
                    reason,
                    detail,
                    route,
                    request_id = request_id.to_string(),
                    "a request was refused"
                );
            }
            return;
        };
        let trace_id = head.trace().map(|trace| format!("{:032x}", trace.trace_id)).unwrap_or_default();
        match self.problem.reason() {
            Reason::Internal => {
                tracing::error!(
                    why,
                    route,
                    request_id = request_id.to_string(),
                    trace_id,
                    "a request failed"
                );
            }
            Reason::OutcomeUnknown => {
                tracing::warn!(
                    why,
                    route,
                    request_id = request_id.to_string(),
                    trace_id,
                    "a request's outcome is unknown"
                );
            }
            _ => tracing::debug!(
                why,
                route,
                request_id = request_id.to_string(),
                trace_id,
                "a request was turned away"
            ),
        }
    }
}
