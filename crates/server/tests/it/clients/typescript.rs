//! The client for TypeScript (`clients/typescript`): its types, its tests, and the package that is made of it.

use super::{installed, repository};
use crate::support::{Server, said};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A program of Node.js, without a cache or files outside of `dir`.
fn node(program: &str, dir: &Path) -> Command {
    let node = installed("node/bin/node");
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new(program);
    command.current_dir(dir).env("PATH", format!("{}:{path}", node.parent().unwrap().display()));
    command.env("npm_config_cache", dir.join("cache")).env("npm_config_update_notifier", "false");
    command
}

/// Compiles library and tests with strict types, runs the tests, and packs and uses the package.
#[test]
fn it_sells_each_unit_once_through_a_proxy_that_loses_answers() {
    let server = Server::start();
    let made = tempfile::tempdir().unwrap();
    // The sources stay as they are.
    let package = made.path().join("typescript");
    fs::create_dir(&package).unwrap();
    fs::copy(repository("clients/scenarios.yaml"), made.path().join("scenarios.yaml")).unwrap();
    let mut copy = Command::new("cp");
    copy.current_dir(repository("clients/typescript")).arg("-r");
    copy.args(["README.md", "bench", "package.json", "package-lock.json", "src", "tests", "tsconfig.json"]);
    assert!(copy.arg(&package).status().unwrap().success());
    std::os::unix::fs::symlink(installed("typescript/node_modules"), package.join("node_modules")).unwrap();

    let npm = installed("node/bin/npm");
    let mut command = node(npm.to_str().unwrap(), &package);
    let output = command.arg("test").env("STOCKHOLD_SERVER", server.url()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("# tests 48\n"), "{}", said(&output));
}

#[test]
fn its_generated_types_are_those_of_the_openapi_document() {
    let made = tempfile::tempdir().unwrap();
    let generator = installed("typescript/node_modules/.bin/openapi-typescript");
    let mut command = node(generator.to_str().unwrap(), made.path());
    command.arg(repository("crates/api/tests/it/openapi/openapi.json")).args(["--output", "api.ts"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let generated = fs::read_to_string(made.path().join("api.ts")).unwrap();
    let committed = fs::read_to_string(repository("clients/typescript/src/api.ts")).unwrap();
    assert!(generated == committed, "the document has changed: run `npm run types` in clients/typescript");
}
