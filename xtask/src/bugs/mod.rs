//! `cargo xtask bugs`: every seeded bug of the sources (`stockhold_domain::bug`), one after the other, against the layers
//! of tests in the order in which they would meet it: unit and integration tests crate by crate, then the server under
//! crashes, failing disks and power cuts. Built once with all bugs in it and run many times. A bug that survives fails the
//! run; so does a layer that fails with no bug at all.

mod layers;

use crate::source::{Place, literals};
use crate::{Outcome, fail};
use clap::Args;
use layers::{Layer, Verdict, first_words, last_lines};
use std::collections::BTreeMap;
use std::time::Instant;

/// How it is run.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {
    /// Only bugs whose names have one of these in them
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    bug: Vec<String>,
    /// Leave out the layers that need a server
    #[arg(long)]
    tests_only: bool,
}

impl Options {
    /// A run of `cargo xtask prove`.
    pub(crate) fn of(bugs: &[&str], tests_only: bool) -> Self {
        Self { bug: bugs.iter().map(ToString::to_string).collect(), tests_only }
    }
}

/// Runs it.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    let began = Instant::now();
    let all = literals("bug")?;
    let bugs = chosen(&all, &options.bug)?;
    let layers = layers::build(options.tests_only)?;
    for layer in &layers {
        if let Verdict::Caught(said) = layer.run("")? {
            let (what, lines) = (first_words(&said), last_lines(&said));
            return fail(format!("{} fails with no bug in it: {what}\n{lines}", layer.name));
        }
    }
    println!(
        "{} of {} bugs against {} layers, which all pass without one",
        bugs.len(),
        all.len(),
        layers.len()
    );
    let mut caught: BTreeMap<&str, usize> = BTreeMap::new();
    let mut survived = Vec::new();
    for (bug, place) in bugs {
        match catch(&layers, bug, place)? {
            Some((layer, what)) => {
                *caught.entry(layer).or_default() += 1;
                println!("{bug}: {layer}: {what}");
            }
            None => {
                println!("{bug}: SURVIVED");
                survived.push(bug);
            }
        }
    }
    for (layer, count) in &caught {
        println!("{count} first caught by {layer}");
    }
    println!("{} s", began.elapsed().as_secs());
    if survived.is_empty() { Ok(()) } else { fail(format!("{} survived: {survived:?}", survived.len())) }
}

/// The bugs to run: all, or those whose names are asked for.
fn chosen<'a>(all: &'a BTreeMap<String, Place>, asked: &[String]) -> Outcome<Vec<(&'a String, &'a Place)>> {
    let none = |word: &&String| !all.keys().any(|name| name.contains(*word));
    if let Some(word) = asked.iter().find(none) {
        return fail(format!("no bug has {word:?} in its name"));
    }
    let wanted = |name: &String| asked.is_empty() || asked.iter().any(|word| name.contains(word));
    Ok(all.iter().filter(|(name, _)| wanted(name)).collect())
}

/// The first layer that catches a bug, and by what. Tests of crates that do not have the bug in them are left out.
fn catch<'a>(layers: &'a [Layer], bug: &str, place: &Place) -> Outcome<Option<(&'a str, String)>> {
    let meets = |layer: &&Layer| layer.name.starts_with(&place.krate);
    for layer in layers.iter().skip_while(|layer| !meets(layer)) {
        if let Verdict::Caught(said) = layer.run(bug)? {
            return Ok(Some((&layer.name, first_words(&said))));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_bug_is_run_or_the_run_fails() {
        let place = Place { krate: "domain".to_owned(), rest: String::new() };
        let names = ["a.one", "a.two", "b.one", "b.three", "b.two"];
        let all: BTreeMap<_, _> = names.iter().map(|name| ((*name).to_owned(), place.clone())).collect();
        let run = |asked: &[&str]| {
            let asked: Vec<String> = asked.iter().map(ToString::to_string).collect();
            chosen(&all, &asked)
                .map(|bugs| bugs.into_iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>())
        };
        assert_eq!(run(&[]).unwrap(), names);
        assert_eq!(run(&["two", "b.t"]).unwrap(), ["a.two", "b.three", "b.two"]);
        assert!(run(&["two", "typo"]).is_err());
    }
}
