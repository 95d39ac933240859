//! Names that stand in the sources: of fault points and of seeded bugs. What is proved is proved of all of them, so they are
//! read where they are and kept in no list beside.

use crate::spawn::workspace;
use crate::{Outcome, fail};
use std::collections::BTreeMap;
use std::path::Path;

/// Where a name stands.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The folder of the crate.
    pub(crate) krate: String,
    /// What follows it, up to the end of its line.
    pub(crate) rest: String,
}

/// Every `name!("…")` under `crates/`, sorted. A literal that is there twice, or none at all, is an error.
pub(crate) fn literals(name: &str) -> Outcome<BTreeMap<String, Place>> {
    let mut found = BTreeMap::new();
    for krate in std::fs::read_dir(workspace().join("crates"))? {
        let folder = krate?.path();
        let krate = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if folder.join("src").is_dir() {
            gather(&folder.join("src"), &krate, &format!("{name}!(\""), &mut found)?;
        }
    }
    if found.is_empty() { fail(format!("no {name}! in the sources")) } else { Ok(found) }
}

fn gather(folder: &Path, krate: &str, opening: &str, found: &mut BTreeMap<String, Place>) -> Outcome<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            gather(&path, krate, opening, found)?;
            continue;
        }
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for part in line.split(opening).skip(1) {
                let Some((literal, rest)) = part.split_once('"') else { continue };
                let place = Place { krate: krate.to_owned(), rest: rest.to_owned() };
                if found.insert(literal.to_owned(), place).is_some() {
                    return fail(format!("{}: {opening}{literal} is there twice", path.display()));
                }
            }
        }
    }
    Ok(())
}

/// Whether a binary has these words in it: those that it has.
pub(crate) fn words_in<'a>(binary: &Path, words: impl Iterator<Item = &'a str>) -> Outcome<Vec<&'a str>> {
    let bytes = std::fs::read(binary)?;
    let has = |word: &&str| memchr_find(&bytes, word.as_bytes());
    Ok(words.filter(has).collect())
}

/// Whether `word` is somewhere in `bytes`: by its first byte, then all of it.
fn memchr_find(bytes: &[u8], word: &[u8]) -> bool {
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
        let points = literals("fault").unwrap();
        assert!(points.len() > 50, "{}", points.len());
        assert!(points.values().any(|place| place.rest.starts_with(" =>")));
        assert!(points.keys().all(|name| name.contains('.')), "{points:?}");
    }

    #[test]
    fn words_are_found_where_they_are() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"aab.cab.d").unwrap();
        assert_eq!(words_in(file.path(), ["ab.d", "ab.e", "b.c"].into_iter()).unwrap(), ["ab.d", "b.c"]);
    }
}
