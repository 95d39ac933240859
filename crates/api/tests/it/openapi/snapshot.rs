//! `openapi.json` is the document as it was last reviewed: a change of the contract is a change of that file.

use std::path::Path;
use std::{env, fs};
use stockhold_api::openapi::text;

/// Set to write the file anew.
const UPDATE: &str = "UPDATE_OPENAPI";

#[test]
fn the_document_is_the_one_that_was_reviewed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/openapi/openapi.json");
    if env::var_os(UPDATE).is_some() {
        fs::write(&path, text()).unwrap();
    }
    let reviewed = fs::read_to_string(&path).unwrap_or_default();
    let differs = reviewed.lines().zip(text().lines()).position(|(old, new)| old != new);
    let line = differs.unwrap_or_else(|| reviewed.lines().count().min(text().lines().count())) + 1;
    assert!(
        reviewed == text(),
        "the contract has changed, first at line {line} of {}.\nIf that is meant, write the file anew with \
         `{UPDATE}=1 cargo test -p stockhold-api openapi`, and review its difference like any other.",
        path.display()
    );
}
