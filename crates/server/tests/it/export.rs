//! `stockhold export --out`: what stands there is replaced whole or not at all, and by nothing that it is not.

use crate::support::{Server, said, stockhold, text};
use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A server that has one item.
fn stocked() -> Server {
    let server = Server::start();
    let set = ["ctl", "stock", "set", "shirt", "--total", "1", "--server", &server.url()];
    let output = stockhold(server.dir()).args(set).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    server
}

fn items(server: &Server, out: &str) -> Command {
    let mut command = stockhold(server.dir());
    command.args(["export", "items", "--out", out, "--server", &server.url(), "--patience", "1"]);
    command
}

#[track_caller]
fn exported(server: &Server, out: &str) {
    let output = items(server, out).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[track_caller]
fn failed(output: &Output, code: i32, words: &str) {
    assert_eq!(output.status.code(), Some(code), "{}", said(output));
    assert!(text(&output.stderr).contains(words), "{words:?} is missing in {}", said(output));
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_file_keeps_its_rights_and_a_new_one_is_its_owners() {
    let server = stocked();
    let (file, part) = (server.dir().join("items.jsonl"), server.dir().join("items.jsonl.part"));
    fs::write(&part, "of an export that was cut").unwrap();
    fs::set_permissions(&part, Permissions::from_mode(0o4777)).unwrap();
    exported(&server, "items.jsonl");
    assert_eq!((mode(&file), part.exists()), (0o600, false));
    for rights in [0o640, 0o600, 0o644] {
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(rights)).unwrap();
        exported(&server, "items.jsonl");
        assert_eq!((mode(&file), part.exists()), (rights, false));
        assert!(fs::read_to_string(&file).unwrap().contains("shirt"));
    }
}

#[test]
fn a_link_stays_and_what_it_leads_to_is_replaced() {
    let server = stocked();
    let dir = server.dir();
    fs::create_dir(dir.join("there")).unwrap();
    fs::write(dir.join("there/old.csv"), "old").unwrap();
    for (link, target) in [("one.csv", "there/old.csv"), ("two.csv", "there/new.csv")] {
        symlink(target, dir.join(link)).unwrap();
        exported(&server, link);
        assert!(dir.join(link).is_symlink());
        assert!(fs::read_to_string(dir.join(target)).unwrap().contains("shirt"), "{link}");
    }
    assert_eq!(fs::read_dir(dir.join("there")).unwrap().count(), 2, "nothing else is left there");
}

#[test]
fn a_pipe_and_standard_output_are_written_to_as_they_stand() {
    let server = stocked();
    let pipe = server.dir().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = Command::new("cat").arg(&pipe).stdout(Stdio::piped()).spawn().unwrap();
    exported(&server, "pipe");
    assert!(text(&reader.wait_with_output().unwrap().stdout).contains("shirt"));
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    let output = items(&server, "/dev/stdout").output().unwrap();
    assert!(text(&output.stdout).contains("shirt"), "{}", said(&output));
    // A link, so that what would be replaced by mistake is the test's own.
    symlink("/dev/full", server.dir().join("full")).unwrap();
    failed(&items(&server, "full").output().unwrap(), 1, "No space left on device");
    assert!(fs::metadata("/dev/full").unwrap().file_type().is_char_device());
}

#[test]
fn what_fails_leaves_nothing_behind() {
    let mut server = stocked();
    let dir = server.dir().to_owned();
    fs::create_dir(dir.join("reports")).unwrap();
    failed(&items(&server, "reports").output().unwrap(), 1, "is a directory");
    fs::create_dir(dir.join("items.csv.part")).unwrap();
    failed(&items(&server, "items.csv").output().unwrap(), 1, "items.csv.part: Is a directory");
    fs::remove_dir(dir.join("items.csv.part")).unwrap();
    fs::write(dir.join("items.csv"), "old").unwrap();
    server.kill();
    failed(&items(&server, "items.csv").output().unwrap(), 5, "stockhold serve");
    assert_eq!(fs::read_to_string(dir.join("items.csv")).unwrap(), "old");
    assert!(!dir.join("items.csv.part").exists() && !dir.join("reports.part").exists());
}

#[test]
fn who_has_nothing_yet_is_not_told_to_go_on() {
    let server = stocked();
    for more in [[].as_slice(), &["--out", "events.jsonl"]] {
        let export = ["export", "events", "--after", "99999", "--server", &server.url()];
        let output = stockhold(server.dir()).args(export).args(more).output().unwrap();
        failed(&output, 1, "newest event, which is at position 1");
        assert!(!text(&output.stderr).contains("--no-header"), "{}", said(&output));
    }
    assert!(!server.dir().join("events.jsonl.part").exists());
}
