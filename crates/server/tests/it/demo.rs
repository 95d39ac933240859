//! `stockhold demo` tells a story that ends well.

use crate::support::{said, stockhold, text};

#[test]
fn a_sale_with_a_kill_balances() {
    let dir = tempfile::tempdir().unwrap();
    let output = stockhold(dir.path())
        .args(["demo", "--buyers", "300", "--units", "30", "--seed", "7"])
        .env("TMPDIR", dir.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let story = text(&output.stdout);
    for words in
        ["30 hold a unit, 270 get", "kill -9", "started again on the same data", "the audit is right"]
    {
        assert!(story.contains(words), "{words:?} is missing in\n{story}");
    }
    assert_eq!(story.matches(" ok    ").count(), 4, "{story}");
    // The server is ended and its data removed.
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_hall_sells_out_and_its_seat_map_fills() {
    let dir = tempfile::tempdir().unwrap();
    let output = stockhold(dir.path())
        .args(["demo", "--seats", "--seed", "3"])
        .env("TMPDIR", dir.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let story = text(&output.stdout);
    assert!(story.contains("114 available ·   0 held o   0 sold ■"), "{story}");
    assert!(story.contains("0 available ·   0 held o   114 sold ■"), "{story}");
    assert!(story.contains("the audit: 114 seats are sold, each to the one group"), "{story}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_sale_without_a_kill_and_with_units_for_all_balances() {
    let dir = tempfile::tempdir().unwrap();
    let output = stockhold(dir.path())
        .args(["demo", "--buyers", "20", "--units", "40", "--no-kill"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let story = text(&output.stdout);
    assert!(story.contains("20 hold a unit, 0 get") && !story.contains("kill -9"), "{story}");
}
