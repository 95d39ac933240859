//! The calls on units with ids.

use super::attempt::Error;
use super::lists::{History, push_page};
use super::request::{Request, push_encoded, push_parameter};
use super::{At, Client};
use crate::wire::{Event, Page, PostedUnit, Reservation, SeatMap, Terms, Unit, UnitsAdded, Wish};
use serde::Serialize;

/// Selects units: those that match all given conditions, in claim order.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnitsListed<'a> {
    /// Their status: `available`, `held` or `sold`.
    pub status: Option<&'a str>,
    /// Their section.
    pub section: Option<&'a str>,
}

impl Client {
    /// Adds units to an item of mode `units`. Equal units that exist stay, so a repetition changes nothing.
    pub async fn add_units(&self, at: At<'_>, units: &[PostedUnit]) -> Result<UnitsAdded, Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            units: &'a [PostedUnit],
        }
        self.http.read(Request::new("POST", at.path("/units")).json(&Body { units })?).await
    }

    /// A page of an item's units; `starting_after` is the `next_cursor` of the page before.
    pub async fn units(
        &self,
        at: At<'_>,
        listed: UnitsListed<'_>,
        limit: Option<usize>,
        starting_after: Option<&str>,
    ) -> Result<Page<Unit>, Error> {
        let mut path = at.path("/units");
        push_parameter(&mut path, "status", listed.status);
        push_parameter(&mut path, "section", listed.section);
        push_page(&mut path, limit, starting_after);
        self.http.read(Request::new("GET", path)).await
    }

    /// One unit: its status, and the reservation that has it.
    pub async fn unit(&self, at: At<'_>, unit_id: &str) -> Result<Unit, Error> {
        self.http.read(Request::new("GET", at.path(&tail(unit_id, "")))).await
    }

    /// The events that changed a unit since it was added, the oldest first: at most the newest 64.
    pub async fn unit_history(&self, at: At<'_>, unit_id: &str) -> Result<Vec<Event>, Error> {
        let history: History =
            self.http.read(Request::new("GET", at.path(&tail(unit_id, "/events")))).await?;
        Ok(history.data)
    }

    /// Retires a unit that is neither held nor sold. If the answer of a try was lost, the next try may be refused with
    /// `unknown_unit`.
    pub async fn retire_unit(&self, at: At<'_>, unit_id: &str) -> Result<(), Error> {
        self.http.send(Request::new("DELETE", at.path(&tail(unit_id, "")))).await?.done()
    }

    /// The status of every unit of an item, and the units themselves if requested.
    pub async fn seat_map(&self, at: At<'_>, layout: bool) -> Result<SeatMap, Error> {
        let mut path = at.path("/seat-map");
        push_parameter(&mut path, "layout", Some(if layout { "true" } else { "false" }));
        self.http.read(Request::new("GET", path)).await
    }

    /// Holds units of one item: named ones, or the best available. A key is generated when none is given.
    pub async fn reserve_units(
        &self,
        at: At<'_>,
        wish: &Wish,
        terms: &Terms,
        key: Option<&str>,
    ) -> Result<Reservation, Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            #[serde(flatten)]
            wish: &'a Wish,
            #[serde(flatten)]
            terms: &'a Terms,
        }
        self.http.read(Request::new("POST", at.path("/reserve")).json(&Body { wish, terms })?.key(key)).await
    }
}

/// A path under one unit, below its item's.
fn tail(unit_id: &str, rest: &str) -> String {
    let mut tail = "/units/".to_owned();
    push_encoded(&mut tail, unit_id);
    tail.push_str(rest);
    tail
}
