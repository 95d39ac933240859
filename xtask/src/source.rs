//! Names of fault points in the sources and in binaries. The harness reads the names from the sources, so that no list of them
//! can miss one.

use crate::spawn::workspace;
use crate::{Outcome, fail};
use std::collections::BTreeMap;
use std::path::Path;

const OPENING: &str = "fault!(\"";

/// Every fault point under `crates/` by name, with the rest of the line after the name. A name that is used twice is an
/// error, and so is a tree without any.
pub(crate) fn fault_points() -> Outcome<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(workspace().join("crates"))? {
        let sources = entry?.path().join("src");
        if sources.is_dir() {
            gather(&sources, &mut found)?;
        }
    }
    if found.is_empty() { fail("no fault points in the sources") } else { Ok(found) }
}

fn gather(folder: &Path, found: &mut BTreeMap<String, String>) -> Outcome<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            gather(&path, found)?;
            continue;
        }
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for part in line.split(OPENING).skip(1) {
                let Some((name, rest)) = part.split_once('"') else { continue };
                if found.insert(name.to_owned(), rest.to_owned()).is_some() {
                    return fail(format!("{}: the fault point {name} is used twice", path.display()));
                }
            }
        }
    }
    Ok(())
}

/// That a server was built without fault points: it has none of their names.
pub(crate) fn has_no_fault_points(server: &Path) -> Outcome<()> {
    let points = fault_points()?;
    let found = words_in(server, names(&points))?;
    if found.is_empty() {
        println!("{} has none of {} fault points", server.display(), points.len());
        return Ok(());
    }
    fail(format!("{} has fault points in it: {found:?}", server.display()))
}

/// That a server was built with all fault points.
pub(crate) fn has_all_fault_points(server: &Path, points: &BTreeMap<String, String>) -> Outcome<()> {
    let found = words_in(server, names(points))?.len();
    let all = names(points).count();
    if found == all {
        return Ok(());
    }
    fail(format!("{} has only {found} of {all} names of fault points: build it with them", server.display()))
}

/// The names of the points, and the variable that sets them off.
fn names(points: &BTreeMap<String, String>) -> impl Iterator<Item = &str> {
    points.keys().map(String::as_str).chain(["FAULT_POINTS"])
}

/// The words that a binary contains.
fn words_in<'a>(binary: &Path, words: impl Iterator<Item = &'a str>) -> Outcome<Vec<&'a str>> {
    let bytes = std::fs::read(binary)?;
    let has = |word: &&str| contains(&bytes, word.as_bytes());
    Ok(words.filter(has).collect())
}

/// Whether `bytes` contain `word`.
fn contains(bytes: &[u8], word: &[u8]) -> bool {
    let Some(first) = word.first() else { return true };
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        rest = &rest[at..];
        if rest.starts_with(word) {
            return true;
        }
        rest = &rest[1..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_point_has_a_name_of_its_own() {
        let points = fault_points().unwrap();
        assert!(points.len() > 50, "{}", points.len());
        assert!(points.values().any(|rest| rest.starts_with(" =>")));
        assert!(points.keys().all(|name| name.contains('.')), "{points:?}");
    }

    #[test]
    fn words_are_found_where_they_are() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"aab.cab.d").unwrap();
        assert_eq!(words_in(file.path(), ["ab.d", "ab.e", "b.c"].into_iter()).unwrap(), ["ab.d", "b.c"]);
    }
}
