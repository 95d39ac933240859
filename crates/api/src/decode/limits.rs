//! The requests on limits.

use super::body;
use super::header::{self, Match};
use super::{Invalid, both, path};
use crate::cursor;
use crate::field::{QueryShape, page_size};
use crate::resources::limits::{LimitRequest, LimitUsageQuery, LimitsQuery};
use stockhold_domain::{Command, DeleteLimit, Label, Precondition, SetLimit};
use stockhold_store::UsageRequest;

/// `PUT /v1/limits/{limit_id}`, with the precondition on its version.
pub fn set_limit(
    id: &str,
    query: Option<&str>,
    precondition: Option<Match<'_>>,
    body: &[u8],
) -> Result<Command, Invalid> {
    let target = both(limit(id, query), header::expected(precondition));
    let ((id, expected), body) = both(target, body::read_request::<LimitRequest>(body))?;
    Ok(Command::SetLimit(SetLimit { id, terms: body.terms()?, expected }))
}

/// `DELETE /v1/limits/{limit_id}`, with the value of `If-Match`.
pub fn delete_limit(id: &str, query: Option<&str>, if_match: Option<&[u8]>) -> Result<Command, Invalid> {
    let (id, expected): (Label, Option<Precondition>) =
        both(limit(id, query), header::expected(if_match.map(Match::If)))?;
    Ok(Command::DeleteLimit(DeleteLimit { id, expected }))
}

/// `GET /v1/limits/{limit_id}`
pub fn limit(id: &str, query: Option<&str>) -> Result<Label, Invalid> {
    let (id, ()) = both(path::label("/limit_id", id), path::no_query(query))?;
    Ok(id)
}

/// `GET /v1/limits`: the last limit of the page before, and the most entries.
pub fn limits(query: Option<&str>) -> Result<(Option<Label>, usize), Invalid> {
    let LimitsQuery { limit, starting_after } = LimitsQuery::of_query(query)?;
    Ok((starting_after.as_deref().and_then(cursor::label), page_size(limit)))
}

/// `GET /v1/limits/{limit_id}/usage`
pub fn limit_usage(id: &str, query: Option<&str>) -> Result<UsageRequest, Invalid> {
    let (limit_id, query) = both(path::label("/limit_id", id), LimitUsageQuery::of_query(query))?;
    let LimitUsageQuery { subject, limit, starting_after } = query;
    let after = starting_after.as_deref().and_then(cursor::label);
    Ok(UsageRequest { limit_id, subject, after, limit: page_size(limit) })
}
