//! Databases that a server can't start on: it says why and what to do, and never says the password.

use super::{Database, PASSWORD};
use crate::support::{Server, free_port, said, stockhold, text, wait_for};
use serde_json::json;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Runs a command that has to end by itself with this exit code: what it said.
fn refused(arguments: &[&str], url: &str, code: i32) -> String {
    let dir = tempfile::tempdir().unwrap();
    let output = stockhold(dir.path()).args(arguments).env("STOCKHOLD_STORE", url).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", said(&output));
    let told = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(!told.contains(PASSWORD) && !told.contains("hunter2"), "{told}");
    told
}

fn serve(url: &str, code: i32) -> String {
    let ports = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    refused(&["serve", "--listen", &ports[0], "--admin-listen", &ports[1]], url, code)
}

#[test]
fn an_address_of_no_known_database_names_those_that_are() {
    for url in [
        "oracle://shop:hunter2@db/shop",
        "postgres:/shop:hunter2@db/shop",
        "shop:hunter2@db/shop",
        "hunter2:",
        "redis://db?password=hunter2",
    ] {
        for command in ["serve", "verify"] {
            let told = refused(&[command], url, 2);
            for known in ["postgres://", "mysql://", "embedded"] {
                assert!(told.contains(known), "{url}: {told}");
            }
        }
    }
    for url in [
        "postgres://shop:hunter2@db:port/shop",
        "mysql://shop:hunter2@db",
        "mysql://shop@db/shop?password=hunter2",
    ] {
        let told = refused(&["serve"], url, 2);
        assert!(told.contains("not the address of a database"), "{url}: {told}");
    }
}

pub(super) fn who_may_not_come_in_is_told_why<D: Database>(database: &mut D) {
    let told = serve(&database.url_as("shop", "hunter2"), 1);
    assert!(told.contains("refused the connection") && told.contains("***@127.0.0.1"), "{told}");
    let told = serve(&database.url_as("nobody", PASSWORD), 1);
    assert!(told.contains("refused the connection") && told.contains("nobody"), "{told}");
}

pub(super) fn who_may_not_make_the_schema_is_told_what_to_do<D: Database>(database: &mut D) {
    let url = database.guest();
    let told = serve(&url, 1);
    assert!(told.contains("denied") && told.contains("let this user make"), "{told}");
    // What it is told to do helps.
    for words in ["the schema is created", "the schema is up to date"] {
        let dir = tempfile::tempdir().unwrap();
        let output =
            stockhold(dir.path()).arg("migrate").env("STOCKHOLD_STORE", database.url()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert!(text(&output.stdout).contains(words));
    }
    database.let_guest_in();
    drop(Server::over(&url));
}

pub(super) fn a_read_only_server_is_no_store<D: Database>(database: &mut D) {
    database.read_only(true);
    let told = serve(&database.url(), 1);
    assert!(told.contains("read-only"), "{told}");
    database.read_only(false);
    drop(Server::over(&database.url()));
}

pub(super) fn nobody_there_is_said_with_the_place<D: Database>(database: &mut D) {
    let (url, port) = (database.url(), database.port());
    database.kill();
    for command in ["serve", "verify"] {
        let told = refused(&[command], &url, 1);
        assert!(told.contains("can't be reached") && told.contains(&port.to_string()), "{told}");
    }
}

pub(super) fn a_newer_schema_is_left_alone<D: Database>(database: &mut D) {
    let told = refused(&["verify"], &database.url(), 3);
    assert!(told.contains("no stockhold data"), "{told}");
    drop(Server::over(&database.url()));
    database.newer_schema();
    for command in ["serve", "verify", "migrate"] {
        let told = refused(&[command], &database.url(), 3);
        assert!(
            told.contains(&format!("schema version {}", D::SCHEMA + 1))
                && told.contains("run a newer program"),
            "{told}"
        );
    }
}

/// A port in front of a database that passes nothing on until it is opened. Connections wait meanwhile, as they do for a database
/// that does not answer.
struct Gate {
    port: u16,
    open: Sender<()>,
}

impl Gate {
    fn before(database: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (open, opened) = channel();
        // Ends with the process of the tests.
        thread::spawn(move || pass_on(&listener, &opened, database));
        Self { port, open }
    }
}

fn pass_on(listener: &TcpListener, opened: &Receiver<()>, database: u16) {
    if opened.recv().is_err() {
        return;
    }
    for client in listener.incoming().flatten() {
        let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, database)) else { continue };
        for (mut from, mut to) in [(client.try_clone(), server.try_clone()), (Ok(server), Ok(client))]
            .map(|(a, b)| (a.unwrap(), b.unwrap()))
        {
            thread::spawn(move || {
                // What ends a connection at one end ends it at the other one.
                let _ = io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Both);
            });
        }
    }
}

pub(super) fn a_start_that_waits_for_the_database_says_so<D: Database>(database: &mut D) {
    let gate = Gate::before(database.port());
    let url = database.url().replace(&format!(":{}/", database.port()), &format!(":{}/", gate.port));
    let server = Server::starting_over(&url);
    let waits = json!({ "started": false, "step": "connect_to_database", "done": 0 });
    wait_for("the step", || {
        let (status, body) = server.startup();
        assert_eq!(status, 503, "{body}");
        (body == waits).then_some(())
    });
    assert_eq!(server.admin("/livez"), Some((200, "ok\n".to_owned())));
    let (status, body) = server.admin("/readyz").unwrap();
    assert!(status == 503 && body.contains("is starting"), "{status} {body}");
    assert!(server.metrics().contains("stockhold_info{"));

    gate.open.send(()).unwrap();
    server.wait_until_ready();
    assert_eq!(server.startup(), (200, json!({ "started": true })));
    assert!(server.metrics().contains("\nstockhold_start_seconds "));
}

pub(super) fn a_start_that_waits_for_the_database_ends_when_it_is_told<D: Database>(database: &mut D) {
    let gate = Gate::before(database.port());
    let url = database.url().replace(&format!(":{}/", database.port()), &format!(":{}/", gate.port));
    let mut server = Server::starting_over(&url);
    assert_eq!(server.startup().0, 503);
    // A database that does not answer in time would end it with 1.
    assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
    assert!(server.log().contains("SIGTERM during the start"), "{}", server.log());
}
