//! Arrows between crates, the purity of the rules, and the form of files.

use crate::tree::{root, sources};
use std::collections::BTreeSet;
use std::fs;

/// Longest source file. Past it a file has grown two purposes.
const LINES: usize = 600;

/// Names in `[dependencies]` of a crate's manifest.
fn dependencies(krate: &str) -> BTreeSet<String> {
    let manifest = fs::read_to_string(root().join("crates").join(krate).join("Cargo.toml")).unwrap();
    let section = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let lines = section.take_while(|line| !line.starts_with('['));
    lines
        .filter_map(|line| Some(line.split(['.', '=', ' ']).next()?.to_owned()))
        .filter(|name| !name.is_empty())
        .collect()
}

fn own(krate: &str) -> Vec<String> {
    let all = dependencies(krate).into_iter();
    all.filter_map(|name| name.strip_prefix("stockhold-").map(str::to_owned)).collect()
}

#[test]
fn arrows_go_one_way() {
    assert_eq!(own("domain"), [""; 0]);
    assert_eq!(own("store"), ["domain"]);
    assert_eq!(own("embedded"), ["domain", "store"]);
    assert_eq!(own("sql"), ["domain", "store"]);
    assert_eq!(own("gate"), ["domain", "store"]);
    assert_eq!(own("relay"), ["api", "customers", "domain", "notify", "service", "store"]);
    assert_eq!(own("model"), ["domain", "store"]);
    assert_eq!(own("sim"), ["domain", "embedded", "model", "store"]);
    assert_eq!(own("conformance"), ["domain", "embedded", "model", "store"]);
    assert_eq!(own("service"), ["domain"]);
    assert_eq!(own("customers"), ["domain", "store"]);
    assert_eq!(own("api"), ["api-macros", "customers", "domain", "service", "store"]);
    assert_eq!(own("api-macros"), [""; 0]);
    assert_eq!(own("grpc"), ["api"]);
    assert_eq!(own("grpc-client"), [""; 0]);
    assert_eq!(own("notify"), ["api", "customers", "domain", "store"]);
    assert_eq!(own("checkout"), ["api", "customers", "domain", "service", "store"]);
    assert_eq!(
        own("config"),
        [
            "api",
            "checkout",
            "customers",
            "domain",
            "embedded",
            "gate",
            "notify",
            "relay",
            "service",
            "sql",
            "store"
        ]
    );
    assert_eq!(
        own("cli"),
        ["api", "checkout", "config", "domain", "embedded", "notify", "service", "sim", "sql", "store"]
    );
    assert_eq!(
        own("server"),
        [
            "api",
            "checkout",
            "cli",
            "config",
            "customers",
            "domain",
            "embedded",
            "gate",
            "grpc",
            "notify",
            "relay",
            "service",
            "sql",
            "store"
        ]
    );
}

#[test]
fn the_rules_are_pure() {
    assert_eq!(dependencies("domain"), BTreeSet::new(), "the rules depend on nothing");
    let lib = fs::read_to_string(root().join("crates/domain/src/lib.rs")).unwrap();
    assert!(lib.contains("#![no_std]"), "the rules can't reach a clock, a file or a thread");
    for source in sources().iter().filter(|source| source.krate() == "domain" && source.is_product()) {
        let (path, text) = (&source.path, &source.text);
        let code = text.split("#[cfg(test)]").next().unwrap();
        for word in ["extern crate std", "std::", "async ", "unsafe", ".unwrap()", ".expect("] {
            assert!(!code.contains(word), "{}: {word}", path.display());
        }
    }
}

#[test]
fn what_carries_the_rules_carries_little_else() {
    for krate in ["store", "sim"] {
        let heavy = ["tokio", "serde", "rusqlite", "hyper", "tokio-postgres"];
        let found: Vec<_> =
            dependencies(krate).into_iter().filter(|name| heavy.contains(&name.as_str())).collect();
        assert_eq!(found, [""; 0], "{krate}");
    }
}

#[test]
fn files_stay_small_and_open_with_what_they_are_for() {
    for source in sources() {
        let (place, text) = (source.place(), &source.text);
        let lines = text.lines().count();
        assert!(lines <= LINES, "{} has {lines} lines", place.display());
        assert!(text.ends_with('\n'), "{} does not end with a newline", place.display());
        if source.is_product() {
            assert!(text.starts_with("//! "), "{} does not open with what it is for", place.display());
        }
    }
}

#[test]
fn nothing_is_left_open() {
    let open = [
        "TO".to_owned() + "DO",
        "FIX".to_owned() + "ME",
        "todo".to_owned() + "!(",
        "unimplemented".to_owned() + "!(",
    ];
    let skipped = ["#[ign".to_owned() + "ore", "assert!(tr".to_owned() + "ue"];
    for source in sources() {
        for word in open.iter().chain(&skipped) {
            assert!(!source.text.contains(word.as_str()), "{}: {word}", source.place().display());
        }
    }
}

#[test]
fn every_crate_takes_the_house_lints() {
    for krate in fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path()) {
        let manifest = fs::read_to_string(krate.join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[lints]\nworkspace = true"), "{}", krate.display());
    }
}

/// The crates of the program. The others are tools, tests and generated code.
const PROGRAM: [&str; 15] = [
    "api",
    "checkout",
    "cli",
    "config",
    "customers",
    "domain",
    "embedded",
    "gate",
    "grpc",
    "notify",
    "relay",
    "server",
    "service",
    "sql",
    "store",
];

/// The lines of the program's code that have one of these words, outside of these files and folders.
fn lines_with(words: &[&str], places: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources() {
        let place = source.place().display().to_string();
        let is_test =
            place.ends_with("/tests.rs") || place.contains("/tests/") || place.contains("/benches/");
        let is_of_program = source.is_product() && PROGRAM.contains(&source.krate().as_str()) && !is_test;
        if !is_of_program || places.iter().any(|allowed| place.starts_with(&format!("crates/{allowed}"))) {
            continue;
        }
        let has_word = |line: &&str| words.iter().any(|word| line.contains(word));
        found.extend(source.code().filter(has_word).map(|line| format!("{place}: {}", line.trim())));
    }
    found
}

#[test]
fn what_is_printed_goes_through_one_place() {
    // In `cli`, these are macros of its module `out`.
    let printed = lines_with(&["print!(", "println!("], &["cli/src/"]);
    assert_eq!(printed, [""; 0], "use stockhold_config::standard_error");
    let styled = lines_with(&["anstream::", "std::println!", "std::eprintln!"], &["cli/src/out.rs"]);
    assert_eq!(styled, [""; 0], "use the macros of cli/src/out.rs");
}

#[test]
fn files_and_directories_are_made_in_one_place() {
    let made = lines_with(
        &[
            "File::create",
            "fs::create_dir",
            "fs::write(",
            "OpenOptions::new()",
            "File::options()",
            "DirBuilder::",
        ],
        &[
            "store/src/own_files.rs",
            // For tests of crashes alone.
            "store/src/fault.rs",
            // Opens an existing file.
            "embedded/src/log/wal.rs",
            "cli/src/export/target.rs",
            // Manual pages are for everybody.
            "cli/src/manual.rs",
            // In a temporary directory of its own.
            "cli/src/demo/",
        ],
    );
    assert_eq!(made, [""; 0], "use stockhold_store::own_files");
}
