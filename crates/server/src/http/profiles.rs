//! The routes of the profiles that are more than one command: the stock of a hub, the reserve of a hub, which makes one hold for each
//! order, and an extension without a time.

use super::reply::{self, ResponseKind};
use super::request_error::RequestError;
use super::restrict::check_item;
use super::worker::{HandlerResult, RequestContext, Worker};
use lru::LruCache;
use std::cell::RefCell;
use std::num::NonZeroUsize;
use stockhold_api::problem::Problem;
use stockhold_api::profiles::hub::{self, OrderLine};
use stockhold_api::profiles::storefront::{ExtendRequest, without_key};
use stockhold_api::profiles::{Shape, hub::HOLD};
use stockhold_api::routes::RouteId;
use stockhold_domain::{
    Amend, Command, Fulfilment, Hold, IdempotencyKey, Instant, ItemKey, KeyHash, Outcome, Patch, Rejection,
    Reply, ReservationId, Reserve, Seconds, Status,
};
use stockhold_store::digest;

/// Orders with ended holds that a worker remembers.
const ENDED_ORDERS: NonZeroUsize = NonZeroUsize::new(16_384).unwrap();
/// How long after the first hold of an order its ended holds are remembered, in microseconds: an hour. It must be far less than the
/// shortest time that idempotency keys are kept. Without the key of its first hold, an order begins anew, on every server alike.
const REMEMBERED_MICROS: i64 = 3_600_000_000;

/// The latest ended hold of orders, by the idempotency key of their first hold. It only saves look-ups: the holds of an order are a
/// chain of keys, and a link of the chain that has ended never changes.
pub(super) struct EndedOrders(RefCell<LruCache<u128, EndedHold>>);

#[derive(Clone, Copy)]
struct EndedHold {
    id: ReservationId,
    /// When the first hold of the order was made.
    first_at: Instant,
}

impl Default for EndedOrders {
    fn default() -> Self {
        Self(RefCell::new(LruCache::new(ENDED_ORDERS)))
    }
}

impl EndedOrders {
    fn find(&self, first_key: KeyHash, now: Instant) -> Option<EndedHold> {
        let known = self.0.borrow_mut().get(&first_key.0).copied()?;
        let age = now.micros().saturating_sub(known.first_at.micros());
        (age < REMEMBERED_MICROS).then_some(known)
    }

    fn put(&self, first_key: KeyHash, ended: EndedHold) {
        self.0.borrow_mut().put(first_key.0, ended);
    }
}

impl Worker {
    pub(super) async fn hub_stock(&self, context: RequestContext<'_>, key: ItemKey) -> HandlerResult {
        check_item(context, &key)?;
        let item = self.item(key).await?;
        Ok(reply::json(|out| hub::write_stock(out, &item)))
    }

    /// Answers with the live or confirmed hold of an order, or makes one.
    ///
    /// The store makes one hold of all requests with the same idempotency key. The key of an order's first hold names hub, order and
    /// SKU. If that hold has ended, the next key names it too, and so on along the chain of ended holds. So all servers try the same
    /// key at the same time, whatever each of them has seen before.
    pub(super) async fn hub_reserve(&self, context: RequestContext<'_>, line: OrderLine) -> HandlerResult {
        let command = self.restrict(context, Command::Reserve(line.reserve())).await?;
        let Command::Reserve(mut reserve) = command else { return Err(RequestError::wrong_answer()) };
        let first_key = order_key(context, &line, None);
        let mut ended = self.ended_orders.find(first_key.hash, self.clocks.store.now());
        let mut ttl = HOLD;
        loop {
            let key = match ended {
                None => first_key,
                Some(EndedHold { id, .. }) => order_key(context, &line, Some(id)),
            };
            reserve = Reserve { ttl: Some(ttl), ..reserve };
            let command = Command::Reserve(reserve.clone());
            match self.run(context, command, Some(key)).await? {
                Outcome::Done(Reply::Reservation(hold)) => {
                    return Ok(reply::json(|out| hub::write_new(out, &hold, ttl)));
                }
                Outcome::Replayed(Reply::Reservation(hold)) if self.has_ended(context, &hold).await? => {
                    let first_at = ended.map_or(hold.terms.created_at, |ended| ended.first_at);
                    let latest = EndedHold { id: hold.id, first_at };
                    self.ended_orders.put(first_key.hash, latest);
                    ended = Some(latest);
                }
                Outcome::Replayed(Reply::Reservation(hold)) if line.is_held_by(&hold) => {
                    return Ok(reply::json(|out| hub::write_known(out, &hold, self.clocks.store.now())));
                }
                Outcome::Replayed(Reply::Reservation(_)) => {
                    return Err(Problem::from(Rejection::IdempotencyMismatch).into());
                }
                // The item allows less.
                Outcome::Refused(Rejection::TtlTooLong { max }) if max < ttl => ttl = max,
                Outcome::Refused(rejection) => return Err(Problem::from(rejection).into()),
                Outcome::Done(_) | Outcome::Replayed(_) | Outcome::Later => {
                    return Err(RequestError::wrong_answer());
                }
            }
        }
    }

    /// Whether a hold has been released or has expired. If its deadline seems to have come, the rules are asked, by a change that
    /// changes nothing: the clock of a database counts, and not the clock of this server.
    async fn has_ended(&self, context: RequestContext<'_>, hold: &Hold) -> Result<bool, RequestError> {
        match hold.status {
            Status::Cancelled | Status::Expired => return Ok(true),
            Status::Confirmed => return Ok(false),
            Status::Active if !hold.is_due(self.clocks.store.now()) => return Ok(false),
            Status::Active => {}
        }
        let unchanged = Command::Amend(Amend {
            override_limits: false,
            id: hold.id,
            basket: None,
            fulfilment: Fulfilment::All,
            ttl: None,
            metadata: Patch::Keep,
            expected: None,
        });
        Ok(matches!(
            self.run(context, unchanged, None).await?,
            Outcome::Refused(Rejection::ReservationExpired { .. } | Rejection::ReservationCancelled(_))
        ))
    }

    /// An extension. Without a time it is as long as a hold of the same items whose request names none.
    pub(super) async fn storefront_extend(
        &self,
        context: RequestContext<'_>,
        extend: ExtendRequest,
    ) -> HandlerResult {
        let default = match extend.ttl {
            Some(ttl) => ttl,
            None => self.default_hold(context, extend.id).await?,
        };
        let kind = ResponseKind::Profile(Shape::StorefrontDone);
        self.keyed(context, without_key(extend.command(default)), kind).await
    }

    /// The shortest default hold of the items of a reservation.
    async fn default_hold(
        &self,
        context: RequestContext<'_>,
        id: ReservationId,
    ) -> Result<Seconds, RequestError> {
        let hold = self.visible_hold(context, id).await?;
        let mut shortest = None;
        for line in hold.lines.iter() {
            // The item of an ended reservation may be gone. The command then says that the reservation has ended.
            let Some(item) = self.item_if_known(&line.item).await? else { continue };
            let default = self.rules.default_hold(&item);
            shortest = Some(shortest.map_or(default, |known: Seconds| known.min(default)));
        }
        Ok(shortest.unwrap_or(self.rules.default_ttl))
    }
}

/// The idempotency key of the hold that an order gets after its last one has ended. Whether a repeated request has the same quantity
/// and user is judged by the hold, so the fingerprint says nothing of them.
fn order_key(context: RequestContext<'_>, line: &OrderLine, ended: Option<ReservationId>) -> IdempotencyKey {
    let key = line.key(ended);
    let operation = RouteId::HubReserve.spec().operation;
    IdempotencyKey {
        hash: digest::key_hash(context.caller.principal.actor.as_str(), operation, &key),
        fingerprint: digest::request_fingerprint(key.as_bytes()),
    }
}
