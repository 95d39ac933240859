//! Sourcing: which items give the units of a line that names several locations. It turns the basket of a reserve into one without
//! sources, in which every line is available and within the limits. The ordinary reserve goes on with that basket.

use super::grants::{Request, expire_until_it_fits, grant};
use super::hold::expire;
use super::limits::{LimitDecision, LimitPlan};
use super::pools::release_due;
use super::reserve::validate;
use super::sale_state::refusal_of_item;
use super::{CommandContext, DecideError};
use crate::basket::{Basket, RequestedLine};
use crate::command::{Fulfilment, Reserve};
use crate::id::ReservationId;
use crate::item::{Item, ItemKey, Mode};
use crate::label::Label;
use crate::limit::CounterKey;
use crate::limits::BASKET_LINES;
use crate::rejection::{Rejection, Shortage, UnavailableUnits};
use crate::source::{Source, Strategy};
use crate::state::State;
use crate::time::Instant;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// What becomes of a basket with sources.
pub(super) enum Resolved {
    /// A basket without sources.
    Basket {
        /// What each item gives.
        basket: Basket,
        /// The same lines, with what was requested of each.
        requested: Vec<RequestedLine>,
        /// The instant that applies to the whole request.
        at: Instant,
    },
    /// The reserve is refused.
    Refused(Rejection),
    /// The batch has no expiries left and more holds are due.
    Later,
}

/// Decides which items give the units of each line.
pub(super) fn resolve<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Reserve,
    now: Instant,
) -> Result<Resolved, DecideError> {
    let mut at = clamp_to_item_clocks(context, &command.basket, now)?;
    loop {
        let resolved = resolve_at(context, command, at)?;
        // An expired hold may span items with a later clock. The clock then moves, and more holds may be due.
        let clock = clamp_to_item_clocks(context, &command.basket, at)?;
        if clock == at || matches!(resolved, Resolved::Later) {
            return Ok(resolved);
        }
        at = clock;
    }
}

fn resolve_at<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Reserve,
    at: Instant,
) -> Result<Resolved, DecideError> {
    let givers = match givers_of(context, command, at)? {
        Ok(givers) => givers,
        Err(rejection) => return Ok(Resolved::Refused(rejection)),
    };
    let overrides = command.override_limits;
    let pairs = givers.iter().flatten().map(|item| (item, 1));
    let plan = match LimitPlan::new(context, pairs, &command.terms, overrides, |_| true)? {
        Ok(plan) => plan,
        Err(rejection) => return Ok(Resolved::Refused(rejection)),
    };
    if command.fulfilment == Fulfilment::All && !overrides {
        match judge_plain_lines(context, command, at)? {
            LimitDecision::Within(_) => {}
            LimitDecision::Refused(rejection) => return Ok(Resolved::Refused(rejection)),
            LimitDecision::Later => return Ok(Resolved::Later),
        }
    }
    for key in command.basket.items() {
        // A pool whose time has come is released before anything is drawn from it.
        if !release_due(context, key, at)? {
            return Ok(Resolved::Later);
        }
    }
    let fits = |choice: &Allocation| match command.fulfilment {
        Fulfilment::All => choice.complete,
        Fulfilment::Partial => !choice.lines.is_empty(),
    };
    let limits = Some(&plan).filter(|_| !overrides);
    let Some(mut choice) = Allocation::make(context, command, &givers, limits, at)? else {
        return Ok(Resolved::Later);
    };
    if !fits(&choice) && limits.is_some() {
        // Only limits are in the way if the request fits without them.
        let Some(unlimited) = Allocation::make(context, command, &givers, None, at)? else {
            return Ok(Resolved::Later);
        };
        if fits(&unlimited) {
            let (basket, _) = unlimited.into_basket(&command.basket);
            let plan = LimitPlan::of_request(
                context,
                &Request::new(&basket, command.terms.pool()),
                &command.terms,
                overrides,
            )?;
            let rejection = match plan {
                Ok(plan) => Rejection::LimitExceeded(plan.exceeded(context)?),
                Err(rejection) => rejection,
            };
            return Ok(Resolved::Refused(rejection));
        }
        choice = unlimited;
    }
    if !fits(&choice) {
        return Ok(Resolved::Refused(choice.into_shortage()));
    }
    let (basket, requested) = choice.into_basket(&command.basket);
    if basket.lines().len() > BASKET_LINES {
        let detail = format!(
            "must not take from more than {BASKET_LINES} items together, and would take from {}: send fewer lines",
            basket.lines().len()
        );
        return Ok(Resolved::Refused(Rejection::invalid("/lines", detail)));
    }
    Ok(Resolved::Basket { basket, requested, at })
}

/// The items that may give units to each line: those of its source that are stocked and sold at this instant. A line without a source
/// has its own. Or the first rejection that does not depend on stock.
fn givers_of<S: State>(
    context: &CommandContext<'_, S>,
    command: &Reserve,
    at: Instant,
) -> Result<Result<Vec<Vec<ItemKey>>, Rejection>, DecideError> {
    let basket = &command.basket;
    let (mut givers, mut placed) = (Vec::new(), Vec::new());
    for (number, line) in basket.lines().iter().enumerate() {
        if basket.source(number).is_none() {
            givers.push(vec![line.item.clone()]);
            placed.push((line.clone(), basket.selection(number).cloned()));
            continue;
        }
        let (mut sold, mut first_stocked) = (Vec::new(), None);
        for key in basket.items_of(number) {
            let Some(item) = context.state.item(key)? else { continue };
            if item.mode == Mode::Units {
                return Ok(Err(units_in_source(key)));
            }
            first_stocked = first_stocked.or(Some(key));
            if refusal_of_item(context, item, at)?.is_none() {
                sold.push(key.clone());
            }
        }
        // The line stands at one item, so that a refusal names the first that could have given.
        let place = sold.first().or(first_stocked).unwrap_or(&line.item).clone();
        placed.push((RequestedLine { item: place, quantity: line.quantity }, None));
        givers.push(sold);
    }
    let placed = Basket::unjoined(placed);
    match validate(context, &Request::new(&placed, command.terms.pool()), command.ttl, at)? {
        Ok(_) => Ok(Ok(givers)),
        Err(Rejection::UnknownItem(unknown)) => {
            let mut once: Vec<ItemKey> = Vec::with_capacity(unknown.len());
            for key in unknown {
                if !once.contains(&key) {
                    once.push(key);
                }
            }
            Ok(Err(Rejection::UnknownItem(once)))
        }
        Err(rejection) => Ok(Err(rejection)),
    }
}

fn units_in_source(key: &ItemKey) -> Rejection {
    let detail = format!(
        "must not have a source that names {:?} at {:?}: its units have ids, and a source gives counted stock only",
        key.sku(),
        key.location()
    );
    Rejection::invalid("/lines", detail)
}

/// Judges the lines without a source by limits, as a reserve of them alone does: a limit refuses them whatever the stock.
fn judge_plain_lines<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Reserve,
    at: Instant,
) -> Result<LimitDecision, DecideError> {
    let basket = &command.basket;
    let lines = basket.lines().iter().enumerate().filter(|(number, _)| basket.source(*number).is_none());
    let alone = Basket::unjoined(lines.map(|(_, line)| (line.clone(), None)).collect());
    if alone.lines().is_empty() {
        return Ok(LimitDecision::Within(None));
    }
    match LimitPlan::of_request(context, &Request::new(&alone, command.terms.pool()), &command.terms, false)?
    {
        Ok(plan) => plan.check(context, Fulfilment::All, false, at),
        Err(rejection) => Ok(LimitDecision::Refused(rejection)),
    }
}

/// What each item gives to the lines, decided in the order of the lines.
struct Allocation<'a> {
    /// The limits that are respected, by pairs: the givers of all lines, line by line.
    limits: Option<&'a LimitPlan>,
    /// The pool that the reserve names.
    pool: Option<Label>,
    at: Instant,
    /// What each item gives, in the order in which they were first chosen.
    lines: Vec<ChosenLine>,
    by_item: BTreeMap<ItemKey, usize>,
    /// Units that are taken from what limits leave.
    counted: BTreeMap<CounterKey, u64>,
    /// Whether every line gets all of its units.
    complete: bool,
    short: Vec<Shortage>,
    taken: Vec<UnavailableUnits>,
}

struct ChosenLine {
    item: ItemKey,
    /// Units that it gives to all lines. Where units have ids: the units that are requested.
    units: u64,
    /// Units that lines lack of which it is the first giver.
    missing: u64,
    /// The number of the line whose unit selection applies.
    selected_by: Option<usize>,
}

impl<'a> Allocation<'a> {
    /// Chooses for each line. `None` when the batch has no expiries left and more holds are due.
    fn make<S: State>(
        context: &mut CommandContext<'_, S>,
        command: &Reserve,
        givers: &[Vec<ItemKey>],
        limits: Option<&'a LimitPlan>,
        at: Instant,
    ) -> Result<Option<Self>, DecideError> {
        let mut choice = Self {
            limits,
            pool: command.terms.pool().cloned(),
            at,
            lines: Vec::new(),
            by_item: BTreeMap::new(),
            counted: BTreeMap::new(),
            complete: true,
            short: Vec::new(),
            taken: Vec::new(),
        };
        let mut pair = 0;
        for (number, (line, items)) in command.basket.lines().iter().zip(givers).enumerate() {
            let pairs: Vec<(usize, &ItemKey)> = (pair..).zip(items).collect();
            pair += items.len();
            let strategy = command.basket.source(number).map_or(Strategy::Priority, Source::strategy);
            let taken_before: Vec<u64> = items.iter().map(|item| choice.units_of(item)).collect();
            let has_ids = known(context, items.first().unwrap_or(&line.item))?.mode == Mode::Units;
            let given = match strategy {
                Strategy::Priority if has_ids => {
                    choice.give_units_with_ids(context, command, number, pair.saturating_sub(1))?
                }
                Strategy::Priority => choice.give_in_order(context, line.quantity, &pairs)?,
                Strategy::MostStock => choice.give_fullest_first(context, line.quantity, pairs)?,
                Strategy::Single => choice.give_from_one(context, command, line.quantity, &pairs)?,
            };
            let Some(given) = given else { return Ok(None) };
            if given < line.quantity {
                choice.complete = false;
                if !has_ids {
                    choice.note_shortage(context, line, items, &taken_before)?;
                }
            }
        }
        Ok(Some(choice))
    }

    /// Units of an item that the reserve can get, of what this function says of its general stock.
    fn available(&self, item: &Item, general: impl Fn(&Item) -> u64) -> u64 {
        item.available_through(self.pool.as_ref(), general)
    }

    /// Takes what each item has, in this order. Returns the number of units.
    fn give_in_order<S: State>(
        &mut self,
        context: &mut CommandContext<'_, S>,
        quantity: u64,
        pairs: &[(usize, &ItemKey)],
    ) -> Result<Option<u64>, DecideError> {
        let (mut needed, mut first) = (quantity, None);
        for (pair, item) in pairs {
            if needed == 0 {
                break;
            }
            let Some(units) = self.offered(context, *pair, item, needed)? else { return Ok(None) };
            if units > 0 {
                let place = self.take(*pair, item, units);
                first = first.or(Some(place));
                needed -= units;
            }
        }
        self.note_missing(first, needed);
        Ok(Some(quantity - needed))
    }

    /// The same, from the item with the most units to the one with the fewest. Due holds of all of them are expired first.
    fn give_fullest_first<S: State>(
        &mut self,
        context: &mut CommandContext<'_, S>,
        quantity: u64,
        mut pairs: Vec<(usize, &ItemKey)>,
    ) -> Result<Option<u64>, DecideError> {
        for (_, item) in &pairs {
            while let Some(id) = due(self.at, context.state.earliest(Some(item))?) {
                if !context.may_expire() {
                    return Ok(None);
                }
                expire(context, id, self.at)?;
            }
        }
        let mut stock = BTreeMap::new();
        for (pair, item) in &pairs {
            stock.insert(
                *pair,
                self.left_of(item, self.available(known(context, item)?, Item::available_now)),
            );
        }
        // The sort is stable, so items with as many units stay in the order given.
        pairs.sort_by_key(|(pair, _)| core::cmp::Reverse(stock.get(pair).copied()));
        self.give_in_order(context, quantity, &pairs)
    }

    /// Takes all units from the first item that can give them. If none can and the reserve is partial, takes what the item has that
    /// can give most.
    fn give_from_one<S: State>(
        &mut self,
        context: &mut CommandContext<'_, S>,
        command: &Reserve,
        quantity: u64,
        pairs: &[(usize, &ItemKey)],
    ) -> Result<Option<u64>, DecideError> {
        let mut best: Option<(u64, usize, &ItemKey)> = None;
        for (pair, item) in pairs {
            let Some(units) = self.offered(context, *pair, item, quantity)? else { return Ok(None) };
            if best.is_none_or(|(most, ..)| units > most) {
                best = Some((units, *pair, item));
            }
            if units == quantity {
                break;
            }
        }
        let Some((units, pair, item)) = best else { return Ok(Some(0)) };
        if units > 0 && (units == quantity || command.fulfilment == Fulfilment::Partial) {
            let place = self.take(pair, item, units);
            self.note_missing(Some(place), quantity - units);
            return Ok(Some(units));
        }
        Ok(Some(0))
    }

    /// Takes units with ids for the line with this number, which has no source. Which units it gets is decided later.
    fn give_units_with_ids<S: State>(
        &mut self,
        context: &mut CommandContext<'_, S>,
        command: &Reserve,
        number: usize,
        pair: usize,
    ) -> Result<Option<u64>, DecideError> {
        let Some(line) = command.basket.lines().get(number) else { return Ok(Some(0)) };
        let Some(most) = self.left_by_limits(context, pair, line.quantity)? else { return Ok(None) };
        let alone = Basket::unjoined(vec![(line.clone(), command.basket.selection(number).cloned())]);
        let request = Request::new(&alone, command.terms.pool());
        if expire_until_it_fits(context, &request, self.at)?.is_none() {
            return Ok(None);
        }
        let granted = grant(context, &request, command.fulfilment, &LimitPlan::default(), None)?;
        let units = match granted {
            Ok(granted) => granted.iter().map(|grant| grant.offer.quantity).sum(),
            Err(Rejection::UnitsUnavailable(taken)) => {
                self.taken.extend(taken);
                0
            }
            Err(Rejection::InsufficientInventory(short)) => {
                self.short.extend(short);
                0
            }
            Err(_) => 0,
        };
        let units = most.min(units);
        if units > 0 {
            let place = self.take(pair, &line.item, units);
            if let Some(chosen) = self.lines.get_mut(place) {
                chosen.units = line.quantity;
                chosen.selected_by = Some(number);
            }
        }
        Ok(Some(units))
    }

    /// The units that an item can give of those that are needed, after due holds that are in the way were expired. `None` when the
    /// batch has no expiries left and more holds are due.
    fn offered<S: State>(
        &self,
        context: &mut CommandContext<'_, S>,
        pair: usize,
        item: &ItemKey,
        needed: u64,
    ) -> Result<Option<u64>, DecideError> {
        let Some(most) = self.left_by_limits(context, pair, needed)? else { return Ok(None) };
        let wanted = needed.min(most);
        // The allowance is for units that are not there, so a due hold ends before units are backordered.
        while self.left_of(item, self.available(known(context, item)?, Item::available_now)) < wanted {
            let Some(id) = due(self.at, context.state.earliest(Some(item))?) else { break };
            if !context.may_expire() {
                return Ok(None);
            }
            expire(context, id, self.at)?;
        }
        Ok(Some(wanted.min(self.left_of(item, self.available(known(context, item)?, Item::available)))))
    }

    /// The units that limits leave to a pair, after due holds that they count were expired as far as units are needed. `None` when
    /// the batch has no expiries left and more holds are due.
    fn left_by_limits<S: State>(
        &self,
        context: &mut CommandContext<'_, S>,
        pair: usize,
        needed: u64,
    ) -> Result<Option<u64>, DecideError> {
        let Some(plan) = self.limits else { return Ok(Some(u64::MAX)) };
        let mut most = u64::MAX;
        for key in plan.keys(pair) {
            let counted = self.counted.get(key).copied().unwrap_or(0);
            loop {
                let left = plan.left(context, key)?.saturating_sub(counted);
                let first = if left < needed { context.state.earliest_counted(key)? } else { None };
                let Some(id) = due(self.at, first) else {
                    most = most.min(left);
                    break;
                };
                if !context.may_expire() {
                    return Ok(None);
                }
                expire(context, id, self.at)?;
            }
        }
        Ok(Some(most))
    }

    /// What is left of an item's units after what lines have taken.
    fn left_of(&self, item: &ItemKey, units: u64) -> u64 {
        units.saturating_sub(self.units_of(item))
    }

    /// Units that lines have taken of an item.
    fn units_of(&self, item: &ItemKey) -> u64 {
        let chosen = self.by_item.get(item).and_then(|place| self.lines.get(*place));
        chosen.map_or(0, |line| line.units)
    }

    /// Takes units of an item. Returns its place in `lines`.
    fn take(&mut self, pair: usize, item: &ItemKey, units: u64) -> usize {
        for key in self.limits.map(|plan| plan.keys(pair)).unwrap_or_default() {
            let counted = self.counted.entry(key.clone()).or_default();
            *counted = counted.saturating_add(units);
        }
        let place = *self.by_item.entry(item.clone()).or_insert(self.lines.len());
        match self.lines.get_mut(place) {
            Some(line) => line.units = line.units.saturating_add(units),
            None => {
                self.lines.push(ChosenLine { item: item.clone(), units, missing: 0, selected_by: None });
            }
        }
        place
    }

    /// Notes units that a line lacks at its first giver. A line that gets nothing is left out of the reservation.
    fn note_missing(&mut self, first: Option<usize>, missing: u64) {
        if let Some(line) = first.and_then(|place| self.lines.get_mut(place)) {
            line.missing = line.missing.saturating_add(missing);
        }
    }

    /// Notes what each giver of a line has for it beyond what earlier lines took, for the refusal.
    fn note_shortage<S: State>(
        &mut self,
        context: &CommandContext<'_, S>,
        line: &RequestedLine,
        items: &[ItemKey],
        taken_before: &[u64],
    ) -> Result<(), DecideError> {
        for (key, taken) in items.iter().zip(taken_before) {
            let available = self.available(known(context, key)?, Item::available).saturating_sub(*taken);
            self.short.push(Shortage {
                item: key.clone(),
                requested: line.quantity,
                available: available.min(line.quantity),
                next_expiry_at: context.state.earliest(Some(key))?.map(|(due, _)| due),
                unknown_sections: Vec::new(),
                approximate: false,
            });
        }
        Ok(())
    }

    fn into_shortage(self) -> Rejection {
        if self.taken.is_empty() {
            Rejection::InsufficientInventory(self.short)
        } else {
            Rejection::UnitsUnavailable(self.taken)
        }
    }

    /// The chosen lines as a basket, and with what was requested of each.
    fn into_basket(self, requested: &Basket) -> (Basket, Vec<RequestedLine>) {
        let (mut lines, mut shown) = (Vec::new(), Vec::new());
        for ChosenLine { item, units, missing, selected_by } in self.lines {
            let selection = selected_by.and_then(|number| requested.selection(number)).cloned();
            shown.push(RequestedLine { item: item.clone(), quantity: units.saturating_add(missing) });
            lines.push((RequestedLine { item, quantity: units }, selection));
        }
        (Basket::unjoined(lines), shown)
    }
}

/// The first of some holds if it is due.
fn due(at: Instant, first: Option<(Instant, ReservationId)>) -> Option<ReservationId> {
    first.filter(|(due, _)| *due <= at).map(|(_, id)| id)
}

fn known<'s, S: State>(context: &'s CommandContext<'_, S>, key: &ItemKey) -> Result<&'s Item, DecideError> {
    let item = context.state.item(key)?;
    item.ok_or(DecideError::InvariantViolated("an item disappeared while a command was decided"))
}

/// `now`, clamped to the clocks of all items that the basket names: time never runs backwards for an item.
fn clamp_to_item_clocks<S: State>(
    context: &CommandContext<'_, S>,
    basket: &Basket,
    now: Instant,
) -> Result<Instant, DecideError> {
    let mut at = now;
    for key in basket.items() {
        at = at.max(context.state.item(key)?.map_or(at, |item| item.figures.at));
    }
    Ok(at)
}
