//! Modules of a crate depend on each other in one direction.

use crate::tree::{Source, check, sources};
use std::collections::{BTreeMap, BTreeSet};

/// For each module at the top of a crate: the other ones that its code names.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The path of a file's module from the root of its crate; empty for the root itself.
fn module_path(source: &Source) -> Option<Vec<String>> {
    let parts: Vec<String> =
        source.place().components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    let src = parts.iter().position(|part| part == "src")?;
    let mut path = parts[src + 1..].to_vec();
    let file = path.pop()?;
    match file.trim_end_matches(".rs") {
        "mod" => {}
        "lib" | "main" if path.is_empty() => {}
        name => path.push(name.to_owned()),
    }
    Some(path)
}

/// The first names of all paths that a text names behind `prefix`, of `prefix{a::b, c}` each.
fn heads<'a>(text: &'a str, prefix: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices(prefix) {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
            continue;
        }
        let rest = &text[at + prefix.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            found.extend(identifier(rest));
            continue;
        };
        let mut depth = 1;
        let mut start = true;
        for (index, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => start = true,
                _ if c.is_whitespace() => {}
                _ if start && depth == 1 => {
                    found.extend(identifier(&group[index..]));
                    start = false;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    found
}

fn identifier(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    Some(&text[..end]).filter(|name| !name.is_empty())
}

fn graphs() -> BTreeMap<String, Graph> {
    let mut graphs: BTreeMap<String, Graph> = BTreeMap::new();
    let sources = sources();
    let modules: Vec<_> = sources.iter().filter_map(|source| Some((source, module_path(source)?))).collect();
    for (source, path) in &modules {
        if let Some(top) = path.first() {
            graphs.entry(source.krate()).or_default().entry(top.clone()).or_default();
        }
    }
    for (source, path) in &modules {
        let Some(top) = path.first() else { continue };
        let graph = graphs.get_mut(&source.krate()).unwrap();
        let code = source.code().collect::<Vec<_>>().join("\n");
        let upwards = "super::".repeat(path.len());
        for name in heads(&code, "crate::").into_iter().chain(heads(&code, &upwards)) {
            if name != top && graph.contains_key(name) {
                graph.get_mut(top).unwrap().insert(name.to_owned());
            }
        }
    }
    graphs
}

fn reachable<'a>(graph: &'a Graph, from: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(name) = open.pop() {
        for next in graph.get(name).into_iter().flatten() {
            if found.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    found
}

/// The modules of each circle, together with all that are on a circle with them.
fn circles(graph: &Graph) -> BTreeSet<Vec<&str>> {
    let all: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|name| (name.as_str(), reachable(graph, name))).collect();
    let on_one = |name: &str| all[name].contains(name);
    all.keys()
        .filter(|name| on_one(name))
        .map(|name| all[*name].iter().copied().filter(|other| all[other].contains(*name)).collect())
        .collect()
}

#[test]
fn modules_of_a_crate_depend_on_each_other_in_one_direction() {
    let graphs = graphs();
    assert!(graphs.len() > 5 && graphs["server"].values().any(|to| !to.is_empty()), "{graphs:?}");
    let mut found = BTreeSet::new();
    for (krate, graph) in &graphs {
        for circle in circles(graph) {
            found.insert(format!("{krate} {}", circle.join(" ")));
        }
    }
    check("circle of modules", &found);
}

#[test]
fn a_path_is_found_in_each_form() {
    let code = "use crate::a::b;\nuse crate::{c, d::{e, f}, g::h};\nfn x() { crate::i::j() }\nlet $crate::k = my_crate::l;";
    assert_eq!(heads(code, "crate::"), ["a", "c", "d", "g", "i"]);
    assert_eq!(heads("use super::super::a; use super::b;", "super::super::"), ["a"]);
}

#[test]
fn a_circle_is_found_with_all_that_are_on_it() {
    let to = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    let graph: Graph = [("a", to(&["b"])), ("b", to(&["c"])), ("c", to(&["a"])), ("d", to(&["a"]))]
        .map(|(name, to)| (name.to_owned(), to))
        .into();
    assert_eq!(circles(&graph), BTreeSet::from([vec!["a", "b", "c"]]));
}
