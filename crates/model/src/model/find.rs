//! The results of queries, computed from all events.

use super::NaiveState;
use stockhold_domain::{
    HoldChange, Item, ItemKey, Label, Mode, ReservationId, State, Transition, Unit, UnitIndex,
};
use stockhold_store::{
    Cursor, EventRow, ItemPageRequest, Pauses, Query, QueryResult, ReservationFilter, ReservationPage,
    SeatMap, UNIT_HISTORY_LIMIT,
};

/// The result of a query, by folding all events.
///
/// # Panics
///
/// If it asks for customers: they are in no event (see [`super::NaiveCustomers`]).
pub fn find(events: &[EventRow], query: &Query) -> QueryResult {
    let state = NaiveState::fold(events.iter().map(|row| &row.event), []);
    match query {
        Query::Reservation(id) => QueryResult::Reservation(state.holds.get(id).cloned()),
        Query::Items(keys) => {
            QueryResult::Items(keys.iter().map(|key| state.items.get(key).cloned()).collect())
        }
        Query::ItemPage(ItemPageRequest { location, after, limit }) => {
            let here = state.items.into_values().filter(|item| {
                location.as_ref().is_none_or(|location| location.as_str() == item.key.location())
                    && after.as_ref().is_none_or(|after| item.key > *after)
            });
            QueryResult::ItemPage(here.take(*limit).collect())
        }
        Query::Units(filter) => {
            let named = state.items.get(&filter.item).filter(|item| item.mode == Mode::Units);
            let page =
                |item: &Item| state.unit_indexes.get(&item.key).map(|unit_index| filter.page(unit_index));
            QueryResult::Units(named.map(|item| page(item).unwrap_or_default()))
        }
        Query::Unit { item, unit } => QueryResult::Unit(unit_of(&state, item, unit).cloned()),
        Query::UnitHistory { item, unit } => QueryResult::UnitHistory(moves(events, item, unit)),
        Query::SeatMap { item, layout } => {
            let named = state.items.get(item).filter(|item| item.mode == Mode::Units);
            let none = UnitIndex::default();
            let map =
                |item: &Item| SeatMap::of(item, state.unit_indexes.get(&item.key).unwrap_or(&none), *layout);
            QueryResult::SeatMap(named.map(|item| Box::new(map(item))))
        }
        Query::Reservations(filter) => QueryResult::Reservations(page(events, &state, filter)),
        Query::History(id) => {
            let rows: Vec<EventRow> = events.iter().filter(|row| about(row) == Some(*id)).cloned().collect();
            QueryResult::History(Some(rows).filter(|rows| !rows.is_empty()))
        }
        Query::DuePayments { now, limit } => {
            let due = state.holds.values().filter_map(|hold| Some((hold.payment_due_at()?, hold.id)));
            let mut due: Vec<_> = due.filter(|(due, _)| due <= now).collect();
            due.sort_unstable();
            QueryResult::DuePayments(due.into_iter().take(*limit).map(|(_, id)| id).collect())
        }
        Query::Pauses => QueryResult::Pauses(Pauses {
            everything: state.paused.contains(&None),
            locations: state.paused.into_iter().flatten().collect(),
        }),
        Query::Record(key) => {
            QueryResult::Record(state.records.get(key).filter(|record| record.value.is_some()).cloned())
        }
        Query::Records { kind, after, limit } => {
            let page = state.records.into_values().filter(|record| {
                record.key.kind == *kind
                    && record.value.is_some()
                    && after.as_ref().is_none_or(|after| record.key.id > *after)
            });
            QueryResult::Records(page.take(*limit).collect())
        }
        Query::Limit(id) => {
            QueryResult::Limit(state.limits.get(id).filter(|limit| limit.terms.is_some()).cloned())
        }
        Query::Limits { after, limit } => {
            let here = state
                .limits
                .iter()
                .filter(|one| one.terms.is_some() && after.as_ref().is_none_or(|after| one.id > *after));
            QueryResult::Limits(here.take(*limit).cloned().collect())
        }
        Query::Customer(_) => unreachable!("customers are in no event"),
        Query::LimitUsage(request) => QueryResult::LimitUsage(request.usage(&state.limits, &state.counters)),
        Query::Events { after, limit } => {
            let rows = events.iter().filter(|row| row.position > *after);
            QueryResult::Events(rows.take(*limit).cloned().collect())
        }
    }
}

fn unit_of<'s>(state: &'s NaiveState, item: &ItemKey, unit: &Label) -> Option<&'s Unit> {
    state.unit_indexes.get(item).and_then(|unit_index| unit_index.get(unit))
}

/// The newest events that changed a unit, back to the one that added it.
fn moves(events: &[EventRow], item: &ItemKey, unit: &Label) -> Option<Vec<EventRow>> {
    let (mut state, mut before) = (NaiveState::default(), None);
    let mut rows = Vec::new();
    for row in events {
        state.apply(&row.event);
        let now = unit_of(&state, item, unit).cloned();
        if before.is_none() {
            rows.clear();
        }
        if now != before {
            rows.push(row.clone());
        }
        before = now;
    }
    before.map(|_| rows.split_off(rows.len().saturating_sub(UNIT_HISTORY_LIMIT)))
}

/// The reservation of an event.
fn about(row: &EventRow) -> Option<ReservationId> {
    match &row.event.transition {
        Transition::Hold { hold, .. } => Some(hold.id),
        Transition::Stock { .. }
        | Transition::Sale { .. }
        | Transition::Limit { .. }
        | Transition::Record { .. } => None,
    }
}

/// A cursor is the position of the event that created the last reservation of the page, or that confirmed it for the
/// order of the filter.
fn page(events: &[EventRow], state: &NaiveState, filter: &ReservationFilter) -> ReservationPage {
    let before = filter.after.map_or(u128::MAX, |Cursor(position)| position);
    let lists = |change: &HoldChange| match filter.order_id {
        Some(_) => *change == HoldChange::Confirmed,
        None => matches!(change, HoldChange::Created | HoldChange::CreatedBySplit),
    };
    let listed = events.iter().rev().filter(|row| {
        u128::from(row.position) < before
            && matches!(&row.event.transition, Transition::Hold { change, .. } if lists(change))
    });
    let holds = listed.filter_map(|row| {
        let hold = state.hold(about(row)?).ok().flatten()?;
        filter.matches(hold).then(|| (u128::from(row.position), hold.clone()))
    });
    let mut holds: Vec<_> = holds.take(filter.limit + 1).collect();
    let more = holds.len() > filter.limit;
    holds.truncate(filter.limit);
    let next = holds.last().filter(|_| more).map(|(position, _)| Cursor(*position));
    let holds: Vec<_> = holds.into_iter().map(|(_, hold)| hold).collect();
    ReservationPage { examined: holds.len(), holds, next }
}
