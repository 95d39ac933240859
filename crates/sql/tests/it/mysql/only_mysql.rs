//! What is so on MySQL alone. These tests run if `STOCKHOLD_TEST_MYSQL` names the folder of the programs of MySQL.

use super::bench::Bench;
use super::not_run;
use super::support::{Programs, Server};
use crate::addresses::refused;
use crate::audit::every_command;
use crate::fixture::events;
use std::sync::Arc;
use stockhold_conformance::Maker;
use stockhold_sql::{OpenError, Options, Replica, with_replica};
use stockhold_store::Store;

/// Whether the tests of this file can't run.
fn without_mysql() -> bool {
    let is_mysql = Programs::chosen().is_mysql;
    if !is_mysql {
        not_run("MySQL");
    }
    !is_mysql
}

/// A server that has the plugin for groups, in a mode.
fn of_group(single_primary: &str) -> Arc<Server> {
    let port = crate::support::ports::free_port();
    let settings = vec![
        "--plugin-load-add=group_replication.so".to_owned(),
        "--group-replication-group-name=6f3cf43a-4e5a-4d3b-9e0b-0d6f3a2b1c00".to_owned(),
        format!("--group-replication-local-address=127.0.0.1:{port}"),
        "--group-replication-start-on-boot=OFF".to_owned(),
        format!("--loose-group-replication-single-primary-mode={single_primary}"),
        "--gtid-mode=ON".to_owned(),
        "--enforce-gtid-consistency=ON".to_owned(),
        "--server-id=1".to_owned(),
    ];
    let server = Arc::new(Server::listening(crate::support::ports::free_port(), |_| settings));
    server.session(None).run(
        "SET GLOBAL group_replication_bootstrap_group = ON; START GROUP_REPLICATION;
         SET GLOBAL group_replication_bootstrap_group = OFF",
    );
    let online =
        "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE member_state = 'ONLINE'";
    server.session(None).wait_for(online);
    server.session(None).wait_for("SELECT @@GLOBAL.super_read_only = 0");
    server
}

#[test]
fn a_group_with_several_primaries_is_refused_and_one_with_a_single_primary_is_not() {
    if without_mysql() {
        return;
    }
    let bench = Bench::on(&of_group("ON"));
    let store = bench.connect();
    every_command(&store, &mut Maker::new(93, "group-"), "");
    let database = of_group("OFF").database();
    let error = refused(&database.url());
    assert!(matches!(&error, OpenError::Unfit(why) if why.contains("use single-primary mode")), "{error:?}");
}

#[test]
fn no_statement_has_a_deprecated_form() {
    if without_mysql() {
        return;
    }
    let mut bench = Bench::alone(&[]);
    let store = bench.connect();
    // Of the schema and of the tests themselves.
    let warnings = "SELECT COALESCE(SUM(sum_error_raised), 0) FROM performance_schema.events_errors_summary_global_by_error
        WHERE error_name LIKE '%DEPRECATED%'";
    let before = bench.session.text(warnings);
    every_command(&store, &mut Maker::new(94, "deprecated-"), "");
    assert!(!events(&store).is_empty());
    assert_eq!(bench.session.text(warnings), before);
}

#[test]
fn a_user_who_is_unknown_is_told_so() {
    if without_mysql() {
        return;
    }
    let server = Arc::new(Server::listening(crate::support::ports::free_port(), |_| Vec::new()));
    let database = server.database();
    // For each name MySQL chooses one of its plugins, of which the driver knows some.
    for number in 0..20 {
        let (port, name) = (server.port(), database.name());
        let error = refused(&format!("mysql://nobody{number}:secret@127.0.0.1:{port}/{name}"));
        let says = |why: &str| why.contains("no such user") || why.contains("denied");
        assert!(matches!(&error, OpenError::Refused(why) if says(why)), "{error:?}");
    }
}

#[test]
fn certificates_that_the_server_made_for_itself_are_not_checked_and_the_error_says_what_to_do() {
    if without_mysql() {
        return;
    }
    let server = Arc::new(Server::listening(crate::support::ports::free_port(), |_| Vec::new()));
    let database = server.database();
    let root = database.session().text("SELECT CONCAT(@@datadir, @@ssl_ca)").replace('/', "%2F");
    let (port, name) = (server.port(), database.name());
    let url = |rest: &str| format!("mysql://stockhold@localhost:{port}/{name}?{rest}");
    assert_eq!(stockhold_sql::mysql::open(&url("sslmode=require"), Options::default()).err(), None);
    let error = refused(&url(&format!("sslmode=verify-full&sslrootcert={root}")));
    assert!(error.to_string().contains("use sslmode=require"), "{error}");
}

#[test]
fn a_replica_is_refused() {
    if without_mysql() {
        return;
    }
    let bench = Bench::new();
    let url = bench.database.url();
    let replica = Replica { url: url.clone(), staleness: std::time::Duration::from_secs(1) };
    let options = Options { replica: Some(replica), ..Bench::options() };
    let store: Arc<dyn Store> = Arc::new(bench.connect());
    let error = with_replica(store, &url, &options).err();
    assert!(matches!(&error, Some(OpenError::Unfit(why)) if why.contains("replicas of MySQL")), "{error:?}");
}
