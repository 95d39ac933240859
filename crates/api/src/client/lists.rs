//! Calls for many objects at once: lists, events, availabilities, and batches of commands.

use super::attempt::Error;
use super::request::{Request, fresh_key, push_parameter};
use super::{At, Client, reservation};
use crate::wire::{
    Command, CommandResult, Event, Item, LocationsAvailability, Page, Quote, Reservation, Stocked,
};
use crate::{EventType, encode};
use serde::{Deserialize, Serialize};
use stockhold_domain::{Instant, ReservationId, Status};

/// Selects reservations: those that match all given conditions, the newest first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listed<'a> {
    /// The owner.
    pub owner_id: Option<&'a str>,
    /// One of their lines has this SKU.
    pub sku: Option<&'a str>,
    /// One of their lines is at this location.
    pub location: Option<&'a str>,
    /// Their current status.
    pub status: Option<Status>,
    /// The order that they were confirmed for. The one that was confirmed last comes first.
    pub order_id: Option<&'a str>,
    /// The customer.
    pub customer_id: Option<&'a str>,
    /// They were created at this instant or later. It is sent in whole microseconds.
    pub created_after: Option<Instant>,
    /// They were created before this instant, which is later than `created_after`.
    pub created_before: Option<Instant>,
}

/// The events of a reservation or of a unit.
#[derive(Deserialize)]
pub(super) struct History {
    pub(super) data: Vec<Event>,
}

impl Client {
    /// A page of reservations; `starting_after` is the `next_cursor` of the page before.
    pub async fn reservations(
        &self,
        listed: Listed<'_>,
        limit: Option<usize>,
        starting_after: Option<&str>,
    ) -> Result<Page<Reservation>, Error> {
        let mut path = "/v1/reservations".to_owned();
        push_parameter(&mut path, "owner_id", listed.owner_id);
        push_parameter(&mut path, "sku", listed.sku);
        push_parameter(&mut path, "location", listed.location);
        push_parameter(&mut path, "status", listed.status.map(encode::status));
        push_parameter(&mut path, "order_id", listed.order_id);
        push_parameter(&mut path, "customer_id", listed.customer_id);
        push_parameter(&mut path, "created_after", listed.created_after.map(moment).as_deref());
        push_parameter(&mut path, "created_before", listed.created_before.map(moment).as_deref());
        push_page(&mut path, limit, starting_after);
        self.http.read(Request::new("GET", path)).await
    }

    /// A page of items, in order of location and SKU; `starting_after` is the `next_cursor` of the page before.
    pub async fn items(
        &self,
        location: Option<&str>,
        limit: Option<usize>,
        starting_after: Option<&str>,
    ) -> Result<Page<Item>, Error> {
        let mut path = "/v1/inventory".to_owned();
        push_parameter(&mut path, "location", location);
        push_page(&mut path, limit, starting_after);
        self.http.read(Request::new("GET", path)).await
    }

    /// All events of one reservation, oldest first.
    pub async fn history(&self, id: ReservationId) -> Result<Vec<Event>, Error> {
        let history: History = self.http.read(Request::new("GET", reservation(id, "/events"))).await?;
        Ok(history.data)
    }

    /// Committed events after a position, the oldest first; without types, of all types. The page's `next_cursor` is
    /// the position of the next page. A page of some types may be short or empty although more follow.
    pub async fn events(
        &self,
        after: u64,
        limit: Option<usize>,
        types: &[EventType],
    ) -> Result<Page<Event>, Error> {
        let mut path = format!("/v1/events?after={after}");
        push_parameter(&mut path, "limit", limit.map(|limit| limit.to_string()).as_deref());
        push_types(&mut path, types);
        self.http.read(Request::new("GET", path)).await
    }

    /// The newest events, 1 to 1,000 of them, the oldest first; without types, of all types.
    pub async fn newest_events(&self, count: usize, types: &[EventType]) -> Result<Page<Event>, Error> {
        let mut path = format!("/v1/events?tail={count}");
        push_types(&mut path, types);
        self.http.read(Request::new("GET", path)).await
    }

    /// The availability of up to 1,000 items, in the order of the request.
    pub async fn availability(&self, items: &[At<'_>]) -> Result<Vec<Stocked>, Error> {
        #[derive(Serialize)]
        struct Name<'a> {
            sku: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            location: Option<&'a str>,
        }
        #[derive(Serialize)]
        struct Body<'a> {
            items: Vec<Name<'a>>,
        }
        #[derive(Deserialize)]
        struct Found {
            items: Vec<Stocked>,
        }
        let items = items.iter().map(|at| Name { sku: at.sku, location: at.location }).collect();
        let request = Request::new("POST", "/v1/availability".to_owned()).json(&Body { items })?;
        let found: Found = self.http.read(request).await?;
        Ok(found.items)
    }

    /// What a reserve of these units would cost now. Nothing is held.
    pub async fn quote(&self, lines: &[(At<'_>, u64)], channel: Option<&str>) -> Result<Quote, Error> {
        #[derive(Serialize)]
        struct Line<'a> {
            sku: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            location: Option<&'a str>,
            quantity: u64,
        }
        #[derive(Serialize)]
        struct Body<'a> {
            lines: Vec<Line<'a>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            channel: Option<&'a str>,
        }
        let lines = lines.iter();
        let lines =
            lines.map(|(at, quantity)| Line { sku: at.sku, location: at.location, quantity: *quantity });
        let body = Body { lines: lines.collect(), channel };
        self.http.read(Request::new("POST", "/v1/prices/quote".to_owned()).json(&body)?).await
    }

    /// The availability of a SKU at up to 1,000 locations, and at all of them together.
    pub async fn availability_at(
        &self,
        sku: &str,
        locations: &[&str],
    ) -> Result<LocationsAvailability, Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            sku: &'a str,
            locations: &'a [&'a str],
        }
        let body = Body { sku, locations };
        self.http.read(Request::new("POST", "/v1/availability".to_owned()).json(&body)?).await
    }

    /// Up to 8,192 commands in order. Each succeeds or fails on its own. A key is generated for each command without
    /// one.
    pub async fn commands(&self, mut commands: Vec<Command>) -> Result<Vec<CommandResult>, Error> {
        #[derive(Serialize)]
        struct Body {
            commands: Vec<Command>,
        }
        #[derive(Deserialize)]
        struct Done {
            results: Vec<CommandResult>,
        }
        for command in &mut commands {
            if let Some(key) = command.idempotency_key() {
                key.get_or_insert_with(fresh_key);
            }
        }
        let request = Request::new("POST", "/v1/commands".to_owned()).json(&Body { commands })?;
        let done: Done = self.http.read(request).await?;
        Ok(done.results)
    }
}

/// An instant to the microsecond, which a filter needs.
fn moment(at: Instant) -> String {
    jiff::Timestamp::from_microsecond(at.micros()).map_or_else(|_| encode::time(at), |at| format!("{at:.6}"))
}

/// Appends the types that events are asked for, if any are named.
pub(super) fn push_types(path: &mut String, types: &[EventType]) {
    let names: Vec<_> = types.iter().map(|kind| kind.name()).collect();
    push_parameter(path, "type", Some(names.join(",")).as_deref().filter(|names| !names.is_empty()));
}

pub(super) fn push_page(path: &mut String, limit: Option<usize>, starting_after: Option<&str>) {
    push_parameter(path, "limit", limit.map(|limit| limit.to_string()).as_deref());
    push_parameter(path, "starting_after", starting_after);
}
