//! Units with ids as their readers see them.

use super::form;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use stockhold_domain::ReservationId;

/// How many units of an item, or which: one of `quantity` and `units` at least, and `units` beside none of the others.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Wish {
    /// How many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantity: Option<u64>,
    /// These, by their ids.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<String>,
    /// The best that are side by side in one row.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub adjacent: bool,
    /// Only of these sections, in order of preference.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<String>,
    /// Where one run can't be had: several, of at least so many units each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_together: Option<u64>,
    /// Only units that have all of these.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub attributes: Map<String, Value>,
}

/// A unit as it is added.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PostedUnit {
    /// Its id.
    pub unit_id: String,
    /// Its place in the order of claims; behind the last one when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Part of the hall.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    /// Row of the section.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<String>,
    /// What is painted on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<String>,
    /// What it is like.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub attributes: Map<String, Value>,
}

/// What became of units that were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct UnitsAdded {
    /// Units that are new.
    pub added: u64,
    /// Units that were there, and the same.
    pub unchanged: u64,
    /// Units that exist now.
    pub total_units: u64,
    /// The item's version.
    pub version: u64,
}

/// A unit with an id.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Unit {
    /// Its id.
    pub unit_id: String,
    /// Its place in the order of claims.
    pub position: u64,
    /// Part of the hall.
    pub section: Option<String>,
    /// Row of the section.
    pub row: Option<String>,
    /// What is painted on it.
    pub number: Option<String>,
    /// What it is like.
    #[serde(default)]
    pub attributes: Map<String, Value>,
    /// Where it stands.
    pub status: Stands,
    /// The pool that it is set aside for, or was drawn from.
    pub pool: Option<String>,
    /// The reservation that has it.
    #[serde(default, deserialize_with = "form::optional_id")]
    pub reservation_id: Option<ReservationId>,
    /// Its transitions so far.
    pub version: u64,
}

/// Where every unit of an item stands.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SeatMap {
    /// What.
    pub sku: String,
    /// Where.
    pub location: String,
    /// The item's version: the layout is another when it is.
    pub version: u64,
    /// Units that exist.
    pub count: usize,
    /// Units that are free for everyone.
    pub available: u64,
    /// Units that are held.
    pub held: u64,
    /// Units that are sold.
    pub sold: u64,
    /// Units that are free in pools only.
    pub set_aside: u64,
    /// Two bits for each unit, in base64; see [`SeatMap::stands`].
    pub states: String,
    /// The units themselves, if they were requested.
    pub layout: Option<SeatLayout>,
}

/// The units of a seat map, in columns.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SeatLayout {
    /// The rows there are.
    pub rows: Vec<SeatRow>,
    /// The units' ids.
    pub unit_ids: Vec<String>,
    /// Which of the rows each is in.
    pub row_of: Vec<usize>,
    /// The units' positions.
    pub positions: Vec<u64>,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SeatRow {
    /// Part of the hall.
    pub section: Option<String>,
    /// Row of the section.
    pub row: Option<String>,
}

/// Where a unit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stands {
    /// It can be reserved.
    Available,
    /// It is held.
    Held,
    /// It is sold.
    Sold,
    /// It can be reserved with its pool only. Seat maps say this, and lists of units name the pool.
    SetAside,
}

impl SeatMap {
    /// Where each unit stands, in the order of the layout. What can't be read is left out.
    pub fn stands(&self) -> Vec<Stands> {
        const BITS_OF_DIGIT: u32 = 6;
        let digits = self.states.bytes().map_while(|digit| match digit {
            b'A'..=b'Z' => Some(u32::from(digit - b'A')),
            b'a'..=b'z' => Some(u32::from(digit - b'a') + 26),
            b'0'..=b'9' => Some(u32::from(digit - b'0') + 52),
            b'+' => Some(62),
            b'/' => Some(63),
            _ => None,
        });
        let (mut bits, mut count) = (0_u32, 0);
        let mut all = Vec::with_capacity(self.count);
        for digit in digits {
            bits = bits << BITS_OF_DIGIT | digit;
            count += BITS_OF_DIGIT;
            if count < 8 {
                continue;
            }
            count -= 8;
            let byte = bits >> count & 0xff;
            all.extend((0..4).map(|n| match byte >> (2 * n) & 3 {
                0 => Stands::Available,
                1 => Stands::Held,
                2 => Stands::Sold,
                _ => Stands::SetAside,
            }));
        }
        all.truncate(self.count);
        all
    }
}
