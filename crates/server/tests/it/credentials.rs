//! Commands over HTTPS and with an API key: whom they trust, what they send, and what they never show.

use crate::support::{data, said, stockhold, text};
use crate::tls_support::TlsServer;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Output;
use std::thread::JoinHandle;

const KEY: &str = "sh_live_canary7hunter2";

/// A command with these variables.
fn run(dir: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    stockhold(dir).args(arguments).envs(variables.iter().copied()).output().unwrap()
}

#[test]
fn commands_speak_https() {
    let tls = TlsServer::start();
    let dir = tempfile::tempdir().unwrap();
    let (url, ca) = (tls.url(), tls.ca_file().display().to_string());
    // The first key. From here on the server wants a credential.
    let mut create = vec!["keys", "create", "Tools", "--principal", "tools"];
    for scope in
        ["inventory:read", "inventory:write", "reservations:read", "reservations:write", "events:read"]
    {
        create.extend(["--scope", scope]);
    }
    let made = run(dir.path(), &create, &[("STOCKHOLD_SERVER", &url), ("STOCKHOLD_CA_FILE", &ca)]);
    let key = text(&made.stdout).trim().to_owned();
    assert!(key.starts_with("sh_live_"), "{}", said(&made));
    let admin = format!("http://{}", tls.server.admin_address());
    let variables =
        [("STOCKHOLD_SERVER", url.as_str()), ("STOCKHOLD_CA_FILE", &ca), ("STOCKHOLD_API_KEY", &key)];
    let done = |arguments: &[&str]| {
        let output = run(dir.path(), arguments, &variables);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", said(&output));
        assert!(!said(&output).contains(&key) && !said(&output).contains("ignored"), "{}", said(&output));
        text(&output.stdout)
    };
    done(&["ctl", "stock", "set", "shirt", "--total", "10"]);
    done(&["ctl", "reserve", "shirt", "--owner", "cart-1"]);
    assert!(done(&["ctl", "events", "--follow", "--limit", "2"]).contains("reservation.created"));
    let items = done(&["export", "items", "--format", "jsonl"]);
    assert!(items.contains("shirt"), "{items}");
    std::fs::write(dir.path().join("items.csv"), "sku,total_units\ncoat,5\n").unwrap();
    done(&["import", "items.csv"]);
    assert!(done(&["ctl", "available", "coat"]).contains('5'));
    let orders = ["orders-1.csv", "orders-2.csv"].map(|name| data(name).display().to_string());
    done(&["replay", &orders[0], &orders[1], "--stock", "50"]);
    let report = done(&["bench", "--duration", "1", "--warm-up", "0", "--admin", &admin, "--json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert!(report["operations"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn a_certificate_of_nobody_known_is_refused_at_once() {
    let (tls, other) = (TlsServer::start(), TlsServer::start());
    let dir = tempfile::tempdir().unwrap();
    let ca = other.ca_file().display().to_string();
    let url = tls.url();
    let own = tls.ca_file().display().to_string();
    for variables in [vec![("STOCKHOLD_CA_FILE", ca.as_str())], vec![]] {
        let output = run(dir.path(), &["ctl", "sale", "--server", &url], &variables);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        let why = text(&output.stderr);
        assert!(why.contains("TLS") && why.contains("STOCKHOLD_CA_FILE"), "{why}");
        assert!(!why.contains("retrying"), "a further try would end in the same way: {why}");
    }
    let missing = [("STOCKHOLD_CA_FILE", "/nowhere/ca.pem")];
    let output = run(dir.path(), &["ctl", "sale", "--server", &url], &missing);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(text(&output.stderr).contains("/nowhere/ca.pem: No such file"), "{}", said(&output));
    // Plain HTTP to the same port is told what is wrong.
    let plain = url.replace("https", "http");
    let output = run(dir.path(), &["ctl", "sale", "--server", &plain], &[("STOCKHOLD_CA_FILE", &own)]);
    assert!(text(&output.stderr).contains("HTTPS only"), "{}", said(&output));
}

/// A server that answers one request with this status and returns its head.
fn refusing(status: u16) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = String::new();
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        while !head.ends_with("\r\n\r\n") {
            assert!(lines.read_line(&mut head).unwrap() > 0, "{head}");
        }
        let body = serde_json::json!({
            "type": "/problems/refused", "title": "Refused", "status": status, "detail": "No.", "reason": "refused",
            "retryable": false, "request_id": "r-1",
        });
        let body = body.to_string();
        let length = body.len();
        let head_sent = format!(
            "HTTP/1.1 {status} Refused\r\ncontent-type: application/problem+json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(head_sent.as_bytes()).unwrap();
        head
    });
    (url, served)
}

#[test]
fn a_key_is_sent_and_never_shown() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("key"), format!("{KEY}\n")).unwrap();
    for (status, variables, sent, advice) in [
        (401, vec![], None, "Set STOCKHOLD_API_KEY to an API key"),
        (401, vec![("STOCKHOLD_API_KEY", KEY)], Some(KEY), "does not accept the key of STOCKHOLD_API_KEY."),
        (401, vec![("STOCKHOLD_API_KEY_FILE", "key")], Some(KEY), "the key of STOCKHOLD_API_KEY_FILE."),
        (403, vec![("STOCKHOLD_API_KEY", KEY)], Some(KEY), "has no right to this"),
    ] {
        let (url, served) = refusing(status);
        let output = run(dir.path(), &["ctl", "sale", "--server", &url], &variables);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(text(&output.stderr).contains(advice), "{advice:?}: {}", said(&output));
        assert!(!said(&output).contains("canary"), "{}", said(&output));
        let head = served.join().unwrap();
        let line = head.lines().find_map(|line| line.strip_prefix("authorization: "));
        assert_eq!(line, sent.map(|key| format!("Bearer {key}")).as_deref(), "{head}");
    }
}

#[test]
fn a_key_that_cannot_be_sent_is_refused_without_being_shown() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("key");
    std::fs::write(&file, "").unwrap();
    let both = [("STOCKHOLD_API_KEY", KEY), ("STOCKHOLD_API_KEY_FILE", "key")];
    for (variables, words) in [
        (both.as_slice(), "STOCKHOLD_API_KEY and STOCKHOLD_API_KEY_FILE are both set"),
        (&[("STOCKHOLD_API_KEY", "canary one")], "STOCKHOLD_API_KEY: "),
        (&[("STOCKHOLD_API_KEY_FILE", "key")], "STOCKHOLD_API_KEY_FILE: key: is empty"),
        (&[("STOCKHOLD_API_KEY_FILE", "nowhere")], "STOCKHOLD_API_KEY_FILE: nowhere: No such file"),
    ] {
        let output = run(dir.path(), &["ctl", "sale"], variables);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(text(&output.stderr).contains(words), "{words:?}: {}", said(&output));
        assert!(!said(&output).contains("canary"), "{}", said(&output));
    }
    // To another machine it is not sent without TLS, unless a flag says so. Nobody answers there.
    for (more, code) in [(&[][..], 2), (&["--plain-http"], 5)] {
        let arguments = ["ctl", "sale", "--server", "http://192.0.2.1:9", "--patience", "0"];
        let output = run(dir.path(), &[&arguments, more].concat(), &[("STOCKHOLD_API_KEY", KEY)]);
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert_eq!(text(&output.stderr).contains("--plain-http"), more.is_empty(), "{}", said(&output));
        assert!(!said(&output).contains("canary"), "{}", said(&output));
    }
    std::fs::write(dir.path().join("stockhold.toml"), "plain_http = true\n").unwrap();
    let output = run(
        dir.path(),
        &["ctl", "sale", "--server", "http://192.0.2.1:9", "--patience", "0"],
        &[("STOCKHOLD_API_KEY", KEY)],
    );
    assert_eq!(output.status.code(), Some(2), "a file that lies here says nothing: {}", said(&output));
}

#[test]
fn a_doctor_looks_at_the_certificate_and_at_a_server_with_tls() {
    let tls = TlsServer::start();
    let dir = tempfile::tempdir().unwrap();
    let ca = tls.ca_file().display().to_string();
    let (listen, admin) = (tls.server.address().to_string(), tls.server.admin_address().to_string());
    let (cert, key) = (ca.replace("ca.pem", "cert.pem"), ca.replace("ca.pem", "key.pem"));
    let doctor = |key: &str, variables: &[(&str, &str)]| {
        let arguments = ["doctor", "--no-disk", "--json", "--listen", &listen, "--admin-listen", &admin];
        let files = [format!("--tls-cert={cert}"), format!("--tls-key={key}")];
        let arguments = [&arguments[..], &[&files[0], &files[1]]].concat();
        let output = run(dir.path(), &arguments, variables);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let finding = |check: &str| {
            let findings = report["findings"].as_array().unwrap();
            let found = findings.iter().find(|finding| finding["check"] == check);
            found.unwrap_or_else(|| panic!("no {check}: {report}"))["grade"].as_str().unwrap().to_owned()
        };
        (finding("tls"), finding("api port"))
    };
    let grades = |tls: &str, port: &str| (tls.to_owned(), port.to_owned());
    assert_eq!(doctor(&key, &[("STOCKHOLD_CA_FILE", &ca)]), grades("ok", "ok"));
    assert_eq!(doctor(&key, &[]), grades("ok", "look"));
    assert_eq!(doctor(&ca, &[("STOCKHOLD_CA_FILE", &ca)]), grades("wrong", "ok"));
}
