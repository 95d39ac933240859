//! Servers that can't be had, and those that come back.

use super::bench::Bench;
use super::support::{Programs, Server};
use crate::addresses::refused;
use crate::fixture::{item, run, stock, wait_until};
use std::path::Path;
use std::sync::Arc;
use stockhold_conformance::{Maker, maker};
use stockhold_domain::Outcome;
use stockhold_sql::mysql;
use stockhold_sql::{OpenError, Options};
use stockhold_store::{Failure, Store};

const PASSWORD: &str = "correct-horse";

#[test]
fn a_database_that_is_not_there_a_user_without_rights_and_a_read_only_server_are_told_apart() {
    let mut bench = Bench::alone(&[]);
    let database = &bench.database;
    let error = refused(&database.url_as("stockhold", "nowhere"));
    assert!(matches!(&error, OpenError::Refused(why) if why.contains("nowhere")), "{error:?}");
    let error = refused(&database.url_as("stockhold", "test_nowhere"));
    assert!(matches!(&error, OpenError::Refused(why) if why.contains("nowhere")), "{error:?}");

    let name = database.name().to_owned();
    bench.session.run(&format!("CREATE USER guest; GRANT SELECT ON {name}.* TO guest"));
    let error = refused(&bench.database.url_as("guest", &name));
    assert!(matches!(&error, OpenError::Unfit(why) if why.contains("denied")), "{error:?}");
    assert!(error.to_string().contains("migrate"), "it says what to do: {error}");

    bench.session.run("SET GLOBAL read_only = ON");
    let error = refused(&bench.database.url());
    assert!(matches!(&error, OpenError::Unfit(why) if why.contains("read-only")), "{error:?}");
}

#[test]
fn a_server_that_restarts_is_unavailable_meanwhile_and_served_again_without_a_restart_of_the_store() {
    let server = Arc::new(Server::start(&[]));
    let bench = Bench::on(&server);
    let store = bench.connect();
    let mut maker = Maker::new(80, "restart-");
    let item_key = stock(&store, &mut maker, "a", 10);
    let mut reserve = |n: u32| maker.keyed(&n.to_string(), maker::reserve_for(60, &[(&item_key, 1)]));
    assert!(matches!(run(&store, reserve(1)), Ok(Outcome::Done(_))));
    server.kill();
    // Nobody asks anything of it: it has to notice by itself, all its connections at once.
    wait_until(|| store.fatal_error().is_some());
    let outcome = run(&store, reserve(2));
    assert!(matches!(outcome, Err(Failure::Unavailable(_))), "{outcome:?}");
    server.run();
    wait_until(|| store.fatal_error().is_none());
    assert!(matches!(run(&store, reserve(3)), Ok(Outcome::Done(_))));
    assert_eq!(item(&store, &item_key).unwrap().figures.held, 2);
}

#[test]
fn a_server_that_becomes_read_only_takes_no_commands_until_it_no_longer_is() {
    let mut bench = Bench::alone(&[]);
    let store = bench.connect();
    let mut maker = Maker::new(81, "standby-");
    let item_key = stock(&store, &mut maker, "a", 10);
    bench.session.run("SET GLOBAL read_only = ON");
    let reserve = maker.keyed("k", maker::reserve_for(60, &[(&item_key, 1)]));
    // Its connections find out one after the other, by the error of a write.
    loop {
        let outcome = run(&store, reserve.clone());
        assert!(matches!(outcome, Err(Failure::Unavailable(_))), "{outcome:?}");
        if store.fatal_error().is_some_and(|why| why.contains("read-only")) {
            break;
        }
    }
    bench.session.run("SET GLOBAL read_only = OFF");
    wait_until(|| store.fatal_error().is_none());
    assert!(matches!(run(&store, maker.again(&reserve)), Ok(Outcome::Done(_))));
    bench.audit();
}

#[test]
fn a_limit_of_rows_that_somebody_has_set_for_all_does_not_count() {
    let mut bench = Bench::alone(&[]);
    bench.session.run("SET GLOBAL sql_select_limit = 1");
    let store = bench.connect();
    let mut maker = Maker::new(82, "limit-");
    for name in ["a", "b", "c"] {
        stock(&store, &mut maker, name, 10);
    }
    assert_eq!(crate::fixture::events(&store).len(), 3);
    bench.session.run("SET GLOBAL sql_select_limit = 0");
    drop(bench.connect());
}

/// A server that speaks TLS, by a certificate for `localhost`; and the file of who signed it.
fn encrypted() -> (Arc<Server>, tempfile::TempDir) {
    let issuer_key = rcgen::KeyPair::generate().unwrap();
    let mut issuer = rcgen::CertificateParams::new(Vec::new()).unwrap();
    issuer.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer_certificate = issuer.self_signed(&issuer_key).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = certificate.signed_by(&key, &rcgen::Issuer::new(issuer, &issuer_key)).unwrap();
    let prepare = |directory: &Path| {
        let (certificate_file, key_file) = (directory.join("server.crt"), directory.join("server.key"));
        std::fs::write(&certificate_file, certificate.pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        vec![
            format!("--ssl-cert={}", certificate_file.display()),
            format!("--ssl-key={}", key_file.display()),
        ]
    };
    let server = Arc::new(Server::listening(crate::support::ports::free_port(), prepare));
    let directory = tempfile::TempDir::new().unwrap();
    std::fs::write(directory.path().join("root.crt"), issuer_certificate.pem()).unwrap();
    (server, directory)
}

#[test]
fn passwords_and_certificates_are_checked_as_the_address_says() {
    let (server, directory) = encrypted();
    let database = server.database();
    let mut session = database.session();
    session.run(&format!("ALTER USER 'stockhold'@'%' IDENTIFIED BY '{PASSWORD}'"));
    let (port, name) = (server.port(), database.name());
    let root = directory.path().join("root.crt").to_str().unwrap().replace('/', "%2F");
    let url = |password: &str, host: &str, rest: &str| {
        format!("mysql://stockhold:{password}@{host}:{port}/{name}?{rest}")
    };
    let open = |host: &str, rest: &str| mysql::open(&url(PASSWORD, host, rest), Options::default()).err();

    let error = refused(&url("hunter2", "127.0.0.1", ""));
    assert!(matches!(&error, OpenError::Refused(why) if why.contains("denied")), "{error:?}");
    assert!(!format!("{error:?} {error}").contains("hunter2"));

    assert_eq!(open("127.0.0.1", "sslmode=disable"), None);
    session.run("ALTER USER 'stockhold'@'%' REQUIRE SSL");
    assert!(matches!(open("127.0.0.1", "sslmode=disable"), Some(OpenError::Refused(_))));
    let full = format!("sslmode=verify-full&sslrootcert={root}");
    for (host, rest) in [("127.0.0.1", ""), ("127.0.0.1", "sslmode=require"), ("localhost", &full)] {
        assert_eq!(open(host, rest), None, "{rest}");
    }
    for (host, rest) in [("127.0.0.1", full.as_str()), ("localhost", "sslmode=verify-full")] {
        let error = open(host, rest).unwrap_or_else(|| panic!("{rest} was opened"));
        assert!(!error.to_string().contains(PASSWORD), "{error}");
        assert!(error.to_string().contains("certificate"), "{rest}: {error}");
    }
}

#[test]
fn a_server_without_tls_is_talked_to_in_the_clear_unless_the_address_insists() {
    // MySQL makes certificates for itself, and MariaDB does from 11.4 on.
    let setting = if Programs::chosen().is_mysql { "--tls-version=" } else { "--skip-ssl" };
    let settings = vec![setting.to_owned()];
    let server = Arc::new(Server::listening(crate::support::ports::free_port(), |_| settings));
    let database = server.database();
    let url =
        |rest: &str| format!("mysql://stockhold@127.0.0.1:{}/{}?{rest}", server.port(), database.name());
    assert_eq!(mysql::open(&url(""), Options::default()).err(), None);
    let error = refused(&url("sslmode=require"));
    assert!(matches!(&error, OpenError::Refused(why) if why.contains("TLS")), "{error:?}");
}
