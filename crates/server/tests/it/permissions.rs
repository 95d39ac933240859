//! What the program writes is its owner's, whatever the umask is.

use crate::support::{Server, free_port, kill, said, stockhold, wait_for};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use stockhold_api::client::Client;

/// A command that would make files for everybody, if it did not care.
fn open_to_all(dir: &Path, arguments: &[&str]) -> Command {
    let binary = stockhold(dir);
    let mut command = Command::new("sh");
    command.args(["-c", "umask 000; exec \"$0\" \"$@\""]).arg(binary.get_program()).args(arguments);
    for (name, value) in binary.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(dir);
    command
}

fn run(dir: &Path, arguments: &[&str]) -> Output {
    let output = open_to_all(dir, arguments).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    output
}

/// Everything below a directory, and the directory; or the one file.
fn all(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![dir.to_owned()];
    if dir.is_file() {
        return found;
    }
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(all(&path)) } else { found.push(path) }
    }
    found
}

#[track_caller]
fn assert_own(path: &Path) {
    for path in all(path) {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, expected, "{}: {mode:o}", path.display());
    }
}

/// A server, killed when dropped.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn data_logs_backups_archives_sinks_and_exports_are_their_owners() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let (api, admin) = (free_port(), free_port());
    let url = format!("http://127.0.0.1:{api}");
    let mut command = open_to_all(root, &["serve", "--data-dir", "var/data"]);
    command
        .arg(format!("--listen=127.0.0.1:{api}"))
        .arg(format!("--admin-listen=127.0.0.1:{admin}"))
        .env("STOCKHOLD_ARCHIVE__DIR", root.join("var/archive"))
        .env("STOCKHOLD_SINKS__LEDGER__KIND", "file")
        .env("STOCKHOLD_SINKS__LEDGER__PATH", root.join("var/events/ledger"))
        .env("STOCKHOLD_CUSTOMERS_ENCRYPTION_KEYS", crate::customers::FIRST_KEY);
    let mut server = Serving(command.spawn().unwrap());
    let call = |method: &str, path: &str, body: &serde_json::Value| {
        let client = Client::new(&url).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(client.send_raw(method, path, body.to_string().as_bytes())).ok()
    };
    wait_for("the server", || call("PUT", "/v1/inventory/tea", &json!({ "total_units": 9 })));
    let customer = call("PUT", "/v1/customers/anna", &json!({ "email": "anna@example.com" })).unwrap();
    assert_eq!(customer.status, 201);
    wait_for("the sink", || {
        let ledger = fs::read_dir(root.join("var/events/ledger")).ok()?;
        (ledger.count() > 0).then_some(())
    });
    run(root, &["export", "items", "--server", &url, "--out", "items.csv"]);
    run(root, &["backup", "--data-dir", "var/data", "--to", "var/backup/copy"]);
    kill(server.0.id(), "TERM");
    assert_eq!(wait_for("its end", || server.0.try_wait().unwrap()).code(), Some(0));
    assert_own(&root.join("var"));
    assert_own(&root.join("items.csv"));
    let names: Vec<_> = all(&root.join("var")).into_iter().map(|path| path.display().to_string()).collect();
    for part in
        ["data/log.db", "data/lock", "data/index.db", "data/customers.db", "copy/log.db", "copy/customers.db"]
    {
        assert!(names.iter().any(|name| name.ends_with(part)), "{part} is not there: {names:?}");
    }
}

#[test]
fn a_start_warns_of_files_that_others_may_use() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::on(dir.path(), "data");
    assert!(!server.log().contains("other users of this machine"), "{}", server.log());
    assert!(server.terminate().success());
    let data = dir.path().join("data");
    for (path, mode) in [(data.clone(), 0o755), (data.join("log.db"), 0o644)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let mut server = Server::on(dir.path(), "data");
        let expected = format!("(mode {mode:04o})");
        server.log_with(&["other users of this machine", &expected, "chmod -R go= data"]);
        assert!(server.terminate().success());
        let doctor =
            stockhold(dir.path()).args(["doctor", "--no-disk", "--data-dir", "data"]).output().unwrap();
        assert!(said(&doctor).contains(&expected), "{}", said(&doctor));
        let tight = if path.is_dir() { 0o700 } else { 0o600 };
        fs::set_permissions(&path, fs::Permissions::from_mode(tight)).unwrap();
        fs::remove_file(dir.path().join("server.log")).unwrap();
    }
}
