//! How the positions of events are repaired.

use super::connect::{MysqlConnection, PacketError};
use super::rows;
use super::script::{Bulk, Script, Step, int};
use crate::audit::{BatchNumber, PositionSession};
use crate::engine::DbError;
use core::fmt::Write;
use mysql_async::Row;

/// The lock of archives, then that of numbering.
const BEGIN: &str = "START TRANSACTION;SELECT position FROM stockhold_archived WHERE one=1 FOR UPDATE;\
SELECT position FROM stockhold_sequencer WHERE one=1 FOR UPDATE";
/// First none of them has a position: no two rows may have the same one.
const TAKE: Bulk<Step> = Bulk {
    step: Step::Write,
    head: "UPDATE stockhold_events FORCE INDEX (PRIMARY) SET last_position=NULL WHERE serial IN (",
    between: ",",
    tail: ")",
    affects: Some((Step::Write, 1)),
};
const GIVE: Bulk<Step> = Bulk {
    step: Step::Write,
    head: "UPDATE (SELECT 0 AS serial,0 AS last_position UNION ALL SELECT ",
    between: " UNION ALL SELECT ",
    tail: ") AS fresh STRAIGHT_JOIN stockhold_events e FORCE INDEX (PRIMARY) ON e.serial=fresh.serial \
SET e.last_position=fresh.last_position",
    affects: Some((Step::Write, 1)),
};

impl PositionSession for MysqlConnection {
    async fn begin_renumbering(&mut self) -> Result<(), DbError> {
        self.run(BEGIN).await?;
        self.begun = true;
        Ok(())
    }

    async fn numbers(&mut self, after: u64, limit: usize) -> Result<Vec<BatchNumber>, DbError> {
        let text = format!(
            "SELECT serial,event_count,last_position FROM stockhold_events FORCE INDEX (events_by_position) \
             WHERE last_position>{after} ORDER BY last_position LIMIT {limit}"
        );
        let batch = |row: &Row| {
            Ok(BatchNumber {
                serial: rows::figure(row, 0)?,
                count: rows::figure(row, 1)?,
                last_position: rows::figure(row, 2)?,
            })
        };
        self.run(&text).await?.concat().iter().map(batch).collect()
    }

    async fn renumber(&mut self, positions: &[(u64, u64)]) -> Result<(), DbError> {
        let mut script = Script::new();
        script.add_rows(&TAKE, positions, |text, (serial, _)| int(text, *serial));
        script.add_rows(&GIVE, positions, |text, (serial, position)| {
            let _ = write!(text, "{serial},{position}");
        });
        script.add(Step::Commit).push_str("COMMIT");
        for packet in script.packets() {
            let sent = self.send(packet).await;
            sent.map_err(|PacketError { error, .. }| self.db_error(&error, false))?;
        }
        self.begun = false;
        Ok(())
    }
}
