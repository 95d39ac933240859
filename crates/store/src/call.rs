//! A request to a store from a task that waits for its answer alone. Tasks with many requests at once have an [`Inbox`] of their own.

use crate::job::{Answer, Failure, Inbox, Job, ReplyTo, Request};
use crate::query::{Query, QueryResult};
use crate::store::Store;
use core::future::poll_fn;
use core::task::{Poll, Waker};
use std::sync::{Arc, Mutex, PoisonError};

/// An inbox for one answer.
#[derive(Default)]
struct OneAnswer(Mutex<AnswerSlot>);

/// The answer, and the task that waits for it.
#[derive(Default)]
struct AnswerSlot {
    answer: Option<Result<Answer, Failure>>,
    waker: Option<Waker>,
}

impl Inbox for OneAnswer {
    fn put(&self, _: u64, answer: Result<Answer, Failure>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).answer = Some(answer);
    }

    fn flush(&self) {
        let waker = self.0.lock().unwrap_or_else(PoisonError::into_inner).waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Sends a request and waits for its answer.
pub async fn call(store: &dyn Store, request: Request) -> Result<Answer, Failure> {
    let inbox = Arc::new(OneAnswer::default());
    store.submit(Job { request, reply: ReplyTo { inbox: Arc::clone(&inbox) as Arc<dyn Inbox>, ticket: 0 } });
    store.flush();
    poll_fn(|context| {
        let mut slot = inbox.0.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    })
    .await
}

/// Reads from a store.
pub async fn query(store: &dyn Store, query: Query) -> Result<QueryResult, Failure> {
    match call(store, Request::Query(query)).await? {
        Answer::QueryResult(found) => Ok(found),
        Answer::Outcome(_) | Answer::Outcomes(_) => {
            Err(Failure::Internal("the store answered another question".to_owned()))
        }
    }
}
