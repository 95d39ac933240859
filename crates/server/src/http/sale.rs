//! Sets, ends and shows pauses. The answer to a resume names the pauses that remain, and the answer for a location
//! says whether it has items.

use super::reply::{self, ResponseKind};
use super::request_error::RequestError;
use super::restrict::check_scope_of_sale;
use super::worker::{HandlerResult, RequestContext, Worker};
use stockhold_api::encode::{self, SaleState};
use stockhold_domain::{Command, Label, Scope};
use stockhold_store::{ItemPageRequest, Pauses, Query, QueryResult};

impl Worker {
    /// Pauses or resumes, and answers with the state after it.
    pub(super) async fn set_sale(&self, context: RequestContext<'_>, command: Command) -> HandlerResult {
        let Command::SetSale(set) = &command else {
            return Err(RequestError::internal("no pause where one was decoded"));
        };
        let (scope, paused) = (set.scope.clone(), set.paused);
        let done = self.command(context, command, ResponseKind::Sale).await?;
        // The command took effect. If the state can't be read now, the answer leaves it out.
        match self.standing(&scope).await {
            Ok(standing) => Ok(shown(&SaleState { paused, ..standing })),
            Err(_) => Ok(done),
        }
    }

    /// The pauses of a location or of the whole sale.
    pub(super) async fn sale(&self, context: RequestContext<'_>, scope: &Scope) -> HandlerResult {
        check_scope_of_sale(context, scope)?;
        Ok(shown(&self.standing(scope).await?))
    }

    /// The state of the sale. For an item: only the pauses of its location and of everything.
    async fn standing(&self, scope: &Scope) -> Result<SaleState, RequestError> {
        let QueryResult::Pauses(Pauses { everything, locations }) = self.find(Query::Pauses).await? else {
            return Err(RequestError::wrong_answer());
        };
        let by_itself = |name: &str| locations.iter().any(|location| location.as_str() == name);
        let everything_too = everything.then_some(Scope::Everything);
        Ok(match scope {
            Scope::Everything => {
                let also = locations.into_iter().map(Scope::Location).collect();
                SaleState { paused: everything, also: Some(also), has_items: None }
            }
            Scope::Location(location) => SaleState {
                paused: by_itself(location.as_str()),
                also: Some(everything_too.into_iter().collect()),
                has_items: Some(self.has_items(location).await?),
            },
            Scope::Item(key) => {
                let location = Label::new(key.location()).ok().filter(|name| by_itself(name.as_str()));
                let also = location.map(Scope::Location).into_iter().chain(everything_too).collect();
                SaleState { paused: false, also: Some(also), has_items: None }
            }
        })
    }

    async fn has_items(&self, location: &Label) -> Result<bool, RequestError> {
        let first = ItemPageRequest { location: Some(location.clone()), after: None, limit: 1 };
        match self.find(Query::ItemPage(first)).await? {
            QueryResult::ItemPage(items) => Ok(!items.is_empty()),
            _ => Err(RequestError::wrong_answer()),
        }
    }
}

fn shown(sale: &SaleState) -> reply::Reply {
    reply::json(|out| encode::sale(out, sale))
}
