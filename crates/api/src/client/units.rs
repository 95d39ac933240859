//! The calls on units with ids.

use super::attempt::Error;
use super::lists::{History, push_page};
use super::request::{Request, push_encoded, push_parameter};
use super::{At, Client, reservation};
use crate::wire::{Event, Page, PostedUnit, Reservation, SeatMap, Terms, Unit, UnitsAdded, Wish};
use serde::Serialize;
use stockhold_domain::ReservationId;

/// Which units to list: those that all that is given applies to, in the order of their claims.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnitsListed<'a> {
    /// How they stand: `available`, `held` or `sold`.
    pub status: Option<&'a str>,
    /// Which section they are of.
    pub section: Option<&'a str>,
}

impl Client {
    /// Adds units to an item of mode `units`. Those that are there and the same stay, so repeating it does no harm.
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

    /// One unit: where it stands, and who has it.
    pub async fn unit(&self, at: At<'_>, unit_id: &str) -> Result<Unit, Error> {
        self.http.read(Request::new("GET", at.path(&tail(unit_id, "")))).await
    }

    /// What moved a unit since it was added, oldest first: the newest 64 events at most.
    pub async fn unit_history(&self, at: At<'_>, unit_id: &str) -> Result<Vec<Event>, Error> {
        let history: History =
            self.http.read(Request::new("GET", at.path(&tail(unit_id, "/events")))).await?;
        Ok(history.data)
    }

    /// Lets go of a unit that nobody holds or has bought. A try whose answer was lost may have done so: then the next one
    /// is refused with `unknown_unit`.
    pub async fn retire_unit(&self, at: At<'_>, unit_id: &str) -> Result<(), Error> {
        self.http.send(Request::new("DELETE", at.path(&tail(unit_id, "")))).await?.done()
    }

    /// Where every unit of an item stands; with the units themselves, if they are wanted.
    pub async fn seat_map(&self, at: At<'_>, layout: bool) -> Result<SeatMap, Error> {
        let mut path = at.path("/seat-map");
        push_parameter(&mut path, "layout", Some(if layout { "true" } else { "false" }));
        self.http.read(Request::new("GET", path)).await
    }

    /// Holds units of one item, by their ids or the best there are. A key is made when none is given.
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

    /// Takes sold units back by their ids, whichever lines have them. A key is made when none is given.
    pub async fn return_named(
        &self,
        id: ReservationId,
        units: &[&str],
        reason: &str,
        key: Option<&str>,
    ) -> Result<Reservation, Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            units: &'a [&'a str],
            reason: &'a str,
        }
        let request = Request::new("POST", reservation(id, "/return")).json(&Body { units, reason })?;
        self.http.read(request.key(key)).await
    }
}

/// A path under one unit, below its item's.
fn tail(unit_id: &str, rest: &str) -> String {
    let mut tail = "/units/".to_owned();
    push_encoded(&mut tail, unit_id);
    tail.push_str(rest);
    tail
}
