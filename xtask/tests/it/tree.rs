//! The files of the tree, and what the rules allow for now.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A Rust file.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl Source {
    /// Path from the root of the tree.
    pub(crate) fn place(&self) -> &Path {
        self.path.strip_prefix(root()).unwrap()
    }

    /// The crate's folder name.
    pub(crate) fn krate(&self) -> String {
        let mut parts = self.place().components().map(|part| part.as_os_str().to_string_lossy().into_owned());
        match parts.next().unwrap().as_str() {
            "crates" => parts.next().unwrap(),
            other => other.to_owned(),
        }
    }

    /// Whether it belongs to the program and not to its tests.
    pub(crate) fn is_product(&self) -> bool {
        self.place().components().any(|part| part.as_os_str() == "src")
    }

    /// Its lines without comments, up to the tests at its end.
    pub(crate) fn code(&self) -> impl Iterator<Item = &str> {
        let code = self.text.split("\n#[cfg(test)]\nmod ").next().unwrap();
        code.lines().map(|line| line.split("//").next().unwrap())
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The folders of files that a tool writes. The house rules are for code that people write.
const GENERATED: &str = "generated";

/// Files of a folder, and of the folders in it, whose names end so.
pub(crate) fn files(dir: &Path, ends: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(files(&entry, ends));
        } else if entry.to_string_lossy().ends_with(ends) {
            found.push(entry);
        }
    }
    found
}

pub(crate) fn sources() -> Vec<Source> {
    let mut found = ["crates", "xtask"].map(|folder| files(&root().join(folder), ".rs")).concat();
    found.retain(|path| path.components().all(|part| part.as_os_str() != GENERATED));
    assert!(found.len() > 50, "sources were not found");
    let read = |path: PathBuf| Source { text: fs::read_to_string(&path).unwrap(), path };
    found.into_iter().map(read).collect()
}

/// Holds what a rule found against what `allowed.txt` allows it. Both have to be the same, so that the list only shrinks.
pub(crate) fn check(rule: &str, found: &BTreeSet<String>) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/allowed.txt");
    let text = fs::read_to_string(&file).unwrap();
    let allowed: BTreeSet<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix(rule)?.strip_prefix(": "))
        .map(str::to_owned)
        .collect();
    let show = |entries: Vec<&String>| {
        entries.into_iter().map(|entry| format!("{rule}: {entry}")).collect::<Vec<_>>().join("\n")
    };
    let new: Vec<_> = found.difference(&allowed).collect();
    assert!(new.is_empty(), "against the house rules:\n{}", show(new));
    let gone: Vec<_> = allowed.difference(found).collect();
    assert!(gone.is_empty(), "no longer there, so take it out of {}:\n{}", file.display(), show(gone));
}
