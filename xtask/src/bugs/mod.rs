//! `cargo xtask bugs`: every seeded bug of the sources (`stockhold_domain::bug`), one after the other, against the layers
//! of tests in the order in which they would meet it: unit and integration tests crate by crate, then the server under
//! crashes, failing disks and power cuts. Built once with all bugs in it and run many times. A bug that survives fails the
//! run; so does a layer that fails with no bug at all.

mod layers;

use crate::clock::wall_millis;
use crate::source::{Place, literals};
use crate::{Outcome, fail};
use clap::Args;
use layers::{Layer, Verdict};
use std::collections::BTreeMap;
use std::time::Instant;

/// How it is run.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {
    /// Only bugs whose names have this in them
    #[arg(long, value_name = "TEXT", default_value = "")]
    bug: String,
    /// One bug in so many; which ones, the clock decides
    #[arg(long, default_value_t = 1)]
    one_in: usize,
    /// Leave out the layers that need a server
    #[arg(long)]
    tests_only: bool,
}

impl Options {
    /// A run of `cargo xtask prove`.
    pub(crate) fn of(one_in: usize, tests_only: bool) -> Self {
        Self { bug: String::new(), one_in, tests_only }
    }
}

/// Runs it.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    let began = Instant::now();
    let all = literals("bug")?;
    let bugs = chosen(&all, options, usize::try_from(wall_millis())?)?;
    let layers = layers::build(options.tests_only)?;
    for layer in &layers {
        if let Verdict::Caught(what) = layer.run("")? {
            return fail(format!("{} fails with no bug in it: {what}", layer.name));
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

/// The bugs to run, at least one: those of the name that is asked for, one in so many of them.
fn chosen<'a>(
    all: &'a BTreeMap<String, Place>,
    options: &Options,
    turn: usize,
) -> Outcome<Vec<(&'a String, &'a Place)>> {
    let named: Vec<_> = all.iter().filter(|(name, _)| name.contains(&options.bug)).collect();
    if named.is_empty() {
        return fail(format!("no bug has {:?} in its name", options.bug));
    }
    let one_in = options.one_in.clamp(1, named.len());
    Ok(named.into_iter().skip(turn % one_in).step_by(one_in).collect())
}

/// The first layer that catches a bug, and by what. Tests of crates that do not have the bug in them are left out.
fn catch<'a>(layers: &'a [Layer], bug: &str, place: &Place) -> Outcome<Option<(&'a str, String)>> {
    let meets = |layer: &&Layer| layer.name.starts_with(&place.krate);
    for layer in layers.iter().skip_while(|layer| !meets(layer)) {
        if let Verdict::Caught(what) = layer.run(bug)? {
            return Ok(Some((&layer.name, what)));
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
        let run = |bug: &str, one_in, turn| {
            let options = Options { bug: bug.to_owned(), one_in, tests_only: true };
            chosen(&all, &options, turn).map(|bugs| bugs.into_iter().map(|(name, _)| name.as_str()).collect())
        };
        let names = |bug, one_in, turn| -> Vec<&str> { run(bug, one_in, turn).unwrap() };
        assert_eq!(names("", 1, 7), ["a.one", "a.two", "b.one", "b.three", "b.two"]);
        assert_eq!(
            (names("", 2, 4), names("", 2, 5)),
            (vec!["a.one", "b.one", "b.two"], vec!["a.two", "b.three"])
        );
        assert_eq!(names("b.", 10, 5), ["b.two"]);
        assert_eq!(names("", 0, 0).len(), 5);
        assert!(run("typo", 1, 0).is_err());
    }
}
