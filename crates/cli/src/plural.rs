//! Numbers with their noun.

/// `1 row`, `2 rows`.
pub(super) fn counted(count: u64, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}
