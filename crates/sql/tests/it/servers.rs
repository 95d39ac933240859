//! Servers that can't be had, and those that come back.

use crate::addresses::refused;
use crate::fixture::{Bench, item, run, stock, wait_until};
use crate::support::{Server, Session};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use stockhold_conformance::{Maker, maker};
use stockhold_domain::Outcome;
use stockhold_sql::postgres;
use stockhold_sql::{OpenError, Options};
use stockhold_store::{Failure, Store};

const PASSWORD: &str = "correct-horse";

#[test]
fn options_out_of_bounds_are_refused() {
    let bench = Bench::new();
    let wrong = [
        Options { connections: 1, ..Options::default() },
        Options { connections: 9, most_connections: 8, ..Options::default() },
        Options { batch: 0, ..Options::default() },
        Options { batch: 257, ..Options::default() },
        Options { sweep_batch: 0, ..Options::default() },
        Options { queue: 0, ..Options::default() },
    ];
    for options in wrong {
        let error = postgres::open(&bench.database.url, options).err();
        assert!(matches!(error, Some(OpenError::Option(_))), "{error:?}");
    }
}

#[test]
fn a_database_that_is_not_there_a_user_without_rights_and_a_read_only_one_are_told_apart() {
    let mut bench = Bench::new();
    let error = refused(&bench.database.url_of("nowhere"));
    assert!(matches!(&error, OpenError::Refused(why) if why.contains("nowhere")), "{error:?}");

    bench.session.run("CREATE ROLE guest LOGIN");
    let error = refused(&bench.database.url.replace("stockhold@", "guest@"));
    assert!(matches!(&error, OpenError::Unfit(why) if why.contains("permission denied")), "{error:?}");
    assert!(error.to_string().contains("migrate"), "it says what to do: {error}");

    let name = bench.database.name().to_owned();
    bench.session.run(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    let error = refused(&bench.database.url);
    assert!(matches!(&error, OpenError::Unfit(why) if why.contains("read-only")), "{error:?}");
}

#[test]
fn a_server_that_restarts_is_unavailable_meanwhile_and_served_again_without_a_restart_of_the_store() {
    let server = Arc::new(Server::start());
    let bench = Bench::on(&server);
    let store = bench.connect();
    let mut maker = Maker::new(80, "restart-");
    let item_key = stock(&store, &mut maker, "a", 10);
    let mut reserve = |n: u32| maker.keyed(&n.to_string(), maker::reserve_for(60, &[(&item_key, 1)]));
    let before = reserve(1);
    assert!(matches!(run(&store, before), Ok(Outcome::Done(_))));
    server.stop();
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
    let mut bench = Bench::new();
    let store = bench.connect();
    let mut maker = Maker::new(81, "standby-");
    let item_key = stock(&store, &mut maker, "a", 10);
    let name = bench.database.name().to_owned();
    bench.session.run(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    bench.kill_stores();
    wait_until(|| store.fatal_error().is_some_and(|why| why.contains("read-only")));
    let reserve = maker.keyed("k", maker::reserve_for(60, &[(&item_key, 1)]));
    // One that was being opened when all were ended may be the last that failed.
    wait_until(|| match run(&store, reserve.clone()) {
        Err(Failure::Unavailable(why)) => why.contains("read-only"),
        other => panic!("{other:?}"),
    });
    bench.session.run(&format!("ALTER DATABASE {name} RESET default_transaction_read_only"));
    wait_until(|| store.fatal_error().is_none());
    assert!(matches!(run(&store, reserve), Ok(Outcome::Done(_))));
}

/// A server that asks for a password and speaks TLS.
fn speaking_tls(certificate: &str, key: &str) -> Arc<Server> {
    let prepare = |data: &Path| {
        std::fs::write(data.join("server.crt"), certificate).unwrap();
        std::fs::write(data.join("server.key"), key).unwrap();
        let secret = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(data.join("server.key"), secret).unwrap();
        "ssl = on\n".to_owned()
    };
    Arc::new(Server::listening(crate::support::ports::free_port(), prepare))
}

/// One with a certificate for `localhost`; and the file of who signed it.
fn encrypted() -> (Arc<Server>, tempfile::TempDir) {
    let issuer_key = rcgen::KeyPair::generate().unwrap();
    let mut issuer = rcgen::CertificateParams::new(Vec::new()).unwrap();
    issuer.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer_certificate = issuer.self_signed(&issuer_key).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = certificate.signed_by(&key, &rcgen::Issuer::new(issuer, &issuer_key)).unwrap();
    let server = speaking_tls(&certificate.pem(), &key.serialize_pem());
    let directory = tempfile::TempDir::new().unwrap();
    std::fs::write(directory.path().join("root.crt"), issuer_certificate.pem()).unwrap();
    (server, directory)
}

#[test]
fn passwords_and_certificates_are_checked_as_the_address_says() {
    let (server, directory) = encrypted();
    let database = server.database();
    let mut session = Session::open(&database.url);
    session.run(&format!("ALTER ROLE stockhold PASSWORD '{PASSWORD}'"));
    let (port, name) = (server.port(), database.name());
    let root = directory.path().join("root.crt").to_str().unwrap().replace('/', "%2F");
    let url = |password: &str, host: &str, rest: &str| {
        format!("postgres://stockhold:{password}@{host}:{port}/{name}?{rest}")
    };
    let good = |host: &str, rest: &str| postgres::open(&url(PASSWORD, host, rest), Options::default());

    let error = refused(&url("hunter2", "127.0.0.1", ""));
    assert!(matches!(&error, OpenError::Refused(why) if why.contains("password")), "{error:?}");
    assert!(!format!("{error:?} {error}").contains("hunter2"));

    let encrypted = "SELECT bool_and(ssl) AND count(*) > 0 FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
        WHERE application_name = 'stockhold'";
    let gone = "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'stockhold'";
    for (host, rest, is_encrypted) in [
        ("127.0.0.1", "sslmode=disable".to_owned(), "f"),
        ("127.0.0.1", String::new(), "t"),
        ("127.0.0.1", "sslmode=require".to_owned(), "t"),
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={root}"), "t"),
        ("localhost", format!("sslmode=verify-full&sslrootcert={root}"), "t"),
    ] {
        let store = good(host, &rest).unwrap_or_else(|error| panic!("{rest}: {error}"));
        assert_eq!(session.text(encrypted), is_encrypted, "{rest}");
        drop(store);
        session.wait_for(gone);
    }
    for (host, rest) in [
        ("127.0.0.1", format!("sslmode=verify-full&sslrootcert={root}")),
        ("localhost", "sslmode=verify-full".to_owned()),
        ("localhost", "sslmode=verify-ca".to_owned()),
    ] {
        let error = good(host, &rest).err().unwrap_or_else(|| panic!("{rest} was opened"));
        assert!(!error.to_string().contains(PASSWORD), "{error}");
        assert!(error.to_string().contains("certificate"), "{rest}: {error}");
    }
}

#[test]
fn a_certificate_of_version_1_is_taken_where_none_is_checked() {
    let directory = tempfile::TempDir::new().unwrap();
    let openssl = |arguments: &[&str]| {
        let made = Command::new("openssl").args(arguments).current_dir(directory.path()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        String::from_utf8_lossy(&made.stdout).into_owned()
    };
    let request = [
        "-new",
        "-nodes",
        "-newkey",
        "rsa:2048",
        "-subj",
        "/CN=localhost",
        "-keyout",
        "key",
        "-out",
        "request",
    ];
    openssl(&[&["req"][..], &request].concat());
    openssl(&["x509", "-req", "-in", "request", "-signkey", "key", "-out", "certificate"]);
    assert!(openssl(&["x509", "-in", "certificate", "-noout", "-text"]).contains("Version: 1 "));
    let file = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    let server = speaking_tls(&file("certificate"), &file("key"));
    let database = server.database();
    Session::open(&database.url).run(&format!("ALTER ROLE stockhold PASSWORD '{PASSWORD}'"));
    let address = format!("postgres://stockhold:{PASSWORD}@localhost:{}/{}", server.port(), database.name());
    for rest in ["", "?sslmode=require"] {
        drop(
            postgres::open(&format!("{address}{rest}"), Options::default()).expect("any certificate will do"),
        );
    }
    let error = postgres::open(&format!("{address}?sslmode=verify-full"), Options::default()).err();
    assert!(error.is_some_and(|error| error.to_string().contains("certificate")));
}
