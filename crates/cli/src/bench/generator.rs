//! The load generator's connections. In a closed loop, a connection sends its next request when it has its answer. In an open loop,
//! requests have planned times, and latency counts from the planned time, so that a stall counts for every request that it delayed.

use super::requests::{RequestGenerator, Tally, Workload};
use super::target::{BenchTarget, Connection};
use crate::latency::Latencies;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::LocalSet;

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest answer that is read.
const ANSWER_BYTES: usize = 16 << 20;
/// Pause before a lost connection is opened again.
const AGAIN: Duration = Duration::from_millis(50);
/// Longest sleep of the thread that releases requests.
const NAP: Duration = Duration::from_millis(20);

/// The times of a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeasurementWindow {
    /// When the first requests are sent.
    pub(super) begin: Instant,
    /// Requests that are planned after this are timed, and answers after this are counted.
    pub(super) warm: Instant,
    /// Requests that are planned after this are not sent, and answers after this are not counted.
    pub(super) end: Instant,
}

/// When requests are sent.
#[derive(Clone)]
pub(super) enum LoopMode {
    /// After the answer to the request before.
    Closed,
    /// At their planned times.
    Open(Arc<Schedule>),
}

/// The planned times of an open loop, for all threads.
pub(super) struct Schedule {
    per_second: f64,
    begin: Instant,
    /// Requests that are due and not sent.
    due: Semaphore,
    taken: AtomicU64,
}

impl Schedule {
    pub(super) fn new(per_second: f64, begin: Instant) -> Self {
        Self { per_second, begin, due: Semaphore::new(0), taken: AtomicU64::new(0) }
    }

    fn time(&self, number: u64) -> Instant {
        self.begin + Duration::from_secs_f64(to_f64(number) / self.per_second)
    }

    /// Releases requests when they are due, until the end. It needs a thread of its own: timers of a runtime have a resolution of a
    /// millisecond.
    pub(super) fn pace(&self, end: Instant) {
        let mut number = 0;
        loop {
            let now = Instant::now();
            let mut let_go = 0;
            while self.time(number) <= now.min(end) && self.time(number) < end {
                (number, let_go) = (number + 1, let_go + 1);
            }
            self.due.add_permits(let_go);
            if now >= end {
                self.due.close();
                return;
            }
            std::thread::sleep(self.time(number).saturating_duration_since(Instant::now()).min(NAP));
        }
    }

    /// Waits for a due request and returns its planned time; `None` at the end.
    async fn turn(&self) -> Option<Instant> {
        self.due.acquire().await.ok()?.forget();
        Some(self.time(self.taken.fetch_add(1, Ordering::Relaxed)))
    }

    /// Requests that were due and never sent.
    pub(super) fn left(&self) -> u64 {
        self.due.available_permits() as u64
    }
}

/// The results of a thread's connections.
pub(super) struct ThreadResult {
    /// All answers, including the warm-up: the audit compares them with the server.
    pub(super) told: Tally,
    /// The answers to requests that are timed.
    pub(super) warm: Tally,
    /// Requests that were answered during the measurement, and their successful operations.
    pub(super) requests: u64,
    pub(super) done: u64,
    pub(super) latencies: Latencies,
}

impl ThreadResult {
    fn new(latencies: Latencies) -> Self {
        Self { told: Tally::default(), warm: Tally::default(), requests: 0, done: 0, latencies }
    }

    fn add(&mut self, told: &Tally, warm: bool) {
        self.told.merge(told);
        if warm {
            self.warm.merge(told);
        }
    }
}

/// One thread of the load generator.
pub(super) struct GeneratorThread {
    pub(super) target: BenchTarget,
    pub(super) connections: usize,
    /// Number of connections of the threads before, so that each connection begins with another SKU.
    pub(super) first: usize,
    pub(super) load: Workload,
    pub(super) times: MeasurementWindow,
    pub(super) turns: LoopMode,
}

impl GeneratorThread {
    /// Runs until the end, and until all requests are answered.
    pub(super) fn run(self) -> Result<ThreadResult, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("starting a runtime: {error}"))?;
        let latencies = Latencies::new(self.load.mix.kinds())?;
        let seen = Rc::new(RefCell::new(ThreadResult::new(latencies)));
        let this = Rc::new(self);
        LocalSet::new().block_on(&runtime, async {
            let mut running = tokio::task::JoinSet::new();
            for number in 0..this.connections {
                let traffic = RequestGenerator::new(this.load.clone(), this.first + number)?;
                running.spawn_local(Rc::clone(&this).connection(traffic, Rc::clone(&seen)));
            }
            while let Some(ended) = running.join_next().await {
                ended.map_err(|error| format!("a connection's task ended early: {error}"))?;
            }
            Ok::<_, String>(())
        })?;
        Rc::into_inner(seen).map(RefCell::into_inner).ok_or_else(|| "a connection still runs".to_owned())
    }

    async fn connection(self: Rc<Self>, mut traffic: RequestGenerator, seen: Rc<RefCell<ThreadResult>>) {
        let mut wire = None;
        tokio::time::sleep_until(self.times.begin.into()).await;
        loop {
            let intended = match &self.turns {
                LoopMode::Closed => Some(Instant::now()).filter(|now| *now < self.times.end),
                LoopMode::Open(schedule) => schedule.turn().await,
            };
            let Some(intended) = intended else { return };
            let ask = traffic.next();
            let kind = ask.kind;
            let answer = match tokio::time::timeout(ANSWER_TIMEOUT, self.ask(&mut wire, ask)).await {
                Ok(answer) => answer,
                Err(_) => Err(format!("no answer within {ANSWER_TIMEOUT:?}")),
            };
            let took = intended.elapsed();
            let mut told = Tally::default();
            match answer {
                Ok((status, body)) => {
                    let answered = intended + took;
                    let done = traffic.answered(kind, status, &body, &mut told);
                    let seen = &mut *seen.borrow_mut();
                    if answered >= self.times.warm && answered < self.times.end {
                        seen.requests += 1;
                        seen.done += done;
                    }
                    if intended >= self.times.warm {
                        seen.latencies.add(kind, took);
                    }
                }
                Err(what) => {
                    traffic.unanswered(what, &mut told);
                    wire = None;
                    tokio::time::sleep(AGAIN).await;
                }
            }
            seen.borrow_mut().add(&told, intended >= self.times.warm);
        }
    }

    async fn ask(
        &self,
        wire: &mut Option<Connection>,
        ask: super::requests::BenchRequest,
    ) -> Result<(u16, Bytes), String> {
        if wire.is_none() {
            *wire = Some(self.target.connect().await.map_err(|error| format!("connecting: {error}"))?);
        }
        let Some(sender) = wire else { return Err("no connection".to_owned()) };
        let mut request = hyper::Request::builder()
            .method(ask.method)
            .uri(format!("{}{}", self.target.prefix, ask.path))
            .header(HOST, self.target.authority.as_str());
        if let Some(authorization) = &self.target.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if !ask.body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(ask.body)).map_err(|error| error.to_string())?;
        let lost = |error: hyper::Error| format!("connection lost: {error}");
        sender.ready().await.map_err(lost)?;
        let answer = sender.send_request(request).await.map_err(lost)?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES).collect().await;
        Ok((status, body.map_err(|error| format!("connection lost: {error}"))?.to_bytes()))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate")]
pub(super) fn to_f64(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_lets_go_of_what_is_due_before_the_end_and_of_no_more() {
        let begin = Instant::now();
        let schedule = Schedule::new(1_000.0, begin);
        schedule.pace(begin + Duration::from_millis(50));
        assert_eq!(schedule.left(), 50, "at 0, 1, … 49 ms");
        assert_eq!(schedule.time(25), begin + Duration::from_millis(25));
    }
}
