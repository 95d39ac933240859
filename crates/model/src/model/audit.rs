//! Invariants of every committed state, and of two committed states that follow each other.

use super::NaiveState;
use std::collections::BTreeMap;
use stockhold_domain::{
    CounterKey, Hold, HoldDetails, Item, Label, LimitCounter, LineUnit, Mode, PaymentState, Record, Status,
    UnitIndex, UnitStatus,
};

/// Recounts a state: the counters of every item and limit from the reservations, and every reservation against its own terms.
pub fn audit(state: &NaiveState) -> Result<(), String> {
    for item in state.items.values() {
        count(state, item).map_err(|what| format!("{:?}: {what}: {:?}", item.key, item.figures))?;
        count_pools(state, item).map_err(|what| format!("{:?}: {what}: {:?}", item.key, item.pools))?;
        if item.mode == Mode::Units {
            count_units(state, item).map_err(|what| format!("{:?}: {what}: {:?}", item.key, item.figures))?;
        }
    }
    for hold in state.holds.values() {
        coherent(hold).map_err(|what| format!("reservation {}: {what}: {hold:?}", hold.id))?;
    }
    count_limits(state)
}

/// Every counter of a limit's current generation is the sum over the reservations that it counts.
fn count_limits(state: &NaiveState) -> Result<(), String> {
    let mut counted: BTreeMap<CounterKey, LimitCounter> = BTreeMap::new();
    for hold in state.holds.values() {
        for count in hold.lines.iter().flat_map(|line| &line.details().counted) {
            let sums = counted.entry(count.key.clone()).or_default();
            match hold.status {
                Status::Active => sums.held += u64::from(count.units),
                Status::Confirmed => sums.sold += u64::from(count.units),
                Status::Cancelled | Status::Expired => {}
            }
        }
    }
    counted.retain(|key, counter| *counter != LimitCounter::default() && state.limits.current(key).is_some());
    let found: BTreeMap<CounterKey, LimitCounter> = state.counters.iter().collect();
    if counted == found {
        return Ok(());
    }
    Err(format!("limits count {found:?}, their reservations {counted:?}"))
}

/// Checks that a state may follow another: terminal reservations do not change, and nothing runs backwards.
pub fn check_successor(before: &NaiveState, after: &NaiveState) -> Result<(), String> {
    for (key, item) in &before.items {
        // It may have been deleted, and made again: a model or a checker of events judges that.
        let Some(next) = after.items.get(key).filter(|next| !is_another(item, next)) else { continue };
        let figures = (item.figures.sequence, item.figures.at, item.version);
        let moved = (next.figures.sequence, next.figures.at, next.version);
        if moved.0 < figures.0 || moved.1 < figures.1 || moved.2 < figures.2 {
            return Err(format!("{key:?} ran backwards: {item:?} to {next:?}"));
        }
        let same_figures = next.figures.total_units == item.figures.total_units
            && next.figures.held == item.figures.held
            && next.figures.confirmed_sold == item.figures.confirmed_sold
            && next.figures.fulfilled == item.figures.fulfilled
            && next.figures.held_under_payment == item.figures.held_under_payment;
        if item.mode == Mode::Counted && moved.0 == figures.0 && !same_figures {
            return Err(format!("{key:?} changed without a transition: {item:?} to {next:?}"));
        }
    }
    for (id, hold) in &before.holds {
        let Some(next) = after.holds.get(id) else { return Err(format!("reservation {id} is gone")) };
        follows(hold, next).map_err(|what| format!("reservation {id}: {what}: {hold:?} to {next:?}"))?;
    }
    for (key, record) in &before.records {
        let next = after.records.get(key);
        let backwards = |next: &Record| {
            next.version < record.version || next.version == record.version && next.value != record.value
        };
        if next.is_some_and(backwards) {
            return Err(format!("{key:?} ran backwards: {record:?} to {next:?}"));
        }
    }
    Ok(())
}

/// Whether nothing of an item is held or sold, as of every item that was just made.
fn is_unused(item: &Item) -> bool {
    (item.figures.held, item.figures.confirmed_sold, item.figures.active) == (0, 0, 0)
}

/// Whether an item was deleted and made again since.
fn is_another(before: &Item, after: &Item) -> bool {
    // Deleted and made again at one instant: only its counters begin anew, with the first transition at the least.
    let begun_anew = after.version <= before.version
        && (after.figures.sequence < before.figures.sequence
            || (after.figures.sequence == 1 && after.figures.at == after.created_at && is_unused(after)));
    after.created_at != before.created_at || (begun_anew && before.figures.confirmed_sold == 0)
}

fn count(state: &NaiveState, item: &Item) -> Result<(), &'static str> {
    if item.figures.at < item.created_at {
        return Err("its newest instant is before its first");
    }
    let (mut held, mut sold, mut active) = (0_i128, 0_i128, 0_u64);
    let (mut fulfilled, mut paying) = (0_u64, 0_u64);
    for hold in state.holds.values() {
        for line in hold.lines.iter().filter(|line| line.item == item.key) {
            // What has ended without a sale may be of an item of this name that was deleted.
            let is_of_it = match hold.status {
                Status::Active => true,
                Status::Confirmed => line.returned < line.quantity,
                Status::Cancelled | Status::Expired => false,
            };
            match hold.status {
                Status::Active => {
                    held += i128::from(line.quantity);
                    active += 1;
                    let payment = hold.details.as_ref().and_then(|details| details.payment.as_ref());
                    if payment.is_some_and(|payment| payment.state == PaymentState::Open) {
                        paying += u64::from(line.quantity);
                    }
                }
                Status::Confirmed => {
                    sold += i128::from(line.quantity) - i128::from(line.returned);
                    fulfilled += u64::from(line.fulfilled);
                }
                Status::Cancelled | Status::Expired => {}
            }
            if is_of_it && line.sequence > item.figures.sequence {
                return Err("a line is ahead of its item's sequence");
            }
            let newest = hold.closing.as_ref().map_or(hold.terms.created_at, |closing| closing.at);
            if is_of_it && newest > item.figures.at {
                return Err("a reservation is ahead of its item's newest instant");
            }
        }
    }
    if i128::from(item.figures.held) != held {
        return Err("held is not the sum of its active lines");
    }
    if item.figures.active != active {
        return Err("the number of active reservations is not theirs");
    }
    if i128::from(item.figures.confirmed_sold) != sold {
        return Err("sold is not the sum of its confirmed lines less returns");
    }
    if (item.figures.fulfilled, item.figures.held_under_payment) != (fulfilled, paying) {
        return Err("what left the shelf or waits for a payment is not the sum of its lines");
    }
    if i128::from(fulfilled) > sold {
        return Err("more left the shelf than was sold");
    }
    let total = i128::from(item.figures.total_units);
    let aside = i128::from(item.pools.set_aside());
    if held + sold + aside > total + i128::from(item.settings.oversell_allowance) {
        return Err("oversold");
    }
    if i128::from(fulfilled) > total {
        return Err("more left the shelf than there is");
    }
    Ok(())
}

/// What was drawn from each pool is the sum of its lines, and no pool has less.
fn count_pools(state: &NaiveState, item: &Item) -> Result<(), String> {
    let mut drawn: BTreeMap<&Label, (u64, u64)> = BTreeMap::new();
    for hold in state.holds.values() {
        for line in hold.lines.iter().filter(|line| line.item == item.key) {
            let units: u32 = line.details().draws.iter().map(|draw| draw.units).sum();
            if units > line.quantity - line.returned {
                return Err(format!("a line of {} drew more than it has", hold.id));
            }
            for draw in &line.details().draws {
                let (held, sold) = drawn.entry(&draw.pool).or_default();
                match hold.status {
                    Status::Active => *held += u64::from(draw.units),
                    Status::Confirmed => *sold += u64::from(draw.units),
                    Status::Cancelled | Status::Expired => {}
                }
            }
        }
    }
    for pool in item.pools.all() {
        if (pool.held, pool.sold) != drawn.remove(&pool.name).unwrap_or_default() {
            return Err(format!("what was drawn from {} is not the sum of its lines", pool.name));
        }
        let all = pool.held + pool.sold;
        let has_rest = pool.released_at.is_some() && all != pool.terms.allocated;
        if all > pool.terms.allocated || (has_rest && item.mode == Mode::Counted) {
            return Err(format!("pool {} has other units than were drawn from it", pool.name));
        }
    }
    if drawn.values().any(|units| *units != (0, 0)) {
        return Err("units were drawn from a pool that does not exist".to_owned());
    }
    Ok(())
}

/// Every unit has the status that its reservation implies, and the counters have their number.
fn count_units(state: &NaiveState, item: &Item) -> Result<(), String> {
    let none = UnitIndex::default();
    let unit_index = state.unit_indexes.get(&item.key).unwrap_or(&none);
    let mut there: BTreeMap<&Label, (UnitStatus, u64)> = BTreeMap::new();
    for hold in state.holds.values() {
        let status = |unit: &LineUnit| match hold.status {
            Status::Confirmed if unit.fulfilled => UnitStatus::Fulfilled(hold.id),
            Status::Confirmed => UnitStatus::Sold(hold.id),
            Status::Active | Status::Cancelled | Status::Expired => UnitStatus::Held(hold.id),
        };
        if matches!(hold.status, Status::Cancelled | Status::Expired) {
            continue;
        }
        for line in hold.lines.iter().filter(|line| line.item == item.key) {
            for unit in line.units().iter().filter(|unit| !unit.returned) {
                if unit_index.get(&unit.id).is_some_and(|known| known.pool != unit.pool) {
                    return Err(format!("{} is in another pool than its reservation says", unit.id));
                }
                if there.insert(&unit.id, (status(unit), unit.version)).is_some() {
                    return Err(format!("{} is held or sold twice", unit.id));
                }
            }
        }
    }
    let mut in_pools: BTreeMap<&Label, u64> = BTreeMap::new();
    for unit in unit_index.iter() {
        if let Some(pool) = &unit.pool {
            *in_pools.entry(pool).or_default() += 1;
        }
        let (status, version) = there.remove(&unit.id).unwrap_or((UnitStatus::Available, unit.version));
        if (unit.status, unit.version) != (status, version) {
            return Err(format!("{unit:?} is {status:?} at version {version} by its reservation"));
        }
    }
    if let Some((id, _)) = there.first_key_value() {
        return Err(format!("{id} is held or sold and does not exist"));
    }
    let pools = item.pools.all().iter().filter(|pool| pool.terms.allocated > 0);
    let allocated: BTreeMap<&Label, u64> = pools.map(|pool| (&pool.name, pool.terms.allocated)).collect();
    if allocated != in_pools {
        return Err(format!("its pools have {allocated:?}, and its units are in {in_pools:?}"));
    }
    let figures = (item.figures.total_units, item.figures.held, item.figures.confirmed_sold);
    if figures != (unit_index.len() as u64, unit_index.held(), unit_index.sold()) {
        return Err(format!("its figures are not those of its {} units", unit_index.len()));
    }
    Ok(())
}

fn coherent(hold: &Hold) -> Result<(), &'static str> {
    if hold.lines.is_empty() {
        return Err("has no line");
    }
    for (n, line) in hold.lines.iter().enumerate() {
        if line.quantity == 0 || line.quantity > line.requested {
            return Err("a line was granted nothing or more than was asked for");
        }
        if line.fulfilled > line.quantity.saturating_sub(line.returned)
            || (line.fulfilled > 0 && hold.status != Status::Confirmed)
        {
            return Err("more left the shelf than was sold");
        }
        if line.returned > line.quantity || (line.returned > 0 && hold.status != Status::Confirmed) {
            return Err("more came back than was sold");
        }
        let units = line.units();
        if line.units.is_some() {
            let returned = units.iter().filter(|unit| unit.returned).count();
            if (units.len(), returned) != (line.quantity as usize, line.returned as usize) {
                return Err("a line has other units than it counts");
            }
        }
        if hold.lines.iter().skip(n + 1).any(|other| other.item == line.item) {
            return Err("two lines name the same item");
        }
    }
    // A payment window may pass the latest deadline of extensions.
    if hold.expires_at > hold.terms.max_expires_at && hold.details().first_payment_at.is_none() {
        return Err("the deadline is past its cap");
    }
    if hold.closing.as_ref().is_some_and(|closing| closing.at < hold.terms.created_at) {
        return Err("ended before it was made");
    }
    match (hold.status, &hold.closing) {
        (Status::Active, None) => Ok(()),
        (Status::Confirmed | Status::Cancelled, Some(closing)) if closing.at < hold.expires_at => Ok(()),
        (Status::Expired, Some(closing)) if closing.at >= hold.expires_at => Ok(()),
        (Status::Expired, Some(_)) => Err("expired before its deadline"),
        (Status::Confirmed | Status::Cancelled, Some(_)) => Err("was moved at or after its deadline"),
        (Status::Active, Some(_)) | (_, None) => Err("ended and not ended"),
    }
}

fn follows(before: &Hold, after: &Hold) -> Result<(), &'static str> {
    if after.version < before.version {
        return Err("its version ran backwards");
    }
    if after.version == before.version {
        return if after == before { Ok(()) } else { Err("it changed without a transition") };
    }
    if after.terms.created_at != before.terms.created_at {
        return Err("it was made at another instant");
    }
    if after.terms.max_expires_at > before.terms.max_expires_at {
        return Err("its latest deadline moved away");
    }
    match before.status {
        Status::Active => Ok(()),
        Status::Confirmed => sale_follows(before, after),
        // An expired reservation may be replaced, and nothing else of it changes.
        Status::Cancelled | Status::Expired => {
            let same = Hold {
                details: before.details.clone(),
                version: before.version,
                last_event: before.last_event,
                ..after.clone()
            };
            if same == *before { Ok(()) } else { Err("what had ended changed") }
        }
    }
}

/// The details of a reservation without what may change of its payment after it has ended.
fn unpaid(hold: &Hold) -> HoldDetails {
    let mut details = hold.details().clone();
    if let Some(payment) = &mut details.payment {
        payment.charge = None;
    }
    details
}

/// Sold units may leave the shelf and come back. Nothing else of a confirmed reservation changes.
fn sale_follows(before: &Hold, after: &Hold) -> Result<(), &'static str> {
    let ended = (after.status, &after.closing, after.expires_at, &after.terms, unpaid(after));
    if ended != (before.status, &before.closing, before.expires_at, &before.terms, unpaid(before)) {
        return Err("what had ended ended again");
    }
    if before.lines.len() != after.lines.len() {
        return Err("its lines changed");
    }
    for (line, next) in before.lines.iter().zip(&*after.lines) {
        let kept = (&line.item, line.requested, line.quantity) == (&next.item, next.requested, next.quantity);
        if !kept || next.returned < line.returned || next.sequence < line.sequence {
            return Err("a line changed");
        }
        let units = line.units().iter().zip(next.units());
        let fewer = line.units().len() != next.units().len();
        let other = |(unit, next): (&LineUnit, &LineUnit)| {
            unit.id != next.id
                || next.version < unit.version
                || (unit.returned && !next.returned)
                || (unit.fulfilled && !next.fulfilled)
        };
        if fewer || units.into_iter().any(other) {
            return Err("a line has other units");
        }
    }
    Ok(())
}
