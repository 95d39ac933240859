//! CSV cells that a spreadsheet would take for a formula. A name that a caller of the server has chosen could run one on the machine of
//! the person who opens the file (<https://owasp.org/www-community/attacks/CSV_Injection>).

/// The mark before a cell that is made safe.
const MARK: char = '\'';

/// Whether a spreadsheet may take a cell for a formula, or the mark was part of it before.
fn is_marked(cell: &str) -> bool {
    cell.starts_with(['=', '+', '-', '@', '\t', '\r', MARK])
}

/// Whether a spreadsheet may take a cell for a formula. A number is none.
pub(super) fn is_formula(cell: &str) -> bool {
    is_marked(cell) && !cell.starts_with(MARK) && cell.parse::<f64>().is_err()
}

/// A cell that no spreadsheet takes for a formula.
pub(super) fn made_safe(cell: &str) -> String {
    if is_marked(cell) { format!("{MARK}{cell}") } else { cell.to_owned() }
}

/// The cell that was made safe.
pub(super) fn read_back(cell: &str) -> &str {
    match cell.strip_prefix(MARK) {
        Some(rest) if is_marked(rest) => rest,
        _ => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_that_was_made_safe_is_read_back() {
        for cell in ["=1+1", "+41", "-3", "@SUM(A1)", "\tx", "\rx", "'x", "'=x", "''", "'"] {
            let safe = made_safe(cell);
            assert_eq!(safe, format!("'{cell}"));
            assert_eq!(read_back(&safe), cell);
        }
        for cell in ["", "tea", "1.5", " =1", "a'b"] {
            assert_eq!(made_safe(cell), cell);
            assert_eq!(read_back(cell), cell);
        }
        // A cell of a file that was not made safe keeps an apostrophe of its own.
        assert_eq!(read_back("'s-hertogenbosch"), "'s-hertogenbosch");
        assert_eq!(["=1", "-3", "-x", "'=1", "a"].map(is_formula), [true, false, true, false, false]);
    }
}
