//! A replica of MariaDB that is read: used while it is fresh, and not trusted when it is not or is gone.

use super::bench::Bench;
use super::not_run;
use super::support::{Programs, Server, Session};
use crate::fixture::{item, run, stock};
use std::sync::Arc;
use std::time::Duration;
use stockhold_conformance::{Maker, maker};
use stockhold_domain::ItemKey;
use stockhold_sql::{Options, Replica};
use stockhold_store::Store;

/// Longer than a user would allow: tests share the machine, and what is asserted does not depend on it.
const STALENESS: Duration = Duration::from_secs(1);

struct Scene {
    bench: Bench,
    replica: Server,
    store: Arc<dyn Store>,
    maker: Maker,
    item: ItemKey,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let logged = |id: &str| vec!["--log-bin=binlog".to_owned(), format!("--server-id={id}")];
        let primary = Arc::new(Server::listening(crate::support::ports::free_port(), |_| logged("1")));
        let replica = Server::listening(crate::support::ports::free_port(), |_| {
            [logged("2"), vec!["--read-only=ON".to_owned()]].concat()
        });
        let mut session = primary.session(None);
        session.run("CREATE USER 'copy'@'127.0.0.1'; GRANT REPLICATION SLAVE ON *.* TO 'copy'@'127.0.0.1'");
        // Both were made alike; what comes from here on is copied.
        let from = session.text("SELECT @@GLOBAL.gtid_binlog_pos");
        replica.session(None).run(&format!(
            "RESET MASTER; SET GLOBAL gtid_slave_pos = '{from}';
             CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = 'copy',
                MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos;
             START SLAVE",
            primary.port()
        ));
        let bench = Bench::on(&primary);
        let mut maker = Maker::new(seed, "replica-");
        let item = stock(&bench.connect(), &mut maker, "a", 10);
        let url = replica.url("stockhold", bench.database.name());
        let with = Options { replica: Some(Replica { url, staleness: STALENESS }), ..Bench::options() };
        let store = stockhold_sql::open(&bench.database.url(), with).expect("the store opens");
        Self { bench, replica, store, maker, item }
    }

    fn shown(&self) -> (u64, u64) {
        let item = item(&*self.store, &self.item).expect("the item");
        (item.figures.held, item.settings.oversell_allowance)
    }

    fn reserve(&mut self) {
        let outcome = run(&*self.store, self.maker.wrap(maker::reserve_for(60, &[(&self.item, 1)])));
        assert!(outcome.is_ok(), "{outcome:?}");
    }

    fn of_replica(&self) -> Session {
        self.replica.session(Some(self.bench.database.name()))
    }

    /// Gives the replica's item a figure that the primary's has not, and reads until it is shown.
    fn read_until_the_replica_answers(&self, sign: u64) {
        let mut session = self.of_replica();
        session.wait_for("SELECT COUNT(*) FROM stockhold_items");
        session.run(&format!("UPDATE stockhold_items SET oversell_allowance = {sign}"));
        self.until("the replica answers", |shown| shown.1 == sign);
    }

    fn until(&self, what: &str, so: impl Fn((u64, u64)) -> bool) {
        let started = std::time::Instant::now();
        while !so(self.shown()) {
            assert!(started.elapsed() < Duration::from_secs(90), "never: {what}");
        }
    }
}

#[test]
fn what_is_to_be_had_is_read_of_a_replica_and_of_the_primary_when_that_falls_behind() {
    if Programs::chosen().is_mysql {
        return not_run("MariaDB");
    }
    let mut scene = Scene::new(80);
    scene.read_until_the_replica_answers(7);

    scene.of_replica().run("STOP SLAVE SQL_THREAD");
    scene.reserve();
    scene.until("the primary is read", |shown| shown == (1, 0));
    // What the replica shows is too old by now, and stays so.
    for _ in 0..20 {
        assert_eq!(scene.shown(), (1, 0));
    }

    scene.of_replica().run("START SLAVE SQL_THREAD");
    scene.of_replica().wait_for("SELECT held FROM stockhold_items");
    scene.read_until_the_replica_answers(8);
    assert_eq!(scene.shown().0, 1);

    scene.replica.kill();
    scene.reserve();
    assert_eq!(scene.shown(), (2, 0));
    scene.bench.audit();
}
