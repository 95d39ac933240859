//! `stockhold demo` tells a story that ends well.

use crate::support::{said, stockhold, text};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

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
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_sale_with_payments_and_kills_has_the_money_where_the_goods_are() {
    let dir = tempfile::tempdir().unwrap();
    let output = stockhold(dir.path())
        .args(["demo", "--checkout", "--buyers", "200", "--units", "40", "--seed", "5"])
        .env("TMPDIR", dir.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let story = text(&output.stdout);
    assert_eq!(story.matches("kill -9").count(), 3, "{story}");
    assert_eq!(story.matches(" ok    ").count(), 6, "{story}");
    assert!(story.contains("of 40 units 40 are sold and 0 held"), "{story}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
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
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
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

#[test]
fn a_drop_behind_a_gate_balances_without_redis_and_with_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    // PostgreSQL does not run as root, and its own user has to reach its directory.
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let output = stockhold(dir.path())
        .args(["demo", "--gate", "--buyers", "4000", "--units", "200"])
        .env("TMPDIR", dir.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let story = text(&output.stdout);
    for words in [
        "flushed Redis",
        "kill -9",
        "started server 1 again",
        "of 200 units exactly 200 are given away",
        "0 are lost",
        "the audit is right",
    ] {
        assert!(story.contains(words), "{words:?} is missing in\n{story}");
    }
    assert_eq!(story.matches(" ok    ").count(), 4, "{story}");
    let refusals = |layer: &str| {
        let row = story.lines().find_map(|line| line.strip_prefix(layer)).unwrap();
        row.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    let (gate, database) = (refusals("gate (Redis)"), refusals("database (PostgreSQL)"));
    assert!(gate > 0 && gate + database >= 3_800, "{story}");
    // The servers are ended and their data removed.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_demo_without_redis_says_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let output = stockhold(dir.path()).args(["demo", "--gate"]).env("PATH", dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let why = text(&output.stderr);
    assert!(why.contains("no redis-server on the PATH") && why.contains("apt-get install"), "{why}");
}
