//! The commands of operators in the model: set and adjust stock, pause and resume.

use super::{Model, Record, invalid};
use stockhold_domain::{
    AdjustStock, DeleteItem, Instant, Item, ItemKey, Mode, Patch, Precondition, Rejection, Reply, Scope,
    SetSale, SetStock, Settings, limits,
};

impl Model {
    pub(super) fn set_stock(&mut self, asked: &SetStock, now: Instant) -> Result<Reply, Rejection> {
        if asked.total_units.is_some() && asked.shelf.is_some() {
            return Err(invalid("/on_hand"));
        }
        super::backorders::expect_sound(asked)?;
        if asked.total_units.is_some_and(|total| total > limits::TOTAL_UNITS) {
            return Err(invalid("/total_units"));
        }
        if asked.shelf.is_some_and(|shelf| {
            shelf.on_hand.saturating_add(shelf.fulfilled_seen.unwrap_or(0)) > limits::TOTAL_UNITS
        }) {
            return Err(invalid("/on_hand"));
        }
        self.expect(&asked.item, asked.expected.as_ref())?;
        let before = self.item(&asked.item);
        let mode = before.as_ref().map_or(asked.mode.unwrap_or(Mode::Counted), |item| item.mode);
        if asked.mode.is_some_and(|asked| asked != mode) {
            return Err(Rejection::ModeMismatch { item: asked.item.clone(), mode });
        }
        let there = before.as_ref().map_or(0, |item| item.figures.total_units);
        let total = match (mode, self.counted_total(asked)?) {
            (Mode::Counted, Some(total)) => i128::from(total),
            (Mode::Counted, None) if before.is_some() => i128::from(there),
            (Mode::Units, total) if total.is_none_or(|total| total == there) => i128::from(there),
            (Mode::Units, _) if before.is_some() => {
                return Err(Rejection::ModeMismatch { item: asked.item.clone(), mode });
            }
            _ => return Err(invalid("/total_units")),
        };
        let nothing = Settings::default();
        let settings = settings(before.as_ref().map_or(&nothing, |item| &item.settings), asked);
        super::backorders::expect_setting_that_fits(mode, &settings)?;
        let Some(before) = before else {
            self.records.push(Record {
                key: asked.item.clone(),
                mode,
                total,
                seats: Vec::new(),
                settings,
                pools: Vec::new(),
                version: now.micros().max(1).cast_unsigned(),
                sequence: u64::from(mode == Mode::Counted),
                at: now,
                created_at: now,
            });
            return Ok(self.item_reply(&asked.item, true));
        };
        let moves = total != i128::from(before.figures.total_units);
        if moves && settings.stock_master == before.settings.stock_master {
            expect_own_total(&before, asked.override_owner)?;
        }
        if moves || settings != *before.settings {
            self.expect_room(&asked.item, total, settings.oversell_allowance)?;
            let record = self.record(&asked.item);
            record.total = total;
            record.settings = settings;
            record.version += 1;
            self.turn(&asked.item, now);
        }
        Ok(self.item_reply(&asked.item, false))
    }

    pub(super) fn adjust_stock(&mut self, asked: &AdjustStock, now: Instant) -> Result<Reply, Rejection> {
        self.expect(&asked.item, asked.expected.as_ref())?;
        let Some(before) = self.item(&asked.item) else {
            return Err(Rejection::UnknownItem(vec![asked.item.clone()]));
        };
        if before.mode == Mode::Units {
            return Err(Rejection::ModeMismatch { item: asked.item.clone(), mode: before.mode });
        }
        expect_own_total(&before, asked.override_owner)?;
        let settings = self.settings_after(asked)?;
        let total = i128::from(before.figures.total_units) + i128::from(asked.delta);
        if total > i128::from(limits::TOTAL_UNITS) {
            return Err(invalid("/delta"));
        }
        self.expect_room(&asked.item, total, settings.oversell_allowance)?;
        let record = self.record(&asked.item);
        record.total = total;
        record.settings = settings;
        record.version += 1;
        self.turn(&asked.item, now);
        Ok(self.item_reply(&asked.item, false))
    }

    pub(super) fn delete_item(&mut self, asked: &DeleteItem, now: Instant) -> Result<Reply, Rejection> {
        self.expect(&asked.item, asked.expected.as_ref())?;
        if self.item(&asked.item).is_none() {
            return Err(Rejection::UnknownItem(vec![asked.item.clone()]));
        }
        for (deadline, id) in self.active(&asked.item) {
            if deadline <= now {
                self.expire(id, now);
            }
        }
        let item = self.item(&asked.item).expect("an item that exists");
        let units = self.record(&asked.item).seats.len() as u64;
        let (confirmed_sold, held) = (item.figures.confirmed_sold, item.figures.held);
        if confirmed_sold + held + units > 0 {
            return Err(Rejection::ItemInUse { confirmed_sold, held, units });
        }
        self.records.retain(|record| record.key != asked.item);
        self.paused.retain(|scope| *scope != Scope::Item(asked.item.clone()));
        Ok(Reply::ItemDeleted)
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

    pub(super) fn expect(&self, key: &ItemKey, expected: Option<&Precondition>) -> Result<(), Rejection> {
        let version = self.item(key).map(|item| item.version);
        let as_expected = match expected {
            None => true,
            Some(Precondition::Absent) => version.is_none(),
            Some(Precondition::Exists) => version.is_some(),
            Some(Precondition::VersionIn(any)) => any.iter().any(|one| version == Some(*one)),
        };
        if as_expected { Ok(()) } else { Err(Rejection::PreconditionFailed { version }) }
    }

    /// A total with its allowance may not fall below what is sold and held, and the total not below what has left the shelf. Safety
    /// stock is not promised to anybody, so it does not count.
    fn expect_room(&self, key: &ItemKey, total: i128, allowance: u64) -> Result<(), Rejection> {
        let figures = self.item(key).expect("an item that exists").figures;
        let aside = self.set_aside(&self.known(key));
        let promised = i128::from(figures.confirmed_sold) + i128::from(figures.held) + aside;
        let left_the_shelf = i128::from(figures.fulfilled);
        let lower = total < i128::from(figures.total_units) && total < self.allocated(key);
        if total + i128::from(allowance) < promised || total < left_the_shelf || lower {
            return Err(self.below_committed(key));
        }
        Ok(())
    }

    fn item_reply(&self, key: &ItemKey, created: bool) -> Reply {
        Reply::Item { item: self.item(key).expect("an item that exists"), created }
    }
}

/// The total of an item belongs to its stock master, if it has one.
fn expect_own_total(item: &Item, overrides: bool) -> Result<(), Rejection> {
    match &item.settings.stock_master {
        Some(stock_master) if !overrides => {
            Err(Rejection::StockOwnedElsewhere { item: item.key.clone(), stock_master: stock_master.clone() })
        }
        _ => Ok(()),
    }
}

/// Settings that are not given keep their values.
fn settings(before: &Settings, asked: &SetStock) -> Settings {
    let mut after = before.clone();
    if let Some(safety_stock) = asked.safety_stock {
        after.safety_stock = safety_stock;
    }
    set(&mut after.default_ttl, &asked.default_ttl);
    set(&mut after.max_hold, &asked.max_hold);
    set(&mut after.max_payment, &asked.max_payment);
    set(&mut after.metadata, &asked.metadata);
    set(&mut after.sale_starts_at, &asked.sale_starts_at);
    set(&mut after.sale_ends_at, &asked.sale_ends_at);
    set(&mut after.price, &asked.price);
    set(&mut after.low_stock, &asked.low_stock);
    set(&mut after.stock_master, &asked.stock_master);
    after.oversell_allowance = asked.oversell_allowance.unwrap_or(after.oversell_allowance);
    match asked.gated {
        Patch::Keep => {}
        Patch::Clear => after.gated = false,
        Patch::Set(gated) => after.gated = gated,
    }
    if let Some(supplies) = &asked.incoming {
        let mut supplies = supplies.to_vec();
        supplies.sort_by_key(|supply| supply.available_from);
        after.incoming = supplies.into();
    }
    after
}

fn set<T: Clone>(setting: &mut Option<T>, asked: &Patch<T>) {
    match asked {
        Patch::Keep => {}
        Patch::Clear => *setting = None,
        Patch::Set(value) => *setting = Some(value.clone()),
    }
}
