//! The route of the archive. It concerns all events, so a caller with restrictions may not use it.

use super::reply;
use super::request_error::RequestError;
use super::worker::{HandlerResult, Worker};
use crate::archiver::{OrderError, explain};
use stockhold_api::decode::Invalid;
use stockhold_api::problem::Problem;
use stockhold_api::resources::archive::ArchiveRequest;
use stockhold_store::Failure;

impl Worker {
    /// `POST /v1/archive`
    pub(super) async fn archive_events(&self, order: ArchiveRequest) -> HandlerResult {
        Ok(reply::shape(&self.archiver.archive(order).await.map_err(refusal)?))
    }
}

fn refusal(error: OrderError) -> RequestError {
    match error {
        error @ OrderError::NoDirectory => Problem::from(Invalid::new("/to", error.to_string())).into(),
        OrderError::OtherDirectory => Problem::other_archive_directory().into(),
        OrderError::Age(why) => Problem::from(Invalid::new("/older_than_hours", why)).into(),
        OrderError::Archive(error) => match explain(error) {
            (why, true) => RequestError::from_store(&Failure::Unavailable(why)),
            (why, false) => Problem::archive_failed(&why).into(),
        },
        OrderError::Ended => {
            RequestError::from_store(&Failure::Unavailable("the server is stopping".to_owned()))
        }
    }
}
