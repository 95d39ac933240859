//! The HTTP side: an acceptor that deals connections out to workers, each a thread with a runtime, a desk and connections
//! of its own. A request stays on its worker's thread from its first byte to its last.

mod limits;
mod memory_budget;

mod body;
mod closing;
mod fast_path;
mod general_path;
mod plain_request;
mod socket;

mod origin;
mod request_head;
mod route;

mod commands;
mod document;
mod event_tailer;
mod lists;
mod pending_replies;
mod reply;
mod request_error;
mod sale;
mod stream;
mod worker;

mod admin;
mod metrics;
mod process_metrics;

#[cfg(test)]
mod contract;

pub(crate) use admin::Admin;
pub(crate) use metrics::{WorkerGauges, describe};
pub(crate) use process_metrics::describe as describe_process;

use event_tailer::EventTailer;
use memory_budget::MemoryBudget;
use pending_replies::PendingReplies;
use std::cell::RefCell;
use std::io;
use std::net;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use stockhold_domain::Label;
use stockhold_store::Store;
use stockhold_store::clock::Clock;
use stockhold_store::ids::IdSource;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;
use worker::{CountGuard, Worker};

/// Connections that are open at once, as far as the process may have files open; more wait in the listener's backlog.
const CONNECTIONS: usize = 16_384;
/// Files that are open beside connections, generously.
const OTHER_FILES: usize = 128;
/// Fewest connections, however few files may be open.
const CONNECTIONS_AT_LEAST: usize = 64;
/// How long a server that is told to stop goes on reading: enough for what is on its way.
const QUIET: Duration = Duration::from_millis(500);
/// How long what is under way may take after that.
const DRAIN: Duration = Duration::from_secs(20);

/// Before a part of a worker that panicked begins anew.
const RESTART_PAUSE: Duration = Duration::from_millis(10);

/// A connection on its way to its worker, and its place among those that are open.
type Accepted = (net::TcpStream, CountGuard);

/// The requests' threads.
pub(crate) struct Http {
    workers: Vec<JoinHandle<()>>,
    connections: Vec<mpsc::UnboundedSender<Accepted>>,
    /// Plain requests under way, by worker.
    under_way: Vec<Arc<AtomicUsize>>,
    /// Connections that may be open at once.
    most: usize,
    shared: Shared,
}

/// What all workers share.
#[derive(Clone)]
struct Shared {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    principal: Label,
    draining: Arc<AtomicBool>,
    /// Connections.
    open: Arc<AtomicUsize>,
    /// Connections under hyper, which end by themselves when told to.
    slow: Arc<AtomicUsize>,
    stop: watch::Sender<bool>,
    /// Event streams.
    streams: Arc<AtomicUsize>,
    memory: MemoryBudget,
}

impl Http {
    /// Starts the workers.
    pub(crate) fn start(
        threads: usize,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        principal: Label,
    ) -> io::Result<Self> {
        let shared = Shared {
            store,
            clock,
            principal,
            draining: Arc::default(),
            open: Arc::default(),
            slow: Arc::default(),
            stop: watch::Sender::new(false),
            streams: Arc::default(),
            memory: MemoryBudget::default(),
        };
        let mut http = Self {
            workers: Vec::new(),
            connections: Vec::new(),
            under_way: Vec::new(),
            most: most_connections(),
            shared,
        };
        for n in 0..threads {
            let (sender, receiver) = mpsc::unbounded_channel();
            let ids = IdSource::from_system().map_err(|error| io::Error::other(error.to_string()))?;
            let shared = http.shared.clone();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let under_way = Arc::<AtomicUsize>::default();
            http.under_way.push(Arc::clone(&under_way));
            let run = move || LocalSet::new().block_on(&runtime, work(shared, ids, under_way, receiver));
            http.workers.push(std::thread::Builder::new().name(format!("http-{n}")).spawn(run)?);
            http.connections.push(sender);
        }
        Ok(http)
    }

    /// What can be seen of the workers from outside.
    pub(crate) fn gauges(&self) -> WorkerGauges {
        let Shared { draining, open, streams, memory, .. } = self.shared.clone();
        WorkerGauges { draining, connections: open, streams, memory }
    }

    /// Accepts connections until dropped.
    pub(crate) async fn accept(&self, listener: &TcpListener) {
        let mut turn = self.connections.iter().cycle();
        loop {
            if self.shared.open.load(Ordering::Relaxed) >= self.most {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
            // A connection leaves this runtime and enters its worker's: its readiness must not come by way of two threads.
            match listener.accept().await.and_then(|(stream, _)| stream.into_std()) {
                Ok(stream) => {
                    if let Some(worker) = turn.next() {
                        // A worker ends only when all do, and its connections with it.
                        let _ = worker.send((stream, CountGuard::new(&self.shared.open)));
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    /// Begins to drain: whoever asks is answered and told to go, and new callers are still taken in for a moment, since
    /// those who send them may not have noticed yet.
    pub(crate) async fn accept_last_connections(&self, listener: TcpListener) {
        self.shared.draining.store(true, Ordering::Relaxed);
        tokio::select! {
            () = self.accept(&listener) => {}
            () = tokio::time::sleep(QUIET) => {}
        }
    }

    /// Lets what is under way end, and waits until it has.
    pub(crate) async fn drain(self) {
        self.shared.stop.send_replace(true);
        let waited = async {
            let counts = || self.under_way.iter().chain([&self.shared.slow]);
            while counts().any(|count| count.load(Ordering::Relaxed) > 0) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(DRAIN, waited).await.is_err() {
            tracing::warn!("requests are cut that did not end in time");
        }
        drop(self.connections);
        for worker in self.workers {
            if worker.join().is_err() {
                tracing::error!("a worker panicked");
            }
        }
    }
}

/// Raises the limit on open files as far as it goes, and leaves enough of them for everything else.
fn most_connections() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = (CONNECTIONS + OTHER_FILES) as u64;
    let raised = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let files = match current {
        Some(current) if current < raised => {
            match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }) {
                Ok(()) => raised,
                Err(_) => current,
            }
        }
        current => current.unwrap_or(wanted),
    };
    let files = usize::try_from(files).unwrap_or(usize::MAX);
    files.saturating_sub(OTHER_FILES).clamp(CONNECTIONS_AT_LEAST, CONNECTIONS)
}

async fn work(
    shared: Shared,
    ids: IdSource,
    under_way: Arc<AtomicUsize>,
    mut connections: mpsc::UnboundedReceiver<Accepted>,
) {
    let pending_replies = PendingReplies::new(Arc::clone(&shared.store));
    supervise(&pending_replies, PendingReplies::deliver_replies);
    supervise(&pending_replies, PendingReplies::flush_rounds);
    supervise(&pending_replies, PendingReplies::expire_waits);
    let tailer = EventTailer::new(Arc::clone(&shared.store));
    supervise(&tailer, EventTailer::watch);
    let worker = Rc::new(Worker {
        store: shared.store,
        pending_replies,
        ids: RefCell::new(ids),
        clock: shared.clock,
        principal: shared.principal,
        metrics: metrics::RouteMetrics::new(),
        draining: shared.draining,
        stop: shared.stop.clone(),
        under_way,
        streams: shared.streams,
        memory: shared.memory,
        tailer,
        date: RefCell::default(),
    });
    while let Some((stream, open)) = connections.recv().await {
        let (worker, stop, slow) = (Rc::clone(&worker), shared.stop.subscribe(), Arc::clone(&shared.slow));
        tokio::task::spawn_local(async move {
            match TcpStream::from_std(stream) {
                Ok(stream) => serve_connection(worker, stream, stop, slow).await,
                Err(error) => tracing::warn!(%error, "a connection could not be taken over"),
            }
            drop(open);
        });
    }
}

/// Runs what serves all requests of a worker for as long as that lives: after a panic it begins anew, since nobody would be
/// answered any more.
fn supervise<T: 'static, F: Future<Output = ()> + 'static>(of: &Rc<T>, run: fn(Rc<T>) -> F) {
    let of = Rc::clone(of);
    tokio::task::spawn_local(async move {
        while worker::or_panicked(pin!(run(Rc::clone(&of)))).await.is_none() {
            tracing::error!("a part of a worker panicked and begins anew");
            tokio::time::sleep(RESTART_PAUSE).await;
        }
    });
}

/// One connection, until its caller or the server ends it.
async fn serve_connection(
    worker: Rc<Worker>,
    stream: TcpStream,
    stop: watch::Receiver<bool>,
    slow: Arc<AtomicUsize>,
) {
    // A failure here only costs latency.
    let _ = stream.set_nodelay(true);
    match fast_path::serve_connection(&worker, stream).await {
        fast_path::FastPathEnd::Closed => {}
        fast_path::FastPathEnd::HandOver(stream, read) => {
            let busy = CountGuard::new(&slow);
            general_path::serve_connection(worker, read, stream, stop).await;
            drop(busy);
        }
    }
}
