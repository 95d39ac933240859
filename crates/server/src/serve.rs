//! `stockhold serve`: opens the store, serves, and ends in order.

use crate::access::{Access, IssuerKeysTask, KeyTableTask, keep_connected};
use crate::archiver::{ArchivableStore, Archiver};
use crate::backend::Backend;
use crate::clock_watch::{self, watch_clocks};
use crate::http::{self, Admin, Http, Listeners, Services, Tls};
use crate::logging;
use crate::secrets_at_rest::{Resealed, reseal};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::convert::Infallible;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stockhold_api::profiles::Profile;
use stockhold_checkout::CheckoutRunner;
use stockhold_config::{Config, TlsFiles, credentials_hint, exit, sql_options};
use stockhold_customers::{Customers, Keyring};
use stockhold_embedded::Options;
use stockhold_notify::Notifier;
use stockhold_relay::{Relay, RelayOptions, SinkOptions};
use stockhold_store::clock::{Clock, Clocks, SteadyClock, WallClock};
use stockhold_store::ids::IdSource;
use stockhold_store::{StartProgress, StartStatus};
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// How often the store is checked for a failure.
const FAILURE_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How often the log says how far a start is.
const PROGRESS_LOG_INTERVAL: Duration = Duration::from_secs(5);
/// How long a start tries to read the API keys.
const KEYS_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause between these tries.
const KEYS_RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Most characters of the host's name in the name of an instance.
const HOST_NAME_CHARS: usize = 40;
/// Most connections that wait to be accepted.
const BACKLOG: u32 = 4_096;
/// How long a server with a failed store continues, so that its last answers are sent.
const LAST_ANSWERS: Duration = Duration::from_millis(500);
/// Bounds of the latency histograms, in seconds.
const SECONDS: [f64; 14] =
    [0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];
/// Bounds of the histogram of batch sizes.
const ANSWERS: [f64; 12] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 1024.0, 4096.0, 16384.0];

/// The first line of the log of a build for a first look and for tests.
const UNOPTIMIZED: &str = "this build is not optimized and several times slower, for a first look and for tests: \
    the fast one is `cargo install --locked --path crates/server`";

/// Serves until a signal or until the store fails. `accept_clock_step` says where the time of the embedded store begins if its newest
/// commit is later than the wall clock.
pub(crate) fn serve(config: &Config, accept_clock_step: bool) -> ExitCode {
    if let Err(error) = logging::start(&config.log_level, config.log_format) {
        return exit::because(exit::USAGE, error);
    }
    if cfg!(debug_assertions) {
        tracing::warn!("{UNOPTIMIZED}");
    }
    let metrics = match metrics() {
        Ok(metrics) => metrics,
        Err(error) => return exit::because(exit::FAILED, error),
    };
    http::describe_process(WallClock.now());
    for warning in config.warnings().into_iter().chain(config.wide_files()) {
        tracing::warn!("{warning}");
    }
    record_server_info(config);
    let options = match config.options() {
        Ok(options) => options,
        Err(error) => return exit::because(exit::USAGE, error),
    };
    if accept_clock_step && !config.store.is_embedded() {
        let why = "--accept-clock-step: the store is a database, which decides by its own clock";
        return exit::because(exit::USAGE, why);
    }
    let access = match Access::from_config(config) {
        Ok(access) => Arc::new(access),
        Err(error) => return exit::because(exit::USAGE, error),
    };
    let tls = match config.tls().map(Tls::load).transpose() {
        Ok(tls) => tls,
        Err(error) => return exit::because(exit::USAGE, error),
    };
    if let Err(error) = config.check_client_files() {
        return exit::because(exit::USAGE, error);
    }
    let sockets = Sockets::bind(config);
    // Do not create a data directory when the addresses are in use. An existing one may be in use by a server that has
    // the addresses too, and that error says more.
    if let Err(error) = &sockets
        && !(config.store.is_embedded() && config.data_dir.exists())
    {
        return exit::because(exit::FAILED, error);
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::because(exit::FAILED, format!("starting the runtime: {error}")),
    };
    let mut store = None;
    let ended = runtime.block_on(start_and_run(
        config,
        (options, accept_clock_step),
        access,
        metrics,
        sockets,
        tls,
        &mut store,
    ));
    drop(runtime);
    // This is the last reference to the store. Its threads end, and everything that waits for the index is written.
    drop(store);
    ended.unwrap_or_else(|code| code)
}

/// Answers on the admin listener, opens the store meanwhile, and serves from it. The caller drops the store.
async fn start_and_run(
    config: &Config,
    (options, accept_clock_step): (Options, bool),
    access: Arc<Access>,
    metrics: PrometheusHandle,
    sockets: Result<Sockets, String>,
    tls: Option<(Tls, TlsFiles)>,
    opened: &mut Option<Backend>,
) -> Result<ExitCode, ExitCode> {
    let failed = |error: String| exit::because(exit::FAILED, error);
    let begun = Instant::now();
    let steady = Arc::new(SteadyClock::start());
    let options = Options { clock: Arc::<SteadyClock>::clone(&steady), ..options };
    let progress = options.start_progress.clone();
    let (rules, key_retention) = (Arc::new(options.rules.clone()), options.key_retention);
    let admin = Admin::new(metrics, progress.clone(), Arc::clone(&access))
        .map_err(|error| failed(format!("starting the admin listener: {error}")))?;
    let (mut signals, mut reload) =
        signals().map_err(|error| failed(format!("listening for signals: {error}")))?;
    let mut admin_task = None;
    let sockets = match sockets {
        Ok(sockets) => {
            let listener = listen(sockets.admin, config.admin_listen).map_err(failed)?;
            admin_task = Some(tokio::spawn(admin.clone().serve(listener)));
            Ok((sockets.api, sockets.profiles, sockets.grpc))
        }
        Err(error) => Err(error),
    };
    let store = tokio::select! {
        store = open_store(config, options) => store?,
        name = signals.received() => {
            // The thread that opens the store ends with the process, as it does at a crash: a start can be cut at any step.
            tracing::info!("{name} during the start: ending");
            return Ok(ExitCode::from(exit::DONE));
        }
        never = log_progress(&progress) => match never {},
    };
    let store = opened.insert(store);
    let (clocks, clock_watch) = clock_watch::start(store.embedded(), steady, accept_clock_step);
    let (api, profiles, grpc) = sockets.map_err(failed)?;
    let key_table = start_access(config, &access, store, &clocks).await?;
    let tls = tls.map(|(tls, files)| {
        let tls = Arc::new(tls);
        tokio::spawn(Arc::clone(&tls).watch_files(files));
        tls
    });
    let reloaded_tls = tls.clone();
    let keyring = config.keyring().map_err(failed)?;
    seal_secrets(store, &*clocks.store, &keyring).await;
    // A customer has to be read as it is now, and not as a replica has it.
    let customers = Customers::new(store.primary(), Arc::new(keyring));
    let notifier =
        notifier(config, &customers, &clocks).map_err(|error| exit::because(exit::USAGE, error))?;
    let relay = start_relay(config, store, &clocks, notifier).map_err(failed)?;
    let checkout = start_checkout(config, store, &clocks, &customers).map_err(failed)?;
    let archiver = start_archiver(config, key_retention, store, &clocks).map_err(failed)?;
    let http = Http::start(
        config.workers(),
        Services {
            store: store.store(),
            gate: store.gate(),
            archiver,
            relay: Arc::clone(&relay),
            checkout: Arc::clone(&checkout),
            customers: customers.clone(),
            clocks,
            access: Arc::clone(&access),
            rules,
            max_connection_age: config.max_connection_age.duration(),
            grpc_reflection: config.grpc_reflection,
        },
        tls,
    )
    .map_err(|error| failed(format!("starting the workers: {error}")))?;
    let api = listen(api, config.listen).map_err(failed)?;
    note_server(config, store, api.local_addr().unwrap_or(config.listen));
    let mut listening = Vec::with_capacity(profiles.len());
    for (profile, socket, address) in profiles {
        listening.push((profile, listen(socket, address).map_err(failed)?));
    }
    let grpc = grpc.map(|(socket, address)| listen(socket, address)).transpose().map_err(failed)?;
    let listeners = Listeners::new(api, listening, grpc);
    admin.start_ended(store.clone(), clock_watch.clone(), http.gauges());
    metrics::gauge!("stockhold_start_seconds").set(begun.elapsed().as_secs_f64());
    log_start(config, store, &access);
    let issuer_keys = IssuerKeysTask::new(Arc::clone(&access), &config.access.issuers);
    let reload_files = reload_files(&mut reload, reloaded_tls, &relay);
    let ended = tokio::select! {
        ended = run(listeners, http, &mut signals, store) => ended,
        never = key_table.run() => match never {},
        never = issuer_keys.run() => match never {},
        never = keep_connected(access) => match never {},
        never = watch_clocks(clock_watch) => match never {},
        never = reload_files => match never {},
    };
    if let Some(task) = admin_task {
        task.abort();
    }
    Ok(ended)
}

/// Reads files again whenever the signal asks for it.
async fn reload_files(reload: &mut Signal, tls: Option<Arc<Tls>>, relay: &Relay) -> Infallible {
    while reload.recv().await.is_some() {
        tracing::info!("SIGHUP: reading the files of TLS and of webhooks again");
        if let Some(tls) = &tls {
            tls.reload();
        }
        relay.reload_files();
    }
    std::future::pending().await
}

/// Reads the API keys of the store, and refuses to listen where everybody could do everything.
async fn start_access(
    config: &Config,
    access: &Arc<Access>,
    store: &Backend,
    clocks: &Clocks,
) -> Result<KeyTableTask, ExitCode> {
    let ids = IdSource::from_system().map_err(|error| exit::because(exit::FAILED, error))?;
    let (access, clock) = (Arc::clone(access), Arc::clone(&clocks.wall));
    let mut key_table = KeyTableTask::new(Arc::clone(&access), store.store(), clock, ids);
    let begun = Instant::now();
    // A busy machine or database may need more than one try.
    while let Err(error) = key_table.refresh().await {
        if begun.elapsed() > KEYS_TIMEOUT {
            return Err(exit::because(exit::FAILED, format!("reading the API keys: {error}")));
        }
        tracing::warn!(%error, "the API keys can't be read yet");
        tokio::time::sleep(KEYS_RETRY_PAUSE).await;
    }
    let addresses = [("listen", Some(config.listen)), ("grpc_listen", config.grpc_listen)];
    let open = addresses.into_iter().find_map(|(key, address)| {
        Some((
            key,
            address.filter(|address| !access.authenticator.is_required() && !address.ip().is_loopback())?,
        ))
    });
    if let Some((key, address)) = open {
        let what = format!(
            "{key} {address}: without credentials the API listens on loopback only, because everybody who reaches it may do \
             anything; {}",
            credentials_hint()
        );
        return Err(exit::because(exit::USAGE, what));
    }
    Ok(key_table)
}

/// Encrypts the secrets of the service that are in the store in clear, if the configuration has a key. The server serves also without: what
/// can't be read or written is named, and the rest goes on.
async fn seal_secrets(store: &Backend, clock: &dyn Clock, keyring: &Keyring) {
    match reseal(&*store.primary(), clock, keyring).await {
        Ok(Resealed { written, unreadable }) => {
            if written > 0 {
                tracing::info!(
                    written,
                    "secrets in the store are encrypted with the first key of customers.encryption_keys"
                );
            }
            for (name, error) in unreadable {
                tracing::error!(name, %error, "a secret in the store can't be read");
            }
        }
        Err(error) => {
            tracing::warn!(%error, "the secrets in the store are not encrypted yet: the next start tries again");
        }
    }
}

/// What buyers are notified with, if they are.
fn notifier(config: &Config, customers: &Customers, clocks: &Clocks) -> Result<Option<Notifier>, String> {
    let Some(options) = config.notifier_options()? else { return Ok(None) };
    let notifier = Notifier::new(&options, customers.clone(), Arc::clone(&clocks.wall));
    notifier.map(Some).map_err(|error| format!("notifications.{error}"))
}

/// Starts to deliver events to the sinks of the configuration.
fn start_relay(
    config: &Config,
    store: &Backend,
    clocks: &Clocks,
    notifier: Option<Notifier>,
) -> Result<Arc<Relay>, String> {
    let mut ids = IdSource::from_system().map_err(|error| error.to_string())?;
    // Of the instances of a host, each has a name of its own.
    let instance = format!("{}-{:08x}", host_name(), ids.random() >> 96);
    let mut sinks = config.sink_options()?;
    sinks.extend(notifier.map(SinkOptions::notifications));
    let options = RelayOptions {
        source: config.source.clone(),
        instance,
        is_shared: !config.store.is_embedded(),
        sinks,
        webhooks: config.webhook_options()?,
        stock_masters: config.stock_master_options()?,
    };
    // Derived events have to show the newest state of an item.
    let relay = Relay::start(store.primary(), clocks.clone(), options);
    relay.map(Arc::new).map_err(|error| format!("starting the relay: {error}"))
}

/// Writes the address of the API into the data directory, where `stockhold archive` finds it.
fn note_server(config: &Config, store: &Backend, mut address: SocketAddr) {
    let Some(store) = store.embedded() else { return };
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() {
            Ipv4Addr::LOCALHOST.into()
        } else {
            Ipv6Addr::LOCALHOST.into()
        });
    }
    if let Err(error) = store.note_server(&format!("{}://{address}", config.scheme())) {
        tracing::warn!(%error, "`stockhold archive` needs --server: the address could not be written into the data directory");
    }
}

/// Starts what archives old events.
fn start_archiver(
    config: &Config,
    key_retention: Duration,
    store: &Backend,
    clocks: &Clocks,
) -> Result<Arc<Archiver>, String> {
    let store = match store {
        Backend::Embedded(store) => ArchivableStore::Embedded(Arc::clone(store)),
        Backend::Sql(_) => {
            let options = sql_options(config).map_err(|(_, why)| why)?;
            ArchivableStore::Sql(config.store.url().to_owned(), Box::new(options))
        }
    };
    let archiver = Archiver::start(config, key_retention, store, Arc::clone(&clocks.store));
    archiver.map(Arc::new).map_err(|error| format!("starting the archiver: {error}"))
}

/// Starts to move payments on.
fn start_checkout(
    config: &Config,
    store: &Backend,
    clocks: &Clocks,
    customers: &Customers,
) -> Result<Arc<CheckoutRunner>, String> {
    // A payment has to be read as it is now, and not as a replica has it.
    let options = config.checkout_options()?;
    let runner = CheckoutRunner::start(store.primary(), clocks.clone(), customers.clone(), &options);
    runner.map(Arc::new).map_err(|error| format!("starting payments: {error}"))
}

/// The name of this host, as far as it can be a part of a file's name.
fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(HOST_NAME_CHARS).collect()
}

/// Opens the store on a thread of its own, which no end of the runtime waits for.
async fn open_store(config: &Config, options: Options) -> Result<Backend, ExitCode> {
    let (sender, receiver) = oneshot::channel();
    let config = config.clone();
    let open = move || {
        // Nobody takes it when the process is ending.
        let _ = sender.send(Backend::open(&config, options));
    };
    std::thread::Builder::new()
        .name("start".to_owned())
        .spawn(open)
        .map_err(|error| exit::because(exit::FAILED, format!("starting the store: {error}")))?;
    receiver.await.unwrap_or_else(|_| Err(exit::because(exit::FAILED, "opening the store panicked")))
}

/// Writes the progress of the start into the log, for as long as it is asked to.
async fn log_progress(progress: &StartProgress) -> Infallible {
    loop {
        tokio::time::sleep(PROGRESS_LOG_INTERVAL).await;
        let StartStatus { step, done, total } = progress.status();
        tracing::info!(step = step.name(), done, total, "starting");
    }
}

/// The signals that end a server.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

/// The signals that end a server, and the one that has it read files again. Other signals that people and tools send have no effect from
/// now on: by default they would end the process at once.
fn signals() -> std::io::Result<(StopSignals, Signal)> {
    for ignored in [SignalKind::user_defined1(), SignalKind::user_defined2()] {
        // The handler stays until the process ends, also without anybody who waits for the signal.
        drop(signal(ignored)?);
    }
    let stop = StopSignals {
        terminate: signal(SignalKind::terminate())?,
        interrupt: signal(SignalKind::interrupt())?,
    };
    Ok((stop, signal(SignalKind::hangup())?))
}

impl StopSignals {
    /// Waits for one of them: its name.
    async fn received(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Serves until a signal or until the store fails.
async fn run(listeners: Listeners, http: Http, signals: &mut StopSignals, store: &Backend) -> ExitCode {
    tokio::select! {
        () = http.accept(&listeners) => {}
        name = signals.received() => tracing::info!("{name}: draining"),
        why = failure(store) => {
            tracing::error!(why, "the store has failed: ending, so that a restart recovers it");
            tokio::time::sleep(LAST_ANSWERS).await;
            return exit::because(exit::STORE_FAILED, why);
        }
    }
    http.accept_last_connections(listeners).await;
    http.drain().await;
    if let Some(why) = store.failure() {
        return exit::because(exit::STORE_FAILED, why);
    }
    tracing::info!("drained");
    ExitCode::from(exit::DONE)
}

/// The sockets of a server, bound to their addresses.
struct Sockets {
    api: TcpSocket,
    admin: TcpSocket,
    /// Those that serve one profile alone.
    profiles: Vec<(Profile, TcpSocket, SocketAddr)>,
    /// That which serves gRPC alone.
    grpc: Option<(TcpSocket, SocketAddr)>,
}

impl Sockets {
    fn bind(config: &Config) -> Result<Self, String> {
        let (api, admin) = (bind(config.listen)?, bind(config.admin_listen)?);
        let mut profiles = Vec::new();
        for (profile, address) in
            [(Profile::Hub, config.hub_listen), (Profile::Storefront, config.storefront_listen)]
        {
            if let Some(address) = address {
                profiles.push((profile, bind(address)?, address));
            }
        }
        let grpc =
            config.grpc_listen.map(|address| Ok::<_, String>((bind(address)?, address))).transpose()?;
        Ok(Self { api, admin, profiles, grpc })
    }
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

fn log_start(config: &Config, store: &Backend, access: &Access) {
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        api = %config.listen,
        docs = format!("{}://{}/docs", config.scheme(), config.listen),
        admin = %config.admin_listen,
        hub = config.hub_listen.map(|address| address.to_string()),
        grpc = config.grpc_listen.map(|address| address.to_string()),
        storefront = config.storefront_listen.map(|address| address.to_string()),
        store = %config.store,
        data_dir = config.store.is_embedded().then(|| config.data_dir.display().to_string()),
        threads = config.workers(),
        "serving {}; {}",
        match config.tls() {
            Some(tls) if tls.asks_clients() => "HTTPS to clients with certificates",
            Some(_) => "HTTPS",
            None => "HTTP",
        },
        store.durability()
    );
    if !access.authenticator.is_required() {
        tracing::info!("no credentials are configured: the API listens on loopback only");
    }
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
    metrics::describe_gauge!(
        "stockhold_start_seconds",
        "Time from the start of the process until the API listened"
    );
    Ok(built)
}
