//! The mutations that parsers get.

use std::collections::BTreeSet;
use std::sync::Mutex;
use stockhold_conformance::mutate::mutate;

#[test]
fn a_parser_gets_all_examples_and_many_different_mutations() {
    static SEEN: Mutex<BTreeSet<Vec<u8>>> = Mutex::new(BTreeSet::new());
    let seen = |bytes: &[u8]| {
        SEEN.lock().unwrap().insert(bytes.to_vec());
    };
    let example = b"{\"quantity\":12}".to_vec();
    mutate(("seen", seen), std::slice::from_ref(&example), 500);
    let seen = SEEN.lock().unwrap();
    assert!(seen.contains(&example) && seen.len() > 400, "{}", seen.len());
    assert!(seen.iter().filter(|bytes| bytes.starts_with(b"{\"q")).count() > 100);
}

#[test]
#[should_panic(expected = "fragile panicked on")]
fn a_panic_reports_the_input() {
    mutate(("fragile", |bytes| assert!(bytes.first() == Some(&b'a'))), &[b"abc".to_vec()], 1_000);
}
