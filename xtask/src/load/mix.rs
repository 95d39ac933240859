//! What a shop's day is made of: reserves, confirms, releases, holds that nobody comes
//! back to, and looks at the stock.

use super::Traffic;
use super::http::{Reserves, expect, id};
use crate::http::{Request, head};
use crate::rng::{Rng, UUID_TEXT, uuid, write_uuid};
use crate::{Outcome, fail};

/// Of a hundred requests: reserves; looks at the stock; the rest ends a hold.
const RESERVES: u64 = 50;
const LOOKS: u64 = 20;
/// Of a hundred holds: those that are confirmed and those that are released; the rest is left to expire.
const CONFIRMED: u64 = 45;
const RELEASED: u64 = 15;
/// Holds that wait for their end by a request. When there are more, the oldest are left to expire as well.
const WAITING: usize = 50_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Reserve,
    Look,
    Confirm,
    Release,
}

/// The load of a mixed day: reserves, confirms, releases and reads.
#[derive(Debug)]
pub(crate) struct Mix {
    reserves: Reserves,
    look: Vec<u8>,
    confirm: Vec<u8>,
    release: Vec<u8>,
    in_flight: Vec<Kind>,
    to_confirm: Vec<[u8; UUID_TEXT]>,
    to_release: Vec<[u8; UUID_TEXT]>,
    rng: Rng,
    /// What was answered with success.
    pub(crate) reserved: u64,
    pub(crate) confirmed: u64,
    pub(crate) released: u64,
    pub(crate) looked: u64,
    /// Confirms that came too late.
    pub(crate) late: u64,
}

impl Mix {
    /// Requests like `reserves` on the SKU at `path`, and what follows from them.
    pub(crate) fn new(reserves: Reserves, path: &str, connections: usize, rng: Rng) -> Self {
        let blank = uuid(0, 0);
        let on = |method, end: &str, key| Request {
            method,
            path: format!("/v1/reservations/{blank}{end}"),
            key,
            if_match: None,
            body: None,
        };
        Self {
            reserves,
            look: Request::get(format!("{path}/available")).render(),
            confirm: on("POST", "/confirm", Some(blank.clone())).render(),
            release: on("DELETE", "", Some(blank.clone())).render(),
            in_flight: vec![Kind::Look; connections],
            to_confirm: Vec::new(),
            to_release: Vec::new(),
            rng,
            reserved: 0,
            confirmed: 0,
            released: 0,
            looked: 0,
            late: 0,
        }
    }

    /// Requests with a key that had an effect: each leaves its key.
    pub(crate) fn keyed(&self) -> u64 {
        self.reserved + self.confirmed + self.released
    }

    fn draw(&mut self) -> Kind {
        match self.rng.below(100) {
            drawn if drawn < RESERVES => Kind::Reserve,
            drawn if drawn < RESERVES + LOOKS => Kind::Look,
            drawn if drawn % 4 == 0 => Kind::Release,
            _ => Kind::Confirm,
        }
    }
}

/// Writes an id and a fresh key into a request that names the blank one for both.
fn aim(template: &mut [u8], id: &[u8; UUID_TEXT], rng: &mut Rng) {
    let (path, key) = (b"/v1/reservations/", b"Idempotency-Key: ");
    if let Some(at) = memchr::memmem::find(template, path) {
        template[at + path.len()..at + path.len() + UUID_TEXT].copy_from_slice(id);
    }
    if let Some(at) = memchr::memmem::find(template, key) {
        write_uuid(&mut template[at + key.len()..], rng.next(), rng.next());
    }
}

impl Traffic for Mix {
    fn request(&mut self, connection: usize, out: &mut Vec<u8>) -> bool {
        let ended = match self.draw() {
            Kind::Confirm => self.to_confirm.pop().map(|id| (Kind::Confirm, id)),
            Kind::Release => self.to_release.pop().map(|id| (Kind::Release, id)),
            Kind::Look => {
                self.in_flight[connection] = Kind::Look;
                out.extend_from_slice(&self.look);
                return true;
            }
            Kind::Reserve => None,
        };
        let Some((kind, id)) = ended else {
            self.in_flight[connection] = Kind::Reserve;
            return self.reserves.request(connection, out);
        };
        self.in_flight[connection] = kind;
        let template = if kind == Kind::Confirm { &mut self.confirm } else { &mut self.release };
        aim(template, &id, &mut self.rng);
        out.extend_from_slice(template);
        true
    }

    fn answer(&mut self, connection: usize, received: &[u8]) -> Outcome<Option<usize>> {
        let kind = self.in_flight[connection];
        let accepted: &[u16] = match kind {
            Kind::Reserve | Kind::Look => &[200],
            Kind::Confirm => &[200, 409],
            Kind::Release => &[204],
        };
        let Some(length) = expect(received, accepted)? else { return Ok(None) };
        match kind {
            Kind::Reserve => {
                self.reserved += 1;
                let id: [u8; UUID_TEXT] = id(received)?.as_bytes().try_into()?;
                let fate = self.rng.below(100);
                if fate < CONFIRMED && self.to_confirm.len() < WAITING {
                    self.to_confirm.push(id);
                } else if (CONFIRMED..CONFIRMED + RELEASED).contains(&fate) && self.to_release.len() < WAITING
                {
                    self.to_release.push(id);
                }
            }
            Kind::Look => self.looked += 1,
            Kind::Release => self.released += 1,
            Kind::Confirm => {
                let done = head(received)?.is_some_and(|head| head.status == 200);
                let expired = memchr::memmem::find(received, b"reservation_expired").is_some();
                match (done, expired) {
                    (true, _) => self.confirmed += 1,
                    (false, true) => self.late += 1,
                    (false, false) => return fail(format!("refused: {}", String::from_utf8_lossy(received))),
                }
            }
        }
        Ok(Some(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_are_made_ended_and_left() {
        let reserves = Reserves::new("hot", 1, 600, Rng::new(1));
        let mut mix = Mix::new(reserves, "/v1/inventory/hot-000000", 1, Rng::new(2));
        let mut out = Vec::new();
        for number in 1..10_000 {
            out.clear();
            assert!(mix.request(0, &mut out));
            let (status, body) = match mix.in_flight[0] {
                Kind::Reserve => ("200 OK", format!(r#"{{"reservation_id":"{}"}}"#, uuid(number, number))),
                Kind::Confirm if number % 100 == 0 => ("409 Conflict", "reservation_expired".to_owned()),
                Kind::Look | Kind::Confirm => ("200 OK", "{}".to_owned()),
                Kind::Release => ("204 No Content", String::new()),
            };
            let text = String::from_utf8_lossy(&out);
            assert!(!text.contains(&uuid(0, 0)), "{text}");
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            assert!(mix.answer(0, answer.as_bytes()).unwrap().is_some());
        }
        let ended = mix.confirmed + mix.released;
        assert!(mix.confirmed > 1_000 && mix.released > 300 && mix.looked > 1_000 && mix.late > 0);
        assert!(mix.reserved > ended + 1_000, "{} reserved, {ended} ended", mix.reserved);
    }
}
