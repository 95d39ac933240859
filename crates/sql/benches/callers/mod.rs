//! Callers that each wait for their answer, on the store itself: what the benchmarks of this folder have in common.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{Envelope, ItemKey, Outcome};
use stockhold_store::{Answer, Failure, Inbox, Job, ReplyTo, Request, Store};

/// Tickets whose commands were done; anything else ends the benchmark.
#[derive(Default)]
pub(crate) struct Answers {
    put: Mutex<(Vec<u64>, bool)>,
    flushed: Condvar,
}

impl Inbox for Answers {
    fn put(&self, ticket: u64, answer: Result<Answer, Failure>) {
        let Ok(Answer::Outcome(Outcome::Done(_))) = answer else { panic!("{answer:?}") };
        self.put.lock().unwrap().0.push(ticket);
    }

    fn flush(&self) {
        self.put.lock().unwrap().1 = true;
        self.flushed.notify_one();
    }
}

impl Answers {
    pub(crate) fn take(&self) -> Vec<u64> {
        let put = self.flushed.wait_while(self.put.lock().unwrap(), |(_, flushed)| !*flushed);
        std::mem::take(&mut *put.unwrap()).0
    }
}

pub(crate) fn submit(store: &dyn Store, answers: &Arc<Answers>, ticket: u64, envelope: Envelope) {
    let inbox: Arc<dyn Inbox> = answers.clone();
    store.submit(Job { request: Request::Command(Box::new(envelope)), reply: ReplyTo { inbox, ticket } });
}

/// One command, done when this returns.
pub(crate) fn done(store: &dyn Store, envelope: Envelope) {
    let answers = Arc::new(Answers::default());
    submit(store, &answers, 0, envelope);
    store.flush();
    answers.take();
}

/// Reserves one unit after the other by so many callers, of each item in turn, each with a key of its own: how many a second.
pub(crate) fn reserve(
    store: &dyn Store,
    maker: &mut Maker,
    items: &[ItemKey],
    callers: usize,
    round: Duration,
    keys: &mut u64,
) -> f64 {
    let answers = Arc::new(Answers::default());
    let (mut asked, mut answered) = (0, 0);
    let mut ask = |count: usize, asked: &mut usize| {
        for _ in 0..count {
            *asked += 1;
            *keys += 1;
            let item = &items[usize::try_from(*keys).unwrap() % items.len()];
            let command = maker::reserve_for(600, &[(item, 1)]);
            submit(store, &answers, *keys, maker.keyed(&format!("{keys:032}"), command));
        }
        store.flush();
    };
    let begun = Instant::now();
    ask(callers, &mut asked);
    let mut took = begun.elapsed();
    while answered < asked {
        let count = answers.take().len();
        answered += count;
        took = begun.elapsed();
        if took < round {
            ask(count, &mut asked);
        }
    }
    rate(answered, took)
}

#[expect(clippy::cast_precision_loss, reason = "counts of a benchmark")]
pub(crate) fn rate(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}
