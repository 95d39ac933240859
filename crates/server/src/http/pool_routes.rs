//! The routes of pools. A pool belongs to an item. A key that may see or change the item may see or change its pools.

use super::reply;
use super::request_error::RequestError;
use super::restrict::check_item;
use super::worker::{HandlerResult, RequestContext, Worker};
use stockhold_api::problem::Problem;
use stockhold_domain::{Command, ItemKey, Label, Outcome, Reply, SetPool, SetUnitPool};

impl Worker {
    /// `PUT /v1/inventory/{sku}/pools/{pool}`
    pub(super) async fn set_pool(&self, context: RequestContext<'_>, set: SetPool) -> HandlerResult {
        let name = set.pool.clone();
        self.change_pool(context, Command::SetPool(set), &name).await
    }

    /// `PUT` and `DELETE /v1/inventory/{sku}/pools/{pool}/units`
    pub(super) async fn set_unit_pool(&self, context: RequestContext<'_>, set: SetUnitPool) -> HandlerResult {
        let name = set.pool.clone();
        self.change_pool(context, Command::SetUnitPool(set), &name).await
    }

    /// Runs a command that is answered with the pool.
    async fn change_pool(
        &self,
        context: RequestContext<'_>,
        command: Command,
        name: &Label,
    ) -> HandlerResult {
        let command = self.restrict(context, command).await?;
        match self.run(context, command, None).await? {
            Outcome::Done(Reply::Item { item, created }) => {
                let pool = item.pools.get(name).ok_or_else(RequestError::wrong_answer)?;
                Ok(reply::pool(&item, pool, created))
            }
            Outcome::Refused(rejection) => Err(Problem::from(rejection).into()),
            _ => Err(RequestError::wrong_answer()),
        }
    }

    /// `GET /v1/inventory/{sku}/pools`
    pub(super) async fn pools(&self, context: RequestContext<'_>, key: ItemKey) -> HandlerResult {
        check_item(context, &key)?;
        Ok(reply::pools(&self.item(key).await?))
    }
}
