//! The report of an import of items.

use super::row::RowError;
use super::state::ImportCounts;
use crate::plural::counted;
use serde::Serialize;
use std::time::Duration;

/// The report of an import. Field names are part of the interface.
#[derive(Debug, Serialize)]
pub(super) struct ImportReport {
    pub(super) file: String,
    pub(super) dry_run: bool,
    /// Whether the end of the file was reached.
    pub(super) finished: bool,
    /// The last line of an earlier run.
    pub(super) resumed_after_line: u64,
    /// The line up to which every row is decided.
    pub(super) last_line: u64,
    pub(super) rows: u64,
    #[serde(flatten)]
    pub(super) counts: ImportCounts,
    /// Rows whose items are paused in the system that the file comes from.
    pub(super) paused_elsewhere: u64,
    /// Rows whose SKU begins or ends with a blank. The blank belongs to the SKU.
    pub(super) blank_ended_skus: u64,
    pub(super) seconds: f64,
    pub(super) rows_per_second: f64,
    pub(super) errors: Vec<RowError>,
}

impl ImportReport {
    pub(super) fn tell(&self) {
        let ImportCounts { created, updated, kept, bad } = self.counts;
        let rows = counted(self.rows, "row", "rows");
        if self.dry_run {
            println!(
                "{rows}: {created} would create an item, {updated} would change one, {kept} would change nothing, {bad} \
                 can't be used"
            );
            println!("nothing was changed (--dry-run)");
        } else {
            println!(
                "{rows}: {} created, {updated} set, {kept} left as {}, {} left out",
                counted(created, "item", "items"),
                if kept == 1 { "it was" } else { "they were" },
                counted(bad, "row", "rows")
            );
        }
        println!("{:.2} s, {:.0} rows/s", self.seconds, self.rows_per_second);
        if self.blank_ended_skus > 0 {
            println!(
                "{} with a blank, which belongs to the SKU",
                counted(self.blank_ended_skus, "SKU begins or ends", "SKUs begin or end")
            );
        }
        if self.paused_elsewhere > 0 {
            println!(
                "{} paused in the file; import does not pause sales: use `stockhold ctl pause`",
                counted(self.paused_elsewhere, "item was", "items were")
            );
        }
    }
}

/// Rows in a second.
#[expect(clippy::cast_precision_loss, reason = "a rate")]
pub(super) fn per_second(rows: u64, took: Duration) -> f64 {
    rows as f64 / took.as_secs_f64().max(f64::EPSILON)
}
