//! `stockhold serve`: opens the store, serves, and ends in order.

use crate::backend::Backend;
use crate::http::{self, Admin, Http};
use crate::logging;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use rustix::time::{ClockId, clock_gettime};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use stockhold_config::{Config, exit};
use stockhold_domain::Label;
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{SignalKind, signal};

/// The caller of every request, as long as there are no credentials.
const PRINCIPAL: &str = "anonymous";
/// How often the store is checked for a failure.
const FAILURE_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Most connections that wait to be accepted.
const BACKLOG: u32 = 4_096;
/// How long a server with a failed store continues, so that its last answers are sent.
const LAST_ANSWERS: Duration = Duration::from_millis(500);
/// Bounds of the latency histograms, in seconds.
const SECONDS: [f64; 14] =
    [0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];
/// Bounds of the histogram of batch sizes.
const ANSWERS: [f64; 12] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 1024.0, 4096.0, 16384.0];

/// Serves until told to stop or until the store fails.
pub(crate) fn serve(config: &Config) -> ExitCode {
    if let Err(error) = logging::start(&config.log_level, config.log_format) {
        return exit::because(exit::USAGE, error);
    }
    let metrics = match metrics() {
        Ok(metrics) => metrics,
        Err(error) => return exit::because(exit::FAILED, error),
    };
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    record_server_info(config);
    let sockets = bind(config.listen).and_then(|api| Ok((api, bind(config.admin_listen)?)));
    // Do not create a data directory when the addresses are in use. An existing one may be in use by a server that has
    // the addresses too, and that error says more.
    if let Err(error) = &sockets
        && !(config.store.is_embedded() && config.data_dir.exists())
    {
        return exit::because(exit::FAILED, error);
    }
    let (store, clock) = match Backend::open(config) {
        Ok(opened) => opened,
        Err(code) => return code,
    };
    let sockets = match sockets {
        Ok(sockets) => sockets,
        Err(error) => return exit::because(exit::FAILED, error),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::because(exit::FAILED, format!("starting the runtime: {error}")),
    };
    let principal = match Label::new(PRINCIPAL) {
        Ok(principal) => principal,
        Err(error) => return exit::because(exit::FAILED, error),
    };
    let http = match Http::start(config.workers(), store.store(), Arc::clone(&clock), principal) {
        Ok(http) => http,
        Err(error) => return exit::because(exit::FAILED, format!("starting the workers: {error}")),
    };
    let admin = match Admin::new(store.clone(), metrics, http.gauges(), clock) {
        Ok(admin) => admin,
        Err(error) => return exit::because(exit::FAILED, format!("starting the admin listener: {error}")),
    };
    let ended = runtime.block_on(run(config, sockets, http, admin, &store));
    drop(runtime);
    // This is the last reference to the store. Its threads end, and everything that waits for the index is written.
    drop(store);
    ended
}

async fn run(
    config: &Config,
    (api, admin_api): (TcpSocket, TcpSocket),
    http: Http,
    admin: Admin,
    store: &Backend,
) -> ExitCode {
    let listening = (listen(api, config.listen), listen(admin_api, config.admin_listen));
    let (api, admin_api) = match listening {
        (Ok(api), Ok(admin)) => (api, admin),
        (Err(error), _) | (_, Err(error)) => return exit::because(exit::FAILED, error),
    };
    let (mut terminate, mut interrupt) =
        match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
            (Ok(terminate), Ok(interrupt)) => (terminate, interrupt),
            (Err(error), _) | (_, Err(error)) => {
                return exit::because(exit::FAILED, format!("listening for signals: {error}"));
            }
        };
    log_start(config, store);
    let admin = tokio::spawn(admin.serve(admin_api));
    tokio::select! {
        () = http.accept(&api) => {}
        _ = terminate.recv() => tracing::info!("SIGTERM: draining"),
        _ = interrupt.recv() => tracing::info!("SIGINT: draining"),
        why = failure(store) => {
            tracing::error!(why, "the store has failed: ending, so that a restart recovers it");
            tokio::time::sleep(LAST_ANSWERS).await;
            return exit::because(exit::STORE_FAILED, why);
        }
    }
    http.accept_last_connections(api).await;
    http.drain().await;
    admin.abort();
    if let Some(why) = store.failure() {
        return exit::because(exit::STORE_FAILED, why);
    }
    tracing::info!("drained");
    ExitCode::from(exit::DONE)
}

/// A socket that is bound and does not listen yet, so that no client connects before the server can answer.
fn bind(address: SocketAddr) -> Result<TcpSocket, String> {
    let bind = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        #[cfg(target_os = "linux")]
        use_reno(&socket);
        socket.bind(address)?;
        Ok(socket)
    };
    bind().map_err(|error| listen_failed(address, &error))
}

fn listen(socket: TcpSocket, address: SocketAddr) -> Result<TcpListener, String> {
    socket.listen(BACKLOG).map_err(|error| listen_failed(address, &error))
}

fn listen_failed(address: SocketAddr, error: &std::io::Error) -> String {
    let hint = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            "; stop the process that uses the port, or choose other ports with --listen and --admin-listen"
        }
        std::io::ErrorKind::PermissionDenied => "; use a port above 1023",
        _ => "",
    };
    format!("listening on {address}: {error}{hint}")
}

/// Sets Reno as the congestion control. Answers are shorter than a connection's first window, so the pacing of BBR
/// only delays them. Every Linux has Reno and lets any process choose it. Connections inherit it from the listening
/// socket.
#[cfg(target_os = "linux")]
fn use_reno(socket: &TcpSocket) {
    if let Err(error) = rustix::net::sockopt::set_tcp_congestion(socket, "reno") {
        tracing::debug!(%error, "the system's way of pacing connections stays");
    }
}

async fn failure(store: &Backend) -> String {
    loop {
        if let Some(why) = store.failure() {
            return why;
        }
        tokio::time::sleep(FAILURE_POLL_INTERVAL).await;
    }
}

fn log_start(config: &Config, store: &Backend) {
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        api = %config.listen,
        docs = format!("http://{}/docs", config.listen),
        admin = %config.admin_listen,
        store = %config.store,
        data_dir = config.store.is_embedded().then(|| config.data_dir.display().to_string()),
        threads = config.workers(),
        "serving; {}",
        store.durability()
    );
    tracing::info!("no credentials are configured: the API listens on loopback only");
}

/// Records facts about the server for tools that measure it: its version, its address, and that every answer was
/// synced before it is given.
fn record_server_info(config: &Config) {
    let labels = [
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("store", Backend::kind(config).to_owned()),
        ("durability", "synced".to_owned()),
        ("listen", config.listen.to_string()),
    ];
    metrics::gauge!("stockhold_info", &labels).set(1.0);
}

/// Processor time that this process has used, in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(used).unwrap_or_default().as_secs_f64()
}

fn metrics() -> Result<PrometheusHandle, String> {
    let built = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)
        .and_then(|builder| builder.set_buckets_for_metric(Matcher::Suffix("_answers".to_owned()), &ANSWERS))
        .and_then(|builder| builder.set_buckets_for_metric(Matcher::Suffix("_commands".to_owned()), &ANSWERS))
        .map_err(|error| error.to_string())?
        .install_recorder()
        .map_err(|error| error.to_string())?;
    http::describe();
    metrics::describe_histogram!("stockhold_commit_seconds", "Time of one commit, its sync included");
    metrics::describe_histogram!(
        "stockhold_commit_held_seconds",
        "Time that a batch waited for an index that is far behind, of those that waited"
    );
    metrics::describe_histogram!("stockhold_batch_answers", "Answers that one commit made durable");
    metrics::describe_counter!(
        "stockhold_invariant_alarms_total",
        "Broken invariants: each is a bug or damage"
    );
    // It exists from the start, so that a rate over its first increment is not zero.
    metrics::counter!("stockhold_invariant_alarms_total").increment(0);
    metrics::describe_gauge!("stockhold_active_holds", "Active reservations");
    metrics::describe_gauge!(
        "stockhold_queue_depth",
        "Requests in the store's queue. When it is full, requests are refused as `overloaded`"
    );
    metrics::describe_gauge!(
        "stockhold_info",
        "Version, store, durability and address of this server, as labels; always 1"
    );
    metrics::describe_gauge!("stockhold_cpu_seconds", "Processor time used since the start");
    Ok(built)
}
