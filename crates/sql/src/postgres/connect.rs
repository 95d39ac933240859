//! One connection: opened, its schema brought up to date, its statements prepared, its warnings watched.
//!
//! A connection whose state is in doubt is dropped, never reused: a transaction may be open on it.

use super::citus::{self, ClusterSnapshot, Layout};
use super::errors::open_error;
use super::migrate;
use super::pooler::{self, SessionCheck};
use super::statements::{CLOCK, Statements};
use super::tls;
use crate::engine::{LimitCache, OpenError, Options};
use core::future::poll_fn;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::Severity;
use tokio_postgres::{AsyncMessage, Client, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Oldest server that is known to do: 15.0.
const OLDEST_SERVER: i32 = 150_000;
/// How long one lock is waited for: other instances hold locks for a batch, which takes milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const _: () = assert!(LOCK_TIMEOUT.as_millis() < Options::BATCH_DEADLINE.as_millis());
/// Silence after which a connection is asked whether it is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);

/// Where the database is and who connects.
#[derive(Clone)]
pub(super) struct PostgresTarget {
    config: tokio_postgres::Config,
    /// What encrypts the connection, if anything is to.
    tls: Option<MakeRustlsConnect>,
    /// What is connected to, for people: never with the password.
    pub(super) name: String,
    /// The clock, as an expression.
    pub(super) clock: String,
    /// The limits as they were last read.
    limits: Arc<LimitCache>,
    /// Whether connections have sessions of their own.
    pub(super) session_check: SessionCheck,
}

impl PostgresTarget {
    pub(super) fn new(url: &str, options: &Options) -> Result<Self, OpenError> {
        let asked = tls::TlsOptions::of(url)?;
        let mut config: tokio_postgres::Config = asked.url.parse().map_err(|error| unparsed(&error))?;
        config.ssl_mode(asked.driver_mode());
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(options.connect_timeout);
        }
        if config.get_application_name().is_none() {
            config.application_name("stockhold");
        }
        config.keepalives_idle(KEEPALIVE_IDLE);
        let clock = options.clock.as_ref().map_or_else(|| CLOCK.to_owned(), |query| format!("({query})"));
        let over_sockets = config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)));
        // What PostgreSQL's own clients do: nobody listens in on a socket of the file system.
        let tls = if over_sockets { None } else { asked.connector()? };
        if over_sockets {
            config.ssl_mode(SslMode::Disable);
        }
        let (limits, session_check) = (Arc::default(), SessionCheck::default());
        Ok(Self { name: name_of(&config), config, tls, clock, limits, session_check })
    }

    /// A connection with a driver of its own, and whether the server warned of anything since that was last cleared.
    pub(super) async fn connect(&self) -> Result<(Client, Driver), OpenError> {
        let failed = |error| open_error(&error);
        Ok(match &self.tls {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await.map_err(failed)?;
                (client, Driver::of(connection))
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await.map_err(failed)?;
                (client, Driver::of(connection))
            }
        })
    }
}

/// The driver's own text may quote parts of the address, and one with a stray character may quote a password.
fn unparsed(error: &tokio_postgres::Error) -> OpenError {
    let said = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    let form = "postgres://user:password@host:port/database, with special characters percent-encoded";
    let known = said
        .strip_prefix("invalid value for option")
        .map(|option| format!(": the value of{option} is wrong"));
    OpenError::Address(format!("it has to be {form}{}", known.unwrap_or_default()))
}

/// Host, port and database.
fn name_of(config: &tokio_postgres::Config) -> String {
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("{}/{database}", hosts.collect::<Vec<_>>().join(","))
}

/// What reads the socket. Dropped, it closes the socket at once, whatever was going on: the server rolls back what it had
/// not committed.
pub(super) struct Driver {
    task: tokio::task::JoinHandle<()>,
    warned: Arc<AtomicBool>,
}

impl Driver {
    fn of<S, T>(mut connection: tokio_postgres::Connection<S, T>) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let warned = Arc::new(AtomicBool::new(false));
        let warn = Arc::clone(&warned);
        let task = tokio::spawn(async move {
            while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
                match message {
                    Ok(AsyncMessage::Notice(notice)) => {
                        if notice.parsed_severity() == Some(Severity::Warning) {
                            warn.store(true, Ordering::SeqCst);
                        }
                    }
                    Ok(_) => {}
                    // The caller that waits for an answer gets the same error, and handles it.
                    Err(_) => return,
                }
            }
        });
        Self { task, warned }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An open connection that is ready for batches.
pub(crate) struct PostgresConnection {
    pub(super) client: Client,
    pub(super) statements: Statements,
    driver: Driver,
    pub(super) limits: Arc<LimitCache>,
    /// Whether a transaction has been begun that a lock is to go on in.
    pub(super) begun: bool,
    /// Where the tables are.
    pub(super) layout: Layout,
    /// What a batch sets at the workers. Empty on one server.
    pub(super) settings_of_batch: String,
    /// For an audit of a Citus cluster.
    pub(super) cluster_snapshot: Option<ClusterSnapshot>,
}

impl PostgresConnection {
    /// Opens, migrates, prepares; all of it within the deadlines.
    pub(super) async fn open(target: &PostgresTarget, options: &Options) -> Result<Self, OpenError> {
        let within = options.connect_timeout + options.batch_deadline;
        let opened = tokio::time::timeout(within, Box::pin(Self::open_slowly(target, options))).await;
        opened.unwrap_or_else(|_| {
            Err(OpenError::Unreachable(format!("{} did not answer in time", target.name)))
        })
    }

    async fn open_slowly(target: &PostgresTarget, options: &Options) -> Result<Self, OpenError> {
        let (client, driver) = target.connect().await?;
        let has_citus = ready(target, &client, options).await?.has_citus;
        migrate::migrate(&client).await?;
        client.batch_execute(&as_statements(&[rest(options)])).await.map_err(|error| open_error(&error))?;
        Self::prepared(target, options, client, driver, has_citus).await
    }

    /// Finds out where the tables are, and prepares the statements.
    async fn prepared(
        target: &PostgresTarget,
        options: &Options,
        client: Client,
        driver: Driver,
        has_citus: bool,
    ) -> Result<Self, OpenError> {
        let layout = citus::ready(&client, has_citus).await?;
        let prepared = Box::pin(Statements::prepare(&client, &target.clock, layout)).await;
        let statements = prepared.map_err(|error| open_error(&error))?;
        let settings_of_batch = match layout {
            Layout::OneServer => String::new(),
            Layout::Citus => citus::settings_of_batch(millis(options.lock_timeout.unwrap_or(LOCK_TIMEOUT))),
        };
        let limits = Arc::clone(&target.limits);
        Ok(Self {
            client,
            statements,
            driver,
            limits,
            begun: false,
            layout,
            settings_of_batch,
            cluster_snapshot: None,
        })
    }

    /// Opens one that reads the books of a schema that is there, and makes none.
    pub(super) async fn open_audit(target: &PostgresTarget, options: &Options) -> Result<Self, OpenError> {
        let (client, driver) = target.connect().await?;
        let has_citus = ready(target, &client, options).await?.has_citus;
        migrate::expect(&client).await?;
        let mut session = Self::prepared(target, options, client, driver, has_citus).await?;
        if session.layout == Layout::Citus {
            let (barrier, driver) = target.connect().await?;
            ready(target, &barrier, options).await?;
            session.cluster_snapshot = Some(ClusterSnapshot::new(barrier, driver));
        }
        Ok(session)
    }

    /// Opens one to a standby that is read, all of it within the deadlines.
    pub(super) async fn open_replica(target: &PostgresTarget, options: &Options) -> Result<Self, OpenError> {
        let opened = async {
            let (client, driver) = target.connect().await?;
            if settle(target, &client, options).await?.has_citus {
                return Err(OpenError::Unfit("a standby of a Citus cluster can't be read".to_owned()));
            }
            migrate::expect(&client).await?;
            Self::prepared(target, options, client, driver, false).await
        };
        let within = options.connect_timeout + options.batch_deadline;
        tokio::time::timeout(within, opened).await.unwrap_or_else(|_| {
            Err(OpenError::Unreachable(format!("{} did not answer in time", target.name)))
        })
    }

    /// Nothing has been warned of from here on.
    pub(super) fn clear_warnings(&self) {
        self.driver.warned.store(false, Ordering::SeqCst);
    }

    /// Whether the server warned. It sends a warning ahead of the answer, so it has been seen when the answer has.
    pub(super) fn was_warned(&self) -> bool {
        self.driver.warned.load(Ordering::SeqCst)
    }
}

/// Sets a session, and looks whether the server is one that can be worked with.
pub(super) async fn ready(
    target: &PostgresTarget,
    client: &Client,
    options: &Options,
) -> Result<Found, OpenError> {
    let found = settle(target, client, options).await?;
    if found.read_only {
        return Err(OpenError::Unfit("it is read-only: a standby, or set so".to_owned()));
    }
    if found.has_citus {
        citus::refuse_worker(client).await?;
    }
    Ok(found)
}

/// A setting of a session, and its value as the server shows it.
pub(super) type SessionSetting = (&'static str, String);

/// Time limits and what plans are made of.
/// Every statement looks rows up by key. Without a word the planner would read a table that is young and small as a whole, keep
/// that plan, and read it as a whole when a sale has filled it. What it then reads as a whole for want of an index it takes for
/// so dear that it would compile the statement first, which takes longer than all the rest.
fn settings(options: &Options) -> Vec<SessionSetting> {
    let texts = [
        ("client_min_messages", "warning"),
        ("default_transaction_isolation", "read committed"),
        ("plan_cache_mode", "force_generic_plan"),
        ("enable_seqscan", "off"),
        ("enable_hashjoin", "off"),
        ("enable_mergejoin", "off"),
        ("jit", "off"),
    ];
    let times = [
        ("lock_timeout", options.lock_timeout.unwrap_or(LOCK_TIMEOUT)),
        ("statement_timeout", options.batch_deadline),
    ];
    let times = times.map(|(name, time)| (name, millis(time).to_string()));
    times.into_iter().chain(texts.map(|(name, value)| (name, value.to_owned()))).collect()
}

/// Between its two round trips a batch rests for microseconds. One that rests for longer is a server that is frozen, or gone with
/// its machine, and nobody else gets at the items that it has locked.
fn rest(options: &Options) -> SessionSetting {
    ("idle_in_transaction_session_timeout", millis(options.batch_deadline).to_string())
}

fn as_statements(settings: &[SessionSetting]) -> String {
    let statements: Vec<String> =
        settings.iter().map(|(name, value)| format!("SET {name} = '{value}'")).collect();
    statements.join("; ")
}

/// What a server is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    read_only: bool,
    pub(super) has_citus: bool,
    /// Whether other connections have the same sessions, as far as it was looked for now.
    pub(super) shares_sessions: bool,
}

/// As [`ready`], of a server that may be read-only.
async fn settle(target: &PostgresTarget, client: &Client, options: &Options) -> Result<Found, OpenError> {
    let mut settings = settings(options);
    let look = "SELECT current_setting('server_version_num')::integer, current_setting('server_encoding'),
        current_setting('transaction_read_only')::boolean,
        EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')";
    let looked = async {
        client.batch_execute(&as_statements(&settings)).await?;
        client.query_one(look, &[]).await
    };
    let row = looked.await.map_err(|error| open_error(&error))?;
    let (version, encoding): (i32, String) = (row.get(0), row.get(1));
    let (read_only, has_citus) = (row.get(2), row.get(3));
    if version < OLDEST_SERVER {
        return Err(OpenError::Unfit(format!(
            "the server's version is {}.{}, and it has to be {} or newer",
            version / 10_000,
            version % 10_000,
            OLDEST_SERVER / 10_000
        )));
    }
    if encoding != "UTF8" {
        return Err(OpenError::Unfit(format!("its encoding is {encoding}, and it has to be UTF8")));
    }
    settings.push(rest(options));
    let shares_sessions = pooler::refuse_unfit(target, client, options, &settings, has_citus).await?;
    Ok(Found { read_only, has_citus, shares_sessions })
}

fn millis(duration: Duration) -> u128 {
    duration.as_millis().max(1)
}
