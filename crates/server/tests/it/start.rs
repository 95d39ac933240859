//! A start that takes long: its probes answer meanwhile, and it ends when it is told to.

use crate::support::{Server, wait_for};
use serde_json::json;
use std::fs::File;

/// A data directory, and a lock as a backup holds it. A start waits for it.
fn locked_data() -> (tempfile::TempDir, File) {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::on(dir.path(), "data");
    assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
    let lock = File::open(dir.path().join("data/lock")).unwrap();
    lock.lock_shared().unwrap();
    (dir, lock)
}

#[test]
fn probes_answer_while_a_start_waits_for_its_data() {
    let (dir, lock) = locked_data();
    let server = Server::starting_on(dir.path(), "data");
    assert_eq!(server.startup(), (503, json!({ "started": false, "step": "prepare", "done": 0 })));
    assert_eq!(server.admin("/livez"), Some((200, "ok\n".to_owned())));
    let (status, body) = server.admin("/readyz").unwrap();
    assert!(status == 503 && body.contains("is starting"), "{status} {body}");
    let metrics = server.metrics();
    assert!(metrics.contains("\nstockhold_info{") && !metrics.contains("\nstockhold_start_seconds "));

    lock.unlock().unwrap();
    server.wait_until_ready();
    assert_eq!(server.startup(), (200, json!({ "started": true })));
    assert!(server.metrics().contains("\nstockhold_start_seconds "));
}

#[test]
fn a_start_that_waits_for_its_data_ends_when_it_is_told() {
    let (dir, _lock) = locked_data();
    let mut server = Server::starting_on(dir.path(), "data");
    wait_for("the start", || (server.startup().0 == 503).then_some(()));
    // A start that found its data in use would end with 3.
    assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
    assert!(server.log().contains("SIGTERM during the start"), "{}", server.log());
}
