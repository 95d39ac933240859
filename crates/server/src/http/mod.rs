//! The HTTP server: an acceptor that distributes connections to workers. A worker is a thread with its own runtime,
//! pending replies and connections. A request stays on its worker's thread from the first byte to the last.

mod admission;

mod body;
mod checkout_routes;
mod closing;
mod customer_routes;
mod fast_path;
mod general_path;
mod http2_path;
mod listeners;
mod plain_request;
mod pool_routes;
mod socket;
mod tls;
mod transport;
mod unsent;

mod authorize;
mod origin;
mod request_head;
mod request_memory;
mod restrict;
mod route;

mod archive_routes;
mod commands;
mod credential_watch;
mod document;
mod event_pages;
mod event_tailer;
mod gate_routes;
mod grpc;
mod keys;
mod limit_routes;
mod lists;
mod page_headers;
mod pending_replies;
mod profiles;
mod reconciliation_routes;
mod reply;
mod request_error;
mod sale;
mod signing_key;
mod sink_routes;
mod stream;
mod webhook_routes;
mod worker;

mod admin;
mod metrics;
mod process_metrics;

#[cfg(test)]
mod contract;

pub(crate) use admin::Admin;
pub(crate) use listeners::Listeners;
pub(crate) use metrics::{WorkerGauges, describe};
pub(crate) use process_metrics::describe as describe_process;
pub(crate) use tls::Tls;

use crate::access::Access;
use crate::archiver::Archiver;
use admission::Admission;
use admission::bounds::{CONNECTIONS, CONNECTIONS_AT_LEAST};
use admission::connections::{Connection, Connections};
use event_tailer::EventTailer;
use listeners::Peer;
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
use stockhold_checkout::CheckoutRunner;
use stockhold_customers::Customers;
use stockhold_domain::HoldLimits;
use stockhold_gate::GateStore;
use stockhold_relay::Relay;
use stockhold_store::Store;
use stockhold_store::clock::Clocks;
use stockhold_store::ids::IdSource;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;
use worker::{CountGuard, Worker};

/// Open files besides connections, with a reserve.
const OTHER_FILES: usize = 128;
/// Most connections that were told to close and have not closed yet, beyond the bound.
const CLOSING: usize = 64;
const _: () = assert!(CLOSING < OTHER_FILES);
/// Pause of the acceptor while so many are closing.
const CLOSING_PAUSE: Duration = Duration::from_millis(10);
/// How long a stopping server still accepts connections: enough for requests that are on their way.
const QUIET: Duration = Duration::from_millis(500);
/// Longest time for requests in progress after that.
const DRAIN: Duration = Duration::from_secs(20);

/// Pause before a part of a worker that panicked starts again.
const RESTART_PAUSE: Duration = Duration::from_millis(10);

/// An accepted connection, and its place among the open ones.
type Accepted = (net::TcpStream, Peer, Connection);

/// The worker threads.
pub(crate) struct Http {
    workers: Vec<JoinHandle<()>>,
    connections: Vec<mpsc::UnboundedSender<Accepted>>,
    /// Plain requests in progress, for each worker.
    under_way: Vec<Arc<AtomicUsize>>,
    /// Most open connections.
    most: usize,
    shared: Shared,
}

/// What the routes work with.
#[derive(Clone)]
pub(crate) struct Services {
    pub(crate) store: Arc<dyn Store>,
    /// The gate in front of the store, if there is one.
    pub(crate) gate: Option<Arc<GateStore>>,
    /// Archives old events.
    pub(crate) archiver: Arc<Archiver>,
    /// Delivers events to other systems.
    pub(crate) relay: Arc<Relay>,
    /// Takes payments.
    pub(crate) checkout: Arc<CheckoutRunner>,
    /// Personal data of customers.
    pub(crate) customers: Customers,
    pub(crate) clocks: Clocks,
    pub(crate) access: Arc<Access>,
    pub(crate) rules: Arc<HoldLimits>,
    /// After this time a client of HTTP/2 is asked to connect again.
    pub(crate) max_connection_age: Duration,
    /// Whether gRPC answers reflection.
    pub(crate) grpc_reflection: bool,
}

/// The state that all workers share.
#[derive(Clone)]
struct Shared {
    services: Services,
    draining: Arc<AtomicBool>,
    connections: Arc<Connections>,
    /// Connections served by hyper, which end by themselves after a stop signal.
    slow: Arc<AtomicUsize>,
    stop: watch::Sender<bool>,
    admission: Admission,
    /// If the API speaks TLS.
    tls: Option<Arc<Tls>>,
}

impl Http {
    /// Starts the workers.
    pub(crate) fn start(threads: usize, services: Services, tls: Option<Arc<Tls>>) -> io::Result<Self> {
        let most = most_connections();
        let shared = Shared {
            services,
            draining: Arc::default(),
            connections: Connections::new(most),
            slow: Arc::default(),
            stop: watch::Sender::new(false),
            admission: Admission::default(),
            tls,
        };
        let mut http =
            Self { workers: Vec::new(), connections: Vec::new(), under_way: Vec::new(), most, shared };
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

    /// The values of the workers for metrics.
    pub(crate) fn gauges(&self) -> WorkerGauges {
        let Shared { draining, connections, admission, .. } = self.shared.clone();
        WorkerGauges { draining, connections, admission }
    }

    /// Accepts connections until dropped.
    pub(crate) async fn accept(&self, listeners: &Listeners) {
        let mut turn = self.connections.iter().cycle();
        let Shared { connections, services, .. } = &self.shared;
        loop {
            if connections.count() >= self.most + CLOSING {
                tokio::time::sleep(CLOSING_PAUSE).await;
                continue;
            }
            match listeners.accept().await {
                Ok((stream, peer)) => {
                    // Without a place for it, the connection is closed.
                    let Some(place) = connections.admit(services.access.counted_network(peer.address)) else {
                        continue;
                    };
                    if let Some(worker) = turn.next() {
                        // A worker ends only together with all others, and its connections with it.
                        let _ = worker.send((stream, peer, place));
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    /// Starts to drain: requests are answered with `Connection: close`. New connections are still accepted for a
    /// moment, because clients and proxies may not have noticed the stop yet.
    pub(crate) async fn accept_last_connections(&self, listeners: Listeners) {
        self.shared.draining.store(true, Ordering::Relaxed);
        tokio::select! {
            () = self.accept(&listeners) => {}
            () = tokio::time::sleep(QUIET) => {}
        }
    }

    /// Waits until all requests in progress have ended.
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

/// Raises the limit on open files as far as possible, and reserves some of them for other uses.
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
    let pending_replies = PendingReplies::new(Arc::clone(&shared.services.store));
    supervise(&pending_replies, PendingReplies::deliver_replies);
    supervise(&pending_replies, PendingReplies::flush_rounds);
    supervise(&pending_replies, PendingReplies::expire_waits);
    let tailer = EventTailer::new(Arc::clone(&shared.services.store));
    supervise(&tailer, EventTailer::watch);
    let worker = Rc::new(Worker {
        store: shared.services.store,
        gate: shared.services.gate,
        archiver: shared.services.archiver,
        relay: shared.services.relay,
        checkout: shared.services.checkout,
        customers: shared.services.customers,
        pending_replies,
        ids: RefCell::new(ids),
        clocks: shared.services.clocks,
        access: shared.services.access,
        rules: shared.services.rules,
        max_connection_age: shared.services.max_connection_age,
        grpc_reflection: shared.services.grpc_reflection,
        metrics: metrics::RouteMetrics::new(),
        draining: shared.draining,
        stop: shared.stop.clone(),
        under_way,
        admission: shared.admission,
        tailer,
        creators: restrict::Creators::default(),
        ended_orders: profiles::EndedOrders::default(),
        date: RefCell::default(),
    });
    while let Some((stream, peer, connection)) = connections.recv().await {
        let (worker, stop, slow) = (Rc::clone(&worker), shared.stop.subscribe(), Arc::clone(&shared.slow));
        let (tls, connection) = (shared.tls.clone(), Rc::new(connection));
        let served = Rc::clone(&connection);
        let task = tokio::task::spawn_local(async move {
            match TcpStream::from_std(stream) {
                Ok(stream) => serve_connection(worker, stream, peer, served, stop, slow, tls).await,
                Err(error) => tracing::warn!(%error, "a connection could not be taken over"),
            }
        });
        connection.served_by(task.abort_handle());
    }
}

/// Runs a part of a worker that serves all its requests. After a panic it starts again, because otherwise no request
/// would be answered any more.
fn supervise<T: 'static, F: Future<Output = ()> + 'static>(of: &Rc<T>, run: fn(Rc<T>) -> F) {
    let of = Rc::clone(of);
    tokio::task::spawn_local(async move {
        while worker::or_panicked(pin!(run(Rc::clone(&of)))).await.is_none() {
            tracing::error!("a part of a worker panicked and begins anew");
            tokio::time::sleep(RESTART_PAUSE).await;
        }
    });
}

/// Serves a connection until the client or the server ends it.
async fn serve_connection(
    worker: Rc<Worker>,
    stream: TcpStream,
    peer: Peer,
    connection: Rc<Connection>,
    stop: watch::Receiver<bool>,
    slow: Arc<AtomicUsize>,
    tls: Option<Arc<Tls>>,
) {
    // A failure here only costs latency.
    let _ = stream.set_nodelay(true);
    if let Some(tls) = tls {
        // Boxed, so that plain connections are not larger for it.
        return Box::pin(tls::serve_connection(worker, stream, peer, connection, stop, slow, tls)).await;
    }
    if peer.is_grpc {
        let busy = CountGuard::new(&slow);
        Box::pin(http2_path::serve_connection(worker, stream, peer, connection, stop)).await;
        drop(busy);
        return;
    }
    match fast_path::serve_connection(&worker, stream, peer, &connection).await {
        fast_path::FastPathEnd::Closed => {}
        fast_path::FastPathEnd::HandOver(stream, read) => {
            let busy = CountGuard::new(&slow);
            general_path::serve_connection(worker, read, stream, peer, connection, stop).await;
            drop(busy);
        }
    }
}
