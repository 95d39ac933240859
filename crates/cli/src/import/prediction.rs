//! What a dry run remembers of a file's rows, so that it judges a row as the import would after the rows before it. It takes 50 to
//! 150 bytes for each row, whatever the length of the row.

use super::apply::RowOutcome;
use super::row::{COUNTED, ItemRow, UNITS};
use super::units::UNITS_PER_REQUEST;
use serde_json::Value;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// The first 16 bytes of a BLAKE3 hash: enough that different texts of a file differ in them.
type ContentDigest = [u8; 16];

fn digest(parts: &[&str]) -> ContentDigest {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        // The length separates a part from the next one.
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    let mut digest = ContentDigest::default();
    hasher.finalize_xof().fill(&mut digest);
    digest
}

/// What earlier rows would have made of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PredictedItem {
    /// Created, with counted units.
    Counted,
    /// Created, with units that have ids.
    Units,
    /// Changed, in its present mode.
    Changed,
}

impl PredictedItem {
    /// The mode of the item, if an earlier row would have created it.
    pub(super) fn mode(self) -> Option<&'static str> {
        match self {
            Self::Counted => Some(COUNTED),
            Self::Units => Some(UNITS),
            Self::Changed => None,
        }
    }
}

/// The items that rows would create or change.
#[derive(Default)]
pub(super) struct PredictedItems(HashMap<ContentDigest, PredictedItem>);

impl PredictedItems {
    /// What the rows before would have made of the item of this row.
    pub(super) fn before(&self, row: &ItemRow) -> Option<PredictedItem> {
        self.0.get(&digest(&[&row.location, &row.sku])).copied()
    }

    /// Records the predicted outcome of a row.
    pub(super) fn note(&mut self, row: &ItemRow, fate: &RowOutcome) {
        let earlier = match fate {
            RowOutcome::Created if row.is_of_units() => PredictedItem::Units,
            RowOutcome::Created => PredictedItem::Counted,
            RowOutcome::Updated => PredictedItem::Changed,
            RowOutcome::Unchanged | RowOutcome::Rejected(_) => return,
        };
        // An item that would be created stays created after a change.
        self.0.entry(digest(&[&row.location, &row.sku])).or_insert(earlier);
    }
}

/// The units that rows would add.
#[derive(Default)]
pub(super) struct PredictedUnits {
    seen: HashMap<ContentDigest, UnitRecord>,
    taken: usize,
}

struct UnitRecord {
    line: u64,
    /// The number of its request.
    request: usize,
    /// Digest of everything except the position.
    content: ContentDigest,
    position: Option<u64>,
}

impl UnitRecord {
    fn new(line: u64, request: usize, unit: &Value) -> Self {
        let content = ["section", "row", "number", "attributes"].map(|field| unit[field].to_string());
        let content = digest(&content.each_ref().map(String::as_str));
        Self { line, request, content, position: unit["position"].as_u64() }
    }

    /// Whether the server would accept a later unit as the same unit.
    fn is_again(&self, later: &Self) -> bool {
        let same =
            self.content == later.content && (later.position.is_none() || later.position == self.position);
        same && self.request != later.request
    }
}

impl PredictedUnits {
    /// Records a unit, or returns why the server would refuse it. The server accepts the same unit again, but not within one request.
    pub(super) fn take(&mut self, line: u64, unit: &Value) -> Result<(), String> {
        let id = unit["unit_id"].as_str().unwrap_or_default();
        let unit = UnitRecord::new(line, self.taken / UNITS_PER_REQUEST, unit);
        self.taken += 1;
        match self.seen.entry(digest(&[id])) {
            Entry::Vacant(place) => {
                place.insert(unit);
                Ok(())
            }
            Entry::Occupied(first) if first.get().is_again(&unit) => Ok(()),
            Entry::Occupied(first) => {
                Err(format!("is named in line {} already, {id:?}: it would be refused", first.get().line))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_unit_that_is_named_again() {
        let mut units = PredictedUnits::default();
        let unit = |id: u64, row: &str| json!({ "unit_id": id.to_string(), "row": row, "position": id });
        assert_eq!(units.take(2, &unit(0, "A")), Ok(()));
        assert!(units.take(3, &unit(0, "A")).unwrap_err().contains("line 2"), "within one request");
        for id in 1..UNITS_PER_REQUEST as u64 {
            units.take(id + 3, &unit(id, "A")).unwrap();
        }
        assert_eq!(units.take(5_000, &unit(0, "A")), Ok(()), "another request, and the same");
        assert_eq!(units.take(5_000, &json!({ "unit_id": "0", "row": "A" })), Ok(()), "it stays where it is");
        assert!(units.take(5_001, &unit(1, "B")).is_err(), "another request, and another unit");
    }
}
