//! A store under test: a database, and a clock that can be moved.

use super::support::{Database, Server, Session};
use super::wire::MysqlWire;
use crate::audit::Shop;
use crate::shared::proxy::Proxy;
use std::sync::Arc;
use std::time::Duration;
use stockhold_conformance::START;
use stockhold_domain::{Instant, ItemKey, ReservationId};
use stockhold_sql::Options;
use stockhold_sql::SqlStore;
use stockhold_sql::mysql;
use stockhold_store::Store;

/// Patience with an answer that has to come.
const PATIENCE: Duration = Duration::from_secs(90);

/// A database with a clock for stores to read. The clock shows the suite's start until it is moved.
pub(crate) struct Bench {
    pub(super) database: Database,
    pub(super) session: Session,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::on(&Server::shared())
    }

    /// With a server of its own.
    pub(super) fn alone(settings: &[&str]) -> Self {
        Self::on(&Arc::new(Server::start(settings)))
    }

    pub(super) fn on(server: &Arc<Server>) -> Self {
        let database = server.database();
        let mut session = database.session();
        session.run("CREATE TABLE test_clock (micros BIGINT NOT NULL PRIMARY KEY)");
        session.run(&format!("INSERT INTO test_clock VALUES ({})", START.micros()));
        Self { database, session }
    }

    /// A store's options: its clock in the test's hands, its sweeper off, few connections.
    pub(crate) fn options() -> Options {
        Options {
            clock: Some("SELECT micros FROM test_clock".to_owned()),
            connections: 3,
            most_connections: 3,
            sweep_every: None,
            // Tests hold locks for as long as they like.
            lock_timeout: Some(PATIENCE),
            batch_deadline: PATIENCE,
            commit_deadline: PATIENCE,
            ..Options::default()
        }
    }

    pub(super) fn connect(&self) -> SqlStore {
        self.connect_with(Self::options())
    }

    pub(super) fn connect_with(&self, options: Options) -> SqlStore {
        mysql::open(&self.database.url(), options).expect("the store connects")
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

    /// Waits until so many of the stores' sessions wait for a lock. Those that number events don't count: with two stores one
    /// waits for the other's now and then.
    pub(super) fn wait_until_locked_out(&mut self, sessions: usize) {
        self.session.wait_until("sessions wait for locks", |session| session.locked_out(false) >= sessions);
    }

    /// Rows that contradict each other.
    pub(super) fn audit(&mut self) {
        audit(&mut self.session);
    }
}

/// Every figure of every item against the rows that it sums up.
pub(crate) fn audit(session: &mut Session) {
    let wrong = session.rows(
        "SELECT i.sku, held, active, COALESCE(units, 0), COALESCE(holds, 0) FROM stockhold_items i LEFT JOIN (
             SELECT location, sku, SUM(quantity) AS units, COUNT(*) AS holds
             FROM stockhold_active_lines GROUP BY location, sku
         ) AS queued ON queued.location = i.location AND queued.sku = i.sku
         WHERE mode = 0 AND (held <> COALESCE(units, 0) OR active <> COALESCE(holds, 0))",
    );
    assert!(wrong.is_empty(), "{wrong:?}");
    let wrong = session.rows(
        "SELECT 'held', l.sku, l.id FROM stockhold_active_lines l JOIN stockhold_items i USING (location, sku)
         WHERE i.mode = 1 AND quantity <> (SELECT COUNT(*) FROM stockhold_units u
             WHERE u.location = l.location AND u.sku = l.sku AND u.status = 1 AND u.reservation = l.id)
         UNION ALL SELECT 'of nobody', u.sku, u.id FROM stockhold_units u WHERE status = 1 AND NOT EXISTS (
             SELECT 1 FROM stockhold_active_lines l
             WHERE l.location = u.location AND l.sku = u.sku AND l.id = u.reservation)
         UNION ALL SELECT 'sold', u.sku, u.id FROM stockhold_units u WHERE status IN (2, 3) AND NOT EXISTS (
             SELECT 1 FROM stockhold_unit_sales s WHERE s.location = u.location AND s.sku = u.sku
                 AND s.unit_id = u.id AND s.reservation = u.reservation AND is_open)
         UNION ALL SELECT 'not sold', s.sku, s.unit_id FROM stockhold_unit_sales s WHERE is_open AND NOT EXISTS (
             SELECT 1 FROM stockhold_units u WHERE s.location = u.location AND s.sku = u.sku
                 AND s.unit_id = u.id AND s.reservation = u.reservation AND u.status IN (2, 3))",
    );
    assert!(wrong.is_empty(), "{wrong:?}");
    let strays = session.text(
        "SELECT COUNT(*) FROM stockhold_active_lines l
         LEFT JOIN stockhold_holds h ON h.id = l.id AND h.expires_at = l.expires_at AND h.status = 0
         WHERE h.id IS NULL",
    );
    assert_eq!(strays, "0", "lines of no active reservation");
    let led = session.text(
        "SELECT COUNT(*) FROM (SELECT id FROM stockhold_active_lines GROUP BY id HAVING COUNT(due) <> 1) AS led",
    );
    assert_eq!(led, "0", "each reservation is in the sweeper's queue once");
}

impl Shop for Bench {
    const TABLES: &'static str = "stockhold_";

    fn url(&self) -> String {
        self.database.url()
    }

    fn options(&self) -> Options {
        Self::options()
    }

    fn store(&self) -> Box<dyn Store> {
        Box::new(self.connect())
    }

    fn set_clock(&mut self, now: Instant) {
        self.set_clock(now);
    }

    fn sql(&mut self, statements: &str) {
        self.session.run(&statements.replace("{t}", Self::TABLES));
    }

    fn refuses(&mut self, statements: &str) -> bool {
        self.session.try_run(&statements.replace("{t}", Self::TABLES)).is_err()
    }

    fn somebody(&self) -> Box<dyn FnMut(&str)> {
        let mut session = self.another_session();
        Box::new(move |statements| session.run(&statements.replace("{t}", Self::TABLES)))
    }

    const RECONNECTS: bool = true;

    fn proxy(&self) -> Proxy {
        Proxy::new::<MysqlWire>(self.database.server().socket(), self.database.name())
    }

    fn kill_stores(&mut self) {
        self.session.kill_stores();
    }

    fn cutter(&self) -> Box<dyn FnMut() + Send> {
        let mut session = self.another_session();
        Box::new(move || session.kill_stores())
    }

    fn misplace(&mut self, id: ReservationId) {
        self.session.run(&format!(
            "UPDATE stockhold_active_lines SET expires_at = expires_at - 1000, due = due - 1000 WHERE id = x'{:032x}'",
            id.as_u128()
        ));
    }

    fn wait_until_locked_out(&mut self, sessions: usize) {
        self.wait_until_locked_out(sessions);
    }

    fn numbering_waits(&mut self) -> bool {
        self.session.locked_out(true) >= 1
    }

    fn another() -> Self {
        Self::new()
    }

    fn alone() -> Self {
        Self::alone(&[])
    }

    // On MariaDB a claim of any units locks the entry of the index and then the row. A claim of named units locks the row and then
    // the entry, and SKIP LOCKED does not skip a row that is locked after its entry. They met in 3 of about 45 runs beside other
    // tests. The transaction that is rolled back is retried.
    const CHANCE_DEADLOCKS: u64 = 2;

    fn deadlocks(&mut self) -> u64 {
        let deadlocks = self.session.deadlocks();
        if deadlocks > 0 {
            // A test that expects none fails, and this is the only trace of which statements met.
            let status = self.session.rows("SHOW ENGINE INNODB STATUS").remove(0).remove(2);
            let latest = status.split("LATEST DETECTED DEADLOCK").nth(1).unwrap_or_default();
            println!("{}", latest.split("\nTRANSACTIONS").next().unwrap_or_default());
        }
        deadlocks
    }

    fn audit(&mut self) {
        self.audit();
    }
}
