//! The requests of one worker that wait for the store. Each worker thread has one [`PendingReplies`]: a request takes a
//! ticket and waits; the store puts answers into the inbox from its own thread and wakes the worker once per batch.
//!
//! It also tells the store when a round of requests has ended, so that requests that arrived together are committed
//! together. It must never lose an answer, also if delivering another answer panics.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use stockhold_store::fault;
use stockhold_store::{Answer, Failure, Inbox, Job, ReplyTo, Request, Store};
use tokio::sync::Notify;

/// Longest wait for an answer, in checks of deadlines. After it a command's outcome is unknown to the caller.
const DEADLINE_CHECKS: u32 = 30;
/// How often a round of requests checks for further requests before it ends.
const ROUND_YIELDS: u32 = 4;
/// How often deadlines are checked.
const DEADLINE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

type StoreResult = Result<Answer, Failure>;

/// The pending replies of one worker.
pub(super) struct PendingReplies {
    store: Arc<dyn Store>,
    inbox: Arc<Answers>,
    /// Answers that are being delivered. They are kept here so that a panic loses none of them.
    handing: RefCell<VecDeque<(u64, StoreResult)>>,
    slots: RefCell<Slots>,
    submitted: Notify,
}

#[derive(Default)]
struct Answers {
    put: Mutex<VecDeque<(u64, StoreResult)>>,
    flushed: Notify,
}

impl Inbox for Answers {
    fn put(&self, ticket: u64, answer: StoreResult) {
        self.put.lock().unwrap_or_else(PoisonError::into_inner).push_back((ticket, answer));
    }

    fn flush(&self) {
        self.flushed.notify_one();
    }
}

#[derive(Default)]
struct Slots {
    all: Vec<Slot>,
    free: Vec<usize>,
    /// Number of tickets so far.
    opened: u64,
    /// How often deadlines were checked so far. It serves as their time, so a request reads no clock.
    checks: u32,
}

struct Slot {
    /// Counts the uses of the slot, so that a late answer is dropped.
    generation: u32,
    /// The number of the check before the wait began.
    since: u32,
    /// Whether it waits for a read, whose outcome can't be unknown.
    reads: bool,
    state: SlotState,
}

enum SlotState {
    Free,
    Waiting(Option<Waker>),
    Answered(StoreResult),
}

impl PendingReplies {
    pub(super) fn new(store: Arc<dyn Store>) -> Rc<Self> {
        Rc::new(Self {
            store,
            inbox: Arc::new(Answers::default()),
            handing: RefCell::default(),
            slots: RefCell::default(),
            submitted: Notify::new(),
        })
    }

    /// Submits a request to the store and waits for its answer. Dropping the future cancels nothing.
    pub(super) fn submit(self: &Rc<Self>, ask: Request) -> PendingReply {
        let ticket = self.slots.borrow_mut().open(matches!(ask, Request::Query(_)));
        let inbox: Arc<dyn Inbox> = self.inbox.clone();
        self.store.submit(Job { request: ask, reply: ReplyTo { inbox, ticket } });
        self.submitted.notify_one();
        PendingReply { pending_replies: Rc::clone(self), ticket }
    }

    /// Delivers answers. Runs as long as the worker does. After a panic it continues with the remaining answers.
    pub(super) async fn deliver_replies(self: Rc<Self>) {
        loop {
            while let Some((ticket, answer)) = self.next_answer() {
                self.slots.borrow_mut().answer(ticket, answer);
            }
            self.inbox.flushed.notified().await;
            let mut put = self.inbox.put.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut *put, &mut self.handing.borrow_mut());
            drop(put);
            fault!("answers.handing_out");
        }
    }

    fn next_answer(&self) -> Option<(u64, StoreResult)> {
        self.handing.borrow_mut().pop_front()
    }

    /// Ends each round: it runs after all requests that were ready before it.
    pub(super) async fn flush_rounds(self: Rc<Self>) {
        loop {
            self.submitted.notified().await;
            // Requests that arrived meanwhile join the round, because one large commit costs less than two small ones.
            for _ in 0..ROUND_YIELDS {
                let before = self.slots.borrow().opened;
                tokio::task::yield_now().await;
                if self.slots.borrow().opened == before {
                    break;
                }
            }
            self.store.flush();
            fault!("round.ended");
        }
    }

    /// Answers requests that have waited too long.
    pub(super) async fn expire_waits(self: Rc<Self>) {
        loop {
            tokio::time::sleep(DEADLINE_CHECK_INTERVAL).await;
            self.slots.borrow_mut().give_up();
        }
    }
}

impl Slots {
    fn open(&mut self, reads: bool) -> u64 {
        let (state, since) = (SlotState::Waiting(None), self.checks);
        self.opened += 1;
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.all.push(Slot { generation: 0, since, reads, state: SlotState::Free });
                self.all.len() - 1
            }
        };
        let Some(slot) = self.all.get_mut(index) else { return u64::MAX };
        slot.generation = slot.generation.wrapping_add(1);
        (slot.state, slot.since, slot.reads) = (state, since, reads);
        (u64::from(slot.generation) << 32) | index as u64
    }

    fn find(&mut self, ticket: u64) -> Option<&mut Slot> {
        let (generation, index) = (ticket >> 32, usize::try_from(ticket & u64::from(u32::MAX)).ok()?);
        self.all.get_mut(index).filter(|slot| u64::from(slot.generation) == generation)
    }

    fn answer(&mut self, ticket: u64, answer: StoreResult) {
        if let Some(slot) = self.find(ticket) {
            slot.answer(answer);
        }
    }

    fn close(&mut self, ticket: u64) {
        if let Some(slot) = self.find(ticket) {
            slot.generation = slot.generation.wrapping_add(1);
            slot.state = SlotState::Free;
            self.free.extend(usize::try_from(ticket & u64::from(u32::MAX)));
        }
    }

    fn give_up(&mut self) {
        self.checks += 1;
        for slot in &mut self.all {
            if self.checks - slot.since > DEADLINE_CHECKS {
                slot.answer(Err(Failure::OutcomeUnknown));
            }
        }
    }
}

impl Slot {
    /// Delivers an answer and wakes the waiting request, if there is one.
    fn answer(&mut self, answer: StoreResult) {
        let SlotState::Waiting(waker) = &mut self.state else { return };
        let waker = waker.take();
        self.state = SlotState::Answered(match answer {
            Err(Failure::OutcomeUnknown) if self.reads => {
                Err(Failure::Unavailable("the store did not answer a read".to_owned()))
            }
            answer => answer,
        });
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A pending reply.
pub(super) struct PendingReply {
    pending_replies: Rc<PendingReplies>,
    ticket: u64,
}

impl Future for PendingReply {
    type Output = StoreResult;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<StoreResult> {
        let mut slots = self.pending_replies.slots.borrow_mut();
        let Some(slot) = slots.find(self.ticket) else {
            return Poll::Ready(Err(Failure::Internal("a ticket was lost".to_owned())));
        };
        match std::mem::replace(&mut slot.state, SlotState::Free) {
            SlotState::Answered(answer) => Poll::Ready(answer),
            SlotState::Waiting(_) | SlotState::Free => {
                slot.state = SlotState::Waiting(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        self.pending_replies.slots.borrow_mut().close(self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::task::Wake;
    use stockhold_conformance::Maker;
    use stockhold_domain::{Command, Item, ItemKey};
    use stockhold_store::Query;

    /// A store that keeps its requests and never answers.
    #[derive(Default)]
    struct Silent(Mutex<Vec<Job>>);

    impl Store for Silent {
        fn submit(&self, work: Job) {
            self.0.lock().unwrap().push(work);
        }

        fn flush(&self) {}

        fn published_item(&self, _: &ItemKey) -> Option<Option<Item>> {
            None
        }

        fn newest(&self) -> u64 {
            0
        }

        fn fatal_error(&self) -> Option<String> {
            None
        }
    }

    fn look(waiting: &mut PendingReply) -> Poll<StoreResult> {
        Pin::new(waiting).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn of_what_takes_too_long_a_command_s_outcome_is_unknown_and_a_read_has_none() {
        let pending_replies = PendingReplies::new(Arc::new(Silent::default()));
        let sweep = Maker::new(1, "").wrap(Command::Sweep);
        let mut waits = [
            pending_replies.submit(Request::Command(Box::new(sweep.clone()))),
            pending_replies.submit(Request::Commands(vec![sweep])),
            pending_replies.submit(Request::Query(Query::Items(Vec::new()))),
        ];
        for _ in 0..DEADLINE_CHECKS {
            pending_replies.slots.borrow_mut().give_up();
        }
        assert!(waits.iter_mut().all(|waiting| look(waiting).is_pending()), "not before the deadline");
        pending_replies.slots.borrow_mut().give_up();
        let [command, commands, read] = waits.each_mut().map(look);
        for answer in [command, commands] {
            assert!(matches!(answer, Poll::Ready(Err(Failure::OutcomeUnknown))), "{answer:?}");
        }
        assert!(matches!(read, Poll::Ready(Err(Failure::Unavailable(_)))), "{read:?}");
    }

    #[test]
    fn a_read_that_a_failed_commit_took_along_has_no_unknown_outcome_either() {
        let store = Arc::new(Silent::default());
        let pending_replies = PendingReplies::new(store.clone());
        let mut read = pending_replies.submit(Request::Query(Query::Items(Vec::new())));
        for Job { reply, .. } in store.0.lock().unwrap().drain(..) {
            pending_replies.slots.borrow_mut().answer(reply.ticket, Err(Failure::OutcomeUnknown));
        }
        let read = look(&mut read);
        assert!(matches!(read, Poll::Ready(Err(Failure::Unavailable(_)))), "{read:?}");
    }

    /// A waker that panics.
    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }

    #[test]
    fn a_panic_while_answers_are_handed_out_loses_none() {
        let store = Arc::new(Silent::default());
        let pending_replies = PendingReplies::new(store.clone());
        let [mut first, mut second] =
            [0, 1].map(|_| pending_replies.submit(Request::Query(Query::Items(Vec::new()))));
        let bad = Waker::from(Arc::new(Panics));
        assert!(Pin::new(&mut first).poll(&mut Context::from_waker(&bad)).is_pending());
        assert!(look(&mut second).is_pending());
        for Job { reply, .. } in store.0.lock().unwrap().drain(..) {
            reply.answer(Err(Failure::Overloaded));
        }
        let deliver_replies = || {
            let mut handing = std::pin::pin!(Rc::clone(&pending_replies).deliver_replies());
            handing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
        };
        assert!(catch_unwind(AssertUnwindSafe(deliver_replies)).is_err());
        assert!(deliver_replies(), "begun anew");
        for waiting in [&mut first, &mut second] {
            assert!(matches!(look(waiting), Poll::Ready(Err(Failure::Overloaded))));
        }
    }

    #[test]
    fn the_proxies_that_are_shipped_wait_for_longer_than_the_desk() {
        let shipped = [
            (include_str!("../../../../deploy/haproxy.cfg"), "timeout server"),
            (include_str!("../../../../deploy/nginx.conf"), "proxy_read_timeout"),
        ];
        let longest = DEADLINE_CHECK_INTERVAL * (DEADLINE_CHECKS + 1);
        for (file, name) in shipped {
            let values = file.lines().filter_map(|line| line.trim().strip_prefix(name));
            let seconds = values.filter_map(|value| value.trim().trim_end_matches(';').strip_suffix('s'));
            let waits: Vec<_> =
                seconds.map(|seconds| Duration::from_secs(seconds.parse().unwrap())).collect();
            assert!(!waits.is_empty() && waits.iter().all(|wait| *wait > longest), "{name}: {waits:?}");
        }
        let told = format!("time-outs belong above {} s", longest.as_secs());
        assert!(include_str!("../../../../docs/operating.md").contains(&told), "{told}");
    }
}
