//! How the gate's numbers are kept right. All of them come from what the store has committed:
//!
//! - The feed of events says which items were changed by anybody, by the sweeper too. Their numbers are read and noted.
//! - An answer that gives units back waits until the numbers of its items are read and noted.
//! - A counter that is missing or may be wrong is written anew, and all counters are from time to time. A reload reads the counter, then
//!   the store, and begins an epoch, in which nothing counts that was admitted before.

use crate::connection::RedisConnection;
use crate::counter::{Committed, Counter, CounterMoves, CounterScripts, Reloaded};
use crate::meters::GateMeters;
use crate::shared::Shared;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stockhold_domain::{Item, ItemKey, Scope, SubjectKind, Transition};
use stockhold_store::{
    EventRow, Failure, GateCounter, GateItem, GateSelection, GateStatus, ItemPageRequest, Query, QueryResult,
    ReloadSummary, query,
};
use tokio::time::{sleep, timeout};

/// How often the store is asked for new events.
pub(crate) const FEED_INTERVAL: Duration = Duration::from_millis(250);
/// Shortest pause between two reads of the feed.
const FEED_PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of events of one read.
const FEED_EVENTS: usize = 1_000;
/// Maximum number of items of one read.
const ITEMS_AT_ONCE: usize = 256;
/// Maximum number of items of one page, and of limits.
const PAGE: usize = 1_000;
/// Pause after Redis went away and after each try to connect that failed, and before a failed read of the store is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Longest time of one try to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest wait of a call that no request waits for.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(1);

/// Why counters were not written anew.
enum ReloadError {
    Redis(String),
    Store(Failure),
}

impl From<Failure> for ReloadError {
    fn from(failure: Failure) -> Self {
        Self::Store(failure)
    }
}

impl From<ReloadError> for Failure {
    fn from(error: ReloadError) -> Self {
        match error {
            ReloadError::Redis(why) => Self::Unavailable(format!("the gate's Redis: {why}")),
            ReloadError::Store(failure) => failure,
        }
    }
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redis(why) => f.write_str(why),
            Self::Store(failure) => write!(f, "the counters can't be read from the store: {failure}"),
        }
    }
}

/// Keeps the connection to Redis. Counters are written anew before Redis is used: it may have been restarted, restored or replaced.
pub(crate) async fn keep_connected(shared: Arc<Shared>) -> Infallible {
    // Whether the log says that Redis is away.
    let mut is_away = false;
    loop {
        let connect = shared.options.address.connect(RELOAD_TIMEOUT);
        let why = match timeout(CONNECT_TIMEOUT, connect).await {
            Ok(Ok(connection)) => match reload_over(&shared, &connection, &shared.table.keys()).await {
                Ok(_) => {
                    shared.set_connection(connection);
                    tracing::info!("the gate's Redis is used");
                    // What changed during the reload was noted nowhere.
                    shared.suspect(shared.table.keys(), true);
                    shared.disconnected().await;
                    // That is in the log.
                    is_away = true;
                    None
                }
                Err(error) => Some(error.to_string()),
            },
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no connection within {} s", CONNECT_TIMEOUT.as_secs())),
        };
        if let Some(why) = why.filter(|_| !is_away) {
            shared.log_away(&why);
            is_away = true;
        }
        sleep(RETRY_PAUSE).await;
    }
}

/// Loads the gated items, and then follows the events.
pub(crate) async fn follow_events(shared: Arc<Shared>) -> Infallible {
    let mut position = loop {
        match load(&shared).await {
            Ok(position) => break position,
            Err(failure) => {
                tracing::warn!(%failure, "the gate can't read the items yet");
                sleep(RETRY_PAUSE).await;
            }
        }
    };
    loop {
        match follow(&shared, &mut position).await {
            // There may be more.
            Ok(true) => continue,
            Ok(false) => shared.note_known(),
            Err(failure) => tracing::debug!(%failure, "the gate can't follow the events"),
        }
        GateMeters::lag(shared.lag().as_secs_f64());
        shared.ping().await;
        sleep(FEED_PAUSE).await;
        tokio::select! {
            () = sleep(FEED_INTERVAL) => {}
            () = shared.counter_missing() => {}
        }
    }
}

/// Compares all counters with the store, again and again.
pub(crate) async fn reconcile(shared: Arc<Shared>) -> Infallible {
    loop {
        sleep(shared.options.reconcile_interval).await;
        if shared.connection().is_some()
            && let Err(failure) = reload(&shared, &GateSelection::All).await
        {
            tracing::warn!(%failure, "the gate's counters can't be compared with the store");
        }
    }
}

/// Reads the items that are gated, the pauses and the limits. Returns the position of the newest event before.
async fn load(shared: &Arc<Shared>) -> Result<u64, Failure> {
    // The newest position that is known without a read may be old. Whether there are events after it does not matter here.
    let _ = events_after(shared, shared.store.newest(), 1).await?;
    let position = shared.store.newest();
    read_pauses(shared).await?;
    read_limits(shared).await?;
    let mut after = None;
    let mut gated = Vec::new();
    loop {
        let request = ItemPageRequest { location: None, after: after.take(), limit: PAGE };
        let QueryResult::ItemPage(page) = query(&*shared.store, Query::ItemPage(request)).await? else {
            return Err(other_answer());
        };
        let is_last = page.len() < PAGE;
        after = page.last().map(|item| item.key.clone());
        for item in page {
            let key = item.key.clone();
            if shared.table.wants(&item) {
                gated.push((key, item));
            }
        }
        if is_last {
            break;
        }
    }
    // A counter of an earlier time is written anew before its item counts as gated.
    let keys: Vec<_> = gated.iter().map(|(key, _)| key.clone()).collect();
    if let Err(error) = reload_items(shared, &keys).await {
        tracing::debug!(%error, "the gate's counters are loaded later");
        for (key, item) in gated {
            shared.table.put(&key, Some(item));
        }
        shared.suspect(keys, false);
    }
    Ok(position)
}

/// Takes over the events after a position. Returns whether there may be more.
async fn follow(shared: &Arc<Shared>, position: &mut u64) -> Result<bool, Failure> {
    let suspects = shared.take_suspects();
    if !suspects.is_empty() {
        let suspects: Vec<_> = suspects.into_iter().collect();
        // The events are followed in any case.
        if let Err(error) = reload_items(shared, &suspects).await {
            tracing::debug!(%error, "counters of the gate that may be wrong can't be reloaded yet");
            shared.suspect(suspects, false);
        }
    }
    let rows = match events_after(shared, *position, FEED_EVENTS).await? {
        Ok(rows) => rows,
        Err(archived) => {
            *position = archived;
            load(shared).await?;
            return Ok(true);
        }
    };
    let is_full = rows.len() >= FEED_EVENTS;
    let Some(last) = rows.last().map(|row| row.position) else { return Ok(false) };
    apply_events(shared, rows).await?;
    *position = last;
    Ok(is_full)
}

/// Events after a position, or the position up to which they were archived.
async fn events_after(
    shared: &Arc<Shared>,
    after: u64,
    limit: usize,
) -> Result<Result<Vec<EventRow>, u64>, Failure> {
    match query(&*shared.store, Query::Events { after, limit }).await? {
        QueryResult::Events(rows) => Ok(Ok(rows)),
        QueryResult::Archived { through } => Ok(Err(through)),
        _ => Err(other_answer()),
    }
}

async fn apply_events(shared: &Arc<Shared>, rows: Vec<EventRow>) -> Result<(), Failure> {
    let (mut changed, mut pauses, mut limits) = (BTreeSet::new(), false, false);
    for EventRow { event, .. } in rows {
        match event.transition {
            Transition::Hold { hold, .. } => {
                shared.table.learn_hold(&hold);
                let content = shared.table.read();
                let items = hold.lines.iter().map(|line| &line.item);
                changed.extend(items.filter(|item| content.is_gated(item)).cloned());
            }
            Transition::Stock { item, .. } => {
                if shared.table.wants(&item) || shared.table.read().is_gated(&item.key) {
                    changed.insert(item.key);
                }
            }
            Transition::Sale { scope: Scope::Item(item), .. } => {
                if shared.table.read().is_gated(&item) {
                    changed.insert(item);
                }
            }
            Transition::Sale { .. } => pauses = true,
            Transition::Limit { .. } => limits = true,
            Transition::Record { .. } => {}
        }
    }
    if pauses {
        read_pauses(shared).await?;
    }
    if limits {
        read_limits(shared).await?;
    }
    note(shared, &changed.into_iter().collect::<Vec<_>>()).await
}

/// Reads what a command has changed, so that the gate has it before the command is answered. A failure is left to the feed.
pub(crate) async fn raise(shared: &Arc<Shared>, items: BTreeSet<ItemKey>, changes_pauses: bool) {
    let raise = async {
        if changes_pauses {
            read_pauses(shared).await?;
        }
        note(shared, &items.iter().cloned().collect::<Vec<_>>()).await
    };
    if let Err(failure) = raise.await {
        tracing::debug!(%failure, "the gate is raised later");
        shared.suspect(items.into_iter().collect(), false);
    }
}

/// Reads items and notes their numbers in Redis.
async fn note(shared: &Arc<Shared>, items: &[ItemKey]) -> Result<(), Failure> {
    let (mut missing, mut calls) = (Vec::new(), BTreeMap::new());
    for (key, item) in read_items(shared, items).await? {
        let committed = item.as_ref().map(committed_of);
        match shared.table.put(&key, item) {
            (true, false) => delete(shared, &key).await,
            (false, false) => {}
            (false, true) => missing.push(key),
            (true, true) => {
                calls.insert(key, CounterMoves { committed, ..CounterMoves::default() });
            }
        }
    }
    let mut unanswered = Vec::new();
    for (key, answer) in shared.move_counters(calls).await {
        match answer {
            Some(Some(_)) => {}
            Some(None) => missing.push(key),
            None => unanswered.push(key),
        }
    }
    if !missing.is_empty()
        && let Err(error) = reload_items(shared, &missing).await
    {
        tracing::debug!(%error, "counters of the gate are written later");
        unanswered.extend(missing);
    }
    if !unanswered.is_empty() {
        shared.suspect(unanswered, false);
    }
    Ok(())
}

/// Writes counters anew.
pub(crate) async fn reload(
    shared: &Arc<Shared>,
    selection: &GateSelection,
) -> Result<ReloadSummary, Failure> {
    let is_selected = |item: &ItemKey| match selection {
        GateSelection::All => true,
        GateSelection::Location(location) => item.location() == location.as_str(),
        GateSelection::Item(selected) => item == selected,
    };
    let items: Vec<_> = shared.table.keys().into_iter().filter(is_selected).collect();
    Ok(reload_items(shared, &items).await?)
}

async fn reload_items(shared: &Arc<Shared>, items: &[ItemKey]) -> Result<ReloadSummary, ReloadError> {
    let Some(connection) = shared.connection() else {
        return Err(ReloadError::Redis("it is away".to_owned()));
    };
    let reloaded = reload_over(shared, &connection, items).await;
    // A counter that can't be written may refuse buyers although there is stock.
    if let Err(ReloadError::Redis(why)) = &reloaded {
        shared.disconnect(why);
    }
    reloaded
}

async fn reload_over(
    shared: &Arc<Shared>,
    connection: &RedisConnection,
    items: &[ItemKey],
) -> Result<ReloadSummary, ReloadError> {
    let mut summary = ReloadSummary::default();
    for items in items.chunks(ITEMS_AT_ONCE) {
        // The counters are read first: one that is ahead of the store is wrong.
        let mut before = Vec::with_capacity(items.len());
        for item in items {
            before.push(counter_of(shared, connection, item).await?);
        }
        for ((key, item), counter) in read_items(shared, items).await?.into_iter().zip(before) {
            let committed = item.as_ref().map(committed_of);
            let (_, is_gated) = shared.table.put(&key, item);
            let Some(committed) = committed.filter(|_| is_gated) else {
                delete(shared, &key).await;
                continue;
            };
            let mut connection = connection.clone();
            let now = shared.options.clock.now();
            let call = shared.scripts.reload(&mut connection, &key, committed, counter.as_ref(), now);
            match within(call).await? {
                Reloaded::Written { corrected } => {
                    summary.reloaded += 1;
                    summary.corrected += u64::from(corrected);
                }
                // Another reload may have read the store earlier.
                Reloaded::Overtaken => {
                    let moves = CounterMoves { committed: Some(committed), ..CounterMoves::default() };
                    within(shared.scripts.run(&mut connection, &key, &moves, now)).await?;
                }
            }
        }
    }
    if summary.corrected > 0 {
        tracing::warn!(counters = summary.corrected, "counters of the gate were wrong and are corrected");
    }
    shared.meters.corrected(summary.corrected);
    Ok(summary)
}

/// The state of the gate.
pub(crate) async fn status(shared: &Arc<Shared>, limit: usize) -> GateStatus {
    let keys = shared.table.keys();
    let mut items = Vec::new();
    let mut connection = shared.connection();
    for item in keys.iter().take(limit) {
        let counter = match &connection {
            Some(redis) => counter_of(shared, redis, item).await.unwrap_or_else(|_| {
                connection = None;
                None
            }),
            None => None,
        };
        let counter = counter.map(|counter| GateCounter {
            units: u64::try_from(counter.left).unwrap_or(0),
            sequence: counter.sequence,
            epoch: counter.epoch,
        });
        items.push(GateItem { item: item.clone(), counter });
    }
    let meters = &shared.meters;
    GateStatus {
        connected: meters.connected.load(Ordering::Relaxed),
        admitted: meters.admitted.load(Ordering::Relaxed),
        refused: meters.refused.load(Ordering::Relaxed),
        corrections: meters.corrections.load(Ordering::Relaxed),
        lag_millis: u64::try_from(shared.lag().as_millis()).unwrap_or(u64::MAX),
        has_more: keys.len() > items.len(),
        items,
    }
}

async fn counter_of(
    shared: &Arc<Shared>,
    connection: &RedisConnection,
    item: &ItemKey,
) -> Result<Option<Counter>, ReloadError> {
    let mut connection = connection.clone();
    let nothing = CounterMoves::default();
    let call = shared.scripts.run(&mut connection, item, &nothing, shared.options.clock.now());
    match timeout(RELOAD_TIMEOUT, call).await {
        Ok(Ok(counter)) => Ok(counter),
        // What stands there is no counter. A reload replaces it.
        Ok(Err(error)) if !error.is_connection_dropped() && !error.is_timeout() && !error.is_io_error() => {
            Ok(None)
        }
        Ok(Err(error)) => Err(ReloadError::Redis(error.to_string())),
        Err(_) => Err(no_answer()),
    }
}

async fn delete(shared: &Arc<Shared>, item: &ItemKey) {
    if let Some(mut connection) = shared.connection() {
        // A counter that stays is not used.
        let _ = within(CounterScripts::delete(&mut connection, item)).await;
    }
}

async fn within<T>(call: impl Future<Output = Result<T, redis::RedisError>>) -> Result<T, ReloadError> {
    match timeout(RELOAD_TIMEOUT, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(ReloadError::Redis(error.to_string())),
        Err(_) => Err(no_answer()),
    }
}

async fn read_items(shared: &Arc<Shared>, keys: &[ItemKey]) -> Result<Vec<(ItemKey, Option<Item>)>, Failure> {
    let mut all = Vec::with_capacity(keys.len());
    for keys in keys.chunks(ITEMS_AT_ONCE) {
        match query(&*shared.store, Query::Items(keys.to_vec())).await? {
            QueryResult::Items(items) => all.extend(keys.iter().cloned().zip(items)),
            _ => return Err(other_answer()),
        }
    }
    Ok(all)
}

async fn read_pauses(shared: &Arc<Shared>) -> Result<(), Failure> {
    match query(&*shared.store, Query::Pauses).await? {
        QueryResult::Pauses(pauses) => shared.table.set_pauses(pauses),
        _ => return Err(other_answer()),
    }
    Ok(())
}

async fn read_limits(shared: &Arc<Shared>) -> Result<(), Failure> {
    let (mut after, mut per_customer) = (None, false);
    loop {
        let request = Query::Limits { after: after.take(), limit: PAGE };
        let QueryResult::Limits(page) = query(&*shared.store, request).await? else {
            return Err(other_answer());
        };
        per_customer |= page
            .iter()
            .any(|limit| limit.terms.as_ref().is_some_and(|terms| terms.per == Some(SubjectKind::Customer)));
        if page.len() < PAGE {
            break;
        }
        after = page.last().map(|limit| limit.id.clone());
    }
    shared.table.set_customer_limits(per_customer);
    Ok(())
}

fn committed_of(item: &Item) -> Committed {
    Committed { available: item.available(), sequence: item.figures.sequence }
}

fn no_answer() -> ReloadError {
    ReloadError::Redis(format!("no answer within {} s", RELOAD_TIMEOUT.as_secs()))
}

fn other_answer() -> Failure {
    Failure::Internal("the store answered another question".to_owned())
}
