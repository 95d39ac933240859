//! What the statements that claim free units lock, and where they begin.

use super::Bench;
use super::support::{Session, numbers};
use stockhold_sql::mysql::plans;

/// Units that one batch claims.
const MOST: u32 = 9;

/// Halls 1 and 2, as they lie side by side in the index: of the first so many units, of which those at 1 and 2 are held, of the
/// second two.
fn halls(units: u32) -> (Bench, Session) {
    let mut bench = Bench::new();
    drop(bench.connect());
    bench.session.run(&format!(
        "INSERT INTO stockhold_units SELECT 'default', '1', seq, seq, NULL, NULL, NULL, '', seq < 3,
             IF(seq < 3, UNHEX(LEFT(SHA2(seq, 256), 32)), NULL), 1, '', NULL, NULL FROM {};
         INSERT INTO stockhold_units SELECT 'default', '2', seq, seq, NULL, NULL, NULL, '', 0, NULL, 1, '', NULL, NULL FROM {};
         INSERT INTO stockhold_unit_counters VALUES ('default', '1', '', 0, {units}, 1, 0, 0, 0, 1, 1), ('default', '1', '', 7, 0, 1, 0, 0, 0, 1, 1)",
        numbers(units),
        numbers(2)
    ));
    let mut claimer = bench.another_session();
    claimer.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION");
    (bench, claimer)
}

#[test]
fn claims_are_told_by_these_words_in_a_log_of_slow_statements() {
    for (name, word) in [
        ("look for the first free unit", ") INTO @"),
        ("lock free units from there on", " SKIP LOCKED"),
        ("lock the first free units", " SKIP LOCKED"),
    ] {
        let text = plans(MOST).into_iter().find(|plan| plan.name == name).unwrap().text;
        assert!(text.contains(" FROM stockhold_units ") && text.contains(word), "{text}");
    }
}

/// Where to begin.
fn look(session: &mut Session) -> String {
    let look = plans(MOST).into_iter().find(|plan| plan.name == "look for the first free unit").unwrap();
    session.run(&look.text);
    session.text("SELECT COALESCE(@stockhold_free_from, 'at the beginning')")
}

/// Both statements that lock, of which one finds nothing.
fn lock(session: &mut Session) -> Vec<String> {
    let all = plans(MOST);
    let mut found = Vec::new();
    for name in ["lock free units from there on", "lock the first free units"] {
        let plan = all.iter().find(|plan| plan.name == name).unwrap();
        found.push(session.rows(&plan.text).into_iter().map(|row| row[0].clone()).collect::<Vec<_>>());
    }
    assert!(found.iter().any(Vec::is_empty), "{found:?}");
    found.concat()
}

#[test]
fn a_claim_that_takes_the_last_units_locks_nobody_elses() {
    for (held, behind) in [(true, "sku = '1' AND status = 1"), (false, "sku = '2' AND status = 0")] {
        let (mut bench, mut claimer) = halls(5);
        if !held {
            bench.session.run("DELETE FROM stockhold_units WHERE sku = '1' AND status = 1");
        }
        assert_eq!(look(&mut claimer), "at the beginning");
        assert_eq!(lock(&mut claimer), ["3", "4", "5"]);
        let mut other = bench.another_session();
        other.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION");
        let entry = format!(
            "SELECT id FROM stockhold_units FORCE INDEX (units_in_order) WHERE location = 'default' AND {behind}
             ORDER BY position, id LIMIT 1 FOR UPDATE SKIP LOCKED"
        );
        assert_eq!(other.rows(&entry), [["1"]], "{behind}");
    }
}

#[test]
fn where_there_is_plenty_a_claim_begins_at_the_first_free_unit() {
    let (mut bench, mut claimer) = halls(5_000);
    assert_eq!(look(&mut claimer), "3");
    // One that comes free before it now is passed by, and the next claim begins with it.
    bench
        .session
        .run("UPDATE stockhold_units SET status = 0, reservation = NULL WHERE sku = '1' AND id = '2'");
    let first: Vec<String> = (3..=11).map(|id| id.to_string()).collect();
    assert_eq!(lock(&mut claimer), first);
    claimer.run("ROLLBACK; START TRANSACTION");
    assert_eq!(look(&mut claimer), "2");
    assert_eq!(lock(&mut claimer)[..2], ["2", "3"]);
    // Where the last claim began is forgotten.
    bench.session.run("UPDATE stockhold_unit_counters SET held = held + 900 WHERE counter_shard = 0");
    assert_eq!(look(&mut claimer), "at the beginning");
}
