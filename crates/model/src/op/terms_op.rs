//! Commands in small numbers about the terms on which items are sold: how far an item may be oversold, when it is sold, which deliveries it
//! expects, and limits.

use super::{OpContext, seat_id};
use crate::maker::START;
use crate::maker::{
    by_sections, delete_limit, delete_pool, label, put_into_pool, seconds, set_limit, set_pool,
    set_pool_of_units, stock_of, take_out_of_pool,
};
use crate::random::Random;
use stockhold_domain::{
    AdjustStock, Command, Currency, Discount, Instant, Label, LimitTarget, LimitTerms, LimitedUnits, Patch,
    PoolTerms, Price, Reduction, SetStock, SubjectKind, Supply,
};

/// Microseconds between the instants at which sales begin and end, and deliveries come.
const STEP: i64 = 300_000_000;
/// The number of the item whose units have ids.
const UNIT_ITEM: u8 = 5;
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
        /// Selects whether it is gated.
        gated: Option<u8>,
        /// Selects its price.
        price: Option<u8>,
        /// Selects who owns its total.
        master: Option<u8>,
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
    /// Set or delete a pool of an item.
    Pool {
        /// Which item.
        item: u8,
        /// Which pool, of a few.
        pool: u8,
        /// Its units. Without it, it is deleted.
        units: Option<u8>,
        /// Selects how it is released, and whether general stock follows it.
        which: u8,
    },
    /// Put units with ids into a pool, or take them out of one. In a history without them, of a counted item.
    UnitPool {
        /// Which pool, of a few.
        pool: u8,
        /// The row of the first unit.
        row: u8,
        /// Its seat.
        seat: u8,
        /// Selects how many units, or sections, and whether they are taken out.
        which: u8,
    },
    /// Set or delete a limit.
    Limit {
        /// Which limit, of a few.
        limit: u8,
        /// Its most units. Without it, it is deleted.
        most: Option<u8>,
        /// Selects its items, its channels, and for whom it counts.
        which: u8,
    },
}

impl TermsOp {
    /// A random op.
    pub fn random(random: &mut Random) -> Self {
        if random.one_in(3) {
            // Most leave enough that a history goes on.
            let most = (!random.one_in(3)).then(|| random.byte() % 32);
            return Self::Limit { limit: random.byte(), most, which: random.byte() };
        }
        if random.one_in(3) {
            let units = (!random.one_in(3)).then(|| random.byte() % 6);
            return Self::Pool { item: random.byte(), pool: random.byte(), units, which: random.byte() };
        }
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
            gated: random.one_in(4).then(|| random.byte()),
            price: (!random.one_in(3)).then(|| random.byte()),
            master: random.one_in(2).then(|| random.byte()),
        }
    }

    /// A random op about pools of units with ids.
    pub fn random_of_units(random: &mut Random) -> Self {
        if random.one_in(4) {
            let units = (!random.one_in(3)).then(|| random.byte() % 6);
            // The last of the items of a history is the one whose units have ids.
            return Self::Pool { item: UNIT_ITEM, pool: random.byte(), units, which: random.byte() };
        }
        let (pool, row, seat) = (random.byte(), random.byte(), random.byte());
        Self::UnitPool { pool, row, seat, which: random.byte() }
    }

    pub(super) fn key(&self) -> Option<u8> {
        match self {
            Self::Set { .. } | Self::Limit { .. } | Self::Pool { .. } | Self::UnitPool { .. } => None,
            Self::Receive { key, .. } => *key,
        }
    }

    /// The command, about the items of a history.
    pub(super) fn command(&self, context: &OpContext) -> Command {
        match self {
            Self::Set { item, allowance, window, supplies, gated, price, master } => {
                Command::SetStock(SetStock {
                    total_units: None,
                    oversell_allowance: allowance.map(u64::from),
                    gated: gated.map_or(Patch::Keep, gate),
                    price: price.map_or(Patch::Keep, price_of),
                    stock_master: master.map_or(Patch::Keep, master_of),
                    sale_starts_at: window.map_or(Patch::Keep, |(start, _)| edge(start)),
                    sale_ends_at: window.map_or(Patch::Keep, |(_, end)| edge(end)),
                    incoming: supplies.map(|count| (0..count).map(supply).collect()),
                    ..stock_of(context.item(*item), 0)
                })
            }
            Self::Receive { item, delta, supply, .. } => Command::AdjustStock(AdjustStock {
                item: context.item(*item).clone(),
                delta: i64::from(*delta),
                reason: label("received"),
                supply_id: Some(supply_id(*supply)),
                override_owner: false,
                expected: None,
            }),
            Self::Pool { item, pool, units, which } => {
                let (item, pool) = (context.item(*item), pool_name(*pool));
                match units {
                    Some(units) if context.unit_item() == Some(item) && !units.is_multiple_of(5) => {
                        set_pool_of_units(item, pool.as_str(), pool_terms(*units, *which))
                    }
                    Some(units) => set_pool(item, pool.as_str(), pool_terms(*units, *which)),
                    None => delete_pool(item, pool.as_str()),
                }
            }
            Self::UnitPool { pool, row, seat, which } => {
                let item = context.unit_item().unwrap_or_else(|| context.item(*row));
                let ids: Vec<Label> = (0..=which % 5).map(|n| seat_id(*row, seat.wrapping_add(n))).collect();
                let ids: Vec<&str> = ids.iter().map(Label::as_str).collect();
                let make = if which.is_multiple_of(4) { take_out_of_pool } else { put_into_pool };
                let command = make(item, pool_name(*pool).as_str(), &ids);
                let sections = [&["stalls"][..], &["balcony"], &["balcony", "pit"], &["balcony", "stalls"]];
                match which / 8 % 8 {
                    choice @ 0..4 => by_sections(command, sections[usize::from(choice)]),
                    _ => command,
                }
            }
            Self::Limit { limit, most, which } => {
                let id = context.limit(*limit);
                match most {
                    Some(most) => set_limit(&id, limit_terms(context, *most, *which)),
                    None => delete_limit(&id),
                }
            }
        }
    }
}

/// What a limit of a history says: about one item, about the first two, or about all at its second location.
fn limit_terms(context: &OpContext, most: u8, which: u8) -> LimitTerms {
    let location = || Label::new(context.item(2).location()).expect("a location is a label");
    LimitTerms {
        targets: match which % 3 {
            0 => [LimitTarget::Item(context.item(which / 3).clone())].into(),
            1 => [0, 1].map(|item| LimitTarget::Item(context.item(item).clone())).into(),
            _ => [LimitTarget::Location(location())].into(),
        },
        channels: if which.is_multiple_of(5) { [label("web")].into() } else { [].into() },
        per: [None, Some(SubjectKind::Customer), Some(SubjectKind::Owner)][usize::from(which / 8 % 3)],
        limit: most.into(),
        counts: if which.is_multiple_of(4) { LimitedUnits::Held } else { LimitedUnits::HeldAndSold },
    }
}

/// One of a few pools.
pub(super) fn pool_name(pool: u8) -> Label {
    label(["vip", "press"][usize::from(pool % 2)])
}

fn pool_terms(units: u8, which: u8) -> PoolTerms {
    PoolTerms {
        allocated: units.into(),
        fallback: !which.is_multiple_of(3),
        releases_at: which.is_multiple_of(4).then(|| later(which / 4 % 8)),
        idle_release: which.is_multiple_of(5).then(|| seconds(1 + u64::from(which))),
    }
}

fn edge(steps: u8) -> Patch<Instant> {
    if steps == 0 { Patch::Clear } else { Patch::Set(later(steps)) }
}

fn gate(which: u8) -> Patch<bool> {
    [Patch::Set(true), Patch::Set(false), Patch::Clear][usize::from(which % 3)]
}

/// Most items are owned by the service, so that a history goes on.
fn master_of(which: u8) -> Patch<Label> {
    match which % 8 {
        0 => Patch::Set(label("erp")),
        1 => Patch::Set(label("pos")),
        _ => Patch::Clear,
    }
}

/// Most prices have one currency, so that a history goes on.
fn price_of(which: u8) -> Patch<Box<Price>> {
    if which.is_multiple_of(16) {
        return Patch::Clear;
    }
    let discounts = [
        Discount {
            reduction: Reduction::Percent(1 + which % 100),
            from: None,
            to: None,
            channels: [].into(),
        },
        Discount {
            reduction: Reduction::AmountOff(1 + u64::from(which / 2)),
            from: Some(later(which % 3)),
            to: None,
            channels: [].into(),
        },
        Discount {
            reduction: Reduction::Percent(50),
            from: None,
            to: Some(later(which % 5)),
            channels: [label("web")].into(),
        },
    ];
    let currency = if which.is_multiple_of(17) { "eur" } else { "usd" };
    Patch::Set(Box::new(Price {
        unit_amount: u64::from(which) * 37 % 1_000,
        currency: Currency::new(currency).expect("three letters"),
        discounts: discounts[..usize::from(which % 4)].into(),
    }))
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
