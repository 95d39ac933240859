//! From decoded commands to the store and back: one alone, or a batch of them.

use super::handle::{Handled, Who, Worker};
use super::metrics::Operation;
use super::refused::Refused;
use super::reply::{self, Shape};
use std::borrow::Cow;
use stockhold_api::decode::{self, Keyed};
use stockhold_api::encode::{self, List};
use stockhold_api::problem::Problem;
use stockhold_domain::{Command, Envelope, IdempotencyKey, Origin, bucket_of};
use stockhold_store::{Answer, Request, digest};

/// Commands of a batch that are worked on before others have their turn.
const TURN: usize = 256;
/// Bytes of one result, which hardly any exceeds: a list that outgrows its room is copied.
const RESULT_ROOM: usize = 512;

impl Worker {
    /// A command that may carry an idempotency key, in the header or in its body.
    pub(super) async fn keyed(
        &self,
        who: Who<'_>,
        Keyed { command, key }: Keyed<'_>,
        shape: Shape,
    ) -> Handled {
        let key = decode::idempotency_key(who.0.idempotency_key.once("/Idempotency-Key")?, key)?;
        let key = key.map(|key| self.key_use(&command, &key));
        self.command(who, command, key, shape).await
    }

    /// One command.
    pub(super) async fn command(
        &self,
        who: Who<'_>,
        command: Command,
        key: Option<IdempotencyKey>,
        shape: Shape,
    ) -> Handled {
        let operation = Operation::of(&command);
        let envelope = self.envelope(who, self.origin(who), command, key);
        let answer = match self.desk.ask(Request::Command(Box::new(envelope))).await {
            Ok(Answer::Outcome(outcome)) => Ok(outcome),
            Ok(_) => return Err(Refused::mixed_up()),
            Err(failure) => Err(failure),
        };
        self.metrics.command(operation, answer.as_ref());
        reply::outcome(answer.map_err(|failure| Refused::failed(&failure))?, shape)
    }

    /// A batch: each command is judged on its own, in order, and answered with the status of its own route. All go to
    /// the store at once, so what is committed together costs one commit.
    pub(super) async fn commands(&self, who: Who<'_>, body: &[u8]) -> Handled {
        let (asked, request_id) = who;
        decode::no_idempotency_key(asked.idempotency_key != super::asked::Given::Not)?;
        let decoded = decode::commands(asked.query, body)?;
        let count = decoded.len();
        self.metrics.batch(count);
        let origin = self.origin(who);
        let mut envelopes = Vec::with_capacity(count);
        let mut places = Vec::with_capacity(count);
        for (n, command) in decoded.into_iter().enumerate() {
            others_turn(n).await;
            match command {
                Ok(Keyed { command, key }) => {
                    places.push(Ok(Operation::of(&command)));
                    let key = key.map(|key: Cow<'_, str>| self.key_use(&command, &key));
                    envelopes.push(self.envelope(who, origin.clone(), command, key));
                }
                Err(invalid) => places.push(Err(invalid)),
            }
        }
        let asks = envelopes.len();
        let outcomes = match asks {
            0 => Vec::new(),
            _ => match self.desk.ask(Request::Commands(envelopes)).await {
                Ok(Answer::Outcomes(outcomes)) if outcomes.len() == asks => outcomes,
                Ok(_) => return Err(Refused::mixed_up()),
                Err(failure) => return Err(Refused::failed(&failure)),
            },
        };
        let mut outcomes = outcomes.into_iter();
        let mut out = Vec::with_capacity(count * RESULT_ROOM);
        let mut list = List::open(&mut out, "results");
        let mut logged = None;
        for (n, place) in places.into_iter().enumerate() {
            others_turn(n).await;
            let out = list.entry(&mut out);
            match (place, &mut outcomes) {
                (Err(invalid), _) => encode::result_problem(out, &Problem::from(invalid), request_id),
                (Ok(operation), outcomes) => {
                    let Some(outcome) = outcomes.next() else { return Err(Refused::mixed_up()) };
                    self.metrics.command(operation, outcome.as_ref());
                    let why = reply::result(out, outcome, shape(operation), request_id);
                    // What the store can't do for one it can't do for the next either.
                    if let Some(why) = why.filter(|why| logged != Some(why.problem.reason())) {
                        logged = Some(why.problem.reason());
                        why.log(&asked, None, request_id);
                    }
                }
            }
        }
        list.close(&mut out);
        let mut load = self.room.load();
        load.add(out.capacity());
        Ok(reply::written(out, Some(load)))
    }

    fn origin(&self, (asked, request_id): Who<'_>) -> Origin {
        Origin { actor: self.principal.clone(), request_id: request_id.clone(), trace: asked.trace() }
    }

    fn envelope(
        &self,
        who: Who<'_>,
        origin: Origin,
        command: Command,
        key: Option<IdempotencyKey>,
    ) -> Envelope {
        let fresh = self.ids.borrow_mut().generate(who.0.now, first_bucket(&command));
        Envelope { fresh, command, key, origin }
    }

    fn key_use(&self, command: &Command, key: &str) -> IdempotencyKey {
        IdempotencyKey {
            hash: digest::key_hash(self.principal.as_str(), Operation::of(command).name(), key),
            fingerprint: digest::fingerprint(command),
        }
    }
}

/// Lets the worker's other requests go on now and then.
async fn others_turn(done: usize) {
    if done % TURN == TURN - 1 {
        tokio::task::yield_now().await;
    }
}

/// How a command of a batch is answered.
fn shape(operation: Operation) -> Shape {
    match operation {
        Operation::Reserve => Shape::NewReservation,
        Operation::Release => Shape::Nothing,
        Operation::SetStock | Operation::Adjust => Shape::Item,
        _ => Shape::Reservation,
    }
}

fn first_bucket(command: &Command) -> u16 {
    match command {
        Command::Reserve(reserve) => reserve.basket.lines().first().map_or(0, |want| bucket_of(&want.item)),
        _ => 0,
    }
}
