//! Reserves in small numbers of which some lines have a source.

use super::random_op::{TTLS, lines};
use super::{OpContext, buyer};
use crate::maker::{label, quantity_of, reserve_of, seconds};
use crate::random::Random;
use stockhold_domain::{
    Basket, BasketLine, Command, Fulfilment, ItemKey, Label, RequestedLine, Reserve, Source, Strategy,
};

/// A reserve in small numbers. See [`SourceOp::command`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceOp {
    /// (item, quantity). The item is used by lines without a source.
    pub lines: Vec<(u8, u8)>,
    /// Selects the locations and the strategy of each line, in turn. One of four lines has no source.
    pub which: u8,
    /// Seconds.
    pub ttl: Option<u32>,
    /// Partial fulfilment.
    pub partial: bool,
    /// The key, one of a few.
    pub key: Option<u8>,
}

/// The places of locations that a line names, in its order. The last one stocks nothing.
const ORDERS: [&[usize]; 8] =
    [&[0, 1, 2], &[2, 0, 1], &[1, 0], &[3, 2, 1, 0], &[1], &[0, 3, 1], &[3], &[2, 1]];
/// One of so many lines names an item whose units have ids, if there is one.
const UNIT_LINES: u8 = 16;

impl SourceOp {
    /// A random op.
    pub fn random(random: &mut Random) -> Self {
        Self {
            lines: lines(random),
            which: random.byte(),
            ttl: (!random.one_in(3)).then(|| random.pick(&TTLS)),
            partial: random.one_in(3),
            key: random.one_in(3).then(|| random.byte()),
        }
    }

    /// The command, about the items of a history.
    pub(super) fn command(&self, context: &OpContext) -> Command {
        let all: Vec<BasketLine> =
            self.lines.iter().zip(0..).map(|(line, number)| self.line(context, *line, number)).collect();
        let units: u32 = self.lines.iter().map(|(_, units)| u32::from(*units)).sum();
        let plain = reserve_of(&[(context.item(0), 1)]);
        Command::Reserve(Reserve {
            checkout: None,
            basket: Basket::with_sources(all).unwrap_or(plain.basket.clone()),
            ttl: self.ttl.map(|ttl| seconds(u64::from(ttl))),
            fulfilment: if self.partial { Fulfilment::Partial } else { Fulfilment::All },
            terms: buyer(units),
            override_limits: units.is_multiple_of(7),
        })
    }

    fn line(&self, context: &OpContext, (item, quantity): (u8, u8), number: u8) -> BasketLine {
        let which = self.which.wrapping_add(number.wrapping_mul(37));
        let quantity = quantity_of(quantity);
        if which.is_multiple_of(4) {
            let line = RequestedLine { item: context.item(item).clone(), quantity };
            return BasketLine { line, selection: None, source: None };
        }
        let locations = context.source_locations();
        let order = ORDERS[usize::from(which / 4) % ORDERS.len()];
        let named: Vec<Label> = order.iter().map(|place| locations[*place].clone()).collect();
        let strategy = match which % 4 {
            1 => Strategy::Priority,
            2 => Strategy::MostStock,
            _ => Strategy::Single,
        };
        let of_units = context.unit_item().filter(|_| which % UNIT_LINES == 1);
        let sku = sku_of(of_units.unwrap_or(context.item(0)));
        let source = Source::new(&sku, &named, strategy).expect("locations that are a source");
        let line = RequestedLine { item: source.items()[0].clone(), quantity };
        BasketLine { line, selection: None, source: Some(source) }
    }
}

fn sku_of(item: &ItemKey) -> Label {
    label(item.sku())
}
