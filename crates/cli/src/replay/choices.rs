//! What a replay with `--carts` does with each order.
//!
//! The name of the order decides everything, so a repeated replay sends the same requests.

use std::collections::BTreeMap;
use stockhold_api::wire::{Disposition, ReturnFrom};

/// Hexadecimal digits of an order's digest in the id of a payment.
const PAYMENT_DIGITS: usize = 16;

/// Units by SKU.
pub(super) type Units = BTreeMap<String, u64>;

/// The choices of one order. Each one reads its own byte of a digest.
pub(super) struct OrderChoices(blake3::Hash);

/// How the units of a sale leave the shelf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FulfilmentChoice {
    /// All in one parcel.
    Whole,
    /// In two parcels.
    TwoParts,
    /// The first of two parcels; the rest stays on the shelf.
    FirstPart,
    /// Nothing is shipped.
    Nothing,
}

impl OrderChoices {
    /// The choices of an order.
    pub(super) fn of(order: &str) -> Self {
        Self(blake3::hash(order.as_bytes()))
    }

    /// Whether a guest holds the cart and logs in later.
    pub(super) fn transferred(&self) -> bool {
        self.byte(0).is_multiple_of(4)
    }

    /// Whether the cart is split into two.
    pub(super) fn split(&self) -> bool {
        self.byte(1).is_multiple_of(4)
    }

    /// Whether a cart that was split is merged again.
    pub(super) fn merged(&self) -> bool {
        self.byte(2).is_multiple_of(3)
    }

    /// Whether it is paid in a payment window.
    pub(super) fn paid(&self) -> bool {
        self.byte(3).is_multiple_of(2)
    }

    /// Whether the first payment is declined.
    pub(super) fn declined_first(&self) -> bool {
        self.byte(4).is_multiple_of(4)
    }

    /// How it is shipped.
    pub(super) fn fulfilment(&self) -> FulfilmentChoice {
        match self.byte(5) % 8 {
            0..=3 => FulfilmentChoice::Whole,
            4 | 5 => FulfilmentChoice::TwoParts,
            6 => FulfilmentChoice::FirstPart,
            _ => FulfilmentChoice::Nothing,
        }
    }

    /// The id of a payment of one of the order's reservations. An order's name may be as long as an id, so the id has a
    /// digest of it.
    pub(super) fn payment_id(&self, part: usize, attempt: usize) -> String {
        let digest: String = self.0.to_hex().chars().take(PAYMENT_DIGITS).collect();
        format!("pay-{digest}-{part}-{attempt}")
    }

    fn byte(&self, place: usize) -> u8 {
        self.0.as_bytes().get(place).copied().unwrap_or_default()
    }
}

/// The part of a cart that is split off: the second half of the SKUs, or half of the only one. `None` when one unit is
/// all.
pub(super) fn second_half(lines: &Units) -> Option<Units> {
    let half = match lines.iter().next() {
        Some((sku, units)) if lines.len() == 1 => [(sku.clone(), units / 2)].into(),
        _ => lines
            .iter()
            .skip(lines.len().div_ceil(2))
            .map(|(sku, units)| (sku.clone(), *units))
            .collect::<Units>(),
    };
    half.values().any(|units| *units > 0).then_some(half)
}

/// The first of two parcels: half of each SKU, rounded up.
pub(super) fn first_parcel(lines: &Units) -> Units {
    lines.iter().map(|(sku, units)| (sku.clone(), units.div_ceil(2))).collect()
}

/// What a returned line is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReturnChoice {
    /// The units that come first. `None` leaves it to the server.
    pub(super) prefer: Option<ReturnFrom>,
    /// What becomes of them.
    pub(super) disposition: Disposition,
}

impl ReturnChoice {
    /// The choice of a line of a cancellation.
    pub(super) fn of(order: &str, line: usize) -> Self {
        let digest = blake3::hash(format!("{order} {line}").as_bytes());
        let [prefer, disposition, ..] = digest.as_bytes();
        Self {
            prefer: match prefer % 3 {
                0 => None,
                1 => Some(ReturnFrom::Fulfilled),
                _ => Some(ReturnFrom::Unfulfilled),
            },
            disposition: if disposition.is_multiple_of(4) {
                Disposition::WriteOff
            } else {
                Disposition::Restock
            },
        }
    }
}

/// Units of one SKU that were sold and did not come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SoldUnits {
    /// How many.
    pub(super) left: u64,
    /// Those of them that have left the shelf.
    pub(super) fulfilled: u64,
}

/// One request that returns units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReturnPart {
    /// How many.
    pub(super) units: u64,
    /// Those of them that had left the shelf.
    pub(super) fulfilled: u64,
    /// What the request names.
    pub(super) from: Option<ReturnFrom>,
    /// What becomes of them.
    pub(super) disposition: Disposition,
}

impl SoldUnits {
    /// Takes units back, at most those that are left: one request, or one for each kind of units.
    pub(super) fn take(&mut self, units: u64, choice: ReturnChoice) -> Vec<ReturnPart> {
        let units = units.min(self.left);
        let unfulfilled = self.left - self.fulfilled;
        let fulfilled_first = units.min(self.fulfilled);
        let fulfilled_last = units.saturating_sub(unfulfilled);
        let all =
            ReturnPart { units, fulfilled: fulfilled_last, from: None, disposition: choice.disposition };
        let of_fulfilled =
            |units| ReturnPart { units, fulfilled: units, from: Some(ReturnFrom::Fulfilled), ..all };
        let of_unfulfilled =
            |units| ReturnPart { units, fulfilled: 0, from: Some(ReturnFrom::Unfulfilled), ..all };
        let mut parts = match choice.prefer {
            None => vec![all],
            Some(ReturnFrom::Fulfilled) => {
                vec![of_fulfilled(fulfilled_first), of_unfulfilled(units - fulfilled_first)]
            }
            Some(ReturnFrom::Unfulfilled) => {
                vec![of_unfulfilled(units - fulfilled_last), of_fulfilled(fulfilled_last)]
            }
        };
        parts.retain(|part| part.units > 0);
        self.left -= units;
        self.fulfilled -= parts.iter().map(|part| part.fulfilled).sum::<u64>();
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(lines: &[(&str, u64)]) -> Units {
        lines.iter().map(|(sku, units)| ((*sku).to_owned(), *units)).collect()
    }

    #[test]
    fn a_split_leaves_something_on_both_sides() {
        assert_eq!(second_half(&units(&[("a", 1)])), None);
        assert_eq!(second_half(&units(&[("a", 5)])), Some(units(&[("a", 2)])));
        assert_eq!(second_half(&units(&[("a", 1), ("b", 1), ("c", 9)])), Some(units(&[("c", 9)])));
        assert_eq!(first_parcel(&units(&[("a", 1), ("b", 5)])), units(&[("a", 1), ("b", 3)]));
    }

    #[test]
    fn returned_units_are_taken_from_what_is_there() {
        let sold = SoldUnits { left: 10, fulfilled: 6 };
        let take = |prefer, units| {
            let mut sold = sold;
            let parts = sold.take(units, ReturnChoice { prefer, disposition: Disposition::Restock });
            let parts: Vec<_> = parts.iter().map(|part| (part.from, part.units, part.fulfilled)).collect();
            (parts, sold.left, sold.fulfilled)
        };
        let (fulfilled, unfulfilled) = (Some(ReturnFrom::Fulfilled), Some(ReturnFrom::Unfulfilled));
        assert_eq!(take(None, 3), (vec![(None, 3, 0)], 7, 6));
        assert_eq!(take(None, 7), (vec![(None, 7, 3)], 3, 3));
        assert_eq!(take(fulfilled, 4), (vec![(fulfilled, 4, 4)], 6, 2));
        assert_eq!(take(fulfilled, 8), (vec![(fulfilled, 6, 6), (unfulfilled, 2, 0)], 2, 0));
        assert_eq!(take(unfulfilled, 8), (vec![(unfulfilled, 4, 0), (fulfilled, 4, 4)], 2, 2));
        assert_eq!(take(unfulfilled, 11), (vec![(unfulfilled, 4, 0), (fulfilled, 6, 6)], 0, 0));
    }
}
