//! Sends decoded commands to the store and answers with their outcomes: a single command, or a batch.

use super::reply::{self, ResponseKind};
use super::request_error::RequestError;
use super::worker::{HandlerResult, RequestContext, Worker};
use std::borrow::Cow;
use stockhold_api::decode::{self, Keyed};
use stockhold_api::encode::{self, List};
use stockhold_api::problem::Problem;
use stockhold_api::routes::{RequiredScope, RouteId};
use stockhold_domain::{
    Basket, Command, CommandKind, Envelope, IdempotencyKey, Origin, Outcome, Reply as StoreReply, bucket_of,
};
use stockhold_service::{Caller, HoldTokenKey, MissingPermission, PrincipalKind, Scope};
use stockhold_store::{Answer, Failure, Request, digest};

/// Commands of a batch that are handled before other requests of the worker get their turn.
const TURN: usize = 256;
/// Capacity for one result, in bytes. Hardly any result is longer. A list that exceeds its capacity is copied.
const RESULT_ROOM: usize = 512;

impl Worker {
    /// A command that may carry an idempotency key, in the header or in its body.
    pub(super) async fn keyed(
        &self,
        context: RequestContext<'_>,
        Keyed { command, key, hold_token }: Keyed<'_>,
        response_kind: ResponseKind,
    ) -> HandlerResult {
        let key = decode::idempotency_key(context.head.idempotency_key.value("/Idempotency-Key")?, key)?;
        let command = self.restrict(context, command).await?;
        let key = key.map(|key| key_use(context.caller, &command, &key));
        let command = self.seal_method(command).await?;
        let hold_tokens = if hold_token { Some(self.hold_token_key(context).await?) } else { None };
        self.submit(context, command, key, response_kind, hold_tokens.as_ref()).await
    }

    /// A command without an idempotency key.
    pub(super) async fn command(
        &self,
        context: RequestContext<'_>,
        command: Command,
        response_kind: ResponseKind,
    ) -> HandlerResult {
        let command = self.restrict(context, command).await?;
        self.submit(context, command, None, response_kind, None).await
    }

    /// Sends a command to the store, and returns its outcome.
    pub(super) async fn run(
        &self,
        context: RequestContext<'_>,
        command: Command,
        key: Option<IdempotencyKey>,
    ) -> Result<Outcome, RequestError> {
        let kind = command.kind();
        let envelope = self.envelope(context, origin(context), command, key);
        let outcome = match self.pending_replies.submit(Request::Command(Box::new(envelope))).await {
            Ok(Answer::Outcome(outcome)) => Ok(outcome),
            Ok(_) => return Err(RequestError::wrong_answer()),
            Err(failure) => Err(failure),
        };
        self.metrics.command(kind, outcome.as_ref());
        // The payment of a reserve goes on now, and not at the next look.
        if let Ok(Outcome::Done(StoreReply::Reservation(hold))) = &outcome
            && kind == CommandKind::Reserve
            && hold.payment_due_at().is_some()
        {
            self.checkout.wake(hold.id);
        }
        outcome.map_err(|failure| RequestError::from_store(&failure))
    }

    /// Sends commands to the store, to be executed strictly in this order, and returns the outcome of each.
    pub(super) async fn run_all(
        &self,
        envelopes: Vec<Envelope>,
    ) -> Result<Vec<Result<Outcome, Failure>>, RequestError> {
        let kinds: Vec<_> = envelopes.iter().map(|envelope| envelope.command.kind()).collect();
        if kinds.is_empty() {
            return Ok(Vec::new());
        }
        let outcomes = match self.pending_replies.submit(Request::Commands(envelopes)).await {
            Ok(Answer::Outcomes(outcomes)) if outcomes.len() == kinds.len() => outcomes,
            Ok(_) => return Err(RequestError::wrong_answer()),
            Err(failure) => return Err(RequestError::from_store(&failure)),
        };
        for (kind, outcome) in kinds.into_iter().zip(&outcomes) {
            self.metrics.command(kind, outcome.as_ref());
        }
        Ok(outcomes)
    }

    /// Sends a command to the store, and answers with its outcome.
    async fn submit(
        &self,
        context: RequestContext<'_>,
        command: Command,
        key: Option<IdempotencyKey>,
        response_kind: ResponseKind,
        hold_tokens: Option<&HoldTokenKey>,
    ) -> HandlerResult {
        reply::outcome(self.run(context, command, key).await?, response_kind, hold_tokens)
    }

    /// A batch. Each command succeeds or fails on its own, in order, and has the status of its own route. All are sent
    /// to the store at once, so commands that are committed together cost one commit.
    pub(super) async fn commands(&self, context: RequestContext<'_>, body: &[u8]) -> HandlerResult {
        let RequestContext { head, request_id, .. } = context;
        decode::no_idempotency_key(head.idempotency_key != super::request_head::SingleHeader::Absent)?;
        let decoded = decode::commands(head.query, body)?;
        let count = decoded.len();
        self.take_batch_tokens(context, count).await?;
        self.metrics.batch(count);
        let origin = origin(context);
        let mut envelopes = Vec::with_capacity(count);
        let mut places = Vec::with_capacity(count);
        let mut hold_tokens = None;
        for (n, command) in decoded.into_iter().enumerate() {
            yield_regularly(n).await;
            match command {
                Ok(Keyed { command, key, hold_token }) => {
                    if let Some(scope) = missing_scope(context.caller, command.kind()) {
                        places.push(Err(Problem::not_permitted(MissingPermission::Scope(scope))));
                        continue;
                    }
                    let command = match self.restrict(context, command).await {
                        Ok(command) => command,
                        Err(error) => {
                            places.push(Err(error.problem));
                            continue;
                        }
                    };
                    if hold_token && hold_tokens.is_none() {
                        hold_tokens = Some(self.hold_token_key(context).await?);
                    }
                    let key = key.map(|key: Cow<'_, str>| key_use(context.caller, &command, &key));
                    let command = match self.seal_method(command).await {
                        Ok(command) => command,
                        Err(error) => {
                            places.push(Err(error.problem));
                            continue;
                        }
                    };
                    places.push(Ok((command.kind(), hold_token)));
                    envelopes.push(self.envelope(context, origin.clone(), command, key));
                }
                Err(invalid) => places.push(Err(Problem::from(invalid))),
            }
        }
        let mut outcomes = self.run_all(envelopes).await?.into_iter();
        let mut out = Vec::with_capacity(count * RESULT_ROOM);
        let mut list = List::open(&mut out, "results");
        let mut logged = None;
        for (n, place) in places.into_iter().enumerate() {
            yield_regularly(n).await;
            let out = list.entry(&mut out);
            match (place, &mut outcomes) {
                (Err(problem), _) => encode::result_problem(out, &problem, request_id),
                (Ok((operation, hold_token)), outcomes) => {
                    let Some(outcome) = outcomes.next() else { return Err(RequestError::wrong_answer()) };
                    let tokens = hold_tokens.as_ref().filter(|_| hold_token);
                    let why = reply::result(out, outcome, response_kind(operation), tokens, request_id);
                    // A failure of the store affects the next commands too, so it is logged once.
                    if let Some(why) = why.filter(|why| logged != Some(why.problem.reason())) {
                        logged = Some(why.problem.reason());
                        why.log(head, None, request_id);
                    }
                }
            }
        }
        list.close(&mut out);
        let mut budget = self.memory_of(context.caller, head);
        budget.add(out.capacity());
        Ok(reply::written(out, Some(budget)))
    }

    pub(super) fn envelope(
        &self,
        context: RequestContext<'_>,
        origin: Origin,
        command: Command,
        key: Option<IdempotencyKey>,
    ) -> Envelope {
        let fresh = self.ids.borrow_mut().generate(self.clocks.store.now(), first_bucket(&command));
        Envelope { fresh, command, key, origin, access: context.caller.principal.access() }
    }
}

pub(super) fn origin(RequestContext { head, request_id, caller, .. }: RequestContext<'_>) -> Origin {
    let actor = caller.principal.actor.clone();
    let key_id = match caller.principal.kind {
        PrincipalKind::Key(id) => Some(id),
        PrincipalKind::Root
        | PrincipalKind::Anonymous
        | PrincipalKind::Jwt
        | PrincipalKind::Hold(_)
        | PrincipalKind::Listener
        | PrincipalKind::System => None,
    };
    Origin { actor, key_id, request_id: request_id.clone(), trace: head.trace() }
}

/// An idempotency key of the caller. Keys of different principals and of different kinds of commands never collide.
pub(super) fn key_use(caller: &Caller, command: &Command, key: &str) -> IdempotencyKey {
    IdempotencyKey {
        hash: digest::key_hash(caller.principal.actor.as_str(), command.kind().name(), key),
        fingerprint: digest::fingerprint(command),
    }
}

/// Lets other requests of the worker run now and then.
async fn yield_regularly(done: usize) {
    if done % TURN == TURN - 1 {
        tokio::task::yield_now().await;
    }
}

/// The scope that a caller lacks for a command of a batch.
fn missing_scope(caller: &Caller, kind: CommandKind) -> Option<Scope> {
    scope_of(kind).filter(|scope| !caller.principal.may(*scope))
}

/// The scope that a command of a batch needs: that of its own route. `None` for commands without a route.
fn scope_of(kind: CommandKind) -> Option<Scope> {
    let route = match kind {
        CommandKind::Reserve => RouteId::ReserveBasket,
        CommandKind::Confirm => RouteId::Confirm,
        CommandKind::Release => RouteId::Release,
        CommandKind::Extend => RouteId::Extend,
        CommandKind::Amend => RouteId::Amend,
        CommandKind::Transfer => RouteId::Transfer,
        CommandKind::Split => RouteId::Split,
        CommandKind::Merge => RouteId::Merge,
        CommandKind::OpenPayment => RouteId::OpenPayment,
        CommandKind::ClosePayment => RouteId::ClosePayment,
        CommandKind::StartCheckout => RouteId::StartCheckout,
        CommandKind::AdvancePayment => RouteId::CancelCheckout,
        CommandKind::Refund => RouteId::Refund,
        CommandKind::Fulfil => RouteId::Fulfil,
        CommandKind::Return => RouteId::ReturnUnits,
        CommandKind::SetStock => RouteId::SetStock,
        CommandKind::AdjustStock => RouteId::AdjustStock,
        CommandKind::DeleteItem => RouteId::DeleteItem,
        CommandKind::AddUnits => RouteId::AddUnits,
        CommandKind::RetireUnit => RouteId::RetireUnit,
        CommandKind::SetPool => RouteId::SetPool,
        CommandKind::DeletePool => RouteId::DeletePool,
        CommandKind::SetUnitPool => RouteId::PutIntoPool,
        CommandKind::SetSale => RouteId::PauseSale,
        CommandKind::SetLimit => RouteId::SetLimit,
        CommandKind::DeleteLimit => RouteId::DeleteLimit,
        CommandKind::SetRecord | CommandKind::Sweep => return None,
    };
    match route.spec().scope {
        RequiredScope::One(scope) => Some(scope),
        RequiredScope::Open | RequiredScope::EachCommand => None,
    }
}

/// The kind of response for a command of a batch.
fn response_kind(kind: CommandKind) -> ResponseKind {
    match kind {
        CommandKind::Reserve | CommandKind::Split => ResponseKind::NewReservation,
        CommandKind::Release | CommandKind::ClosePayment => ResponseKind::Nothing,
        CommandKind::SetStock | CommandKind::AdjustStock => ResponseKind::Item,
        _ => ResponseKind::Reservation,
    }
}

/// The bucket of the reservation that a command may make: that of its first item.
fn first_bucket(command: &Command) -> u16 {
    let of_first = |basket: &Basket| basket.lines().first().map_or(0, |line| bucket_of(&line.item));
    match command {
        Command::Reserve(reserve) => of_first(&reserve.basket),
        Command::Split(split) => of_first(&split.lines),
        Command::Confirm(confirm) => confirm.id.bucket(),
        Command::AdvancePayment(advance) => advance.id.bucket(),
        _ => 0,
    }
}
