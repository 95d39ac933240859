//! What another store has, taken over into an empty database: every event as it was, in its order and so under its position, with
//! what it made of items, reservations and pauses; and the keys that are still to be kept. Nothing is decided: it happened.

use super::{Books, BooksError, recount};
use crate::engine::{
    CommitSent, Committed, OpenError, Options, Slice, Trouble, Wants, events_from, key_from,
};
use stockhold_domain::{
    Effects, Event, Instant, ItemKey, KeyRecord, Mode, Scope, State, StockChange, Transition,
};
use stockhold_store::ItemPageRequest;
use tokio::sync::mpsc;

/// Events that go into one transaction.
const EVENTS_AT_ONCE: usize = 256;
/// Keys likewise.
const KEYS_AT_ONCE: usize = 2_000;
/// Rows of events that are read at a time.
const ROWS_AT_ONCE: usize = 64;

/// Some of what there is, in its order.
#[derive(Debug)]
pub struct Carried {
    /// What happened.
    pub events: Vec<Event>,
    /// Which keys were used.
    pub keys: Vec<KeyRecord>,
}

/// What was taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Events.
    pub events: u64,
    /// Keys; older ones are left behind.
    pub keys: u64,
    /// Reservations that came of it; counted at the end.
    pub reservations: u64,
}

/// Where it comes from: whoever sends, and ends, or says why it could not.
pub type Source = mpsc::Receiver<Result<Carried, String>>;

/// Takes over until the source ends, and recounts. While it is at work, and for good if it is cut off, the database is marked as
/// unfinished and nobody serves from it.
pub(crate) async fn take<S: Books>(
    session: &mut S,
    options: &Options,
    source: &mut Source,
    progress: &mut (dyn FnMut(Taken) + Send),
) -> Result<Taken, BooksError> {
    let shelf = ItemPageRequest { location: None, after: None, limit: 1 };
    if session.newest().await? > 0 || !session.shelf(&shelf).await?.is_empty() {
        let why = "there is data in the database that is to take over: name an empty one";
        return Err(BooksError::Refused(why.to_owned()));
    }
    let (now, _) = session.overdue(1).await?;
    let retention = i64::try_from(options.key_retention.as_micros()).unwrap_or(i64::MAX);
    let bound = Instant::from_micros(now.micros().saturating_sub(retention));
    let (mut taken, mut marked) = (Taken::default(), false);
    while let Some(carried) = source.recv().await {
        let Carried { events, mut keys } = carried.map_err(BooksError::Sink)?;
        if !marked && !session.mark(true).await? {
            return Err(BooksError::Open(OpenError::Unfinished));
        }
        marked = true;
        for some in events.chunks(EVENTS_AT_ONCE) {
            write(session, some, &[]).await?;
            taken.events += some.len() as u64;
        }
        keys.retain(|key| key.at >= bound);
        for some in keys.chunks(KEYS_AT_ONCE) {
            write(session, &[], some).await?;
            taken.keys += some.len() as u64;
        }
        progress(taken);
    }
    session.number().await?;
    let verdict = recount(session, &mut |_| ()).await?;
    if verdict.drift > 0 || verdict.events != taken.events {
        // Of a server that ran on the database meanwhile there may be more.
        let what = verdict.findings.into_iter().next();
        let what = what.unwrap_or_else(|| format!("{} events are there", verdict.events));
        return Err(BooksError::Refused(format!("what was taken over does not add up: {what}")));
    }
    taken.reservations = verdict.reservations.iter().sum();
    session.mark(false).await?;
    Ok(taken)
}

async fn write<S: Books>(session: &mut S, events: &[Event], keys: &[KeyRecord]) -> Result<(), BooksError> {
    let mut wants = Wants::default();
    for event in events {
        name(&event.transition, &mut wants);
    }
    let mut locked = session.lock(&wants).await?;
    // What is said of an item as a whole does not say that its units have ids.
    let halls = locked.rows.items.iter().filter(|item| item.mode == Mode::Units);
    let halls: Vec<ItemKey> = halls.map(|item| item.key.clone()).collect();
    if halls.iter().any(|key| !wants.units.contains_key(key)) {
        for key in halls {
            wants.units.entry(key).or_default();
        }
        session.roll_back().await?;
        locked = session.lock(&wants).await?;
    }
    let mut slice = Slice::of(&wants, locked.rows);
    for event in events {
        slice.apply(event);
        let unknown = slice.unlocked().next().map(|_| "units are named that never came");
        if let Some(what) = slice.contradiction.or(unknown) {
            return Err(BooksError::Refused(format!("what is to be taken over makes no sense: {what}")));
        }
    }
    let mut effects = Effects::default();
    effects.events.extend_from_slice(events);
    effects.keys.extend_from_slice(keys);
    let sent = CommitSent::default();
    match session.commit(&slice.changes(&effects, locked.serial, 0), &sent).await? {
        Committed::Durable => Ok(()),
        Committed::InDoubt(why) => Err(Trouble::Lost(why).into()),
    }
}

/// What an event touches.
fn name(transition: &Transition, wants: &mut Wants) {
    match transition {
        Transition::Hold { hold, .. } => {
            wants.holds.insert(hold.id);
            wants.items.extend(hold.lines.iter().map(|line| line.item.clone()));
            for line in hold.lines.iter().filter(|line| line.units.is_some()) {
                let units = wants.units.entry(line.item.clone()).or_default();
                units.named.extend(line.units().iter().map(|unit| unit.id.clone()));
            }
        }
        Transition::Stock { change, item } => {
            wants.items.insert(item.key.clone());
            if let StockChange::UnitRetired(id) = change {
                wants.units.entry(item.key.clone()).or_default().named.insert(id.clone());
            }
        }
        Transition::Sale { scope: Scope::Item(key), .. } => {
            wants.items.insert(key.clone());
        }
        Transition::Sale { scope: Scope::Location(location), .. } => {
            wants.sets_pauses = true;
            wants.pauses.insert(location.as_str().to_owned());
        }
        Transition::Sale { scope: Scope::Everything, .. } => {
            wants.sets_pauses = true;
            wants.pauses.insert(String::new());
        }
    }
}

/// Sends all that a database has.
pub(crate) async fn send<S: Books>(
    session: &mut S,
    sink: &mpsc::Sender<Result<Carried, String>>,
) -> Result<(), BooksError> {
    session.number().await?;
    session.begin_snapshot().await?;
    let opening = session.opening().await?;
    if opening.position > 0 {
        let why = format!(
            "events up to position {} have been archived, and without them nothing can be taken over",
            opening.position
        );
        return Err(BooksError::Refused(why));
    }
    let mut position = 0;
    loop {
        let rows = session.numbered(position, ROWS_AT_ONCE).await?;
        let more = rows.len() == ROWS_AT_ONCE;
        let mut events = Vec::new();
        for row in rows {
            let last = row.last_position.unwrap_or(0);
            position = u64::try_from(last).unwrap_or(0);
            let decoded = events_from(&row.body, last, row.count)?;
            events.extend(decoded.into_iter().map(|row| row.event));
        }
        // Whoever no longer takes anything says why itself.
        if sink.send(Ok(Carried { events, keys: Vec::new() })).await.is_err() || !more {
            break;
        }
    }
    let mut after = None;
    loop {
        let rows = session.key_rows(after, KEYS_AT_ONCE).await?;
        let more = rows.len() == KEYS_AT_ONCE;
        after = rows.last().map(|row| row.hash);
        let keys = rows.iter().map(|row| key_from(&row.body)).collect::<Result<Vec<_>, _>>()?;
        if sink.send(Ok(Carried { events: Vec::new(), keys })).await.is_err() || !more {
            return Ok(session.roll_back().await?);
        }
    }
}
