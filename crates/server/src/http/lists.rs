//! Reads: single objects, lists and pages. A page is made of several small reads, so that no request holds much at
//! once, and it ends early before it becomes too long. A history is not divided into pages, so it reserves memory as
//! it grows.

use super::admission::Examined;
use super::admission::bounds::COUNTED_REPLY_BYTES;
use super::admission::memory::BudgetGuard;
use super::reply;
use super::request_error::RequestError;
use super::restrict::{check_item, check_location, shows_holders};
use super::worker::{HandlerResult, RequestContext, Worker};
use stockhold_api::EventType;
use stockhold_api::cursor;
use stockhold_api::decode::{AvailabilityQuery, QuoteQuery};
use stockhold_api::encode::{self, List};
use stockhold_api::problem::Problem;
use stockhold_domain::{
    Access, Item, ItemKey, Label, Mode, Rejection, ReservationId, StockChange, Transition,
};
use stockhold_store::{
    Answer, EventRow, ItemPageRequest, Query, QueryResult, RESERVATIONS_EXAMINED, Request, ReservationFilter,
    UnitFilter,
};

/// Bytes after which a page ends, whatever its limit. The entry that reaches this length is still complete.
pub(super) const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Reservations that are read at a time.
const HOLDS_AT_ONCE: usize = 100;

impl Worker {
    pub(super) async fn reservation(&self, context: RequestContext<'_>, id: ReservationId) -> HandlerResult {
        Ok(reply::reservation(&self.visible_hold(context, id).await?))
    }

    pub(super) async fn item(&self, key: ItemKey) -> Result<Item, RequestError> {
        let found = self.item_if_known(&key).await?;
        found.ok_or_else(|| Problem::from(Rejection::UnknownItem(vec![key])).into())
    }

    pub(super) async fn item_if_known(&self, key: &ItemKey) -> Result<Option<Item>, RequestError> {
        if let Some(found) = self.store.published_item(key) {
            return Ok(found);
        }
        match self.find(Query::Items(vec![key.clone()])).await? {
            QueryResult::Items(items) => Ok(items.into_iter().next().flatten()),
            _ => Err(RequestError::wrong_answer()),
        }
    }

    pub(super) async fn show_item(&self, context: RequestContext<'_>, key: ItemKey) -> HandlerResult {
        check_item(context, &key)?;
        Ok(reply::item(&self.item(key).await?))
    }

    pub(super) async fn available(&self, context: RequestContext<'_>, key: ItemKey) -> HandlerResult {
        check_item(context, &key)?;
        let item = self.item(key).await?;
        let as_of = self.clocks.store.now().max(item.figures.at);
        Ok(reply::json(|out| encode::availability(out, &item, as_of)))
    }

    pub(super) async fn quote(&self, context: RequestContext<'_>, query: QuoteQuery) -> HandlerResult {
        query.lines.iter().try_for_each(|(key, _)| check_item(context, key))?;
        let keys: Vec<ItemKey> = query.lines.iter().map(|(key, _)| key.clone()).collect();
        let items = self.items(&keys).await?;
        let mut unknown = Vec::new();
        let mut units = Vec::with_capacity(keys.len());
        for ((key, quantity), item) in query.lines.iter().zip(&items) {
            match item {
                Some(item) => units.push((item, *quantity)),
                None => unknown.push(key.clone()),
            }
        }
        if !unknown.is_empty() {
            return Err(Problem::from(Rejection::UnknownItem(unknown)).into());
        }
        let prices = stockhold_domain::quote(&units, query.channel.as_ref(), self.clocks.store.now());
        let prices = prices.map_err(Problem::from)?;
        Ok(reply::json(|out| encode::quote(out, &units, &prices)))
    }

    /// The items of these keys, which may not exist.
    async fn items(&self, keys: &[ItemKey]) -> Result<Vec<Option<Item>>, RequestError> {
        let mut items = Vec::with_capacity(keys.len());
        for key in keys {
            let Some(published) = self.store.published_item(key) else { break };
            items.push(published);
        }
        if items.len() == keys.len() {
            return Ok(items);
        }
        match self.find(Query::Items(keys.to_vec())).await? {
            QueryResult::Items(items) if items.len() == keys.len() => Ok(items),
            _ => Err(RequestError::wrong_answer()),
        }
    }

    pub(super) async fn availability(
        &self,
        context: RequestContext<'_>,
        query: AvailabilityQuery,
    ) -> HandlerResult {
        let keys = query.items();
        keys.iter().try_for_each(|key| check_item(context, key))?;
        let items = self.items(keys).await?;
        let mut out = Vec::new();
        if let AvailabilityQuery::Locations { sku, .. } = &query {
            let found: Vec<_> = keys.iter().zip(items.iter().map(Option::as_ref)).collect();
            encode::availability_at(&mut out, sku.as_str(), &found, self.clocks.store.now());
            return Ok(reply::written(out, None));
        }
        let now = self.clocks.store.now();
        let mut list = List::open(&mut out, "items");
        for (key, item) in keys.iter().zip(&items) {
            let out = list.entry(&mut out);
            match item {
                Some(item) => encode::availability(out, item, now.max(item.figures.at)),
                None => encode::unknown_item(out, key),
            }
        }
        list.close(&mut out);
        Ok(reply::written(out, None))
    }

    pub(super) async fn reservations(
        &self,
        context: RequestContext<'_>,
        mut filter: ReservationFilter,
    ) -> HandlerResult {
        if let Some(location) = &filter.location {
            check_location(context, location.as_str())?;
        }
        self.take_page_tokens(context, filter.limit).await?;
        let principal = &context.caller.principal;
        filter.created_by = principal.restrictions.own_reservations_only.then(|| principal.actor.clone());
        let mut left = filter.limit;
        let mut out = Vec::new();
        let mut budget = None;
        let mut list = List::open(&mut out, "data");
        let mut cut = None;
        let examined = Examined::default();
        while cut.is_some() || examined.has_room(RESERVATIONS_EXAMINED) {
            filter.limit = cut.unwrap_or(left.min(HOLDS_AT_ONCE));
            let QueryResult::Reservations(mut page) = self.find(Query::Reservations(filter.clone())).await?
            else {
                return Err(RequestError::wrong_answer());
            };
            examined.add(page.examined);
            let seen = self.visible(principal, page.holds, &examined).await?;
            page.holds = seen;
            let before = (out.len(), list);
            let mut fit = 0;
            for hold in page.holds.iter().take(left) {
                encode::reservation(list.entry(&mut out), hold);
                fit += 1;
                if out.len() >= PAGE_BYTES && cut.is_none() {
                    break;
                }
            }
            if fit < page.holds.len().min(left) {
                // Only the store knows the cursor after the last one that fits, so the ones that fit are read again.
                out.truncate(before.0);
                (list, cut) = (before.1, Some(fit));
                continue;
            }
            left = left.saturating_sub(page.holds.len());
            filter.after = page.next;
            drop(budget.take());
            budget = self.count_page(context, &out)?;
            if page.next.is_none() || left == 0 || cut.is_some() || out.len() >= PAGE_BYTES {
                break;
            }
        }
        let next = filter.after.map(cursor::of_place);
        list.close_page(&mut out, next.is_some(), next.as_deref());
        Ok(reply::written(out, budget))
    }

    pub(super) async fn inventory(
        &self,
        context: RequestContext<'_>,
        mut wanted: ItemPageRequest,
    ) -> HandlerResult {
        let limit = wanted.limit;
        self.take_page_tokens(context, limit).await?;
        wanted.limit += 1;
        let items = self.visible_items(context, wanted).await?;
        let mut out = Vec::new();
        let mut list = List::open(&mut out, "data");
        for item in items.iter().take(limit) {
            encode::item(list.entry(&mut out), item);
        }
        let before_more = items.get(limit - 1).filter(|_| items.len() > limit);
        let next = before_more.map(|item| cursor::of_item(&item.key));
        list.close_page(&mut out, next.is_some(), next.as_deref());
        Ok(reply::written(out, None))
    }

    pub(super) async fn units(&self, context: RequestContext<'_>, wanted: UnitFilter) -> HandlerResult {
        check_item(context, &wanted.item)?;
        self.take_page_tokens(context, wanted.limit).await?;
        let holders = shows_holders(context);
        let mut out = Vec::new();
        let mut list = List::open(&mut out, "data");
        let page = match self.find(Query::Units(wanted.clone())).await? {
            QueryResult::Units(Some(page)) => page,
            QueryResult::Units(None) => return Err(self.no_units(wanted.item, None).await),
            _ => return Err(RequestError::wrong_answer()),
        };
        for unit in page.units.iter().take(wanted.limit) {
            encode::unit(list.entry(&mut out), unit, holders);
        }
        let next = page.next.map(|(position, id)| cursor::of_unit(position, &id));
        list.close_page(&mut out, next.is_some(), next.as_deref());
        Ok(reply::written(out, None))
    }

    pub(super) async fn seat_map(
        &self,
        context: RequestContext<'_>,
        item: ItemKey,
        layout: bool,
        known: Option<&[u8]>,
    ) -> HandlerResult {
        check_item(context, &item)?;
        if let Some(item) = self.item_if_known(&item).await? {
            let units = usize::try_from(item.figures.total_units).unwrap_or(usize::MAX);
            self.take_page_tokens(context, units).await?;
        }
        let map = match self.find(Query::SeatMap { item: item.clone(), layout }).await? {
            QueryResult::SeatMap(Some(map)) => map,
            QueryResult::SeatMap(None) => return Err(self.no_units(item, None).await),
            _ => return Err(RequestError::wrong_answer()),
        };
        Ok(reply::seat_map(&map, known, None))
    }

    pub(super) async fn unit(
        &self,
        context: RequestContext<'_>,
        item: ItemKey,
        unit: Label,
    ) -> HandlerResult {
        check_item(context, &item)?;
        let holders = shows_holders(context);
        match self.find(Query::Unit { item: item.clone(), unit: unit.clone() }).await? {
            QueryResult::Unit(Some(unit)) => Ok(reply::json(|out| encode::unit(out, &unit, holders))),
            QueryResult::Unit(None) => Err(self.no_units(item, Some(unit)).await),
            _ => Err(RequestError::wrong_answer()),
        }
    }

    /// Why units of an item can't be shown: the item does not exist, it is counted, or the unit does not exist.
    async fn no_units(&self, key: ItemKey, unit: Option<Label>) -> RequestError {
        match (self.item(key).await, unit) {
            (Err(error), _) => error,
            (Ok(item), Some(unit)) if item.mode == Mode::Units => {
                Problem::from(Rejection::UnknownUnit { item: item.key, unit }).into()
            }
            (Ok(item), _) => {
                Problem::from(Rejection::ModeMismatch { item: item.key, mode: item.mode }).into()
            }
        }
    }

    pub(super) async fn history(&self, context: RequestContext<'_>, id: ReservationId) -> HandlerResult {
        if context.caller.principal.access() != Access::Unrestricted {
            self.visible_hold(context, id).await?;
        }
        let rows = match self.find(Query::History(id)).await? {
            QueryResult::History(Some(rows)) => rows,
            QueryResult::History(None) => {
                return Err(Problem::from(Rejection::UnknownReservation(id)).into());
            }
            _ => return Err(RequestError::wrong_answer()),
        };
        let mut shown = self.visible_events(context, rows, &Examined::default()).await?;
        shown.retain(|row| EventType::of(&row.event).is_some());
        self.history_page(context, &shown)
    }

    pub(super) async fn unit_history(
        &self,
        context: RequestContext<'_>,
        item: ItemKey,
        unit: Label,
    ) -> HandlerResult {
        check_item(context, &item)?;
        let found = self.find(Query::UnitHistory { item: item.clone(), unit: unit.clone() }).await?;
        let mut rows = match found {
            QueryResult::UnitHistory(Some(rows)) => rows,
            QueryResult::UnitHistory(None) => return Err(self.no_units(item, Some(unit)).await),
            _ => return Err(RequestError::wrong_answer()),
        };
        rows = self.visible_events(context, rows, &Examined::default()).await?;
        // One event may have added thousands of units. Only the requested one is shown.
        for row in &mut rows {
            if let Transition::Stock { change: StockChange::UnitsAdded(units), .. } =
                &mut row.event.transition
            {
                *units = units.iter().filter(|one| one.id == unit).cloned().collect();
            }
        }
        self.history_page(context, &rows)
    }

    /// A history. It reserves memory as it grows.
    fn history_page(&self, context: RequestContext<'_>, rows: &[EventRow]) -> HandlerResult {
        let mut out = Vec::new();
        let mut budget = None;
        let mut list = List::open(&mut out, "data");
        for row in rows {
            encode::event(list.entry(&mut out), row);
            drop(budget.take());
            budget = self.count_page(context, &out)?;
        }
        list.close(&mut out);
        Ok(reply::written(out, budget))
    }

    pub(super) async fn find(&self, query: Query) -> Result<QueryResult, RequestError> {
        match self.pending_replies.submit(Request::Query(query)).await {
            Ok(Answer::QueryResult(found)) => Ok(found),
            Ok(_) => Err(RequestError::wrong_answer()),
            Err(failure) => Err(RequestError::from_store(&failure)),
        }
    }

    /// Reserves memory for a page that has become long. Fails when the budget is used up.
    pub(super) fn count_page(
        &self,
        context: RequestContext<'_>,
        out: &Vec<u8>,
    ) -> Result<Option<BudgetGuard>, RequestError> {
        (out.len() >= COUNTED_REPLY_BYTES).then(|| self.reserve_memory(context, out.capacity())).transpose()
    }
}
