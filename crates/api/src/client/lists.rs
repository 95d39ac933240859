//! Calls for many objects at once: lists, events, availabilities, and batches of commands.

use super::attempt::Error;
use super::request::{Request, fresh_key, push_parameter};
use super::{At, Client, reservation};
use crate::encode;
use crate::wire::{Command, CommandResult, Event, Item, Page, Reservation, Stocked};
use serde::{Deserialize, Serialize};
use stockhold_domain::{ReservationId, Status};

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

    /// Committed events after a position, the oldest first. The page's `next_cursor` is the position of the next page.
    pub async fn events(&self, after: u64, limit: Option<usize>) -> Result<Page<Event>, Error> {
        let mut path = format!("/v1/events?after={after}");
        push_parameter(&mut path, "limit", limit.map(|limit| limit.to_string()).as_deref());
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

pub(super) fn push_page(path: &mut String, limit: Option<usize>, starting_after: Option<&str>) {
    push_parameter(path, "limit", limit.map(|limit| limit.to_string()).as_deref());
    push_parameter(path, "starting_after", starting_after);
}
