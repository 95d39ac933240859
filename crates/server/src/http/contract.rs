//! Tests that the page at `/` agrees with the route table.

use super::route::Route;
use std::collections::BTreeSet;
use stockhold_api::routes::RouteId;

/// The page at `/` names those routes that take an idempotency key, and no others.
#[test]
fn the_index_says_which_routes_take_a_key() {
    let index = include_str!("index.txt");
    let (_, rest) = index.split_once("Idempotency-Key:").unwrap();
    let mut named = BTreeSet::new();
    for line in rest
        .lines()
        .filter(|line| ["POST ", "PATCH ", "DELETE "].iter().any(|method| line.starts_with(method)))
    {
        let (method, paths) = line.split_once(' ').unwrap();
        let paths = paths.trim().replace(['{', '}'], "");
        let (first, others) = paths.split_once(", ").unwrap_or((&paths, ""));
        let (above, _) = first.rsplit_once('/').unwrap();
        let others =
            others.split(", ").filter(|tailer| !tailer.is_empty()).map(|tailer| format!("{above}{tailer}"));
        for path in std::iter::once(first.to_owned()).chain(others) {
            named.insert(Route::find(method, &path).unwrap().id.spec().operation);
        }
    }
    let rows = RouteId::ALL.iter().map(|id| id.spec()).filter(|row| row.idempotency_key);
    assert_eq!(named, rows.map(|row| row.operation).collect());
}

/// The page at `/` shows every route, by its method and path.
#[test]
fn the_index_shows_every_route() {
    let index = include_str!("index.txt");
    let short = index.replace("{id}", "{reservation_id}");
    for row in RouteId::ALL.iter().map(|id| id.spec()).filter(|row| row.id != RouteId::GetIndex) {
        let (above, last) = row.path.rsplit_once('/').unwrap();
        let shown = short.lines().filter(|line| line.starts_with(row.method.name())).any(|line| {
            let words: Vec<_> = line.split([' ', ',']).collect();
            words.contains(&row.path) || line.contains(above) && words.contains(&format!("/{last}").as_str())
        });
        assert!(shown, "{} {}", row.method.name(), row.path);
    }
}
