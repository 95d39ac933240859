//! The client for Python (`clients/python`): its types, its tests, and the packages that are made of it.

use super::{installed, repository};
use crate::support::{Server, said};
use std::path::PathBuf;
use std::process::Command;

fn package() -> PathBuf {
    repository("clients/python")
}

pub(super) fn python() -> Command {
    let mut command = Command::new(installed("python/bin/python"));
    // The sources stay as they are.
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

#[test]
fn it_sells_each_unit_once_through_a_proxy_that_loses_answers() {
    let server = Server::start();
    let mut command = python();
    command.args(["-m", "unittest", "discover", "-s", "tests"]).current_dir(package());
    command.env("PYTHONPATH", "src").env("STOCKHOLD_SERVER", server.url());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("Ran 17 tests"), "{}", said(&output));
}

#[test]
fn its_types_are_right() {
    let cache = tempfile::tempdir().unwrap();
    let mut command = python();
    command.args(["-m", "mypy", "--strict", "src/stockhold", "--cache-dir"]).arg(cache.path());
    let output = command.current_dir(package()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn it_packs_into_what_a_registry_takes() {
    let dir = tempfile::tempdir().unwrap();
    let copied = Command::new("cp").arg("-r").arg(package()).arg(dir.path().join("python")).status().unwrap();
    assert!(copied.success());
    let mut command = python();
    command.args(["-m", "build", "--no-isolation", "--outdir", "dist"]);
    let output = command.current_dir(dir.path().join("python")).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let mut made: Vec<_> = std::fs::read_dir(dir.path().join("python/dist"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    made.sort();
    assert_eq!(made, ["stockhold-0.1.0-py3-none-any.whl", "stockhold-0.1.0.tar.gz"]);
}
