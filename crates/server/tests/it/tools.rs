//! Completions, manual pages, and commands that honour the configuration's directory.

use crate::support::{Server, said, stockhold, text};
use stockhold_api::client::At;
use stockhold_api::wire::Stock;

#[test]
fn completions_for_every_shell() {
    let dir = tempfile::tempdir().unwrap();
    for (shell, words) in
        [("bash", "complete -F"), ("zsh", "#compdef stockhold"), ("fish", "complete -c stockhold")]
    {
        let output = stockhold(dir.path()).args(["completions", shell]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let script = text(&output.stdout);
        assert!(script.contains(words) && script.contains("doctor"), "{shell}");
    }
    let output = stockhold(dir.path()).args(["completions", "dos"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}

#[test]
fn a_manual_page_for_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let output = stockhold(dir.path()).arg("man").output().unwrap();
    assert!(text(&output.stdout).contains(".TH stockhold 1"), "{}", said(&output));
    let output = stockhold(dir.path()).args(["man", "pages"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    for page in ["stockhold.1", "stockhold-serve.1", "stockhold-ctl-reserve.1", "stockhold-import.1"] {
        assert!(dir.path().join("pages").join(page).exists(), "{page}");
    }
}

#[test]
fn verify_backup_and_doctor_find_the_data_by_the_configuration() {
    let mut server = Server::start();
    let stock = Stock { total_units: 1, ..Stock::default() };
    server.ask(async |client| client.put_stock(At { sku: "a", location: None }, &stock, None).await).unwrap();
    server.kill();
    std::fs::write(server.dir().join("stockhold.toml"), "data_dir = 'data'\n").unwrap();
    for arguments in [
        ["verify", "--json"].as_slice(),
        &["backup", "--to", "copy", "--json"],
        &["doctor", "--json", "--no-disk"],
    ] {
        let output = stockhold(server.dir()).args(arguments).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = match arguments[0] {
            "verify" => report["batches"] == 1,
            "backup" => report["batch"] == 1,
            _ => report["findings"].to_string().contains("1 batches"),
        };
        assert!(found, "{}", said(&output));
    }
    std::fs::write(server.dir().join("stockhold.toml"), "data = 'data'\n").unwrap();
    for arguments in [["verify"].as_slice(), &["backup", "--to", "copy"]] {
        let output = stockhold(server.dir()).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    }
}

#[test]
fn settings_name_the_flag_the_variable_and_the_file() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("stockhold.toml"), "log_level = 'warn'\n").unwrap();
    let run = |command: &mut std::process::Command| {
        let output = command.env("STOCKHOLD_THREADS", "3").output().unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, json, _) = run(stockhold(dir.path()).args(["config", "--json", "--data-dir", "here"]));
    let settings: serde_json::Value = serde_json::from_str(&json).unwrap();
    let origins =
        ["data_dir", "threads", "log_level", "listen"].map(|key| settings[key]["from"].as_str().unwrap());
    assert_eq!(code, Some(0));
    assert_eq!(origins[..2], ["--data-dir on the command line", "STOCKHOLD_THREADS in the environment"]);
    assert!(origins[2].ends_with("stockhold.toml") && origins[3] == "default", "{origins:?}");
    let mut wrong = stockhold(dir.path());
    let (code, _, why) = run(wrong.arg("config").env("STOCKHOLD_MAX_HOLD_SECONDS", "long"));
    assert_eq!(code, Some(2));
    assert!(why.contains("max_hold_seconds (STOCKHOLD_MAX_HOLD_SECONDS in the environment)"), "{why}");
}

#[test]
fn every_command_teaches() {
    let dir = tempfile::tempdir().unwrap();
    for command in [
        "serve", "verify", "backup", "ctl", "import", "export", "bench", "replay", "demo", "doctor", "config",
    ] {
        let output = stockhold(dir.path()).args([command, "--help"]).output().unwrap();
        let help = text(&output.stdout);
        assert!(help.contains("Try it:") && help.contains("Exit codes:"), "{command}: {help}");
        assert!(help.contains(&format!("stockhold {command}")), "{command}: {help}");
        let long = help.lines().find(|line| line.chars().count() > 100);
        assert_eq!(long, None, "{command}");
    }
}
