//! Sale windows and units that are not there yet, in the model.

use super::{Model, Record};
use stockhold_domain::{
    AdjustStock, Instant, ItemKey, Label, Line, LineDetails, Mode, Rejection, RequestedLine, SaleWindow,
    SetStock, Settings, limits,
};

impl Model {
    /// What refuses to sell an item at this instant: its pause, or that its sale has not begun or is over.
    pub(super) fn no_sale_of(&self, key: &ItemKey, now: Instant) -> Option<Rejection> {
        if let Some(scope) = self.pause_of(key) {
            return Some(Rejection::SalePaused(scope));
        }
        let settings = &self.known(key).settings;
        let item = key.clone();
        if let Some(end) = settings.sale_ends_at.filter(|end| now >= *end) {
            return Some(Rejection::OutsideSaleWindow { item, window: SaleWindow::Ended(end) });
        }
        let start = settings.sale_starts_at.filter(|start| now < *start)?;
        Some(Rejection::OutsideSaleWindow { item, window: SaleWindow::NotStarted(start) })
    }

    /// Whether a line of a counted item would get units that are not there, beside those that its reservation has.
    pub(super) fn would_be_late(&self, line: &RequestedLine, own: u32, pool: Option<&Label>) -> bool {
        let record = self.known(&line.item);
        let kept = i128::from(record.settings.safety_stock) + self.set_aside(&record);
        let general = (record.total - self.sold(&line.item) - self.held(&line.item) - kept).max(0);
        let there = self.with_pool(&record, pool, general);
        record.mode == Mode::Counted && there + i128::from(own) < i128::from(line.quantity)
    }

    /// The details of a line that has `quantity` units now, and was `own` before.
    pub(super) fn late_units(
        &self,
        key: &ItemKey,
        own: Option<&Line>,
        quantity: u32,
        pool: Option<&Label>,
    ) -> Option<Box<LineDetails>> {
        let before = own.map(|line| line.details().clone()).unwrap_or_default();
        let had = own.map_or(0, |line| line.quantity);
        let mut late = i128::from(before.backordered);
        let mut promised_at = before.promised_at;
        if quantity <= had {
            late = (late - i128::from(had - quantity)).max(0);
        } else {
            let record = self.known(key);
            // What is drawn from a pool was promised before.
            let general = i128::from(quantity - had) - self.with_pool(&record, pool, 0);
            let came = general.max(0);
            let beyond = self.sold(key) + self.held(key) + self.set_aside(&record) + came - record.total;
            if beyond > 0 {
                late += came.min(beyond);
                promised_at = date_of(&record, beyond);
            }
        }
        line_details(late, promised_at)
    }

    /// The settings of an item once a delivery has arrived.
    pub(super) fn settings_after(&self, asked: &AdjustStock) -> Result<Settings, Rejection> {
        let mut settings = self.known(&asked.item).settings;
        let Some(id) = &asked.supply_id else { return Ok(settings) };
        if asked.delta < 1 {
            return Err(super::invalid("/delta"));
        }
        let mut supplies = settings.incoming.to_vec();
        let Some(supply) = supplies.iter_mut().find(|supply| supply.id == *id) else {
            return Err(Rejection::UnknownSupply { item: asked.item.clone(), supply_id: id.clone() });
        };
        supply.quantity = supply.quantity.saturating_sub(asked.delta.unsigned_abs());
        supplies.retain(|supply| supply.quantity != 0);
        settings.incoming = supplies.into();
        Ok(settings)
    }
}

/// What is wrong with settings together, or with settings of an item whose units have ids.
pub(super) fn expect_setting_that_fits(mode: Mode, settings: &Settings) -> Result<(), Rejection> {
    if let (Some(start), Some(end)) = (settings.sale_starts_at, settings.sale_ends_at)
        && start >= end
    {
        return Err(super::invalid("/sale_ends_at"));
    }
    if mode == Mode::Units && settings.oversell_allowance > 0 {
        return Err(super::invalid("/oversell_allowance"));
    }
    if mode == Mode::Units && !settings.incoming.is_empty() {
        return Err(super::invalid("/incoming"));
    }
    if mode == Mode::Units && settings.stock_master.is_some() {
        return Err(super::invalid("/stock_master"));
    }
    if mode == Mode::Units && settings.gated {
        return Err(super::invalid("/gated"));
    }
    Ok(())
}

/// What is wrong with the deliveries and the allowance that a command sets.
pub(super) fn expect_sound(asked: &SetStock) -> Result<(), Rejection> {
    if asked.oversell_allowance.is_some_and(|units| units > limits::TOTAL_UNITS) {
        return Err(super::invalid("/oversell_allowance"));
    }
    super::prices::expect_sound(asked)?;
    let supplies = asked.incoming.as_deref().unwrap_or_default();
    if supplies.len() > limits::SUPPLIES {
        return Err(super::invalid("/incoming"));
    }
    for (n, supply) in supplies.iter().enumerate() {
        if supply.quantity == 0 || supply.quantity > limits::TOTAL_UNITS {
            return Err(super::invalid(&format!("/incoming/{n}/quantity")));
        }
        if supplies[..n].iter().any(|other| other.id == supply.id) {
            return Err(super::invalid(&format!("/incoming/{n}/supply_id")));
        }
    }
    Ok(())
}

/// The details of two parts of a line: the part that leaves with `count` units, and the one that stays.
pub(super) fn split_late(line: &Line, count: u32) -> (Option<Box<LineDetails>>, Option<Box<LineDetails>>) {
    let late = line.details().backordered;
    let moved = late.min(count);
    let date = line.details().promised_at;
    (line_details(moved.into(), date), line_details((late - moved).into(), date))
}

/// The details of two lines together.
pub(super) fn add_late(line: &Line, more: &Line) -> Option<Box<LineDetails>> {
    let parts: Vec<&LineDetails> =
        [line.details(), more.details()].into_iter().filter(|part| part.backordered > 0).collect();
    let dates: Option<Vec<Instant>> = parts.iter().map(|part| part.promised_at).collect();
    let late = parts.iter().map(|part| i128::from(part.backordered)).sum();
    line_details(late, dates.and_then(|dates| dates.into_iter().max()))
}

fn line_details(late: i128, promised_at: Option<Instant>) -> Option<Box<LineDetails>> {
    let backordered = u32::try_from(late).expect("no more than a line has");
    (backordered > 0).then(|| Box::new(LineDetails { backordered, promised_at, ..LineDetails::default() }))
}

/// The first date by which deliveries bring this many units.
fn date_of(record: &Record, units: i128) -> Option<Instant> {
    let supplies = &record.settings.incoming;
    let dates = supplies.iter().map(|supply| supply.available_from);
    let by = |date: Instant| -> i128 {
        let here = supplies.iter().filter(|supply| supply.available_from <= date);
        here.map(|supply| i128::from(supply.quantity)).sum()
    };
    dates.filter(|date| by(*date) >= units).min()
}
