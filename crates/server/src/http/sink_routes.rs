//! The routes of event sinks. They concern all events, so a caller with restrictions may neither see nor change them.

use super::reply::{self, Reply};
use super::request_error::RequestError;
use super::worker::{HandlerResult, Worker};
use stockhold_api::decode::{EventBound, Invalid};
use stockhold_api::problem::Problem;
use stockhold_api::resources::sinks::{SinkList, SkipRequest};
use stockhold_relay::SinkCommandError;

impl Worker {
    /// `GET /v1/sinks`
    pub(super) async fn sinks(&self) -> HandlerResult {
        let data = self.relay.statuses().await.map_err(|failure| RequestError::from_store(&failure))?;
        Ok(reply::shape(&SinkList { data }))
    }

    /// `POST /v1/sinks/{sink}/skip`
    pub(super) async fn skip_event(&self, (name, request): (String, SkipRequest)) -> HandlerResult {
        self.relay.skip(&name, request.position).await.map_err(|error| refusal(error, &name))?;
        Ok(reply::empty(204))
    }

    /// `POST /v1/sinks/{sink}/replay`
    pub(super) async fn replay_sink(&self, (name, from): (String, EventBound)) -> HandlerResult {
        let from = match from {
            EventBound::Position(position) => position,
            EventBound::Time(since) => {
                self.relay.position_at(since).await.map_err(|failure| RequestError::from_store(&failure))?
            }
        };
        let range = self.relay.replay(&name, from).await.map_err(|error| refusal(error, &name))?;
        Ok(Reply { status: 202, ..reply::shape(&range) })
    }

    /// `POST /v1/sinks/{sink}/init`
    pub(super) async fn init_sink(&self, name: String) -> HandlerResult {
        self.relay.init(&name).await.map_err(|error| refusal(error, &name))?;
        Ok(reply::empty(204))
    }

    /// `DELETE /v1/sinks/{sink}`
    pub(super) async fn forget_sink(&self, name: String) -> HandlerResult {
        self.relay.forget(&name).await.map_err(|error| refusal(error, &name))?;
        Ok(reply::empty(204))
    }
}

fn refusal(error: SinkCommandError, name: &str) -> RequestError {
    match error {
        SinkCommandError::UnknownSink => Problem::unknown_sink(name).into(),
        SinkCommandError::InUse => Problem::sink_in_use(name).into(),
        SinkCommandError::SinkFailed(what) => Problem::sink_failed(name, &what).into(),
        SinkCommandError::NotRefused(Some(refused)) => {
            let detail = format!("must be {refused}, the position of the event that the sink refuses");
            Problem::from(Invalid::new("/position", detail)).into()
        }
        SinkCommandError::NotRefused(None) => {
            Problem::from(Invalid::new("/position", "can't be skipped: the sink refuses no event")).into()
        }
        SinkCommandError::OutOfRange(first, last) => {
            let detail =
                format!("must be {first} to {last}: the events that the store has and the sink has got");
            Problem::from(Invalid::new("/from_position", detail)).into()
        }
        SinkCommandError::Store(failure) => RequestError::from_store(&failure),
    }
}
