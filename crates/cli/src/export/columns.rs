//! The columns of CSV files and their order. They are part of the interface: new columns are only added at the end.

use serde_json::Value;

/// The columns of one kind of entry: its own fields, and the fields of its lines. Each line is a row.
pub(super) struct CsvColumns {
    own: &'static [&'static str],
    lines: &'static [&'static str],
}

impl CsvColumns {
    pub(super) const ITEMS: Self = Self {
        own: &[
            "sku",
            "location",
            "mode",
            "total_units",
            "safety_stock",
            "default_ttl_seconds",
            "max_hold_seconds",
            "metadata",
            "confirmed_sold",
            "held_units",
            "available",
            "active_reservations",
            "paused",
            "sequence",
            "version",
            "created_at",
            "updated_at",
            "max_payment_seconds",
            "fulfilled_units",
            "unfulfilled_units",
            "on_hand",
            "held_under_payment",
            "oversell_allowance",
            "sale_starts_at",
            "sale_ends_at",
            "incoming",
            "backordered",
            "available_now",
            "set_aside",
            "gated",
            "price",
            "low_stock",
            "stock_master",
        ],
        lines: &[],
    };

    /// `import --units` reads the first six, and the pool.
    pub(super) const UNITS: Self = Self {
        own: &[
            "unit_id",
            "section",
            "row",
            "number",
            "position",
            "attributes",
            "status",
            "reservation_id",
            "version",
            "pool",
        ],
        lines: &[],
    };

    pub(super) const POOLS: Self = Self {
        own: &[
            "sku",
            "location",
            "mode",
            "pool",
            "allocated",
            "held",
            "sold",
            "free",
            "fallback",
            "releases_at",
            "idle_release_seconds",
            "released_at",
        ],
        lines: &[],
    };

    pub(super) const LIMITS: Self = Self {
        own: &["limit_id", "items", "channels", "per", "limit", "counts", "generation", "version"],
        lines: &[],
    };

    pub(super) const RESERVATIONS: Self = Self {
        own: &[
            "reservation_id",
            "status",
            "owner_id",
            "created_at",
            "expires_at",
            "max_expires_at",
            "confirmed_at",
            "closed_at",
            "close_reason",
            "order_id",
            "channel",
            "customer_id",
            "session_id",
            "metadata",
            "version",
            "split_from",
            "merged_into",
            "replaces",
            "replaced_by",
            "pool",
        ],
        lines: &[
            "sku",
            "location",
            "quantity",
            "requested_quantity",
            "returned_quantity",
            "sequence",
            "units",
            "fulfilled_quantity",
            "backordered_quantity",
            "promised_at",
            "pool_quantity",
        ],
    };

    pub(super) const EVENTS: Self = Self {
        own: &[
            "position",
            "id",
            "type",
            "time",
            "reservation_id",
            "owner_id",
            "status",
            "order_id",
            "delta",
            "reason",
            "scope",
            "actor",
            "request_id",
            "payment_id",
            "supply_id",
        ],
        lines: &[
            "sku",
            "location",
            "quantity",
            "requested_quantity",
            "returned_quantity",
            "sequence",
            "total_units",
            "confirmed_sold",
            "held_units",
            "active_reservations",
            "fulfilled_quantity",
            "fulfilled_units",
            "held_under_payment",
            "backordered_quantity",
            "promised_at",
            "pool_quantity",
        ],
    };

    pub(super) fn header(&self) -> impl Iterator<Item = &'static str> {
        self.own.iter().chain(self.lines).copied()
    }

    /// The rows of an entry: one, or one for each of its lines.
    pub(super) fn rows(&self, entry: &str) -> Result<Vec<Vec<String>>, String> {
        let entry: Value = serde_json::from_str(entry).map_err(|error| format!("an entry: {error}"))?;
        let own: Vec<String> = self.own.iter().map(|field| cell(&entry[*field])).collect();
        let lines = if self.lines.is_empty() { None } else { entry["lines"].as_array() };
        let Some(lines) = lines.filter(|lines| !lines.is_empty()) else {
            // An event without lines may be about an item.
            return Ok(vec![
                own.into_iter().chain(self.lines.iter().map(|field| cell(&entry[*field]))).collect(),
            ]);
        };
        let row = |line: &Value| {
            own.iter().cloned().chain(self.lines.iter().map(|field| cell(&line[*field]))).collect()
        };
        Ok(lines.iter().map(row).collect())
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_basket_has_a_row_for_each_line() {
        let entry = r#"{"reservation_id":"r","status":"active","owner_id":"o","lines":[{"sku":"a","quantity":2},{"sku":"b","quantity":1}]}"#;
        let rows = CsvColumns::RESERVATIONS.rows(entry).unwrap();
        let width = CsvColumns::RESERVATIONS.header().count();
        assert!(rows.iter().all(|row| row.len() == width && row[0] == "r"));
        assert_eq!((rows[0][20].as_str(), rows[1][20].as_str()), ("a", "b"));
        let rows = CsvColumns::ITEMS.rows(r#"{"sku":"a","metadata":{"x":1},"paused":false}"#).unwrap();
        assert_eq!((rows.len(), rows[0][0].as_str(), rows[0][7].as_str()), (1, "a", "{\"x\":1}"));
    }
}
