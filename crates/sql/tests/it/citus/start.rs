//! Which databases of a cluster are opened, and how the tables get onto the workers.

use super::Bench;
use crate::audit::{Shop, adds_up};
use crate::fixture::{Bench as Single, events, item, run, stock};
use crate::support::Session;
use crate::support::citus::{Cluster, SHARDS};
use std::sync::Arc;
use stockhold_conformance::{Maker, START, maker};
use stockhold_domain::Outcome;
use stockhold_sql::postgres;
use stockhold_sql::{OpenError, Options};

/// Needs no Citus.
#[test]
fn a_database_without_citus_is_not_distributed_and_gets_no_schema() {
    let mut single = Single::new();
    let refused = postgres::distribute(&single.database.url, Options::default(), SHARDS).err();
    assert!(
        matches!(&refused, Some(OpenError::Unfit(why)) if why.contains("CREATE EXTENSION citus")),
        "{refused:?}"
    );
    assert_eq!(single.session.text("SELECT to_regnamespace('stockhold') IS NULL"), "t");
    let refused = postgres::distribute(&single.database.url, Options::default(), 0).err();
    assert!(matches!(&refused, Some(OpenError::Option(why)) if why.contains("1 to 1024")), "{refused:?}");
}

#[test]
fn what_was_there_before_is_there_when_the_tables_are_distributed() {
    let Some(cluster) = Cluster::shared() else { return };
    let name = cluster.database();
    let url = cluster.coordinator().url(&name);
    let mut maker = Maker::new(610, "before-");
    let mut session = Session::open(&url);
    session.run("CREATE TABLE public.test_clock (micros bigint)");
    session.run(&format!("INSERT INTO public.test_clock VALUES ({})", START.micros()));
    // The tables are on the coordinator, as on any PostgreSQL.
    let store = postgres::open(&url, Single::options()).unwrap();
    let keys = ["a", "b", "c"].map(|name| stock(&store, &mut maker, name, 10));
    let reserve = maker.keyed("k", maker::reserve_for(600, &[(&keys[0], 1), (&keys[1], 2)]));
    run(&store, reserve.clone()).unwrap();
    let before = events(&store);
    run(&store, maker.wrap(maker::adjust(&keys[2], 5))).unwrap();
    let refused = postgres::distribute(&url, Single::options(), SHARDS).err();
    assert!(matches!(&refused, Some(OpenError::Unfit(why)) if why.contains("stop them")), "{refused:?}");
    drop(store);
    session.wait_for(
        "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'stockhold'",
    );
    session.run("DROP TABLE public.test_clock");
    let bench = Bench::in_database(&cluster, name);
    let again = postgres::distribute(&url, Single::options(), 4).unwrap();
    assert!(!again.is_new);
    assert_eq!(
        session.text("SELECT count(*) FROM citus_shards WHERE table_name = 'stockhold.items'::regclass"),
        "8"
    );

    let store = bench.store();
    let after = events(&*store);
    assert_eq!(after[..before.len()], before);
    assert_eq!(after.len(), before.len() + 1);
    let told = run(&*store, maker.again(&reserve));
    assert!(matches!(told, Ok(Outcome::Replayed(_))), "{told:?}");
    assert_eq!(item(&*store, &keys[1]).unwrap().figures.held, 2);
    run(&*store, maker.wrap(maker::reserve_for(600, &[(&keys[2], 1)]))).unwrap();
    assert_eq!(events(&*store).len(), before.len() + 2);
    drop(store);
    adds_up(&bench);
}

#[test]
fn a_worker_is_refused_and_gets_no_schema() {
    let Some(bench) = Bench::new() else { return };
    let url = bench.cluster.worker(0).url(&bench.name);
    for refused in [
        postgres::open(&url, Options::default()).err(),
        stockhold_sql::migrate(&url, Options::default()).err(),
        postgres::distribute(&url, Options::default(), SHARDS).err(),
    ] {
        assert!(
            matches!(&refused, Some(OpenError::Unfit(why)) if why.contains("coordinator")),
            "{refused:?}"
        );
    }
}

#[test]
fn tables_that_were_spread_by_other_statements_are_refused() {
    let Some(cluster) = Cluster::shared() else { return };
    let cluster: Arc<Cluster> = cluster;
    let name = cluster.database();
    let url = cluster.coordinator().url(&name);
    stockhold_sql::migrate(&url, Options::default()).unwrap();
    Session::open(&url).run("SELECT create_distributed_table('stockhold.items', 'bucket', shard_count => 4)");
    let refused = postgres::open(&url, Options::default()).err();
    assert!(
        matches!(&refused, Some(OpenError::Unfit(why)) if why.contains("other statements")),
        "{refused:?}"
    );
    cluster.remove(&name);
}
