//! Tables for people. A column is as wide as its widest cell; numbers are right-aligned.

use serde_json::Value;
use std::fmt::Write;
use stockhold_api::printable::escaped;

/// A column: its title, and the field that it shows.
pub(super) struct Column(pub(super) &'static str, pub(super) &'static str);

/// Writes the rows under their titles. A column without any value is left out.
pub(super) fn table(columns: &[Column], rows: &[&Value]) -> String {
    let cells: Vec<Vec<(String, bool)>> =
        rows.iter().map(|row| columns.iter().map(|Column(_, field)| cell(&row[*field])).collect()).collect();
    let shown: Vec<usize> = (0..columns.len())
        .filter(|at| {
            rows.is_empty() || cells.iter().any(|row| row.get(*at).is_some_and(|cell| !cell.0.is_empty()))
        })
        .collect();
    let width = |at: usize, title: &str| {
        let widest = cells.iter().filter_map(|row| row.get(at)).map(|(text, _)| text.chars().count()).max();
        widest.unwrap_or(0).max(title.chars().count())
    };
    let columns: Vec<(usize, &str, usize)> = shown
        .into_iter()
        .filter_map(|at| columns.get(at).map(|Column(title, _)| (at, *title, width(at, title))))
        .collect();
    let mut out = String::new();
    let mut line = |texts: &mut dyn Iterator<Item = (String, bool, usize)>| {
        let mut line = String::new();
        for (text, right, width) in texts {
            let gap = if line.is_empty() { "" } else { "  " };
            // Writing to a String does not fail.
            let _ =
                if right { write!(line, "{gap}{text:>width$}") } else { write!(line, "{gap}{text:<width$}") };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    };
    let right =
        |at: usize| cells.iter().all(|row| row.get(at).is_none_or(|(text, right)| *right || text.is_empty()));
    line(
        &mut columns
            .iter()
            .map(|(at, title, width)| ((*title).to_owned(), right(*at) && !cells.is_empty(), *width)),
    );
    for row in &cells {
        line(&mut columns.iter().map(|(at, _, width)| {
            let (text, right) = row.get(*at).cloned().unwrap_or_default();
            (text, right, *width)
        }));
    }
    out
}

/// The text of a field, and whether it is a number.
fn cell(value: &Value) -> (String, bool) {
    match value {
        Value::Null => (String::new(), false),
        Value::String(text) => (printable(text), false),
        Value::Number(number) => (number.to_string(), true),
        Value::Bool(true) => ("yes".to_owned(), false),
        Value::Bool(false) => ("no".to_owned(), false),
        other => (printable(&other.to_string()), false),
    }
}

/// A text without characters that could move the cursor or reverse the text after them. Names come from the callers of the server.
pub(super) fn printable(text: &str) -> String {
    escaped(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_stand_right_and_empty_columns_are_left_out() {
        let rows = [json!({ "sku": "a", "n": 5 }), json!({ "sku": "longer\n", "n": 12_000 })];
        let columns = [Column("SKU", "sku"), Column("UNITS", "n"), Column("NONE", "none")];
        let shown = table(&columns, &rows.iter().collect::<Vec<_>>());
        assert_eq!(shown, "SKU       UNITS\na             5\nlonger\\n  12000\n");
        assert_eq!(table(&columns, &[]), "SKU  UNITS  NONE\n");
        assert_eq!(printable("a\u{202e}b\u{1b}größe"), "a\\u202eb\\u001bgröße");
    }
}
