//! The sink `file`.

use super::{check, feed, sell, sink, stock, wait_until_delivered};
use crate::ctl::{done, json, refused};
use crate::support::{Server, json_lines, said, stockhold, text};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn start(dir: &Path, more: &[(&str, &str)]) -> Server {
    let out = dir.join("out").display().to_string();
    let mut variables = vec![
        ("STOCKHOLD_SINKS__LEDGER__KIND", "file"),
        ("STOCKHOLD_SINKS__LEDGER__START", "beginning"),
        ("STOCKHOLD_SINKS__LEDGER__PATH", out.as_str()),
    ];
    variables.extend(more);
    Server::with_variables(dir, "data", &variables)
}

/// The events of all files, in the order of the files.
fn delivered(dir: &Path) -> Vec<Value> {
    let mut files: Vec<_> =
        std::fs::read_dir(dir.join("out")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().flat_map(|file| json_lines(file)).collect()
}

#[test]
fn a_file_has_every_event_after_kills() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = start(dir.path(), &[("STOCKHOLD_SOURCE", "https://shop.example/stock")]);
    stock(&server, "tee", 1_000);
    for round in 0..4 {
        sell(&server, "tee", 40 + 3 * round);
        server.kill();
        // What a crash in the middle of a write leaves.
        let newest = std::fs::read_dir(dir.path().join("out"))
            .ok()
            .and_then(|files| files.map(|f| f.unwrap().path()).max());
        if let Some(file) = newest {
            let torn = std::fs::read(&file).unwrap();
            std::fs::write(&file, [torn.as_slice(), b"{\"half"].concat()).unwrap();
        }
        server.restart();
        server.wait_until_ready();
    }
    wait_until_delivered(&server, "ledger");
    let (feed, all) = (feed(&server), delivered(dir.path()));
    check(&all, &feed);
    assert!(all.iter().all(|event| event["source"] == "https://shop.example/stock"));
    // Derived events: the last one shows what the item has now.
    let item = server.item("tee").unwrap();
    let updated = all.iter().rfind(|event| event["type"] == "stockhold.inventory.updated").unwrap();
    assert_eq!(updated["subject"], "default/tee");
    assert_eq!(updated["data"]["available"], item.available);
    assert_eq!(updated["data"]["held_units"], item.held_units);
    assert_eq!(updated["sequence"], updated["data"]["sequence"].as_u64().unwrap().to_string());

    // The example of the documentation finds the same stock, and no gap.
    let lines: Vec<_> = all.iter().map(Value::to_string).collect();
    std::fs::write(dir.path().join("lines"), lines.join("\n")).unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/stock_from_events.py");
    let input = std::fs::File::open(dir.path().join("lines")).unwrap();
    let output = Command::new("python3").arg(example).stdin(input).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let rebuilt: Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = serde_json::json!({
        "location": "default", "sku": "tee", "total_units": item.total_units, "confirmed_sold": item.confirmed_sold,
        "held_units": item.held_units, "sequence": item.sequence,
    });
    assert_eq!(rebuilt, expected);
}

#[test]
fn a_replay_delivers_again_and_a_removed_sink_can_be_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = start(dir.path(), &[("STOCKHOLD_SINKS__LEDGER__TYPES", "reservation.*")]);
    stock(&server, "tee", 10);
    sell(&server, "tee", 4);
    wait_until_delivered(&server, "ledger");
    let before = delivered(dir.path());
    assert!(before.iter().all(|event| event["type"].as_str().unwrap().starts_with("stockhold.reservation.")));
    assert_eq!(before.len(), 6);
    let replay = json(&server, &["sinks", "replay", "ledger", "--from-position", "2"]);
    assert_eq!(replay["from_position"], 2);
    crate::support::wait_for("the replay", || (delivered(dir.path()).len() == 12).then_some(()));
    refused(
        &server,
        &["sinks", "replay", "ledger", "--from-position", "999999"],
        &["/from_position", "must be 1 to"],
    );
    refused(&server, &["sinks", "replay", "nobody", "--since", "2026-01-01T00:00:00Z"], &["unknown_sink"]);
    refused(&server, &["sinks", "skip", "ledger", "--position", "3"], &["refuses no event"]);
    refused(&server, &["sinks", "forget", "ledger"], &["sink_in_use"]);
    assert!(done(&server, &["sinks", "list"]).contains("ledger"));
    done(&server, &["sinks", "init", "ledger"]);
    server.kill();
    drop(server);

    let server = Server::on(dir.path(), "data");
    let removed = sink(&server, "ledger");
    assert_eq!((&removed["state"], &removed["kind"]), (&"standby".into(), &"file".into()));
    done(&server, &["sinks", "forget", "ledger"]);
    assert!(done(&server, &["sinks", "list"]).contains("There are no sinks"));
}

#[test]
fn a_directory_that_can_t_be_written_blocks_and_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("out"), "a file in the way").unwrap();
    let server = start(dir.path(), &[]);
    stock(&server, "tee", 1);
    let failing = super::wait_for_state(&server, "ledger", "blocked");
    assert!(failing["last_error"]["message"].as_str().unwrap().contains("writing to "), "{failing}");
    assert!(done(&server, &["sinks", "list"]).contains("was not delivered"));
    std::fs::remove_file(dir.path().join("out")).unwrap();
    wait_until_delivered(&server, "ledger");
    let healed = super::wait_for_state(&server, "ledger", "running");
    assert!(healed["last_error"].is_null(), "{healed}");
    check(&delivered(dir.path()), &feed(&server));
}

#[test]
fn a_wrong_sink_ends_the_start_with_its_key() {
    let dir = tempfile::tempdir().unwrap();
    for (file, words) in [
        ("[sinks.ledger]\nkind = \"paper\"\n", "sinks.ledger.kind"),
        ("[sinks.ledger]\nkind = \"file\"\n", "sinks.ledger.path"),
        ("[sinks.ledger]\nkind = \"file\"\npaht = \"x\"\n", "did you mean path?"),
        (
            "[sinks.ledger]\nkind = \"nats\"\nurl = \"http://h\"\n",
            "sinks.ledger.url: must begin with nats://",
        ),
        ("[sinks.ledger]\nkind = \"file\"\npath = \"x\"\ntypes = [\"sold\"]\n", "sinks.ledger.types"),
        ("sinks = 1\n", "must be tables like [sinks.ledger]"),
        ("source = \"\"\n", "source: must be"),
    ] {
        std::fs::write(dir.path().join("stockhold.toml"), file).unwrap();
        let output = stockhold(dir.path()).arg("serve").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(text(&output.stderr).contains(words), "{words:?} is missing in {}", said(&output));
    }
}

#[test]
fn a_password_of_a_sink_is_shown_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let variables = [
        ("STOCKHOLD_SINKS__ORDERS__KIND", "rabbitmq"),
        ("STOCKHOLD_SINKS__ORDERS__START", "beginning"),
        ("STOCKHOLD_SINKS__ORDERS__URL", "amqp://shop:canary-secret@127.0.0.1:1/%2f"),
    ];
    let server = Server::with_variables(dir.path(), "data", &variables);
    stock(&server, "tee", 1);
    let failing = super::wait_for_state(&server, "orders", "retrying");
    let config = stockhold(dir.path()).args(["config", "--json"]).envs(variables).output().unwrap();
    for shown in [failing.to_string(), server.log(), server.metrics(), text(&config.stdout)] {
        assert!(!shown.contains("canary-secret"), "{shown}");
    }
}
