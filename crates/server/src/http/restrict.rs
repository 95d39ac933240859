//! What a restricted caller may see and change: its locations, its sales channels, its own reservations. A caller without
//! restrictions costs nothing here.

use super::admission::Examined;
use super::admission::bounds::CREATOR_WEIGHT;
use super::request_error::RequestError;
use super::worker::{RequestContext, Worker};
use lru::LruCache;
use std::cell::RefCell;
use std::num::NonZeroUsize;
use stockhold_api::problem::Problem;
use stockhold_domain::{
    Amend, Basket, Command, Hold, HoldChange, Item, ItemKey, Label, OptionalTerms, Patch, Precondition,
    Rejection, RequestedLine, ReservationId, Reserve, Scope, Transition, UnitSelection,
};
use stockhold_service::{MissingPermission, Principal, PrincipalKind, Restrictions, Scope as AccessScope};
use stockhold_store::{EventRow, ItemPageRequest, Query, QueryResult};

/// Reservations whose creators a worker remembers. Who created a reservation never changes.
const CREATORS: NonZeroUsize = NonZeroUsize::new(16_384).unwrap();

/// The creators of reservations, as far as they were asked for.
pub(super) struct Creators(RefCell<LruCache<ReservationId, Option<Label>>>);

impl Default for Creators {
    fn default() -> Self {
        Self(RefCell::new(LruCache::new(CREATORS)))
    }
}

impl Worker {
    /// Checks a command against the caller's restrictions. A reserve without a channel gets the caller's only one.
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
        if let Some(id) = command.reservation() {
            self.check_reservation(context, id).await?;
        }
        match &mut command {
            Command::Reserve(reserve) => restrict_reserve(restrictions, reserve)?,
            Command::Amend(amend) => check_lines(restrictions, amend.basket.as_ref())?,
            Command::Merge(merge) => {
                for id in &merge.from {
                    self.check_reservation(context, *id).await?;
                }
            }
            Command::SetStock(set) => check_item(context, &set.item)?,
            Command::AdjustStock(adjust) => check_item(context, &adjust.item)?,
            Command::DeleteItem(delete) => check_item(context, &delete.item)?,
            Command::AddUnits(add) => check_item(context, &add.item)?,
            Command::RetireUnit(retire) => check_item(context, &retire.item)?,
            Command::SetPool(set) => check_item(context, &set.item)?,
            Command::DeletePool(delete) => check_item(context, &delete.item)?,
            Command::SetUnitPool(set) => check_item(context, &set.item)?,
            Command::SetSale(set) => check_scope_of_sale(context, &set.scope)?,
            Command::SetLimit(_) | Command::DeleteLimit(_) => check_unrestricted(context)?,
            // Only the reservation that they name matters.
            Command::Confirm(_)
            | Command::Release(_)
            | Command::Extend(_)
            | Command::Transfer(_)
            | Command::Split(_)
            | Command::OpenPayment(_)
            | Command::ClosePayment(_)
            | Command::StartCheckout(_)
            | Command::AdvancePayment(_)
            | Command::Refund(_)
            | Command::Fulfil(_)
            | Command::Return(_)
            | Command::Sweep
            | Command::SetRecord(_) => {}
        }
        Ok(command)
    }

    /// Refuses a reservation that the caller may not see. One that does not exist is left to the read that follows.
    pub(super) async fn check_reservation(
        &self,
        context: RequestContext<'_>,
        id: ReservationId,
    ) -> Result<(), RequestError> {
        let principal = &context.caller.principal;
        if principal.restrictions.is_none() {
            return Ok(());
        }
        let QueryResult::Reservation(hold) = self.find(Query::Reservation(id)).await? else {
            return Err(RequestError::wrong_answer());
        };
        let Some(hold) = hold else { return Ok(()) };
        if !self.is_own(principal, &hold, &Examined::default()).await? {
            return Err(Problem::from(Rejection::UnknownReservation(id)).into());
        }
        match outside(&principal.restrictions, &hold) {
            Some(missing) => Err(Problem::not_permitted(missing).into()),
            None => Ok(()),
        }
    }

    /// Refuses an amend by a hold token that does more than give units back. The command then applies only to the version of the
    /// reservation that was judged.
    pub(super) async fn check_token_amend(
        &self,
        context: RequestContext<'_>,
        command: &mut Command,
    ) -> Result<(), RequestError> {
        let (Command::Amend(amend), PrincipalKind::Hold(_)) = (command, context.caller.principal.kind) else {
            return Ok(());
        };
        let QueryResult::Reservation(hold) = self.find(Query::Reservation(amend.id)).await? else {
            return Err(RequestError::wrong_answer());
        };
        let Some(hold) = hold else { return Ok(()) };
        if !only_shrinks(amend, &hold) {
            let missing = MissingPermission::Scope(AccessScope::ReservationsWrite);
            return Err(Problem::not_permitted(missing).into());
        }
        if amend.expected.as_ref().is_none_or(|expected| expected.is_met(Some(hold.version))) {
            amend.expected = Some(Precondition::version(hold.version));
        }
        Ok(())
    }

    /// Whether the caller may see a reservation.
    pub(super) async fn sees_reservation(
        &self,
        principal: &Principal,
        hold: &Hold,
        examined: &Examined,
    ) -> Result<bool, RequestError> {
        Ok(outside(&principal.restrictions, hold).is_none() && self.is_own(principal, hold, examined).await?)
    }

    /// Whether the caller may see an event.
    pub(super) async fn sees_event(
        &self,
        principal: &Principal,
        row: &EventRow,
        examined: &Examined,
    ) -> Result<bool, RequestError> {
        let restrictions = &principal.restrictions;
        match &row.event.transition {
            Transition::Record { .. } => Ok(restrictions.is_none() && principal.may(AccessScope::KeysAdmin)),
            _ if restrictions.is_none() => Ok(true),
            Transition::Hold { hold, .. } => {
                if let Some(creator) = creator_of_event(row).filter(|_| restrictions.own_reservations_only) {
                    self.creators.0.borrow_mut().put(hold.id, Some(creator.clone()));
                }
                self.sees_reservation(principal, hold, examined).await
            }
            Transition::Stock { item, .. } => Ok(restrictions.allows_item(&item.key)),
            Transition::Limit { .. } => Ok(false),
            Transition::Sale { scope, .. } => Ok(refusal_for_sale(restrictions, scope).is_none()),
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
        for row in rows {
            if self.sees_event(&context.caller.principal, &row, examined).await? {
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
        hold: &Hold,
        examined: &Examined,
    ) -> Result<bool, RequestError> {
        if !principal.restrictions.own_reservations_only {
            return Ok(true);
        }
        let known = self.creators.0.borrow_mut().get(&hold.id).cloned();
        let creator = match known {
            Some(creator) => creator,
            None => {
                examined.add(CREATOR_WEIGHT);
                let creator = self.creator(hold.id).await?;
                self.creators.0.borrow_mut().put(hold.id, creator.clone());
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
    check_location(context, item.location())
}

/// Refuses a location that the caller may not see.
pub(super) fn check_location(context: RequestContext<'_>, location: &str) -> Result<(), RequestError> {
    match missing_location(&context.caller.principal.restrictions, location) {
        Some(missing) => Err(Problem::not_permitted(missing).into()),
        None => Ok(()),
    }
}

/// Refuses a caller with restrictions something that concerns everything.
pub(super) fn check_unrestricted(context: RequestContext<'_>) -> Result<(), RequestError> {
    check_scope_of_sale(context, &Scope::Everything)
}

/// Refuses a pause, or the state of pauses, that concerns more than the caller may see.
pub(super) fn check_scope_of_sale(context: RequestContext<'_>, scope: &Scope) -> Result<(), RequestError> {
    match refusal_for_sale(&context.caller.principal.restrictions, scope) {
        Some(problem) => Err(problem.into()),
        None => Ok(()),
    }
}

/// Whether the caller may know which reservation has a unit.
pub(super) fn shows_holders(context: RequestContext<'_>) -> bool {
    let restrictions = &context.caller.principal.restrictions;
    !restrictions.own_reservations_only && restrictions.channels.is_none()
}

fn restrict_reserve(restrictions: &Restrictions, reserve: &mut Reserve) -> Result<(), RequestError> {
    check_lines(restrictions, Some(&reserve.basket))?;
    let optional = &mut reserve.terms.optional;
    let named = |optional: &Option<Box<OptionalTerms>>| {
        optional.as_ref().and_then(|optional| optional.channel.clone())
    };
    if named(optional).is_none()
        && let Some(channel) = restrictions.default_channel()
    {
        optional.get_or_insert_default().channel = Some(channel.clone());
    }
    let channel = named(optional);
    if restrictions.allows_channel(channel.as_ref().map(Label::as_str)) {
        return Ok(());
    }
    Err(Problem::not_permitted(MissingPermission::Channel(channel)).into())
}

/// Refuses lines that may take from a location that the caller may not see.
fn check_lines(restrictions: &Restrictions, basket: Option<&Basket>) -> Result<(), RequestError> {
    let mut items = basket.into_iter().flat_map(Basket::items);
    match items.find_map(|item| missing_location(restrictions, item.location())) {
        Some(missing) => Err(Problem::not_permitted(missing).into()),
        None => Ok(()),
    }
}

/// Whether an amend only gives units back, and changes nothing that the holder of a token may not change.
fn only_shrinks(amend: &Amend, hold: &Hold) -> bool {
    let lines = amend.basket.as_ref().map(|basket| basket.lines().iter().enumerate());
    let fits = |(number, line): (usize, &RequestedLine)| {
        let Some(own) = hold.lines.iter().find(|own| own.item == line.item) else { return false };
        match amend.basket.as_ref().and_then(|basket| basket.selection(number)) {
            None => line.quantity <= u64::from(own.quantity),
            Some(UnitSelection::Named(ids)) => {
                ids.iter().all(|id| own.units().iter().any(|unit| unit.id == *id))
            }
            Some(UnitSelection::BestAvailable(_)) => false,
        }
    };
    amend.metadata == Patch::Keep && lines.is_none_or(|mut lines| lines.all(fits))
}

/// What the caller lacks to see a reservation, besides having made it.
fn outside(restrictions: &Restrictions, hold: &Hold) -> Option<MissingPermission> {
    let location = hold.lines.iter().find_map(|line| missing_location(restrictions, line.item.location()));
    location.or_else(|| {
        let optional = hold.terms.reserve.optional.as_ref();
        let channel = optional.and_then(|optional| optional.channel.as_ref());
        let allowed = restrictions.allows_channel(channel.map(Label::as_str));
        (!allowed).then(|| MissingPermission::Channel(channel.cloned()))
    })
}

fn missing_location(restrictions: &Restrictions, location: &str) -> Option<MissingPermission> {
    let allowed = restrictions.allows_location(location);
    (!allowed).then(|| MissingPermission::Location(Label::new(location).ok()))
}

/// The refusal of a pause, or of the state of pauses, that concerns more than the caller may see.
fn refusal_for_sale(restrictions: &Restrictions, scope: &Scope) -> Option<Problem> {
    let missing = match scope {
        Scope::Everything if restrictions.is_none() => None,
        Scope::Everything if restrictions.locations.is_some() => Some(MissingPermission::Location(None)),
        Scope::Everything => return Some(Problem::concerns_everything()),
        Scope::Location(location) => missing_location(restrictions, location.as_str()),
        Scope::Item(item) => missing_location(restrictions, item.location()),
    };
    missing.map(Problem::not_permitted)
}
