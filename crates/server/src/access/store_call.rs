//! A request to the store from a task that has no worker.

use std::sync::{Arc, Mutex, PoisonError};
use stockhold_store::{Answer, Failure, Inbox, Job, Query, QueryResult, ReplyTo, Request, Store};
use tokio::sync::oneshot;

/// An inbox for one answer.
struct OneAnswer(Mutex<Option<oneshot::Sender<Result<Answer, Failure>>>>);

impl Inbox for OneAnswer {
    fn put(&self, _: u64, answer: Result<Answer, Failure>) {
        if let Some(sender) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // The task may have given up.
            let _ = sender.send(answer);
        }
    }

    fn flush(&self) {}
}

/// Sends a request and waits for its answer.
pub(super) async fn call(store: &dyn Store, request: Request) -> Result<Answer, Failure> {
    let (sender, receiver) = oneshot::channel();
    let inbox: Arc<dyn Inbox> = Arc::new(OneAnswer(Mutex::new(Some(sender))));
    store.submit(Job { request, reply: ReplyTo { inbox, ticket: 0 } });
    store.flush();
    receiver.await.unwrap_or(Err(Failure::OutcomeUnknown))
}

/// Reads from the store.
pub(super) async fn query(store: &dyn Store, query: Query) -> Result<QueryResult, Failure> {
    match call(store, Request::Query(query)).await? {
        Answer::QueryResult(found) => Ok(found),
        Answer::Outcome(_) | Answer::Outcomes(_) => {
            Err(Failure::Internal("the store answered another question".to_owned()))
        }
    }
}
