//! The routes of limits. A limit concerns everything, so a caller with restrictions may neither see nor change it.

use super::lists::PAGE_BYTES;
use super::reply;
use super::request_error::RequestError;
use super::worker::{HandlerResult, RequestContext, Worker};
use stockhold_api::cursor;
use stockhold_api::encode::{self, List};
use stockhold_api::problem::Problem;
use stockhold_domain::{FieldError, Label, Limit, Rejection};
use stockhold_store::{LimitUsage, Query, QueryResult, UsageRequest};

/// Limits and counters that are read at a time.
const ROWS_AT_ONCE: usize = 100;

impl Worker {
    /// `GET /v1/limits/{limit_id}`
    pub(super) async fn limit(&self, id: Label) -> HandlerResult {
        match self.find(Query::Limit(id.clone())).await? {
            QueryResult::Limit(Some(limit)) => Ok(reply::limit(&limit)),
            QueryResult::Limit(None) => Err(Problem::from(Rejection::UnknownLimit(id)).into()),
            _ => Err(RequestError::wrong_answer()),
        }
    }

    /// `GET /v1/limits`
    pub(super) async fn limits(
        &self,
        context: RequestContext<'_>,
        (mut after, most): (Option<Label>, usize),
    ) -> HandlerResult {
        self.take_page_tokens(context, most).await?;
        let mut out = Vec::new();
        let mut list = List::open(&mut out, "data");
        let mut shown = 0;
        let has_more = 'page: loop {
            let found = self.limit_page(after.clone()).await?;
            let are_last = found.len() < ROWS_AT_ONCE;
            for limit in found {
                if shown == most || out.len() >= PAGE_BYTES {
                    break 'page true;
                }
                encode::limit(list.entry(&mut out), &limit);
                shown += 1;
                after = Some(limit.id);
            }
            if are_last {
                break false;
            }
        };
        let next = after.filter(|_| has_more).map(|id| cursor::of_label(&id));
        list.close_page(&mut out, next.is_some(), next.as_deref());
        Ok(reply::written(out, None))
    }

    async fn limit_page(&self, after: Option<Label>) -> Result<Vec<Limit>, RequestError> {
        match self.find(Query::Limits { after, limit: ROWS_AT_ONCE }).await? {
            QueryResult::Limits(limits) => Ok(limits),
            _ => Err(RequestError::wrong_answer()),
        }
    }

    /// `GET /v1/limits/{limit_id}/usage`
    pub(super) async fn limit_usage(
        &self,
        context: RequestContext<'_>,
        mut request: UsageRequest,
    ) -> HandlerResult {
        let wanted = request.limit;
        self.take_page_tokens(context, wanted).await?;
        // One more shows whether there is another page.
        request.limit = wanted + 1;
        let (limit, counters) = match self.find(Query::LimitUsage(request.clone())).await? {
            QueryResult::LimitUsage(Some(LimitUsage { limit, counters })) => (limit, counters),
            QueryResult::LimitUsage(None) => {
                return Err(Problem::from(Rejection::UnknownLimit(request.limit_id)).into());
            }
            _ => return Err(RequestError::wrong_answer()),
        };
        let is_shared = limit.terms.as_ref().is_none_or(|terms| terms.per.is_none());
        if is_shared && request.subject.is_some() {
            let error = FieldError {
                pointer: "/subject".into(),
                detail: "must be left out: this limit counts for all together".to_owned(),
            };
            return Err(Problem::from(Rejection::InvalidRequest(error)).into());
        }
        if is_shared || request.subject.is_some() {
            let (subject, counter) = counters.into_iter().next().unwrap_or_default();
            return Ok(reply::json(|out| encode::limit_usage(out, &limit, subject.as_ref(), counter)));
        }
        let has_more = counters.len() > wanted;
        let mut page = Vec::new();
        let mut list = List::open(&mut page, "data");
        for (subject, counter) in counters.iter().take(wanted) {
            encode::limit_usage(list.entry(&mut page), &limit, subject.as_ref(), *counter);
        }
        let final_subject =
            counters.iter().take(wanted).next_back().and_then(|(subject, _)| subject.as_ref());
        let next = final_subject.filter(|_| has_more).map(cursor::of_label);
        list.close_page(&mut page, next.is_some(), next.as_deref());
        Ok(reply::written(page, None))
    }
}
