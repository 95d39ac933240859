//! Whom the work of a request is counted for, and the memory that its answer reserves.

use super::admission::Holder;
use super::admission::bounds::{COUNTED_REPLY_BYTES, COUNTED_STREAM_REPLY_BYTES};
use super::admission::memory::BudgetGuard;
use super::authorize::client_address;
use super::reply::Reply;
use super::request_error::RequestError;
use super::request_head::RequestHead;
use super::worker::{HandlerResult, RequestContext, Worker};
use std::borrow::Cow;
use std::net::IpAddr;
use stockhold_service::{Caller, PrincipalKind};
use stockhold_store::Failure;

impl Worker {
    /// Whom the work of a caller is counted for.
    pub(super) fn holder(&self, caller: &Caller, client: IpAddr) -> Holder {
        match caller.principal.kind {
            PrincipalKind::Anonymous if self.access.authenticator.is_required() => {
                self.unauthenticated(client)
            }
            PrincipalKind::Anonymous => Holder::Everybody,
            // Everybody who holds a cart has a token, and two carts are two principals.
            PrincipalKind::Hold(_) => self.unauthenticated(client),
            PrincipalKind::Root
            | PrincipalKind::Key(_)
            | PrincipalKind::Jwt
            | PrincipalKind::Listener
            | PrincipalKind::System => Holder::Principal(caller.principal.actor.clone()),
        }
    }

    /// Whom the work of a caller without a known credential is counted for.
    pub(super) fn unauthenticated(&self, client: IpAddr) -> Holder {
        Holder::Unauthenticated(self.access.counted_network(client))
    }

    /// Reserves memory for a long answer, unless that was done before or the answer is a part of the program. The answer to a request
    /// that may have changed something is given in any case, because a refusal would say that nothing was done.
    pub(super) fn with_budget(&self, context: RequestContext<'_>, mut reply: Reply) -> HandlerResult {
        let Cow::Owned(body) = &reply.body else { return Ok(reply) };
        let head = context.head;
        let counted_from = if head.is_multiplexed { COUNTED_STREAM_REPLY_BYTES } else { COUNTED_REPLY_BYTES };
        if body.len() >= counted_from && reply.budget.is_none() {
            reply.budget = Some(if matches!(head.method, "GET" | "HEAD") {
                self.reserve_memory(context, body.len())?
            } else {
                let mut budget = self.memory_of(context.caller, head);
                budget.add(body.len());
                budget
            });
        }
        Ok(reply)
    }

    /// Reserves memory for a long answer. Fails as overloaded when the budget is used up.
    pub(super) fn reserve_memory(
        &self,
        context: RequestContext<'_>,
        bytes: usize,
    ) -> Result<BudgetGuard, RequestError> {
        let mut budget = self.memory_of(context.caller, context.head);
        if budget.grow(bytes) { Ok(budget) } else { Err(RequestError::from_store(&Failure::Overloaded)) }
    }

    /// A guard of memory for a request of a caller, which has reserved nothing.
    pub(super) fn memory_of(&self, caller: &Caller, head: &RequestHead<'_>) -> BudgetGuard {
        self.admission.memory.guard(self.holder(caller, client_address(head)))
    }
}
