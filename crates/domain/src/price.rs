//! Prices: what one unit costs, discounts, and the amount of a line. Amounts are whole numbers of the currency's smallest unit, such as
//! cents. Nothing here converts a currency.

use crate::label::Label;
use crate::limits::AMOUNT;
use crate::time::Instant;
use alloc::boxed::Box;
use core::fmt;

/// A currency: the three letters of its ISO 4217 code, in lower case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency([u8; 3]);

impl Currency {
    /// Reads three letters in any case. `None` if the text is anything else.
    pub fn new(code: &str) -> Option<Self> {
        let letters: [u8; 3] = code.as_bytes().try_into().ok()?;
        letters
            .iter()
            .all(u8::is_ascii_alphabetic)
            .then(|| Self(letters.map(|letter| letter.to_ascii_lowercase())))
    }

    /// The three letters.
    pub fn as_str(&self) -> &str {
        // Letters of ASCII are UTF-8.
        core::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Currency({})", self.as_str())
    }
}

/// What an item costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    /// Amount of one unit, at most [`crate::limits::UNIT_AMOUNT`].
    pub unit_amount: u64,
    /// The currency.
    pub currency: Currency,
    /// At most [`crate::limits::DISCOUNTS`]. The one that takes off most applies. They never add up.
    pub discounts: Box<[Discount]>,
}

/// A discount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discount {
    /// What it takes off.
    pub reduction: Reduction,
    /// When it begins. `None`: it has begun.
    pub from: Option<Instant>,
    /// When it ends. At this instant it does not apply any more. `None`: it does not end.
    pub to: Option<Instant>,
    /// The channels that it is for, at most [`crate::limits::DISCOUNT_CHANNELS`]. Empty means all, and reservations without a channel.
    pub channels: Box<[Label]>,
}

/// What a discount takes off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// So many hundredths of the line's total, 1 to 100. The result is rounded half up, once for the line.
    Percent(u8),
    /// This amount of each unit, but never more than the unit costs.
    AmountOff(u64),
}

/// What a line costs. It is written when the units are reserved, and a later price does not change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinePrice {
    /// Amount of one unit before discounts. `None` if units of the line have different ones.
    pub unit_amount: Option<u64>,
    /// What a discount takes off the line, together.
    pub discount: u64,
    /// What the line costs: its units at their amounts, less the discount.
    pub amount: u64,
    /// The currency.
    pub currency: Currency,
}

impl Price {
    /// What so many units cost at this instant in this channel.
    pub fn of_units(&self, quantity: u32, channel: Option<&Label>, now: Instant) -> LinePrice {
        let full = u128::from(self.unit_amount) * u128::from(quantity);
        let taken_off = |discount: &Discount| match discount.reduction {
            Reduction::Percent(percent) => (full * u128::from(percent) + 50) / 100,
            Reduction::AmountOff(amount) => u128::from(amount.min(self.unit_amount)) * u128::from(quantity),
        };
        let applies = |discount: &&Discount| discount.applies(channel, now);
        let discount = self.discounts.iter().filter(applies).map(taken_off).max().unwrap_or(0).min(full);
        LinePrice {
            unit_amount: Some(self.unit_amount),
            discount: clamped(discount),
            amount: clamped(full - discount),
            currency: self.currency,
        }
    }
}

impl Discount {
    fn applies(&self, channel: Option<&Label>, now: Instant) -> bool {
        let is_for =
            self.channels.is_empty() || channel.is_some_and(|channel| self.channels.contains(channel));
        is_for && self.from.is_none_or(|from| from <= now) && self.to.is_none_or(|to| now < to)
    }
}

impl LinePrice {
    /// The share of `units` of the line's `quantity` units. Both of its amounts are rounded half up.
    #[must_use]
    pub fn share(&self, units: u32, quantity: u32) -> Self {
        let part = |amount: u128| match u128::from(quantity) {
            0 => 0,
            quantity => (amount * u128::from(units) * 2 + quantity) / (2 * quantity),
        };
        let discount = part(u128::from(self.discount));
        // The full amount is what is rounded, so that a unit amount stays exact.
        let full = part(u128::from(self.discount) + u128::from(self.amount));
        Self {
            discount: clamped(discount.min(full)),
            amount: clamped(full.saturating_sub(discount)),
            ..self.clone()
        }
    }

    /// What is left without a share of it.
    #[must_use]
    pub fn less(&self, share: &Self) -> Self {
        Self {
            discount: self.discount.saturating_sub(share.discount),
            amount: self.amount.saturating_sub(share.amount),
            ..self.clone()
        }
    }

    /// Both together. `None` if their currencies differ.
    pub fn plus(&self, more: &Self) -> Option<Self> {
        (self.currency == more.currency).then(|| Self {
            unit_amount: self.unit_amount.filter(|amount| more.unit_amount == Some(*amount)),
            discount: self.discount.saturating_add(more.discount),
            amount: self.amount.saturating_add(more.amount),
            currency: self.currency,
        })
    }

    /// What lines cost together. `None` if there is no line, or if one has no price.
    pub fn sum<'a>(lines: impl IntoIterator<Item = Option<&'a Self>>) -> Option<Self> {
        let mut lines = lines.into_iter();
        let first = lines.next()??.clone();
        lines.try_fold(first, |sum, price| sum.plus(price?))
    }

    /// Whether its full amount is within [`AMOUNT`].
    pub fn is_in_range(&self) -> bool {
        self.discount.saturating_add(self.amount) <= AMOUNT
    }
}

fn clamped(amount: u128) -> u64 {
    u64::try_from(amount).unwrap_or(u64::MAX)
}
