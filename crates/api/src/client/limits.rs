//! The calls on limits.

use super::Client;
use super::attempt::Error;
use super::request::{Request, push_encoded, push_parameter};
use crate::resources::limits::{LimitUsageQuery, LimitsQuery};
use crate::wire::{Limit, LimitRequest, LimitUsage, Page};

/// The path of the limits.
const LIMITS: &str = "/v1/limits";

impl Client {
    /// Creates a limit, or replaces what it says. With a version, the limit must have that version. The request is then sent only
    /// once, because a second try could not tell its own success from another caller's change.
    pub async fn put_limit(
        &self,
        limit_id: &str,
        terms: &LimitRequest,
        version: Option<u64>,
    ) -> Result<Limit, Error> {
        let request = Request::new("PUT", path(limit_id, "")).json(terms)?;
        self.http.read(with_version(request, version)).await
    }

    /// One limit.
    pub async fn limit(&self, limit_id: &str) -> Result<Limit, Error> {
        self.http.read(Request::new("GET", path(limit_id, ""))).await
    }

    /// A page of limits, in the order of their ids.
    pub async fn limits(&self, query: &LimitsQuery) -> Result<Page<Limit>, Error> {
        self.http.read(Request::new("GET", LIMITS.to_owned()).query(query)).await
    }

    /// What a limit counts for one customer or owner. A limit that all share takes no subject.
    pub async fn limit_usage(&self, limit_id: &str, subject: Option<&str>) -> Result<LimitUsage, Error> {
        let mut path = path(limit_id, "/usage");
        push_parameter(&mut path, "subject", subject);
        self.http.read(Request::new("GET", path)).await
    }

    /// A page of the customers or owners that have units under a limit. A limit that all share has no such list.
    pub async fn limit_usage_page(
        &self,
        limit_id: &str,
        query: &LimitUsageQuery,
    ) -> Result<Page<LimitUsage>, Error> {
        self.http.read(Request::new("GET", path(limit_id, "/usage")).query(query)).await
    }

    /// Deletes a limit. A repetition changes nothing, so it takes no key. With a version, the limit must have that version, and the
    /// request is sent only once.
    pub async fn delete_limit(&self, limit_id: &str, version: Option<u64>) -> Result<(), Error> {
        let request = Request::new("DELETE", path(limit_id, ""));
        self.http.send(with_version(request, version)).await?.done()
    }
}

fn path(limit_id: &str, tail: &str) -> String {
    let mut path = format!("{LIMITS}/");
    push_encoded(&mut path, limit_id);
    path.push_str(tail);
    path
}

fn with_version(request: Request, version: Option<u64>) -> Request {
    match version {
        Some(version) => request.if_match(version),
        None => request,
    }
}
