//! The requests on limits.

use super::body::{self, LimitBody, LimitItemBody};
use super::explain::clip;
use super::field::JsonObject;
use super::header::{self, Match};
use super::lists::{PAGE_DEFAULT, limit as page_limit, no_cursor};
use super::{Invalid, both, path};
use crate::cursor;
use stockhold_domain::limits::{LIMIT_CHANNELS, LIMIT_TARGETS};
use stockhold_domain::{
    Command, DeleteLimit, ItemKey, Label, LimitTarget, LimitTerms, Precondition, SetLimit,
};
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
    let ((id, expected), body) = both(target, body::read::<LimitBody>(body))?;
    Ok(Command::SetLimit(SetLimit { id, terms: terms(body)?, expected }))
}

fn terms(body: LimitBody) -> Result<LimitTerms, Invalid> {
    if body.channels.as_ref().is_some_and(Vec::is_empty) {
        return Err(Invalid::new(
            "/channels",
            "must have at least 1 entry, or be left out for every channel",
        ));
    }
    let channels = body.channels.unwrap_or_default();
    for (pointer, count, most) in
        [("/items", body.items.len(), LIMIT_TARGETS), ("/channels", channels.len(), LIMIT_CHANNELS)]
    {
        if count > most {
            return Err(Invalid::new(pointer, format!("must have at most {most} entries, and has {count}")));
        }
    }
    if body.items.is_empty() {
        return Err(Invalid::new("/items", "must have at least 1 entry"));
    }
    let targets = body.items.into_iter().enumerate().map(|(place, JsonObject(item))| target(place, item));
    Ok(LimitTerms {
        targets: targets.collect::<Result<_, _>>()?,
        channels: channels.into_iter().map(|channel| channel.0).collect(),
        per: body.per.map(|word| word.0),
        limit: body.limit.0,
        counts: body.counts.map(|word| word.0).unwrap_or_default(),
    })
}

fn target(place: usize, body: LimitItemBody) -> Result<LimitTarget, Invalid> {
    match (body.sku, body.location) {
        (Some(sku), None) => Ok(LimitTarget::Sku(sku.0)),
        (None, Some(location)) => Ok(LimitTarget::Location(location.0)),
        (Some(sku), Some(location)) => Ok(LimitTarget::Item(ItemKey::new(&location.0, &sku.0))),
        (None, None) => Err(Invalid::new(format!("/items/{place}"), "must have sku, location or both")),
    }
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
