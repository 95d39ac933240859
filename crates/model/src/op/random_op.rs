//! Random [`Op`]s.

use super::Op;
use super::change_op::ChangeOp;
use super::source_op::SourceOp;
use super::terms_op::TermsOp;
use crate::random::Random;

/// Times to live: short ones that fall due within a history, the default, and one above the maximum.
pub const TTLS: [u32; 8] = [1, 2, 3, 10, 60, 600, 1_800, 1_801];

impl Op {
    /// A random op.
    pub fn random(random: &mut Random) -> Self {
        let key = random.one_in(3).then(|| random.byte());
        let hold = random.byte();
        let ttl = random.pick(&TTLS);
        match random.below(40) {
            0..=7 => Self::Reserve {
                lines: lines(random),
                ttl: (!random.one_in(4)).then_some(ttl),
                partial: random.one_in(3),
                key,
            },
            8..=10 => Self::Confirm { hold, order: random.one_in(2).then(|| random.byte()), key },
            11..=13 => Self::Release { hold, key },
            14 => Self::Sweep,
            15 => Self::Retry { sent: random.byte() },
            16..=17 => Self::SetStock {
                item: random.byte(),
                total: (!random.one_in(8)).then(|| random.byte() % 16),
                safety_stock: random.one_in(3).then(|| random.byte() % 4),
                default_ttl: random.one_in(3).then(|| if random.one_in(4) { 0 } else { ttl }),
                max_hold: random.one_in(3).then(|| if random.one_in(4) { 0 } else { random.pick(&TTLS) }),
                expected: random.one_in(4).then(|| random.byte()),
            },
            18..=19 => Self::Extend { hold, ttl, key },
            20..=21 => Self::Return { hold, lines: random.one_in(2).then(|| lines(random)), key },
            22 => Self::AdjustStock {
                item: random.byte(),
                delta: random.byte().cast_signed() % 6,
                expected: random.one_in(4).then(|| random.byte()),
                key,
            },
            23 => Self::DeleteItem {
                item: random.byte(),
                expected: random.one_in(4).then(|| random.byte()),
                key,
            },
            24 => Self::SetSale { scope: random.byte(), paused: random.one_in(3) },
            25..=32 => Self::Change(ChangeOp::random(random)),
            35..=36 => Self::Terms(TermsOp::random(random)),
            37..=39 => Self::Source(SourceOp::random(random)),
            _ => Self::SetRecord {
                record: random.byte(),
                version: random.byte(),
                value: (!random.one_in(4)).then(|| random.byte()),
                change: random.byte(),
                key,
            },
        }
    }
}

impl Op {
    /// Any op for a history with units with ids. See [`OpContext::with_unit_item`].
    pub fn random_with_unit_item(random: &mut Random) -> Self {
        let key = random.one_in(4).then(|| random.byte());
        match random.below(20) {
            0..=6 => Self::ReserveUnits {
                count: random.byte(),
                how: random.byte(),
                which: random.byte(),
                counted: random.one_in(4),
                ttl: random.pick(&TTLS),
                partial: random.one_in(3),
                key,
            },
            7 => Self::AddUnits {
                row: random.byte(),
                first: random.byte(),
                count: random.byte(),
                placed: !random.one_in(4),
            },
            8 => Self::RetireUnit { row: random.byte(), seat: random.byte() },
            9..=10 => Self::ReturnUnits { hold: random.byte(), which: random.byte(), key },
            11..=12 => Self::Terms(TermsOp::random_of_units(random)),
            _ => Self::random(random),
        }
    }
}

pub(super) fn lines(random: &mut Random) -> Vec<(u8, u8)> {
    let lines = 1 + random.below(4);
    let quantity = |random: &mut Random| if random.one_in(60) { u8::MAX } else { 1 + random.byte() % 5 };
    (0..lines).map(|_| (random.byte() % 3 + u8::from(random.one_in(20)), quantity(random))).collect()
}
