//! Commands in small numbers about the terms on which an item is sold: how far it may be oversold, when it is sold, and which deliveries
//! it expects.

use super::START;
use super::maker::{label, stock_of};
use super::op::OpContext;
use crate::random::Random;
use stockhold_domain::{AdjustStock, Command, Instant, Label, Patch, SetStock, Supply};

/// Microseconds between the instants at which sales begin and end, and deliveries come.
const STEP: i64 = 300_000_000;
/// Expected deliveries of one item, at most.
const SUPPLIES: u8 = 4;

/// A command about the terms of sale in small numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TermsOp {
    /// Set the terms of an item. What is absent stays.
    Set {
        /// Which item.
        item: u8,
        /// Units beyond the total.
        allowance: Option<u8>,
        /// Begin and end of its sale, in steps after the start of the history. 0 clears.
        window: Option<(u8, u8)>,
        /// Number of expected deliveries.
        supplies: Option<u8>,
    },
    /// Receive an expected delivery.
    Receive {
        /// Which item.
        item: u8,
        /// Units that arrived.
        delta: i8,
        /// Which delivery.
        supply: u8,
        /// The key, one of a few.
        key: Option<u8>,
    },
}

impl TermsOp {
    /// A random op.
    pub fn random(random: &mut Random) -> Self {
        if random.one_in(3) {
            return Self::Receive {
                item: random.byte(),
                delta: random.byte().cast_signed() % 6,
                supply: random.byte(),
                key: random.one_in(3).then(|| random.byte()),
            };
        }
        Self::Set {
            item: random.byte(),
            allowance: (!random.one_in(3)).then(|| random.byte() % 6),
            // Most have no end, so that a history goes on.
            window: random
                .one_in(6)
                .then(|| (random.byte() % 3, random.byte() % 64 / 2 * u8::from(random.one_in(3)))),
            supplies: random.one_in(2).then(|| random.byte() % (SUPPLIES + 1)),
        }
    }

    pub(super) fn key(&self) -> Option<u8> {
        match self {
            Self::Set { .. } => None,
            Self::Receive { key, .. } => *key,
        }
    }

    /// The command, about the items of a history.
    pub(super) fn command(&self, context: &OpContext) -> Command {
        match self {
            Self::Set { item, allowance, window, supplies } => Command::SetStock(SetStock {
                total_units: None,
                oversell_allowance: allowance.map(u64::from),
                sale_starts_at: window.map_or(Patch::Keep, |(start, _)| edge(start)),
                sale_ends_at: window.map_or(Patch::Keep, |(_, end)| edge(end)),
                incoming: supplies.map(|count| (0..count).map(supply).collect()),
                ..stock_of(context.item(*item), 0)
            }),
            Self::Receive { item, delta, supply, .. } => Command::AdjustStock(AdjustStock {
                item: context.item(*item).clone(),
                delta: i64::from(*delta),
                reason: label("received"),
                supply_id: Some(supply_id(*supply)),
                expected: None,
            }),
        }
    }
}

fn edge(steps: u8) -> Patch<Instant> {
    if steps == 0 { Patch::Clear } else { Patch::Set(later(steps)) }
}

fn later(steps: u8) -> Instant {
    Instant::from_micros(START.micros() + i64::from(steps) * STEP)
}

/// The later deliveries come first in the list, and two of them on one day.
fn supply(number: u8) -> Supply {
    let quantity = 1 + u64::from(number);
    Supply { id: supply_id(number), quantity, available_from: later((SUPPLIES - number) / 2) }
}

fn supply_id(number: u8) -> Label {
    label(&format!("supply-{}", number % SUPPLIES))
}
