//! The model's operators: set and adjust stock, pause and resume. As naive as the rest of it.

use super::{Model, Record, invalid};
use stockhold_domain::{
    AdjustStock, Instant, ItemKey, Mode, Rejection, Reply, Scope, SetSale, SetStock, Settings, limits,
};

impl Model {
    pub(super) fn set_stock(&mut self, asked: &SetStock, now: Instant) -> Result<Reply, Rejection> {
        if asked.mode == Some(Mode::Units) {
            return Err(invalid("/mode"));
        }
        if asked.total_units > limits::TOTAL_UNITS {
            return Err(invalid("/total_units"));
        }
        self.expect_version(&asked.item, asked.expected_version)?;
        let total = i128::from(asked.total_units);
        let Some(before) = self.item(&asked.item) else {
            self.records.push(Record {
                key: asked.item.clone(),
                total,
                settings: settings(&Settings::default(), asked),
                version: 1,
                sequence: 1,
                at: now,
                created_at: now,
            });
            return Ok(self.item_reply(&asked.item, true));
        };
        self.expect_room(&asked.item, total)?;
        let settings = settings(&before.settings, asked);
        if total != i128::from(before.figures.total_units) || settings != *before.settings {
            let record = self.record(&asked.item);
            record.total = total;
            record.settings = settings;
            record.version += 1;
            self.turn(&asked.item, now);
        }
        Ok(self.item_reply(&asked.item, false))
    }

    pub(super) fn adjust_stock(&mut self, asked: &AdjustStock, now: Instant) -> Result<Reply, Rejection> {
        self.expect_version(&asked.item, asked.expected_version)?;
        let Some(before) = self.item(&asked.item) else {
            return Err(Rejection::UnknownItem(vec![asked.item.clone()]));
        };
        let total = i128::from(before.figures.total_units) + i128::from(asked.delta);
        if total > i128::from(limits::TOTAL_UNITS) {
            return Err(invalid("/delta"));
        }
        self.expect_room(&asked.item, total)?;
        let record = self.record(&asked.item);
        record.total = total;
        record.version += 1;
        self.turn(&asked.item, now);
        Ok(self.item_reply(&asked.item, false))
    }

    pub(super) fn set_sale(&mut self, asked: &SetSale) -> Result<Reply, Rejection> {
        if let Scope::Item(key) = &asked.scope
            && self.item(key).is_none()
        {
            return Err(Rejection::UnknownItem(vec![key.clone()]));
        }
        self.paused.retain(|scope| *scope != asked.scope);
        if asked.paused {
            self.paused.push(asked.scope.clone());
        }
        Ok(Reply::Sale { paused: asked.paused })
    }

    fn expect_version(&self, key: &ItemKey, expected: Option<u64>) -> Result<(), Rejection> {
        let version = self.item(key).map(|item| item.version);
        match expected {
            Some(expected) if version != Some(expected) => Err(Rejection::PreconditionFailed { version }),
            _ => Ok(()),
        }
    }

    /// No total may fall below what is sold and held; safety stock is no promise.
    fn expect_room(&self, key: &ItemKey, total: i128) -> Result<(), Rejection> {
        let figures = self.item(key).expect("an item that exists").figures;
        if total < i128::from(figures.confirmed_sold) + i128::from(figures.held) {
            return Err(Rejection::BelowCommitted {
                confirmed_sold: figures.confirmed_sold,
                held: figures.held,
                total_units: figures.total_units,
            });
        }
        Ok(())
    }

    fn item_reply(&self, key: &ItemKey, created: bool) -> Reply {
        Reply::Item { item: self.item(key).expect("an item that exists"), created }
    }
}

/// Settings that are not named stay.
fn settings(before: &Settings, asked: &SetStock) -> Settings {
    let mut after = before.clone();
    if let Some(safety_stock) = asked.safety_stock {
        after.safety_stock = safety_stock;
    }
    if asked.default_ttl.is_some() {
        after.default_ttl = asked.default_ttl;
    }
    if asked.max_hold.is_some() {
        after.max_hold = asked.max_hold;
    }
    if asked.metadata.is_some() {
        after.metadata.clone_from(&asked.metadata);
    }
    after
}
