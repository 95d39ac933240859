//! What made two servers on two nodes sell units twice, each cause by itself.

use super::Bench;
use super::support::{APPLIERS, NODES};
use crate::audit::{Shop, adds_up};
use crate::fixture::{Desk, events, hold, item, reservation, run, sold_out, stock};
use crate::mysql::support::Session;
use crate::unit_items::hall;
use std::thread;
use std::time::Duration;
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{Command, Outcome, Rejection, Reply, Scope, SetSale, SetStock, Transition};
use stockhold_sql::Options;
use stockhold_sql::mysql;

type Spread = Bench<true>;

/// How long a transaction rests between its locks and its writes, if it is slow. Longer than what happens meanwhile.
const REST: Duration = Duration::from_millis(1_500);
/// Until it rests.
const UNTIL_IT_RESTS: Duration = Duration::from_millis(500);

/// Options of a store whose batches rest while they read the clock, which is after their locks.
fn slow(options: &Options) -> Options {
    let clock = format!("SELECT micros + 0 * SLEEP({}) FROM test_clock", REST.as_secs_f64());
    Options { clock: Some(clock), ..options.clone() }
}

/// A node that applies nothing of what the others commit until the session is dropped. It has one thread for that: several would apply a
/// transaction up to its commit, which waits for the one before it.
fn applies_nothing(bench: &mut Spread, node: usize) -> Session {
    bench.session.run("CREATE TABLE IF NOT EXISTS test_applied (n INT AUTO_INCREMENT PRIMARY KEY)");
    let mut other = bench.session_at((node + 1) % NODES);
    let mut session = bench.session_at(node);
    session.run("SET GLOBAL wsrep_slave_threads = 1");
    session.wait_until("one thread applies", |session| {
        // A thread ends when it has applied something.
        other.run("INSERT INTO test_applied VALUES ()");
        session.status("wsrep_applier_thread_count") == "1"
    });
    session.run("SELECT COUNT(*) FROM test_applied; LOCK TABLES test_applied READ");
    other.run("INSERT INTO test_applied VALUES ()");
    session
}

/// What [`applies_nothing`] has changed.
fn apply_again(bench: &Spread, node: usize, session: Session) {
    drop(session);
    bench.session_at(node).run(&format!("SET GLOBAL wsrep_slave_threads = {APPLIERS}"));
}

/// Galera aborts a transaction between two statements of one packet without an error. What is behind them commits by itself, unless
/// all of them are one compound statement.
#[test]
fn a_packet_is_torn_and_a_compound_statement_is_not() {
    let mut bench = Spread::new();
    bench.session.run("CREATE TABLE ev (n INT PRIMARY KEY); CREATE TABLE it (k INT PRIMARY KEY, v INT)");
    let writes = "INSERT INTO ev VALUES (1); DO SLEEP(1.5); \
                  INSERT INTO it VALUES (1, 100) ON DUPLICATE KEY UPDATE v = 100; COMMIT";
    let compound = format!(
        "BEGIN NOT ATOMIC IF @@in_transaction = 0 THEN SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213; END IF; {writes}; END"
    );
    for (packet, torn) in [(writes, true), (&*compound, false)] {
        bench.session.run("DELETE FROM ev; DELETE FROM it; INSERT INTO it VALUES (1, 0)");
        let mut victim = bench.session_at(0);
        victim.run("START TRANSACTION; SELECT v FROM it WHERE k = 1 FOR UPDATE");
        let done = thread::scope(|scope| {
            let victim = scope.spawn(move || victim.try_run(packet));
            thread::sleep(UNTIL_IT_RESTS);
            bench.session_at(1).run("UPDATE it SET v = v + 1 WHERE k = 1");
            victim.join().unwrap()
        });
        let mut other = bench.session_at(1);
        let left = (done.is_ok(), other.text("SELECT COUNT(*) FROM ev"), other.text("SELECT v FROM it"));
        let expected = if torn { (true, "0", "100") } else { (false, "0", "1") };
        assert_eq!((left.0, &*left.1, &*left.2), expected, "{done:?}");
    }
}

/// While a batch of one node rests behind its locks, another node sells the same item.
#[test]
fn a_batch_whose_item_was_sold_at_another_node_begins_again() {
    let mut bench = Spread::new();
    let options = bench.options();
    let stores = [bench.store_at(0, slow(&options)), bench.store_at(1, options)];
    let mut maker = Maker::new(900, "torn-");
    let item_key = stock(&*stores[1], &mut maker, "a", 1);
    let [one, other] = [0, 1].map(|_| maker.wrap(maker::reserve_for(600, &[(&item_key, 1)])));
    let pending = Desk::new().send(&*stores[0], vec![one]);
    thread::sleep(UNTIL_IT_RESTS);
    assert!(reservation(&run(&*stores[1], other)).is_some());
    let refused = pending.only();
    assert!(sold_out(&refused), "{refused:?}");
    bench.audit();
}

/// Safety stock of units with ids is kept by the lock of their item, which a claim does not change.
#[test]
fn a_hall_with_safety_stock_is_not_claimed_twice() {
    let mut bench = Spread::new();
    let options = bench.options();
    let stores = [bench.store_at(0, slow(&options)), bench.store_at(1, slow(&options))];
    let mut maker = Maker::new(901, "safety-");
    let quick = bench.store_at(2, options);
    let hall = hall(&*quick, &mut maker, 4, 5);
    let kept = SetStock { safety_stock: Some(10), total_units: None, ..maker::stock_of(&hall, 0) };
    run(&*quick, maker.wrap(Command::SetStock(kept))).unwrap();
    let reserves = [0, 1].map(|_| maker.wrap(maker::reserve_for(600, &[(&hall, 10)])));
    let pending: Vec<_> = stores
        .iter()
        .zip(reserves)
        .map(|(store, reserve)| Desk::new().send(&**store, vec![reserve]))
        .collect();
    let outcomes: Vec<_> = pending.into_iter().map(crate::fixture::Pending::only).collect();
    assert_eq!(outcomes.iter().filter_map(reservation).count(), 1, "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|outcome| sold_out(outcome)).count(), 1, "{outcomes:?}");
    assert_eq!(item(&*quick, &hall).unwrap().figures.held, 10);
    bench.audit();
}

fn pause(maker: &mut Maker, scope: &Scope) -> stockhold_domain::Envelope {
    maker.wrap(Command::SetSale(SetSale { scope: scope.clone(), paused: true, reason: None }))
}

/// A reserve that has read that its sale goes on is not committed once the pause was answered at another node, whether the pause was
/// applied at its node before it commits or not.
#[test]
fn a_reserve_in_flight_does_not_pass_a_pause() {
    for is_applied in [true, false] {
        for of_item in [false, true] {
            let mut bench = Spread::new();
            let options = bench.options();
            let stores = [bench.store_at(0, slow(&options)), bench.store_at(1, options)];
            let mut maker = Maker::new(902, "pause-");
            let hall = hall(&*stores[1], &mut maker, 1, 5);
            let scope = if of_item { Scope::Item(hall.clone()) } else { Scope::Everything };
            let reserve = maker.wrap(maker::reserve_for(600, &[(&hall, 1)]));
            let pending = Desk::new().send(&*stores[0], vec![reserve]);
            thread::sleep(UNTIL_IT_RESTS);
            let stopped = (!is_applied).then(|| applies_nothing(&mut bench, 0));
            let paused = run(&*stores[1], pause(&mut maker, &scope));
            assert!(matches!(paused, Ok(Outcome::Done(Reply::Sale { paused: true }))), "{paused:?}");
            if stopped.is_some() {
                // Until it has tried to commit.
                thread::sleep(REST);
            }
            if let Some(stopped) = stopped {
                apply_again(&bench, 0, stopped);
            }
            let refused = pending.only();
            assert_eq!(refused, Ok(Outcome::Refused(Rejection::SalePaused(scope))), "applied: {is_applied}");
            bench.audit();
        }
    }
}

#[test]
fn what_one_node_has_answered_is_read_at_another() {
    let mut bench = Spread::new();
    let stores = [bench.store_at(0, bench.options()), bench.store_at(1, bench.options())];
    let mut maker = Maker::new(903, "stale-");
    let item_key = stock(&*stores[0], &mut maker, "a", 10);
    assert!(item(&*stores[1], &item_key).is_some());
    let stopped = applies_nothing(&mut bench, 1);
    let made = run(&*stores[0], maker.wrap(maker::reserve_for(600, &[(&item_key, 1)])));
    let id = reservation(&made).unwrap().id;
    let confirm = maker.wrap(maker::confirm(id));
    thread::scope(|scope| {
        let read = scope.spawn(|| hold(&*stores[1], id));
        let confirmed = scope.spawn(|| run(&*stores[1], confirm));
        thread::sleep(UNTIL_IT_RESTS);
        apply_again(&bench, 1, stopped);
        assert_eq!(read.join().unwrap().map(|hold| hold.id), Some(id));
        let confirmed = confirmed.join().unwrap();
        assert!(reservation(&confirmed).is_some(), "{confirmed:?}");
    });
}

/// Batches of one item at three nodes in turns, numbered at each of them, and a pause that draws its serial after a reserve that it has not
/// waited for.
#[test]
fn events_are_in_the_order_of_the_commits() {
    let mut bench = Spread::new();
    let options = bench.options();
    let stores: Vec<_> = (0..NODES).map(|node| bench.store_at(node, options.clone())).collect();
    let mut maker = Maker::new(904, "order-");
    let item_key = stock(&*stores[0], &mut maker, "a", 1_000);
    for turn in 0..60 {
        let reserve = maker.wrap(maker::reserve_for(600, &[(&item_key, 1)]));
        assert!(reservation(&run(&*stores[turn % NODES], reserve)).is_some());
        if turn % 4 == 0 {
            events(&*stores[(turn / 4) % NODES]);
        }
    }
    let pausing = bench.store_at(0, slow(&options));
    let pending = Desk::new().send(&*pausing, vec![pause(&mut maker, &Scope::Everything)]);
    thread::sleep(UNTIL_IT_RESTS);
    let reserve = maker.wrap(maker::reserve_for(600, &[(&item_key, 1)]));
    assert!(reservation(&run(&*stores[1], reserve)).is_some());
    assert!(matches!(pending.only(), Ok(Outcome::Done(_))));
    let rows = events(&*stores[2]);
    let mut sequence = 0;
    for (number, row) in rows.iter().enumerate() {
        assert_eq!(row.position, number as u64 + 1);
        match &row.event.transition {
            Transition::Stock { item, .. } => sequence = item.figures.sequence,
            Transition::Hold { hold, .. } => {
                assert_eq!(hold.lines[0].sequence, sequence + 1);
                sequence += 1;
            }
            Transition::Sale { .. } => assert_eq!(number + 1, rows.len(), "the pause is the last"),
            other => panic!("{other:?}"),
        }
    }
    drop((stores, pausing));
    assert_eq!(adds_up(&bench).events, rows.len() as u64);
    bench.audit();
}

#[test]
fn the_first_starts_at_three_nodes_at_once_all_succeed() {
    for _ in 0..8 {
        let bench = Spread::new();
        let errors: Vec<_> = thread::scope(|scope| {
            let opening: Vec<_> = (0..NODES)
                .map(|node| {
                    let (url, options) = (bench.url_at(node), bench.options());
                    scope.spawn(move || mysql::open(&url, options).err())
                })
                .collect();
            opening.into_iter().filter_map(|opening| opening.join().unwrap()).collect()
        });
        assert_eq!(errors, []);
        assert_eq!(adds_up(&bench).events, 0);
    }
}
