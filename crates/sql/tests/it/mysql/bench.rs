//! A store under test: a database, and a clock that can be moved.

use super::support::{Database, Server, Session};
use std::sync::Arc;
use std::time::Duration;
use stockhold_domain::{Instant, ItemKey};
use stockhold_sql::Options;
use stockhold_sql::mysql::MysqlStore;
use stockhold_store::conformance::START;

/// Patience with an answer that has to come.
const PATIENCE: Duration = Duration::from_secs(90);

/// A database with a clock for stores to read. The clock shows the suite's start until it is moved.
pub(super) struct Bench {
    pub(super) database: Database,
    pub(super) session: Session,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::on(&Server::shared())
    }

    /// With a server of its own.
    pub(super) fn alone(settings: &[&str]) -> Self {
        Self::on(&Arc::new(Server::start(settings)))
    }

    pub(super) fn on(server: &Arc<Server>) -> Self {
        let database = server.database();
        let mut session = database.session();
        session.run("CREATE TABLE test_clock (micros BIGINT NOT NULL)");
        session.run(&format!("INSERT INTO test_clock VALUES ({})", START.micros()));
        Self { database, session }
    }

    /// A store's options: its clock in the test's hands, its sweeper off, few connections.
    pub(super) fn options() -> Options {
        Options {
            clock: Some("SELECT micros FROM test_clock".to_owned()),
            connections: 3,
            most_connections: 3,
            sweep_every: None,
            // Tests hold locks for as long as they like.
            lock_timeout: PATIENCE,
            batch_deadline: PATIENCE,
            commit_deadline: PATIENCE,
            ..Options::default()
        }
    }

    pub(super) fn connect(&self) -> MysqlStore {
        self.connect_with(Self::options())
    }

    pub(super) fn connect_with(&self, options: Options) -> MysqlStore {
        MysqlStore::open(&self.database.url(), options).expect("the store connects")
    }

    pub(super) fn another_session(&self) -> Session {
        self.database.session()
    }

    pub(super) fn set_clock(&mut self, now: Instant) {
        self.session.run(&format!("UPDATE test_clock SET micros = {}", now.micros()));
    }

    /// Holds an item's row, as another instance does while it commits, until the session commits.
    pub(super) fn lock(&self, item: &ItemKey) -> Session {
        let mut holder = self.another_session();
        holder.run(&format!(
            "START TRANSACTION; SELECT 1 FROM stockhold_items WHERE sku = '{}' AND location = '{}' FOR UPDATE",
            item.sku(),
            item.location()
        ));
        holder
    }

    /// Waits until so many of the stores' sessions wait for a lock.
    pub(super) fn wait_until_locked_out(&mut self, sessions: usize) {
        self.session.wait_until("sessions wait for locks", |session| session.locked_out() == sessions);
    }

    /// Every figure of every item against the rows that it sums up.
    pub(super) fn audit(&mut self) {
        let wrong = self.session.rows(
            "SELECT i.sku, held, active, COALESCE(units, 0), COALESCE(holds, 0) FROM stockhold_items i LEFT JOIN (
                 SELECT location, sku, SUM(quantity) AS units, COUNT(*) AS holds
                 FROM stockhold_active_lines GROUP BY location, sku
             ) AS queued ON queued.location = i.location AND queued.sku = i.sku
             WHERE held <> COALESCE(units, 0) OR active <> COALESCE(holds, 0)",
        );
        assert!(wrong.is_empty(), "{wrong:?}");
        let strays = self.session.text(
            "SELECT COUNT(*) FROM stockhold_active_lines l
             LEFT JOIN stockhold_holds h ON h.id = l.id AND h.expires_at = l.expires_at AND h.status = 0
             WHERE h.id IS NULL",
        );
        assert_eq!(strays, "0", "lines of no active reservation");
        let led = self.session.text(
            "SELECT COUNT(*) FROM (SELECT id FROM stockhold_active_lines GROUP BY id HAVING COUNT(due) <> 1) AS led",
        );
        assert_eq!(led, "0", "each reservation is in the sweeper's queue once");
    }
}
