//! Queries that are answered from memory: items, reservations, units with ids, records.

use crate::engine::memory::Memory;
use stockhold_domain::{Item, ItemKey, Mode, NotLoaded, State, UnitIndex};
use stockhold_store::{Answer, Failure, Query, QueryResult, SeatMap};

/// Answers a query from memory.
pub(crate) fn answer_from_memory(
    memory: &Memory,
    query: &Query,
) -> Result<Result<Answer, Failure>, NotLoaded> {
    let found = match query {
        Query::Reservation(id) => QueryResult::Reservation(memory.hold(*id)?.cloned()),
        Query::Items(keys) => {
            let mut items = Vec::with_capacity(keys.len());
            for key in keys {
                items.push(memory.item(key)?.cloned());
            }
            QueryResult::Items(items)
        }
        Query::DuePayments { now, limit } => QueryResult::DuePayments(memory.due_payments.at(*now, *limit)),
        Query::Pauses => QueryResult::Pauses(memory.pauses()),
        Query::Units(filter) => {
            let page = |unit_index: Option<&UnitIndex>| {
                unit_index.map(|unit_index| filter.page(unit_index)).unwrap_or_default()
            };
            QueryResult::Units(item_units(memory, &filter.item)?.map(|(_, unit_index)| page(unit_index)))
        }
        Query::Unit { item, unit } => {
            QueryResult::Unit(memory.unit_index(item)?.and_then(|unit_index| unit_index.get(unit)).cloned())
        }
        Query::SeatMap { item, layout } => {
            let none = UnitIndex::default();
            let map = |(item, unit_index): (&Item, Option<&UnitIndex>)| {
                Box::new(SeatMap::of(item, unit_index.unwrap_or(&none), *layout))
            };
            QueryResult::SeatMap(item_units(memory, item)?.map(map))
        }
        Query::Record(key) => {
            QueryResult::Record(memory.record(key)?.filter(|record| record.value.is_some()).cloned())
        }
        Query::Records { kind, after, limit } => {
            QueryResult::Records(memory.record_page(*kind, after.as_ref(), *limit))
        }
        Query::Limit(id) => {
            QueryResult::Limit(memory.limits()?.get(id).filter(|limit| limit.terms.is_some()).cloned())
        }
        Query::Limits { after, limit } => QueryResult::Limits(memory.limit_page(after.as_ref(), *limit)),
        Query::LimitUsage(request) => QueryResult::LimitUsage(memory.limit_usage(request)),
        Query::ItemPage(_)
        | Query::Reservations(_)
        | Query::History(_)
        | Query::UnitHistory { .. }
        | Query::Events { .. }
        | Query::Customer(_) => {
            return Ok(Err(Failure::Internal(format!("{query:?} is not read from memory"))));
        }
    };
    Ok(Ok(Answer::QueryResult(found)))
}

/// The item and its units, if its units have ids. The units are `None` if it has none yet.
fn item_units<'m>(
    memory: &'m Memory,
    key: &ItemKey,
) -> Result<Option<(&'m Item, Option<&'m UnitIndex>)>, NotLoaded> {
    let Some(item) = memory.item(key)?.filter(|item| item.mode == Mode::Units) else { return Ok(None) };
    Ok(Some((item, memory.unit_index(key)?)))
}
