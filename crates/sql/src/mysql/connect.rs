//! One connection: opened, its session set, its schema brought up to date; and how packets are sent over it.
//!
//! A connection whose state is in doubt is dropped, never reused: a transaction may be open on it.

use super::address::Address;
use super::cluster::{self, Certification, ServerKind};
use super::errors::{db_error, failed_step, is_gone, open_error};
use super::migrate;
use super::numbering::LIST_BYTES;
use super::script::{LARGEST_PACKET, Packet, Script, Step, Upserts};
use super::statements::CLOCK;
use crate::engine::{DbError, LimitCache, OpenError, Options};
use core::fmt::Write;
use core::future::Future;
use core::iter::repeat;
use core::pin::pin;
use core::task::{Context, Waker};
use core::time::Duration;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Oldest servers that are known to do. Older ones ignore CHECK constraints, or can't pass by locked rows.
const OLDEST_MYSQL: Version = (8, 0, 16);
const OLDEST_MARIADB: Version = (10, 6, 0);
/// The first version of MySQL that has a name for the row that an upsert was given.
const MYSQL_ROW_ALIAS: Version = (8, 0, 19);
/// How long one lock is waited for: a server finds deadlocks by itself and at once, so only somebody who hangs is waited for, and
/// it counts in whole seconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const _: () = assert!(LOCK_TIMEOUT.as_millis() < Options::BATCH_DEADLINE.as_millis());

type Version = (u32, u32, u32);

/// Where the database is, and how sessions are to be.
pub(super) struct MysqlTarget {
    address: Address,
    /// The clock, as an expression.
    pub(super) clock: String,
    /// The limits as they were last read.
    pub(super) limits: LimitCache,
    lock_timeout: u64,
    open_within: Duration,
    /// How long a transaction may rest, in seconds.
    rest: u64,
    /// Whether it is a replica that is only read: it may be read-only, and its schema is left alone.
    is_replica: bool,
    /// Whether it has been said that commits are not synced.
    warned: AtomicBool,
    /// The node of a cluster that the first connection led to.
    node: OnceLock<String>,
    /// How often a connection was found to be gone and could not be replaced.
    outages: AtomicU64,
}

impl MysqlTarget {
    pub(super) fn new(url: &str, options: &Options) -> Result<Self, OpenError> {
        let lock_timeout = options.lock_timeout.unwrap_or(LOCK_TIMEOUT);
        Ok(Self {
            address: Address::of(url)?,
            clock: options.clock.as_ref().map_or_else(|| CLOCK.to_owned(), |query| format!("({query})")),
            limits: LimitCache::default(),
            lock_timeout: lock_timeout.as_secs() + u64::from(lock_timeout.subsec_nanos() > 0),
            open_within: options.connect_timeout + options.batch_deadline,
            rest: options.batch_deadline.as_secs(),
            is_replica: false,
            warned: AtomicBool::new(false),
            node: OnceLock::new(),
            outages: AtomicU64::new(0),
        })
    }

    /// A replica that is read.
    pub(super) fn of_replica(url: &str, options: &Options) -> Result<Self, OpenError> {
        Ok(Self { is_replica: true, ..Self::new(url, options)? })
    }

    /// A connection with its session set, to a server that can be worked with.
    pub(super) async fn connect(&self) -> Result<(Conn, ServerKind), OpenError> {
        let mut conn = self.address.connect().await.map_err(|error| open_error(&error))?;
        let seconds = self.lock_timeout.max(1);
        let access = if self.is_replica { "READ ONLY" } else { "READ WRITE" };
        let ready = format!(
            "SET SESSION autocommit = 1, completion_type = 0, time_zone = '+00:00', sql_select_limit = {},
                sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',
                innodb_lock_wait_timeout = {seconds}, lock_wait_timeout = {seconds}, group_concat_max_len = {LIST_BYTES};
             SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, {access};
             SHOW VARIABLES WHERE variable_name IN ('version', 'version_comment', 'read_only', 'super_read_only',
                'innodb_read_only', 'max_allowed_packet', 'log_bin', 'binlog_format', 'innodb_flush_log_at_trx_commit',
                'wsrep_on', 'hostname', 'port', 'group_replication_single_primary_mode')",
            u64::MAX
        );
        let found = exchange(&mut conn, &ready).await.map_err(|(_, error)| open_error(&error))?;
        let rows = found.into_iter().flatten();
        let variables =
            rows.filter_map(|row| mysql_async::from_row_opt::<(String, String)>(row).ok()).collect();
        let kind = self.check_variables(&variables)?;
        if kind.in_cluster {
            exchange(&mut conn, cluster::SETTINGS).await.map_err(|(_, error)| open_error(&error))?;
        }
        Ok((conn, kind))
    }

    fn check_variables(&self, variables: &BTreeMap<String, String>) -> Result<ServerKind, OpenError> {
        let get = |name: &str| variables.get(name).map_or("", String::as_str);
        let unfit = |why: String| Err(OpenError::Unfit(why));
        let is_mariadb =
            get("version").contains("MariaDB") || get("version_comment").to_lowercase().contains("mariadb");
        let (name, oldest) = if is_mariadb { ("MariaDB", OLDEST_MARIADB) } else { ("MySQL", OLDEST_MYSQL) };
        let Some(found) = version(get("version")) else {
            return unfit(format!("the server does not say its version, but {:?}", get("version")));
        };
        if found < oldest {
            let (major, minor, patch) = oldest;
            return unfit(format!(
                "the server's version is {}, and of {name} it has to be {major}.{minor}.{patch} or newer",
                get("version")
            ));
        }
        let upserts = match is_mariadb {
            true => Upserts::Value,
            false if found < MYSQL_ROW_ALIAS => Upserts::Values,
            false => Upserts::RowAlias,
        };
        let is_on = |name: &str| !matches!(get(name), "" | "OFF" | "0");
        if self.is_replica {
            return Ok(ServerKind { is_mariadb, in_cluster: false, upserts });
        }
        if ["read_only", "super_read_only", "innodb_read_only"].into_iter().any(is_on) {
            return unfit("it is read-only: a replica, or set so".to_owned());
        }
        if get("max_allowed_packet").parse::<usize>().is_ok_and(|most| most < LARGEST_PACKET) {
            return unfit(format!(
                "max_allowed_packet is {}, and it has to be {LARGEST_PACKET} at least",
                get("max_allowed_packet")
            ));
        }
        if get(cluster::SINGLE_PRIMARY) == "OFF" {
            return unfit(cluster::SEVERAL_PRIMARIES.to_owned());
        }
        let in_cluster = is_on("wsrep_on");
        if in_cluster {
            self.check_node(is_mariadb, &format!("{}:{}", get("hostname"), get("port")))?;
        }
        if is_on("log_bin") && get("binlog_format") == "STATEMENT" {
            return unfit("binlog_format is STATEMENT, and it has to be ROW or MIXED".to_owned());
        }
        let synced = matches!(get("innodb_flush_log_at_trx_commit"), "" | "1");
        if !synced && !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "innodb_flush_log_at_trx_commit is not 1: a crash of the database's machine may lose what was answered"
            );
        }
        Ok(ServerKind { is_mariadb, in_cluster, upserts })
    }

    /// Says at the first connection what holds in a cluster. MySQL has no compound statements outside of procedures, so there another
    /// node is refused.
    fn check_node(&self, is_mariadb: bool, node: &str) -> Result<(), OpenError> {
        let first = self.node.get_or_init(|| {
            if is_mariadb {
                tracing::info!(node, "{}", cluster::SEVERAL_NODES);
            } else {
                tracing::warn!(node, "{}", cluster::ONE_NODE);
            }
            node.to_owned()
        });
        if is_mariadb || first == node {
            return Ok(());
        }
        Err(OpenError::Unfit(format!(
            "the connections of this server lead to the node {first} of a Galera cluster of MySQL, and this one to {node}: let all \
             servers use one node, and restart them together to change it"
        )))
    }
}

/// `8.0.36-log`, `10.11.6-MariaDB-1`; what old clients were told of MariaDB begins with `5.5.5-`.
fn version(text: &str) -> Option<Version> {
    let text = text.strip_prefix("5.5.5-").unwrap_or(text);
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Ends what [`MysqlConnection::limit_rest`] began.
pub(super) const NO_LIMIT_OF_REST: &str = "SET SESSION wait_timeout=DEFAULT";

/// What the server answered to one statement: what the statement is, and its rows.
pub(super) type StatementRows<T> = (T, Vec<Row>);

/// A packet that failed.
#[derive(Debug)]
pub(super) struct PacketError {
    /// The kind of statement that did, when it is known.
    pub(super) step: Option<Step>,
    pub(super) error: mysql_async::Error,
}

/// Sends statements in one packet and takes all answers: the rows of each statement, except that answers without rows may be
/// missing at the end. With an error comes the number of the statement that it is of.
pub(super) async fn exchange(
    conn: &mut Conn,
    text: &str,
) -> Result<Vec<Vec<Row>>, (usize, mysql_async::Error)> {
    let mut answers = Vec::new();
    let mut result = conn.query_iter(text).await.map_err(|error| (0, error))?;
    // The last statement's answer, when it has no rows, is not to be told from the end.
    while !result.is_empty() {
        let rows = result.collect().await.map_err(|error| (answers.len(), error))?;
        answers.push(rows);
    }
    // An error behind the first statement looks like the end until it is asked for.
    result.drop_result().await.map_err(|error| (answers.len(), error))?;
    Ok(answers)
}

/// An open connection that is ready for batches.
pub(crate) struct MysqlConnection {
    conn: Conn,
    pub(super) target: Arc<MysqlTarget>,
    /// The server that it leads to.
    pub(super) kind: ServerKind,
    /// What the next commit has to certify in a cluster.
    pub(super) certification: Certification,
    /// Whether a transaction has been begun that the next call is to go on in.
    pub(super) begun: bool,
    /// Whether something was sent that is not answered.
    at_work: bool,
    /// Outages before it was opened.
    outages: u64,
}

impl MysqlConnection {
    /// Opens and migrates; all of it within the deadlines.
    pub(super) async fn open(target: &Arc<MysqlTarget>) -> Result<Self, OpenError> {
        let opened = tokio::time::timeout(target.open_within, Self::open_slowly(target)).await;
        let late = || OpenError::Unreachable(format!("{} did not answer in time", target.address.name));
        opened.unwrap_or_else(|_| Err(late()))
    }

    async fn open_slowly(target: &Arc<MysqlTarget>) -> Result<Self, OpenError> {
        let outages = target.outages.load(Ordering::Relaxed);
        let (mut conn, kind) = target.connect().await?;
        if target.is_replica {
            migrate::expect(&mut conn).await?;
        } else {
            migrate::migrate(&mut conn).await?;
        }
        // Between its two round trips a batch rests for microseconds. One that rests for longer is a server that is frozen, or
        // gone with its machine, and nobody else gets at the items that it has locked. MySQL has another limit, see [`Self::limit_rest`].
        let rest = format!(
            "SET SESSION lock_wait_timeout = {} /*M!100300 , SESSION idle_transaction_timeout = {} */",
            target.lock_timeout.max(1),
            target.rest.max(1)
        );
        exchange(&mut conn, &rest).await.map_err(|(_, error)| open_error(&error))?;
        Ok(Self::new(conn, kind, target, outages))
    }

    fn new(conn: Conn, kind: ServerKind, target: &Arc<MysqlTarget>, outages: u64) -> Self {
        Self {
            conn,
            target: Arc::clone(target),
            kind,
            certification: Certification::new(),
            begun: false,
            at_work: false,
            outages,
        }
    }

    /// Opens one that reads the books of a schema that is there, and makes none.
    pub(super) async fn open_audit(target: &Arc<MysqlTarget>) -> Result<Self, OpenError> {
        let (mut conn, kind) = target.connect().await?;
        migrate::expect(&mut conn).await?;
        Ok(Self::new(conn, kind, target, 0))
    }

    /// For MySQL: ends the session if the transaction that was begun rests for longer. It has a limit for every rest of a session alone,
    /// and connections may rest for longer between transactions. So it is set in the packet that begins a transaction, and set
    /// back in the one that commits. A connection of which it was not set back is closed by the server, and replaced.
    pub(super) fn limit_rest<T: Copy>(&self, script: &mut Script<T>, step: T) {
        if !self.kind.is_mariadb {
            let _ = write!(script.add(step), "SET SESSION wait_timeout={}", self.target.rest.max(1));
        }
    }

    /// Sends one packet of writes, within the transaction that is open.
    pub(super) async fn send(&mut self, packet: &Packet<Step>) -> Result<(), PacketError> {
        if self.kind.has_compound_packets() {
            let text = packet.compound();
            let failed = |(_, error)| PacketError { step: failed_step(&error), error };
            return self.exchange(&text).await.map(drop).map_err(failed);
        }
        let failed =
            |(number, error): (usize, _)| PacketError { step: packet.steps.get(number).copied(), error };
        self.exchange(&packet.text).await.map(drop).map_err(failed)
    }

    /// What an error of a statement means.
    pub(super) fn db_error(&self, error: &mysql_async::Error, raced: bool) -> DbError {
        db_error(error, raced, self.kind.in_cluster)
    }

    /// Sends what does not write, or begins a transaction. A connection that turns out to be gone, as one that rested while the
    /// server was restarted, is replaced once: nothing had been done.
    pub(super) async fn begin<T: Copy>(
        &mut self,
        script: &Script<T>,
    ) -> Result<Vec<StatementRows<T>>, DbError> {
        let mut all = Vec::new();
        for (packet, is_first) in script.packets().iter().zip([true].into_iter().chain(repeat(false))) {
            let answers = if is_first && !self.begun {
                self.query(&packet.text).await
            } else {
                self.run(&packet.text).await
            };
            let mut answers = answers?.into_iter();
            all.extend(packet.steps.iter().map(|step| (*step, answers.next().unwrap_or_default())));
        }
        Ok(all)
    }

    /// Runs statements that are given as text, and returns the rows of each.
    pub(super) async fn query(&mut self, text: &str) -> Result<Vec<Vec<Row>>, DbError> {
        let error = match self.exchange(text).await {
            Ok(answers) => return Ok(answers),
            // A transaction can't continue on another connection, and another replica may have applied less of the log.
            Err((_, error)) if is_gone(&error) && !self.begun && !self.target.is_replica => error,
            Err((_, error)) => return Err(self.db_error(&error, false)),
        };
        match Self::open(&self.target).await {
            Ok(opened) => *self = opened,
            Err(why) => {
                if matches!(why, OpenError::Unreachable(_)) {
                    self.target.outages.fetch_add(1, Ordering::Relaxed);
                }
                return Err(DbError::ConnectionLost(why.to_string()));
            }
        }
        tracing::info!(%error, "a connection to the database was lost and is replaced");
        self.run(text).await
    }

    /// Sends statements of which nobody wants to know which one failed.
    pub(super) async fn run(&mut self, text: &str) -> Result<Vec<Vec<Row>>, DbError> {
        let done = self.exchange(text).await;
        done.map_err(|(_, error)| self.db_error(&error, false))
    }

    async fn exchange(&mut self, text: &str) -> Result<Vec<Vec<Row>>, (usize, mysql_async::Error)> {
        self.at_work = true;
        let answers = exchange(&mut self.conn, text).await;
        self.at_work = false;
        answers
    }

    /// Warnings of the last statement.
    pub(super) fn warnings(&self) -> u16 {
        self.conn.get_warnings()
    }

    /// Whether it is known to be of no use: the socket is not looked at while it rests, but when another connection was found
    /// to be gone and could not be replaced, those that were open then are taken for gone as well.
    pub(super) fn is_useless(&self) -> bool {
        self.conn.is_disconnected() || self.outages < self.target.outages.load(Ordering::Relaxed)
    }
}

impl Drop for MysqlConnection {
    /// Closes the socket at once if an answer is owed. The driver would first wait for it, in a task of its own; while it is in
    /// the middle of a command it does not, so one is begun.
    fn drop(&mut self) {
        if self.at_work {
            let ping = pin!(self.conn.ping());
            let _ = ping.poll(&mut Context::from_waker(Waker::noop()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn check_variables(variables: &[(&str, &str)]) -> Result<ServerKind, OpenError> {
        let target = MysqlTarget::new("mysql://u@h/d", &Options::default()).unwrap();
        target.check_variables(
            &variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        )
    }

    const OLD_MYSQL: Result<ServerKind, OpenError> =
        Ok(ServerKind { is_mariadb: false, in_cluster: false, upserts: Upserts::Values });
    const MYSQL: Result<ServerKind, OpenError> =
        Ok(ServerKind { is_mariadb: false, in_cluster: false, upserts: Upserts::RowAlias });
    const MARIADB: Result<ServerKind, OpenError> =
        Ok(ServerKind { is_mariadb: true, in_cluster: false, upserts: Upserts::Value });

    #[test]
    fn servers_that_will_not_do_are_told_apart() {
        assert_eq!(check_variables(&[("version", "8.0.16")]), OLD_MYSQL);
        assert_eq!(check_variables(&[("version", "8.0.19")]), MYSQL);
        assert_eq!(check_variables(&[("version", "9.7.4-2")]), MYSQL);
        assert_eq!(check_variables(&[("version", "8.4.3-log")]), MYSQL);
        assert_eq!(check_variables(&[("version", "10.6.4-MariaDB"), ("read_only", "OFF")]), MARIADB);
        assert_eq!(check_variables(&[("version", "5.5.5-10.11.6-MariaDB-1")]), MARIADB);
        let unfit = |variables: &[(&str, &str)], what: &str| {
            let error = check_variables(variables).unwrap_err();
            assert!(matches!(&error, OpenError::Unfit(why) if why.contains(what)), "{variables:?}: {error}");
        };
        unfit(&[("version", "8.0.15")], "8.0.15");
        unfit(&[("version", "5.7.44")], "5.7.44");
        unfit(&[("version", "10.5.20-MariaDB")], "10.5.20");
        unfit(&[], "version");
        unfit(&[("version", "8.0.36"), ("read_only", "ON")], "read-only");
        unfit(&[("version", "8.0.36"), ("max_allowed_packet", "16776192")], "max_allowed_packet");
        assert_eq!(check_variables(&[("version", "8.0.36"), ("max_allowed_packet", "16777216")]), MYSQL);
        let group = |mode| [("version", "8.0.36"), ("group_replication_single_primary_mode", mode)];
        assert_eq!(check_variables(&group("ON")), MYSQL);
        unfit(&group("OFF"), "single-primary");
        unfit(&[("version", "8.0.36"), ("log_bin", "ON"), ("binlog_format", "STATEMENT")], "binlog_format");
    }

    #[test]
    fn connections_lead_to_several_nodes_of_a_cluster_of_mariadb_and_to_one_of_mysql() {
        let target = MysqlTarget::new("mysql://u@h/d", &Options::default()).unwrap();
        let connect = |version: &str, cluster: &str, host: &str| {
            let variables =
                [("version", version), ("wsrep_on", cluster), ("hostname", host), ("port", "3306")];
            let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
            target.check_variables(&variables.into())
        };
        let node = |is_mariadb| {
            let upserts = if is_mariadb { Upserts::Value } else { Upserts::RowAlias };
            Ok(ServerKind { is_mariadb, in_cluster: true, upserts })
        };
        assert_eq!(connect("8.0.36", "ON", "one"), node(false));
        assert_eq!(connect("8.0.36", "ON", "one"), node(false));
        let error = connect("8.0.36", "ON", "two").unwrap_err();
        assert!(
            matches!(&error, OpenError::Unfit(why) if why.contains("one:3306") && why.contains("two:3306")),
            "{error}"
        );
        assert_eq!(connect("8.0.36", "OFF", "two"), MYSQL, "no cluster");
        assert_eq!(connect("10.11.6-MariaDB", "ON", "two"), node(true));
    }

    #[test]
    fn locks_are_waited_for_in_whole_seconds() {
        let seconds = |lock_timeout| {
            let options = Options { lock_timeout, ..Options::default() };
            MysqlTarget::new("mysql://u@h/d", &options).unwrap().lock_timeout
        };
        assert_eq!(seconds(None), 5);
        assert_eq!(seconds(Some(Duration::from_millis(20))), 1);
        assert_eq!(seconds(Some(Duration::from_secs(90))), 90);
    }
}
