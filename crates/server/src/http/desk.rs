//! Where a worker's requests wait for their answers. One desk per worker thread: requests take a ticket and wait; the
//! store puts answers into the desk's inbox from its own thread and wakes the worker once per batch.
//!
//! The desk also says when a round of requests is over, so that what arrived together is committed together.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use stockhold_store::fault;
use stockhold_store::{Answer, Ask, Failure, Inbox, ReplyTo, Store, Work};
use tokio::sync::Notify;

/// Longest wait for an answer, in looks; past it the outcome is unknown to the caller.
const DEADLINE_LOOKS: u32 = 30;
/// How often waits are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

type Answered = Result<Answer, Failure>;

/// See the module.
pub(super) struct Desk {
    store: Arc<dyn Store>,
    inbox: Arc<Answers>,
    slots: RefCell<Slots>,
    asked: Notify,
}

#[derive(Default)]
struct Answers {
    put: Mutex<Vec<(u64, Answered)>>,
    flushed: Notify,
}

impl Inbox for Answers {
    fn put(&self, ticket: u64, answer: Answered) {
        self.put.lock().unwrap_or_else(PoisonError::into_inner).push((ticket, answer));
    }

    fn flush(&self) {
        self.flushed.notify_one();
    }
}

#[derive(Default)]
struct Slots {
    all: Vec<Slot>,
    free: Vec<usize>,
    /// How often deadlines were looked at so far: time enough for them, and no clock is read for a request.
    looks: u32,
}

struct Slot {
    /// Counts the uses of the slot, so that a late answer finds nobody.
    generation: u32,
    /// The look that came last before the wait.
    since: u32,
    state: SlotState,
}

enum SlotState {
    Free,
    Waiting(Option<Waker>),
    Answered(Answered),
}

impl Desk {
    pub(super) fn new(store: Arc<dyn Store>) -> Rc<Self> {
        Rc::new(Self {
            store,
            inbox: Arc::new(Answers::default()),
            slots: RefCell::default(),
            asked: Notify::new(),
        })
    }

    /// Asks the store and waits for its answer. Dropped, it cancels nothing.
    pub(super) fn ask(self: &Rc<Self>, ask: Ask) -> Waiting {
        let ticket = self.slots.borrow_mut().open();
        let inbox: Arc<dyn Inbox> = self.inbox.clone();
        self.store.submit(Work { ask, reply: ReplyTo { inbox, ticket } });
        self.asked.notify_one();
        Waiting { desk: Rc::clone(self), ticket }
    }

    /// Hands out answers. Runs for as long as the worker does.
    pub(super) async fn hand_out(self: Rc<Self>) {
        let mut answers = Vec::new();
        loop {
            self.inbox.flushed.notified().await;
            std::mem::swap(&mut *self.inbox.put.lock().unwrap_or_else(PoisonError::into_inner), &mut answers);
            fault!("answers.handing_out");
            for (ticket, answer) in answers.drain(..) {
                self.slots.borrow_mut().answer(ticket, answer);
            }
        }
    }

    /// Ends each round: it runs after all requests that were ready before it.
    pub(super) async fn end_rounds(self: Rc<Self>) {
        loop {
            self.asked.notified().await;
            self.store.kick();
            fault!("round.ended");
        }
    }

    /// Answers those who have waited too long.
    pub(super) async fn mind_deadlines(self: Rc<Self>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            self.slots.borrow_mut().give_up();
        }
    }
}

impl Slots {
    fn open(&mut self) -> u64 {
        let (state, since) = (SlotState::Waiting(None), self.looks);
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.all.push(Slot { generation: 0, since, state: SlotState::Free });
                self.all.len() - 1
            }
        };
        let Some(slot) = self.all.get_mut(index) else { return u64::MAX };
        slot.generation = slot.generation.wrapping_add(1);
        (slot.state, slot.since) = (state, since);
        (u64::from(slot.generation) << 32) | index as u64
    }

    fn find(&mut self, ticket: u64) -> Option<&mut Slot> {
        let (generation, index) = (ticket >> 32, usize::try_from(ticket & u64::from(u32::MAX)).ok()?);
        self.all.get_mut(index).filter(|slot| u64::from(slot.generation) == generation)
    }

    fn answer(&mut self, ticket: u64, answer: Answered) {
        if let Some(slot) = self.find(ticket)
            && let SlotState::Waiting(waker) = &mut slot.state
        {
            let waker = waker.take();
            slot.state = SlotState::Answered(answer);
            if let Some(waker) = waker {
                waker.wake();
            }
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
        self.looks += 1;
        for slot in &mut self.all {
            if let SlotState::Waiting(waker) = &mut slot.state
                && self.looks - slot.since > DEADLINE_LOOKS
            {
                let waker = waker.take();
                slot.state = SlotState::Answered(Err(Failure::OutcomeUnknown));
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }
    }
}

/// An answer to come.
pub(super) struct Waiting {
    desk: Rc<Desk>,
    ticket: u64,
}

impl Future for Waiting {
    type Output = Answered;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answered> {
        let mut slots = self.desk.slots.borrow_mut();
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

impl Drop for Waiting {
    fn drop(&mut self) {
        self.desk.slots.borrow_mut().close(self.ticket);
    }
}
