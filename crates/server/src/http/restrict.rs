//! What a restricted caller may see: its locations, its sales channels, its own reservations. What it may change is judged by the rules,
//! with the state that is changed. A caller without restrictions costs nothing here.

use super::admission::Examined;
use super::admission::bounds::CREATOR_WEIGHT;
use super::request_error::RequestError;
use super::worker::{RequestContext, Worker};
use lru::LruCache;
use std::cell::RefCell;
use std::num::NonZeroUsize;
use stockhold_api::problem::Problem;
use stockhold_domain::{
    AccessDenied, Command, Hold, HoldChange, Item, ItemKey, Label, Rejection, ReservationId, Scope,
    Transition,
};
use stockhold_service::{MissingPermission, Principal, Scope as AccessScope};
use stockhold_store::{EventRow, ItemPageRequest, Query, QueryResult};

/// Reservations whose creators a worker remembers. Who created a reservation never changes.
const CREATORS: NonZeroUsize = NonZeroUsize::new(16_384).unwrap();

/// The creators of reservations, as far as they were asked for.
pub(super) struct Creators(RefCell<LruCache<ReservationId, Label>>);

impl Default for Creators {
    fn default() -> Self {
        Self(RefCell::new(LruCache::new(CREATORS)))
    }
}

impl Worker {
    /// Judges what needs no state of the store: the caller's scopes, the items that a command names, and who made its reservations.
    /// The rest is judged by the rules in the commit of the command ([`stockhold_domain::Access`]). A reserve without a channel gets the
    /// caller's only one.
    pub(super) async fn restrict(
        &self,
        context: RequestContext<'_>,
        mut command: Command,
    ) -> Result<Command, RequestError> {
        let principal = &context.caller.principal;
        if command.overrides_limits() && !principal.may(AccessScope::LimitsOverride) {
            return Err(Problem::not_permitted(MissingPermission::Scope(AccessScope::LimitsOverride)).into());
        }
        if let Command::Reserve(reserve) = &command
            && let Some(checkout) = &reserve.checkout
        {
            if !principal.may(AccessScope::CheckoutWrite) {
                let missing = MissingPermission::Scope(AccessScope::CheckoutWrite);
                return Err(Problem::not_permitted(missing).into());
            }
            self.check_provider(&checkout.terms, "/auto_checkout")?;
        }
        let restrictions = &principal.restrictions;
        if restrictions.is_none() {
            return Ok(command);
        }
        if restrictions.own_reservations_only {
            let sources = if let Command::Merge(merge) = &command { &*merge.from } else { &[] };
            for id in command.reservation().iter().chain(sources) {
                self.check_own(principal, *id).await?;
            }
        }
        if let Command::Reserve(reserve) = &mut command
            && reserve.terms.channel().is_none()
            && let Some(channel) = restrictions.default_channel()
        {
            reserve.terms.optional.get_or_insert_default().channel = Some(channel.clone());
        }
        // A gate may answer before the rules do.
        allow(principal.access().denies_command(&command))?;
        Ok(command)
    }

    /// A reservation that the caller may see.
    pub(super) async fn visible_hold(
        &self,
        context: RequestContext<'_>,
        id: ReservationId,
    ) -> Result<Hold, RequestError> {
        let principal = &context.caller.principal;
        let QueryResult::Reservation(hold) = self.find(Query::Reservation(id)).await? else {
            return Err(RequestError::wrong_answer());
        };
        let hold = hold.ok_or_else(|| Problem::from(Rejection::UnknownReservation(id)))?;
        self.check_own(principal, id).await?;
        allow(principal.access().denies_hold(&hold))?;
        Ok(hold)
    }

    /// Refuses a reservation that somebody else made, if the caller may only see its own. Who made a reservation never changes.
    async fn check_own(&self, principal: &Principal, id: ReservationId) -> Result<(), RequestError> {
        if self.is_own(principal, id, &Examined::default()).await? {
            return Ok(());
        }
        Err(Problem::from(Rejection::UnknownReservation(id)).into())
    }

    /// Whether the caller may see a reservation.
    pub(super) async fn sees_reservation(
        &self,
        principal: &Principal,
        hold: &Hold,
        examined: &Examined,
    ) -> Result<bool, RequestError> {
        Ok(principal.restrictions.denies_hold(hold).is_none()
            && self.is_own(principal, hold.id, examined).await?)
    }

    /// Whether the caller may see an event. What limits count concerns everything, so a restricted caller's event is left without it.
    pub(super) async fn reveal_event(
        &self,
        principal: &Principal,
        row: &mut EventRow,
        examined: &Examined,
    ) -> Result<bool, RequestError> {
        let restrictions = &principal.restrictions;
        let creator = restrictions.own_reservations_only.then(|| creator_of_event(row).cloned()).flatten();
        match &mut row.event.transition {
            Transition::Record { .. } => Ok(restrictions.is_none() && principal.may(AccessScope::KeysAdmin)),
            _ if restrictions.is_none() => Ok(true),
            Transition::Hold { hold, limits, .. } => {
                *limits = None;
                if let Some(creator) = creator {
                    self.creators.0.borrow_mut().put(hold.id, creator);
                }
                self.sees_reservation(principal, hold, examined).await
            }
            Transition::Stock { item, .. } => Ok(restrictions.denies_item(&item.key).is_none()),
            Transition::Limit { .. } => Ok(false),
            Transition::Sale { scope, .. } => Ok(restrictions.denies_scope(scope).is_none()),
        }
    }

    /// Leaves out the reservations of a page that the caller may not see.
    pub(super) async fn visible(
        &self,
        principal: &Principal,
        holds: Vec<Hold>,
        examined: &Examined,
    ) -> Result<Vec<Hold>, RequestError> {
        if principal.restrictions.is_none() {
            return Ok(holds);
        }
        let mut seen = Vec::with_capacity(holds.len());
        for hold in holds {
            if self.sees_reservation(principal, &hold, examined).await? {
                seen.push(hold);
            }
        }
        Ok(seen)
    }

    /// Leaves out the events that the caller may not see.
    pub(super) async fn visible_events(
        &self,
        context: RequestContext<'_>,
        rows: Vec<EventRow>,
        examined: &Examined,
    ) -> Result<Vec<EventRow>, RequestError> {
        let mut seen = Vec::with_capacity(rows.len());
        for mut row in rows {
            if self.reveal_event(&context.caller.principal, &mut row, examined).await? {
                seen.push(row);
            }
        }
        Ok(seen)
    }

    /// A page of the items that the caller may see, at most `wanted.limit`.
    pub(super) async fn visible_items(
        &self,
        context: RequestContext<'_>,
        wanted: ItemPageRequest,
    ) -> Result<Vec<Item>, RequestError> {
        let Some(allowed) = &context.caller.principal.restrictions.locations else {
            return self.item_page(wanted).await;
        };
        if let Some(location) = &wanted.location {
            check_location(context, location.as_str())?;
            return self.item_page(wanted).await;
        }
        // The list is in the order of locations, as the caller's locations are.
        let mut items = Vec::new();
        for location in allowed.iter() {
            let is_before = wanted.after.as_ref().is_some_and(|after| location.as_str() < after.location());
            if is_before {
                continue;
            }
            let after = wanted.after.clone().filter(|after| after.location() == location.as_str());
            let limit = wanted.limit - items.len();
            items.extend(
                self.item_page(ItemPageRequest { location: Some(location.clone()), after, limit }).await?,
            );
            if items.len() >= wanted.limit {
                break;
            }
        }
        Ok(items)
    }

    async fn item_page(&self, wanted: ItemPageRequest) -> Result<Vec<Item>, RequestError> {
        match self.find(Query::ItemPage(wanted)).await? {
            QueryResult::ItemPage(items) => Ok(items),
            _ => Err(RequestError::wrong_answer()),
        }
    }

    /// Whether a reservation is one that the caller created, if it may only see those.
    async fn is_own(
        &self,
        principal: &Principal,
        id: ReservationId,
        examined: &Examined,
    ) -> Result<bool, RequestError> {
        if !principal.restrictions.own_reservations_only {
            return Ok(true);
        }
        let known = self.creators.0.borrow_mut().get(&id).cloned();
        let creator = match known {
            Some(creator) => Some(creator),
            None => {
                examined.add(CREATOR_WEIGHT);
                let creator = self.creator(id).await?;
                if let Some(creator) = &creator {
                    self.creators.0.borrow_mut().put(id, creator.clone());
                }
                creator
            }
        };
        Ok(creator.as_ref() == Some(&principal.actor))
    }

    /// Who created a reservation: the actor of its first event. `None` when that event is not in the store any more.
    async fn creator(&self, id: ReservationId) -> Result<Option<Label>, RequestError> {
        let rows = match self.find(Query::History(id)).await? {
            QueryResult::History(rows) => rows.unwrap_or_default(),
            _ => return Err(RequestError::wrong_answer()),
        };
        let Some(first) = rows.into_iter().next() else { return Ok(None) };
        let Transition::Hold { change: HoldChange::Created | HoldChange::CreatedBySplit, hold, .. } =
            &first.event.transition
        else {
            return Ok(None);
        };
        match made_of(hold) {
            Some(other) => Box::pin(self.creator(other)).await,
            None => Ok(Some(first.event.origin.actor)),
        }
    }
}

/// Refuses what the rules of access deny.
pub(super) fn allow(denied: Option<AccessDenied>) -> Result<(), RequestError> {
    denied.map_or(Ok(()), |denied| Err(Problem::denied(denied).into()))
}

/// The reservation that another was made of. That one belongs to the creator of this one.
fn made_of(hold: &Hold) -> Option<ReservationId> {
    let details = hold.details();
    details.split_from.or(details.replaces)
}

/// Who created a reservation, if its event says it.
fn creator_of_event(row: &EventRow) -> Option<&Label> {
    let Transition::Hold { change: HoldChange::Created, hold, .. } = &row.event.transition else {
        return None;
    };
    made_of(hold).is_none().then_some(&row.event.origin.actor)
}

/// Refuses an item at a location that the caller may not see, whether the item exists or not.
pub(super) fn check_item(context: RequestContext<'_>, item: &ItemKey) -> Result<(), RequestError> {
    allow(context.caller.principal.restrictions.denies_item(item))
}

/// Refuses a location that the caller may not see.
pub(super) fn check_location(context: RequestContext<'_>, location: &str) -> Result<(), RequestError> {
    allow(context.caller.principal.restrictions.denies_location(location))
}

/// Refuses a pause, or the state of pauses, that concerns more than the caller may see.
pub(super) fn check_scope_of_sale(context: RequestContext<'_>, scope: &Scope) -> Result<(), RequestError> {
    allow(context.caller.principal.restrictions.denies_scope(scope))
}

/// Whether the caller may know which reservation has a unit.
pub(super) fn shows_holders(context: RequestContext<'_>) -> bool {
    let restrictions = &context.caller.principal.restrictions;
    !restrictions.own_reservations_only && restrictions.channels.is_none()
}
