//! The sink `clickhouse`, over the engine of `ClickHouse` behind a small HTTP server of the tests.

use super::{check, feed, sell, sink, stock, wait_for_state, wait_until_delivered};
use crate::ctl::done;
use crate::support::{Server, free_port, wait_for};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use stockhold_api::encode::path_segment;

const USER: &str = "writer";
const PASSWORD: &str = "hush-hush";
/// The page whose queries are run.
const PAGE: &str = include_str!("../../../../../docs/how-to/clickhouse.md");

pub(super) struct ClickHouse {
    dir: tempfile::TempDir,
    port: u16,
    child: Option<Child>,
}

impl ClickHouse {
    pub(super) fn start() -> Self {
        let mut this = Self { dir: tempfile::tempdir().unwrap(), port: free_port(), child: None };
        this.spawn();
        this
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    fn spawn(&mut self) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let python = target.join("servers/clickhouse/bin/python");
        assert!(python.exists(), "{} is missing: run scripts/servers", python.display());
        let shim = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/sinks/clickhouse_shim.py");
        let mut command = Command::new(python);
        command.arg(shim).arg(self.port.to_string()).arg(self.dir.path().join("data"));
        command.args([USER, PASSWORD]).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
        wait_for("ClickHouse", || TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok());
    }

    fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// The rows of a query.
    fn rows(&self, query: &str) -> Vec<Value> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        let query = path_segment(query);
        let head = format!(
            "POST /?query={query} HTTP/1.1\r\nhost: h\r\nx-clickhouse-user: {USER}\r\nx-clickhouse-key: {PASSWORD}\r\n\
             content-length: 0\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
        body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for ClickHouse {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// The address of a server on a port, with its password.
pub(super) fn url(port: u16) -> String {
    format!("http://{USER}:{PASSWORD}@127.0.0.1:{port}")
}

/// The events that the table has, without those that were delivered again.
pub(super) fn events(clickhouse: &ClickHouse) -> Vec<Value> {
    let rows = clickhouse.rows("SELECT event FROM stockhold_events FINAL ORDER BY position, type");
    rows.iter().map(|row| serde_json::from_str(row["event"].as_str().unwrap()).unwrap()).collect()
}

#[test]
fn clickhouse_gets_every_event_once_and_answers_the_queries_of_the_page() {
    let (dir, mut clickhouse) = (tempfile::tempdir().unwrap(), ClickHouse::start());
    let url = url(clickhouse.port);
    let variables = [
        ("STOCKHOLD_SINKS__REPORTS__KIND", "clickhouse"),
        ("STOCKHOLD_SINKS__REPORTS__START", "beginning"),
        ("STOCKHOLD_SINKS__REPORTS__URL", url.as_str()),
    ];
    let server = Server::with_variables(dir.path(), "data", &variables);
    stock(&server, "tee", 1_000);
    let blocked = wait_for_state(&server, "reports", "blocked");
    assert!(
        blocked["last_error"]["action"].as_str().unwrap().contains("stockhold ctl sinks init"),
        "{blocked}"
    );
    done(&server, &["sinks", "init", "reports"]);
    done(&server, &["sinks", "init", "reports"]);
    sell(&server, "tee", 20);
    wait_until_delivered(&server, "reports");

    clickhouse.kill();
    sell(&server, "tee", 20);
    wait_for_state(&server, "reports", "retrying");
    clickhouse.spawn();
    wait_until_delivered(&server, "reports");
    let all = events(&clickhouse);
    check(&all, &feed(&server));
    let of_feed = |events: &[Value]| {
        let is_derived = |event: &&Value| event["type"].as_str().unwrap().starts_with("stockhold.inventory.");
        events.iter().filter(|event| !is_derived(event)).count()
    };
    assert_eq!(of_feed(&all), feed(&server).len(), "each event once");
    done(&server, &["sinks", "replay", "reports", "--from-position", "1"]);
    wait_for("the replay", || (sink(&server, "reports")["lag_events"] == 0).then_some(()));
    wait_until_delivered(&server, "reports");
    let again = events(&clickhouse);
    assert_eq!(of_feed(&again), feed(&server).len(), "a replayed event replaces its row");

    let queries = PAGE.split("```sql\n").skip(1).map(|block| block.split("```").next().unwrap());
    let (proofs, reports): (Vec<&str>, Vec<&str>) = queries.partition(|query| query.contains("oversold"));
    assert_eq!((proofs.len(), reports.len()), (1, 5));
    for query in reports {
        assert!(!clickhouse.rows(query).is_empty(), "{query}");
    }
    assert_eq!(clickhouse.rows(proofs[0]), Vec::<Value>::new());
    // The same query with a lower bound finds rows, because each event of a reservation has the quantities of its item.
    let turned = proofs[0].replace("> line.total_units", "BETWEEN 1 AND line.total_units");
    let sold_or_held = clickhouse.rows(&turned);
    assert!(sold_or_held.len() > 40, "{sold_or_held:?}");
    assert!(sold_or_held.iter().all(|row| row["line.total_units"] == 1_000), "{sold_or_held:?}");
    let log = server.log();
    assert!(!log.contains(PASSWORD), "{log}");
}
