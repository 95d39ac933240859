//! Reserve: the first rejection that applies, in order; then the due holds that stand in the way; then the hold.

use super::hold::expire;
use super::{Halt, Run, add};
use crate::bug;
use crate::command::{Fulfilment, Reserve, Want};
use crate::event::{HoldChange, Subject, Transition};
use crate::hold::{Extras, Hold, Line, Status, Terms};
use crate::item::Item;
use crate::label::Label;
use crate::limits::{LINE_QUANTITY, Rules};
use crate::outcome::{Outcome, Reply};
use crate::rejection::{Rejection, Shortage};
use crate::state::{Scope, State};
use crate::time::{Instant, Seconds};
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub(super) fn reserve<S: State>(
    run: &mut Run<'_, S>,
    command: &Reserve,
    now: Instant,
) -> Result<Outcome, Halt> {
    let wants = command.basket.wants();
    let times = match judge(run, command)? {
        Ok(times) => times,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let Some(now) = make_room(run, wants, now)? else { return Ok(Outcome::Later) };

    let mut granted = Vec::with_capacity(wants.len());
    let mut short = Vec::new();
    for want in wants {
        let item = known(run, want)?;
        let available = item.available();
        if available < want.quantity {
            short.push((want, available));
        }
        let quantity = want.quantity.min(available);
        let quantity = if bug!("a-partial-line-gets-too-much") { want.quantity } else { quantity };
        if quantity > 0 || bug!("a-partial-line-gets-nothing") {
            granted.push((want, quantity));
        }
    }
    let refused = match command.fulfilment {
        Fulfilment::All => !short.is_empty(),
        Fulfilment::Partial => granted.is_empty(),
    };
    if refused {
        return shortages(run, &short);
    }
    hold(run, command, &granted, times, now)
}

/// How long the hold may last: (its time to live, its longest).
type Times = (Seconds, Seconds);

/// The rejections that do not depend on the stock, in their order.
fn judge<S: State>(run: &Run<'_, S>, command: &Reserve) -> Result<Result<Times, Rejection>, Halt> {
    let wants = command.basket.wants();
    let mut unknown = Vec::new();
    let mut paused = None;
    let mut too_many = None;
    let mut bounds: Option<Times> = None;
    if run.state.paused(None)? {
        paused = Some(Scope::Everything);
    }
    for want in wants {
        let Some(item) = run.state.item(&want.item)? else {
            unknown.push(want.item.clone());
            continue;
        };
        let (default, max) = item_times(run.rules, item);
        bounds = Some(bounds.map_or((default, max), |(d, m)| (d.min(default), m.min(max))));
        if bug!("the-last-item-alone-bounds-the-time") {
            bounds = Some((default, max));
        }
        if paused.is_none() {
            paused = pause_of(run, item)?;
        }
        if want.quantity > LINE_QUANTITY && too_many.is_none() {
            too_many = Some(want);
        }
    }

    let (default, max) = bounds.unwrap_or((run.rules.default_ttl, run.rules.max_hold));
    if command.ttl.is_some_and(|ttl| ttl > max) {
        let detail = format!("is longer than a hold on these items may last: at most {} seconds", max.get());
        return Ok(Err(Rejection::invalid("/ttl_seconds", detail)));
    }
    if let Some(pool) = &command.pool {
        let detail = format!("names a pool that none of these items has: {pool}");
        return Ok(Err(Rejection::invalid("/pool", detail)));
    }
    if let Some(scope) = paused.clone().filter(|_| bug!("paused-comes-before-unknown")) {
        return Ok(Err(Rejection::SalePaused(scope)));
    }
    if !unknown.is_empty() {
        return Ok(Err(Rejection::UnknownItem(unknown)));
    }
    if let Some(scope) = paused {
        return Ok(Err(Rejection::SalePaused(scope)));
    }
    if let Some(want) = too_many {
        return Ok(Err(Rejection::QuantityLimit { item: want.item.clone(), requested: want.quantity }));
    }
    Ok(Ok((command.ttl.unwrap_or(default.min(max)), max)))
}

/// The nearest setting wins: item, location, service.
fn item_times(rules: &Rules, item: &Item) -> Times {
    let location = rules.locations.iter().find(|(name, ..)| name.as_str() == item.key.location());
    let (default, max) = location.map_or((None, None), |(_, default, max)| (*default, *max));
    (
        item.settings.default_ttl.or(default).unwrap_or(rules.default_ttl),
        item.settings.max_hold.or(max).unwrap_or(rules.max_hold),
    )
}

fn pause_of<S: State>(run: &Run<'_, S>, item: &Item) -> Result<Option<Scope>, Halt> {
    if run.state.paused(Some(item.key.location()))? && !bug!("a-location-s-pause-is-ignored") {
        let location = Label::new(item.key.location()).map_err(|_| Halt::Broken("a location is no label"))?;
        return Ok(Some(Scope::Location(location)));
    }
    Ok(item.paused.then(|| Scope::Item(item.key.clone())))
}

/// Expires due holds, earliest first, of the items that fall short, until they fit or none is due; answers with the
/// instant that counts for the whole basket. `None` when the batch may expire no more and more is due.
fn make_room<S: State>(run: &mut Run<'_, S>, wants: &[Want], now: Instant) -> Result<Option<Instant>, Halt> {
    let mut now = floored(run, wants, now)?;
    loop {
        for want in wants {
            while known(run, want)?.available() < want.quantity {
                match run.state.earliest(Some(&want.item))? {
                    Some((due, _)) if bug!("a-reserve-leaves-what-is-due-now") && due == now => break,
                    Some((due, id)) if due <= now => {
                        if !run.may_expire() {
                            if bug!("a-full-batch-refuses") {
                                return Ok(Some(now));
                            }
                            return Ok(None);
                        }
                        expire(run, id, now)?;
                    }
                    _ => break,
                }
            }
        }
        // A hold that was expired may have had items of its own that were decided on later: then more may be due.
        let floor = floored(run, wants, now)?;
        if floor == now {
            return Ok(Some(now));
        }
        now = floor;
    }
}

/// Now, but not before any instant at which one of the basket's items was decided on.
fn floored<S: State>(run: &Run<'_, S>, wants: &[Want], now: Instant) -> Result<Instant, Halt> {
    let mut at = now;
    for want in wants {
        at = at.max(known(run, want)?.figures.at);
    }
    Ok(at)
}

fn known<'s, S: State>(run: &'s Run<'_, S>, want: &Want) -> Result<&'s Item, Halt> {
    run.state.item(&want.item)?.ok_or(Halt::Broken("an item went away within a command"))
}

fn shortages<S: State>(run: &Run<'_, S>, short: &[(&Want, u64)]) -> Result<Outcome, Halt> {
    let mut lines = Vec::with_capacity(short.len());
    for (want, available) in short {
        lines.push(Shortage {
            item: want.item.clone(),
            requested: want.quantity,
            available: *available,
            next_expiry_at: run
                .state
                .earliest(if bug!("the-next-expiry-is-anybody-s") { None } else { Some(&want.item) })?
                .map(|(due, _)| due),
        });
    }
    Ok(Outcome::Refused(Rejection::InsufficientInventory(lines)))
}

fn hold<S: State>(
    run: &mut Run<'_, S>,
    command: &Reserve,
    granted: &[(&Want, u64)],
    (ttl, max): Times,
    now: Instant,
) -> Result<Outcome, Halt> {
    let mut lines = Vec::with_capacity(granted.len());
    let mut figures = Vec::with_capacity(granted.len());
    for (want, quantity) in granted {
        let item = known(run, want)?;
        let mut after = item.figures;
        after.held = add(after.held, *quantity)?;
        after.active = add(after.active, 1)?;
        after.sequence = add(after.sequence, 1)?;
        after.at = now;
        lines.push(Line {
            item: item.key.clone(),
            requested: line_units(want.quantity)?,
            quantity: line_units(*quantity)?,
            returned: 0,
            sequence: after.sequence,
        });
        figures.push(after);
    }
    let max_expires_at = now.deadline(max);
    let mut expires_at = now.deadline(ttl).min(max_expires_at);
    if bug!("deadlines-are-rounded-down") && now.micros() % 1_000 != 0 {
        expires_at = Instant::from_millis(expires_at.millis() - 1);
    }
    let hold = Hold {
        id: run.fresh.reservation,
        status: Status::Active,
        expires_at,
        terms: Arc::new(Terms {
            owner_id: command.owner_id.clone(),
            created_at: now,
            max_expires_at,
            extras: extras(command),
        }),
        lines: lines.into(),
        closing: None,
        last_event: run.fresh.event,
    };
    let reply = Reply::Reservation(hold.clone());
    run.remember(Subject::Reservation(hold.id), now);
    let transition = Transition::Hold { change: HoldChange::Created, hold, figures: figures.into() };
    run.emit(run.fresh.event, now, None, transition);
    Ok(Outcome::Done(reply))
}

fn line_units(quantity: u64) -> Result<u32, Halt> {
    u32::try_from(quantity).map_err(|_| Halt::Broken("a line passed its limit"))
}

fn extras(command: &Reserve) -> Option<Box<Extras>> {
    let extras = Extras {
        channel: command.channel.clone(),
        customer_id: command.customer_id.clone(),
        session_id: command.session_id.clone(),
        metadata: command.metadata.clone(),
    };
    (extras != Extras::default()).then(|| Box::new(extras))
}
