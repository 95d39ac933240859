//! The statements that number events.
//!
//! An event of an item must not get a position before an earlier event of it, not even if both are committed while events are numbered. A
//! batch draws its serial when it writes, and it has locked its items by then. So of two batches of one item the earlier one has the smaller
//! serial, and it was committed before the later one drew its own. It is enough that a batch is numbered together with or after all batches
//! that were committed before it, in the order of serials.
//!
//! An UPDATE that reads the rows to be numbered does not do that. It reads them one by one, each as it is when its turn comes, and waits
//! for those that are locked. So it may find a batch and not an earlier one that was committed behind its back. Therefore:
//!
//! 1. A query of its own lists the batches without a position. It is a consistent read, which shows one moment and waits for nobody.
//! 2. MariaDB collects the transactions that are open one after the other when a query begins, and others may end meanwhile. So the moment
//!    is not exact: the query may show a batch and not another one that was committed shortly before it. A second query shows that other
//!    batch. From its serial on, nothing is numbered. It is listed the next time.
//! 3. The listed batches get their positions.

/// The newest position, and whether there is anything without one.
pub(super) const UNNUMBERED: &str = "SELECT position,\
    EXISTS (SELECT 1 FROM stockhold_events FORCE INDEX (events_by_position) WHERE last_position IS NULL) \
    FROM stockhold_sequencer WHERE one=1";

/// Most rows of events that are numbered at once.
pub(super) const NUMBERED_AT_ONCE: usize = 8_192;
/// The longest list of serials as text. Servers cut longer ones off, MySQL at 1,024 bytes unless the session says otherwise.
pub(super) const LIST_BYTES: usize = 1 << 18;
/// Of up to 20 digits each, with what is between them.
const _: () = assert!(NUMBERED_AT_ONCE * 21 < LIST_BYTES);

/// Numbers what is committed and has no position, at most so many batches. Every statement begins after the lock of the
/// sequencer is held, so it sees the position that the sequencer before it had committed. Its rows: the position before; how many
/// batches it numbered; and, in one row, the position then, the last serial that was listed, and the first one that the list lacks. 0
/// stands for none.
pub(super) fn number(most: usize, as_one_statement: bool) -> String {
    let unnumbered = format!(
        "SELECT serial FROM stockhold_events FORCE INDEX (events_by_position) WHERE last_position IS NULL ORDER BY serial LIMIT {most}"
    );
    let statements = format!(
        "START TRANSACTION;\
         SELECT position FROM stockhold_sequencer WHERE one=1 FOR UPDATE;\
         SELECT CONCAT('[',GROUP_CONCAT(serial ORDER BY serial),']'),COALESCE(MAX(serial),0) \
            INTO @stockhold_listed,@stockhold_last FROM ({unnumbered}) AS found;\
         SELECT COALESCE(MIN(again.serial),0) INTO @stockhold_late FROM \
            JSON_TABLE(@stockhold_listed,'$[*]' COLUMNS (nth FOR ORDINALITY,serial BIGINT UNSIGNED PATH '$')) AS listed \
            STRAIGHT_JOIN (SELECT serial,ROW_NUMBER() OVER (ORDER BY serial) AS nth FROM ({unnumbered}) AS found) AS again \
            ON again.nth=listed.nth WHERE again.serial<>listed.serial;\
         UPDATE (SELECT serial,SUM(event_count) OVER (ORDER BY serial) AS nth FROM (\
            SELECT e.serial,e.event_count FROM \
            JSON_TABLE(@stockhold_listed,'$[*]' COLUMNS (serial BIGINT UNSIGNED PATH '$')) AS listed \
            STRAIGHT_JOIN stockhold_events e FORCE INDEX (PRIMARY) ON e.serial=listed.serial \
            WHERE @stockhold_late=0 OR e.serial<@stockhold_late) AS unnumbered) AS fresh \
         STRAIGHT_JOIN stockhold_events e ON e.serial=fresh.serial \
         STRAIGHT_JOIN stockhold_sequencer s ON s.one=1 \
         SET e.last_position=s.position+fresh.nth;\
         SELECT ROW_COUNT();\
         UPDATE stockhold_sequencer SET position=GREATEST(position,\
             COALESCE((SELECT MAX(last_position) FROM stockhold_events),0)) WHERE one=1;\
         SELECT position,@stockhold_last,@stockhold_late FROM stockhold_sequencer WHERE one=1;\
         COMMIT"
    );
    // So that a cluster aborts all of it or nothing.
    if as_one_statement { format!("BEGIN NOT ATOMIC {statements};END") } else { statements }
}
