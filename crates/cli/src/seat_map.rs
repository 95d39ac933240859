//! A seat map as text: a line for each row, a symbol for each unit.

use std::fmt::Write;
use stockhold_api::wire::{SeatLayout, SeatMap, Stands};

/// Draws the rows of a layout with the state of each unit, and the totals below them.
pub(super) fn drawn(layout: &SeatLayout, map: &SeatMap) -> String {
    let mut rows: Vec<String> = vec![String::new(); layout.rows.len()];
    for (row, stands) in layout.row_of.iter().zip(map.stands()) {
        if let Some(units) = rows.get_mut(*row) {
            units.push_str(match stands {
                Stands::Available => " ·",
                Stands::Held => " o",
                Stands::Sold => " ■",
                Stands::SetAside => " +",
            });
        }
    }
    let mut text = String::new();
    for (row, units) in layout.rows.iter().zip(&rows) {
        let section = row.section.as_deref().unwrap_or_default();
        let name = row.row.as_deref().unwrap_or_default();
        // Writing to a String does not fail.
        let _ = writeln!(text, "  {section:<8} {name}  {units}");
    }
    let _ = writeln!(text, "  {} available ·   {} held o   {} sold ■   ", map.available, map.held, map.sold);
    text
}
