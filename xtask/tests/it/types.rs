//! One name, one type.

use crate::tree::{check, sources};
use std::collections::{BTreeMap, BTreeSet};

/// One for each subcommand: what its command line takes.
const COMMAND_LINE: [&str; 2] = ["Args", "Options"];

/// The name that a line defines a type by, if the type is visible outside of its module.
fn public_type(line: &str) -> Option<&str> {
    let rest = ["pub ", "pub(crate) ", "pub(super) "].iter().find_map(|public| line.strip_prefix(public))?;
    let name =
        ["struct ", "enum ", "trait ", "type ", "union "].iter().find_map(|kind| rest.strip_prefix(kind))?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

#[test]
fn no_two_public_types_of_a_crate_have_one_name() {
    let mut places: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for source in sources().iter().filter(|source| source.is_product()) {
        for name in source.code().filter_map(public_type).filter(|name| !COMMAND_LINE.contains(name)) {
            let place = source.place().display().to_string();
            places.entry((source.krate(), name.to_owned())).or_default().insert(place);
        }
    }
    assert!(places.len() > 300, "types were not found");
    let twice = places.into_iter().filter(|(_, places)| places.len() > 1);
    check("two types", &twice.map(|((krate, name), _)| format!("{krate} {name}")).collect());
}

#[test]
fn a_definition_is_recognised() {
    assert_eq!(public_type("pub(crate) struct Server<'a> {"), Some("Server"));
    assert_eq!(public_type("pub enum Status {"), Some("Status"));
    assert_eq!(public_type("struct Private;"), None);
    assert_eq!(public_type("pub fn status() {"), None);
}
