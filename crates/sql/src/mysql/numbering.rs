//! The statements that number events.

/// The newest position, and whether there is anything without one.
pub(super) const UNNUMBERED: &str = "SELECT position,\
    EXISTS (SELECT 1 FROM stockhold_events FORCE INDEX (events_by_position) WHERE last_position IS NULL) \
    FROM stockhold_sequencer WHERE one=1";

/// The serials that one moment shows without a position.
const UNNUMBERED_LIST: &str = "@stockhold_unnumbered";
const LISTED: &str = "SELECT e.serial,e.event_count FROM JSON_TABLE(@stockhold_unnumbered,'$[*]' \
COLUMNS (serial BIGINT UNSIGNED PATH '$')) AS listed STRAIGHT_JOIN stockhold_events e FORCE INDEX (PRIMARY) ON e.serial=listed.serial";

/// Numbers what is committed and has no position, at most so many batches. Every statement begins after the sequencer's lock is
/// held, so it sees the position that the sequencer before it had committed. What is read to be numbered is read without
/// locks: batches that are being committed are passed by and not waited for. Its rows: the position before, how many it
/// numbered, the position then.
pub(super) fn number(most: usize, in_cluster: bool) -> String {
    // MariaDB reads the table of an update row by row, with locks. In a cluster, a batch of another node may appear before the row that
    // is read, with a smaller serial. So a statement of its own lists what one moment shows.
    let select = format!(
        "SELECT serial,event_count FROM stockhold_events FORCE INDEX (events_by_position) \
         WHERE last_position IS NULL ORDER BY serial LIMIT {most}"
    );
    let (listed, list) = if in_cluster {
        (
            format!(
                "SELECT CONCAT('[',GROUP_CONCAT(serial),']') INTO {UNNUMBERED_LIST} FROM ({select}) AS found;"
            ),
            LISTED,
        )
    } else {
        (String::new(), &*select)
    };
    let statements = format!(
        "START TRANSACTION;\
         SELECT position FROM stockhold_sequencer WHERE one=1 FOR UPDATE;\
         {listed}\
         UPDATE (SELECT serial,SUM(event_count) OVER (ORDER BY serial) AS nth FROM ({list}) AS unnumbered) AS fresh \
         STRAIGHT_JOIN stockhold_events e ON e.serial=fresh.serial \
         STRAIGHT_JOIN stockhold_sequencer s ON s.one=1 \
         SET e.last_position=s.position+fresh.nth;\
         SELECT ROW_COUNT();\
         UPDATE stockhold_sequencer SET position=GREATEST(position,\
             COALESCE((SELECT MAX(last_position) FROM stockhold_events),0)) WHERE one=1;\
         SELECT position FROM stockhold_sequencer WHERE one=1;\
         COMMIT"
    );
    // As one statement, so that a cluster aborts all of it or nothing.
    if in_cluster { format!("BEGIN NOT ATOMIC {statements};END") } else { statements }
}
