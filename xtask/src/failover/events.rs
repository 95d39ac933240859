//! A reader of events, by position, while databases fail: what it was shown is there afterwards under the same position, and no
//! position is left out or given twice.

use crate::http::{Answer, Connection, Request};
use crate::{Outcome, fail};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PAGE: usize = 500;
/// How often it looks for more.
const PAUSE: Duration = Duration::from_millis(25);
/// Events before the newest seen that are read again after each failover, besides those after it.
const AGAIN: usize = 5_000;

/// A reader of events while databases fail.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// By position, from 1.
    ids: Vec<String>,
    /// The same, by id.
    positions: BTreeMap<String, usize>,
    created: usize,
    /// A split has one on each of its two reservations.
    split: usize,
}

impl Events {
    pub(super) fn count(&self) -> usize {
        self.ids.len()
    }

    /// Reads what comes, of one server and then of the other.
    pub(super) fn follow(&mut self, servers: &[SocketAddr], stop: &AtomicBool) -> Outcome<()> {
        for server in servers.iter().cycle() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            match page(*server, self.ids.len()) {
                Ok(answer) if answer.status == 200 => {
                    self.take(&answer)?;
                }
                Ok(answer) if answer.status == 503 => {}
                Ok(answer) => return fail(format!("GET events: {}", answer.brief())),
                // A database that is silent is waited for longer than any reader waits.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Reads the last known events again, then all newer ones. `reservations` is how many are known to exist.
    pub(super) fn audit(&mut self, server: SocketAddr, reservations: usize) -> Outcome<()> {
        let known = self.ids.len();
        let mut after = known.saturating_sub(AGAIN);
        while after < known {
            let answer = page(server, after)?;
            let read = ids(&answer)?;
            if read.is_empty() {
                return fail(format!("events after position {after} are gone; they were read up to {known}"));
            }
            after = self.read_again(after, read)?;
        }
        while self.take(&page(server, self.ids.len())?)? > 0 {}
        let created = self.created + self.split / 2;
        if created != reservations {
            return fail(format!(
                "{created} reservations were made by the events, {reservations} were acknowledged"
            ));
        }
        Ok(())
    }

    /// What comes behind `after` is what came there before, position by position. How far it goes.
    fn read_again(&self, mut after: usize, read: Vec<(usize, String)>) -> Outcome<usize> {
        for (position, id) in read {
            if position != after + 1 {
                return fail(format!("position {position} follows {after} now"));
            }
            if let Some(was) = self.ids.get(after)
                && *was != id
            {
                return fail(format!("position {position} was {was} and is {id} now"));
            }
            after = position;
        }
        Ok(after)
    }

    /// What comes behind what is known. How many it were.
    fn take(&mut self, answer: &Answer) -> Outcome<usize> {
        let read = ids(answer)?;
        for (position, id) in &read {
            if *position != self.ids.len() + 1 {
                return fail(format!("position {position} follows {}", self.ids.len()));
            }
            if let Some(other) = self.positions.insert(id.clone(), *position) {
                return fail(format!("{id} is at position {other} and at {position}"));
            }
            self.ids.push(id.clone());
        }
        let events = answer.json();
        let events = events["data"].as_array().map_or(&[][..], Vec::as_slice);
        let of_type = |name: &str| events.iter().filter(|event| event["type"] == name).count();
        self.created += of_type("reservation.created");
        self.split += of_type("reservation.split");
        Ok(read.len())
    }
}

fn page(server: SocketAddr, after: usize) -> std::io::Result<Answer> {
    Connection::open(server)?.call(&Request::get(format!("/v1/events?after={after}&limit={PAGE}")))
}

/// Positions and ids of a page.
fn ids(answer: &Answer) -> Outcome<Vec<(usize, String)>> {
    let json = answer.json();
    let Some(events) = json["data"].as_array() else {
        return fail(format!("GET events: {}", answer.brief()));
    };
    let mut read = Vec::new();
    for event in events {
        match (event["position"].as_u64(), event["id"].as_str()) {
            (Some(position), Some(id)) => read.push((usize::try_from(position)?, id.to_owned())),
            _ => return fail(format!("an event without position or id: {event}")),
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn page(events: &[(usize, &str)]) -> Answer {
        let event = |(position, id): &(usize, &str)| json!({"position": position, "id": id, "type": "reservation.created"});
        let data: Vec<_> = events.iter().map(event).collect();
        Answer { status: 200, replayed: false, body: json!({ "data": data }).to_string().into_bytes() }
    }

    fn known() -> Events {
        let mut events = Events::default();
        assert_eq!(events.take(&page(&[(1, "a"), (2, "b"), (3, "c")])).unwrap(), 3);
        events
    }

    #[test]
    fn what_is_read_again_has_every_position_and_what_was_there() {
        let again = |after, read: &[(usize, &str)]| known().read_again(after, ids(&page(read)).unwrap());
        assert_eq!(again(1, &[(2, "b"), (3, "c"), (4, "d")]).unwrap(), 4);
        for wrong in [
            [(1, "a"), (3, "c")],
            [(1, "a"), (3, "b")],
            [(2, "b"), (3, "c")],
            [(1, "a"), (2, "x")],
            [(1, "a"), (1, "a")],
        ] {
            assert!(again(0, &wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn no_position_is_left_out_and_no_event_is_under_two() {
        assert_eq!(known().take(&page(&[(4, "d"), (5, "e")])).unwrap(), 2);
        for wrong in [[(5, "d"), (6, "e")], [(4, "d"), (6, "e")], [(4, "d"), (5, "a")], [(4, "d"), (5, "d")]]
        {
            assert!(known().take(&page(&wrong)).is_err(), "{wrong:?}");
        }
    }
}
