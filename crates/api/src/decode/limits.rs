//! The requests on limits.

use super::body;
use super::explain::clip;
use super::header::{self, Match};
use super::lists::{PAGE_DEFAULT, limit as page_limit, no_cursor};
use super::{Invalid, both, path};
use crate::cursor;
use crate::resources::limits::LimitRequest;
use stockhold_domain::{Command, DeleteLimit, Label, Precondition, SetLimit};
use stockhold_store::UsageRequest;

/// A page of the list of limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitPage {
    /// The last limit of the page before.
    pub after: Option<Label>,
    /// Most entries.
    pub limit: usize,
}

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

/// `GET /v1/limits?limit=&starting_after=`
pub fn limits(query: Option<&str>) -> Result<LimitPage, Invalid> {
    let mut page = LimitPage { after: None, limit: PAGE_DEFAULT };
    path::parameters(query, &["limit", "starting_after"], |at, text| {
        match at {
            0 => page.limit = page_limit(text)?,
            _ => page.after = Some(cursor::label(text).ok_or_else(|| no_cursor(text))?),
        }
        Ok(())
    })?;
    Ok(page)
}

/// `GET /v1/limits/{limit_id}/usage?subject=&limit=&starting_after=`
pub fn limit_usage(id: &str, query: Option<&str>) -> Result<UsageRequest, Invalid> {
    let mut page = (None, PAGE_DEFAULT, None);
    let read = path::parameters(query, &["subject", "limit", "starting_after"], |at, text| {
        match at {
            0 => {
                let wrong = |error| format!("{error}, found \"{}\"", clip(text));
                page.0 = Some(Label::new(text).map_err(wrong)?);
            }
            1 => page.1 = page_limit(text)?,
            _ => page.2 = Some(cursor::label(text).ok_or_else(|| no_cursor(text))?),
        }
        Ok(())
    });
    let (limit_id, ()) = both(path::label("/limit_id", id), read)?;
    let (subject, limit, after) = page;
    Ok(UsageRequest { limit_id, subject, after, limit })
}
