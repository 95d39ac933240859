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
    // Formatters take other characters only when they are told to.
    for page in std::fs::read_dir(dir.path().join("pages")).unwrap() {
        let page = page.unwrap().path();
        assert!(std::fs::read_to_string(&page).unwrap().is_ascii(), "{}", page.display());
    }
}

#[test]
fn verify_backup_and_doctor_find_the_data_by_the_configuration() {
    let mut server = Server::start();
    let stock = Stock { total_units: Some(1), ..Stock::default() };
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

/// A reader that has had enough ends a command quietly, and a device that is full makes it fail; neither is a panic.
#[test]
fn standard_output_that_is_closed_or_full() {
    let mut server = Server::start();
    let stock = Stock { total_units: Some(1), ..Stock::default() };
    server.ask(async |client| client.put_stock(At { sku: "a", location: None }, &stock, None).await).unwrap();
    std::fs::write(server.dir().join("items.csv"), "sku,total_units\na,1\n").unwrap();
    let (dir, url) = (server.dir().to_owned(), server.url());
    let run = |arguments: &[&str], out: std::process::Stdio| {
        let mut command = stockhold(&dir);
        let output = command.args(arguments).env("STOCKHOLD_SERVER", &url).stdout(out).output().unwrap();
        let stderr = text(&output.stderr);
        assert!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
        (output.status.code(), stderr)
    };
    let check = |arguments: &[&str]| {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let (code, stderr) = run(arguments, full.into());
        assert!(stderr.contains("writing to standard output: "), "{arguments:?}: {stderr}");
        assert_eq!(code, Some(1), "{arguments:?}: {stderr}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, stderr) = run(arguments, writer.into());
        assert_eq!(code, Some(0), "{arguments:?}: {stderr}");
    };
    check(&["config"]);
    check(&["config", "--json"]);
    check(&["ctl", "stock", "list"]);
    check(&["ctl", "stock", "get", "a", "--json"]);
    check(&["ctl", "list"]);
    check(&["ctl", "events"]);
    check(&["ctl", "events", "--follow", "--json"]);
    check(&["export", "items"]);
    check(&["export", "events", "--format", "csv"]);
    check(&["import", "items.csv", "--json", "--restart"]);
    check(&["bench", "--duration", "1", "--warm-up", "0", "--json"]);
    check(&["man"]);
    server.kill();
    check(&["verify", "--data-dir", "data"]);
    check(&["verify", "--data-dir", "data", "--json"]);
    check(&["backup", "--data-dir", "data", "--to", "copy", "--json"]);
    check(&["doctor", "--data-dir", "data", "--no-disk"]);
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
    assert!(origins[2].ends_with("stockhold.toml:1") && origins[3] == "default", "{origins:?}");
    let mut wrong = stockhold(dir.path());
    let (code, _, why) = run(wrong.arg("config").env("STOCKHOLD_MAX_HOLD_SECONDS", "long"));
    assert_eq!(code, Some(2));
    assert!(
        why.contains("STOCKHOLD_MAX_HOLD_SECONDS in the environment: max_hold_seconds: must be a whole"),
        "{why}"
    );
}

/// Width of the terminal that help is printed for.
const WIDTH: usize = 80;

/// The help of a command, and of all its subcommands.
fn helps(dir: &std::path::Path, command: Vec<String>) -> Vec<(Vec<String>, String)> {
    let output =
        stockhold(dir).args(&command).arg("--help").env("COLUMNS", WIDTH.to_string()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{command:?}: {}", said(&output));
    let help = text(&output.stdout);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    // What a name is said to be may go on below it, further in.
    let listed = listed.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    let listed = listed.filter_map(|line| line.split_whitespace().next());
    let below = listed.filter(|name| *name != "help").map(|name| [&command[..], &[name.to_owned()]].concat());
    let below: Vec<_> = below.flat_map(|command| helps(dir, command)).collect();
    [vec![(command, help)], below].concat()
}

#[test]
fn every_command_teaches() {
    let dir = tempfile::tempdir().unwrap();
    let all = helps(dir.path(), Vec::new());
    let teach = all.iter().filter(|(command, _)| command.len() == 1);
    assert!(teach.clone().count() > 15, "the list is not read");
    for (command, help) in teach {
        assert!(help.contains("Try it:") && help.contains("Exit codes:"), "{command:?}: {help}");
        assert!(help.contains(&format!("stockhold {}", command[0])), "{command:?}: {help}");
    }
}

#[test]
fn no_help_is_wider_than_a_terminal_or_broken_to_fit_one() {
    let dir = tempfile::tempdir().unwrap();
    for (command, help) in helps(dir.path(), Vec::new()) {
        let lines: Vec<&str> = help.lines().collect();
        let long = lines.iter().find(|line| line.chars().count() > WIDTH);
        assert_eq!(long, None, "{command:?}");
        let words = lines.iter().take_while(|line| !line.starts_with("Usage:")).collect::<Vec<_>>();
        for pair in words.windows(2).filter(|pair| !pair[0].is_empty() && !pair[0].starts_with(' ')) {
            let next = pair[1].split(' ').next().unwrap_or_default();
            let had_room = !next.is_empty() && pair[0].chars().count() + next.chars().count() < WIDTH;
            let listed = pair[0].ends_with(':');
            assert!(!had_room || listed, "{command:?} breaks a line after {:?}", pair[0]);
        }
    }
}
