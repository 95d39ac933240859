//! The lines of a reservation as answers show them.

use super::Stock;
use serde_json::Value;
use std::collections::BTreeSet;

/// One item of a known reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownLine {
    pub(super) sku: usize,
    pub(super) requested: u64,
    pub(super) quantity: u64,
    /// Sold units that have left the shelf and did not come back.
    pub(super) fulfilled: u64,
    pub(super) returned: u64,
    /// The ids of its units, where they have any.
    pub(super) units: Vec<KnownUnit>,
}

/// A unit with an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownUnit {
    pub(super) id: String,
    pub(super) version: u64,
    pub(super) fulfilled: bool,
    pub(super) returned: bool,
}

impl KnownLine {
    /// Units that are sold, of a confirmed reservation.
    pub(super) fn sold(&self) -> u64 {
        self.quantity - self.returned
    }

    /// Sold units that have not left the shelf.
    pub(super) fn unfulfilled(&self) -> u64 {
        self.sold() - self.fulfilled
    }

    /// The ids of its units.
    pub(super) fn ids(&self) -> BTreeSet<&str> {
        self.units.iter().map(|unit| unit.id.as_str()).collect()
    }

    /// Whether it may have become the other: the same units, none of them moved back.
    pub(super) fn leads_to(&self, next: &Self) -> bool {
        let of = |line: &Self| {
            (line.sku, line.requested, line.quantity, line.fulfilled, line.returned, line.units.len())
        };
        let units = self.units.iter().zip(&next.units);
        of(self) == of(next)
            && units.into_iter().all(|(unit, next)| {
                unit.id == next.id
                    && unit.version <= next.version
                    && unit.returned <= next.returned
                    && unit.fulfilled <= next.fulfilled
            })
    }

    /// Whether it has the same content as the other, whatever the versions of its units.
    pub(super) fn same_content(&self, other: &Self) -> bool {
        let of = |line: &Self| (line.sku, line.requested, line.quantity);
        of(self) == of(other) && self.ids() == other.ids()
    }
}

/// The lines of an answer in order of SKU.
pub(super) fn lines(answer: &Value, stock: &[Stock]) -> Result<Vec<KnownLine>, String> {
    let mut lines = Vec::new();
    for line in answer["lines"].as_array().ok_or("no lines")? {
        let sku = stock.iter().position(|stock| line["sku"] == *stock.sku).ok_or("an unknown SKU")?;
        let quantity = line["quantity"].as_u64().ok_or("no quantity")?;
        let requested = line["requested_quantity"].as_u64().ok_or("no requested_quantity")?;
        let fulfilled = line["fulfilled_quantity"].as_u64().unwrap_or(0);
        let returned = line["returned_quantity"].as_u64().unwrap_or(0);
        if quantity == 0 || quantity > requested || fulfilled + returned > quantity {
            return Err(format!("a line that does not add up: {line}"));
        }
        let units = units(line)?;
        let back = units.iter().filter(|unit| unit.returned).count() as u64;
        let left = units.iter().filter(|unit| unit.fulfilled && !unit.returned).count() as u64;
        if stock[sku].seats && (units.len() as u64, left, back) != (quantity, fulfilled, returned) {
            return Err(format!(
                "{quantity} units, {fulfilled} fulfilled, {returned} returned, and these ids: {}",
                line["units"]
            ));
        }
        lines.push(KnownLine { sku, requested, quantity, fulfilled, returned, units });
    }
    lines.sort_by_key(|line| line.sku);
    let sum: u64 = lines.iter().map(|line| line.quantity).sum();
    if answer["quantity"].as_u64() != Some(sum) {
        return Err(format!("quantity {} over lines of {sum}", answer["quantity"]));
    }
    Ok(lines)
}

fn units(line: &Value) -> Result<Vec<KnownUnit>, String> {
    let unit = |unit: &Value| {
        let id = unit["unit_id"].as_str().ok_or("a unit with no id")?.to_owned();
        let version = unit["version"].as_u64().ok_or("a unit with no version")?;
        let (fulfilled, returned) = (unit["fulfilled"] == true, unit["returned"] == true);
        Ok(KnownUnit { id, version, fulfilled, returned })
    };
    line["units"].as_array().into_iter().flatten().map(unit).collect()
}
