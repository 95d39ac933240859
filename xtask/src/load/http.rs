//! The single requests: reserves on a hot SKU or spread over many, baskets, and lists of whatever else is sent once.
//! Requests are patched into a template: what is sent is different every time and costs next to nothing.

use super::Traffic;
use crate::clock::wall_millis;
use crate::http::{Request, head};
use crate::rng::{Rng, UUID_TEXT, uuid, write_uuid};
use crate::{Outcome, fail};

/// Of a SKU's number: up to a million of them.
pub(super) const SKU_DIGITS: usize = 6;
/// Of a time to live that is worked out for each request.
const TTL_DIGITS: usize = 2;
/// From one seat to the next that is asked for by its id. It has no factor in common with the sizes of halls, which are powers of ten.
const SEAT_STRIDE: usize = 61_803;
const DIGITS: &[u8; 10] = b"0123456789";

/// The n-th SKU of a family; all have names of the same length.
pub(crate) fn sku(family: &str, number: usize) -> String {
    format!("{family}-{number:0SKU_DIGITS$}")
}

/// The n-th unit of a hall.
pub(crate) fn seat(number: usize) -> String {
    sku("seat", number)
}

/// Writes a number's last digits over `out`.
pub(super) fn write_digits(out: &mut [u8], mut number: usize) {
    for digit in out.iter_mut().rev() {
        *digit = DIGITS[number % DIGITS.len()];
        number /= DIGITS.len();
    }
}

/// Length of the one answer in `received`, which must have one of these statuses.
pub(super) fn expect(received: &[u8], accepted: &[u16]) -> Outcome<Option<usize>> {
    let Some(head) = head(received)? else { return Ok(None) };
    let whole = head.length + head.body;
    if received.len() < whole {
        return Ok(None);
    }
    if accepted.contains(&head.status) {
        return Ok(Some(whole));
    }
    fail(format!("refused: {}", String::from_utf8_lossy(received)))
}

/// Single reserves of one unit: a key and an owner of 36 bytes each, all different, and a time to live.
#[derive(Debug)]
pub(crate) struct Reserves {
    template: Vec<u8>,
    digits_at: usize,
    key_at: usize,
    owner_at: usize,
    ttl_at: usize,
    due: Option<u64>,
    skus: usize,
    next_sku: usize,
    seats: Option<Seats>,
    left: Option<u64>,
    accepted: u16,
    rng: Rng,
    /// Bytes of the latest answer.
    pub(crate) answer_bytes: usize,
    /// The ids of what was made, when they are wanted.
    pub(crate) ids: Option<Vec<String>>,
}

/// Units that are asked for by their ids, each once, from all over a hall.
#[derive(Debug)]
struct Seats {
    at: usize,
    next: usize,
    count: usize,
}

impl Reserves {
    /// Reserves that go round over `skus` SKUs of a family.
    pub(crate) fn new(family: &str, skus: usize, ttl_seconds: u64, rng: Rng) -> Self {
        Self::of(family, skus, r#""quantity":1"#, ttl_seconds, rng)
    }

    /// Reserves of one unit by its id, of a family's hall that has so many, named [`seat`].
    pub(crate) fn of_seats(family: &str, count: usize, ttl_seconds: u64, rng: Rng) -> Self {
        let first = seat(0);
        let named = Self::of(family, 1, &format!(r#""units":["{first}"]"#), ttl_seconds, rng);
        let text = String::from_utf8_lossy(&named.template);
        let at = text.find(&first).unwrap_or_default() + first.len() - SKU_DIGITS;
        Self { seats: Some(Seats { at, next: 0, count }), ..named }
    }

    fn of(family: &str, skus: usize, wish: &str, ttl_seconds: u64, rng: Rng) -> Self {
        let blank = uuid(0, 0);
        let sku = sku(family, 0);
        let request = Request {
            method: "POST",
            path: format!("/v1/inventory/{sku}/reserve"),
            key: Some(blank.clone()),
            if_match: None,
            body: Some(format!(r#"{{"owner_id":"{blank}",{wish},"ttl_seconds":{ttl_seconds}}}"#)),
        };
        let text = String::from_utf8_lossy(&request.render()).into_owned();
        let find = |what: &str| text.find(what).unwrap_or_default() + what.len();
        Self {
            digits_at: find(&format!("{family}-")),
            key_at: find("Idempotency-Key: "),
            owner_at: find("\"owner_id\":\""),
            ttl_at: find("\"ttl_seconds\":"),
            due: None,
            template: text.into_bytes(),
            skus,
            next_sku: 0,
            seats: None,
            left: None,
            accepted: 200,
            rng,
            answer_bytes: 0,
            ids: None,
        }
    }

    /// Of the SKU of this number alone.
    pub(crate) fn only(mut self, number: usize) -> Self {
        write_digits(&mut self.template[self.digits_at..self.digits_at + SKU_DIGITS], number);
        self.skus = 1;
        self
    }

    /// Stops after so many.
    pub(crate) fn first(mut self, count: u64) -> Self {
        self.left = Some(count);
        self
    }

    /// Stops after so many and keeps the ids.
    pub(crate) fn keep(self, count: u64) -> Self {
        Self { ids: Some(Vec::new()), ..self.first(count) }
    }

    /// Every one is to be refused: there is no stock.
    pub(crate) fn refused(mut self) -> Self {
        self.accepted = 409;
        self
    }

    /// Each hold falls due within the second that starts at `due`, in milliseconds since 1970, which must be 10 to 98 seconds ahead.
    pub(crate) fn due(mut self, due: u64) -> Self {
        self.due = Some(due);
        self
    }

    /// Bytes of one request.
    pub(crate) fn request_bytes(&self) -> usize {
        self.template.len()
    }
}

impl Traffic for Reserves {
    fn request(&mut self, _connection: usize, out: &mut Vec<u8>) -> bool {
        if let Some(left) = &mut self.left {
            if *left == 0 {
                return false;
            }
            *left -= 1;
        }
        let (one, two, three) = (self.rng.next(), self.rng.next(), self.rng.next());
        write_uuid(&mut self.template[self.key_at..], one, two);
        write_uuid(&mut self.template[self.owner_at..], two, three);
        if let Some(due) = self.due {
            let ahead = due.saturating_sub(wall_millis());
            let ttl = usize::try_from(ahead / 1_000 + 1).unwrap_or(usize::MAX);
            write_digits(&mut self.template[self.ttl_at..self.ttl_at + TTL_DIGITS], ttl);
        }
        if self.skus > 1 {
            write_digits(&mut self.template[self.digits_at..self.digits_at + SKU_DIGITS], self.next_sku);
            self.next_sku = (self.next_sku + 1) % self.skus;
        }
        if let Some(Seats { at, next, count }) = &mut self.seats {
            write_digits(&mut self.template[*at..*at + SKU_DIGITS], *next);
            *next = (*next + SEAT_STRIDE) % *count;
        }
        out.extend_from_slice(&self.template);
        true
    }

    fn answer(&mut self, _connection: usize, received: &[u8]) -> Outcome<Option<usize>> {
        let Some(length) = expect(received, &[self.accepted])? else { return Ok(None) };
        self.answer_bytes = length;
        if let Some(ids) = &mut self.ids {
            ids.push(id(received)?.to_owned());
        }
        Ok(Some(length))
    }
}

/// The reservation's id in an answer.
pub(super) fn id(answer: &[u8]) -> Outcome<&str> {
    let text = std::str::from_utf8(answer)?;
    let name = "\"reservation_id\":\"";
    let start = text.find(name).map(|at| at + name.len());
    match start.and_then(|start| text.get(start..start + UUID_TEXT)) {
        Some(id) => Ok(id),
        None => fail(format!("no reservation_id in {text}")),
    }
}

/// Reserves of baskets: one unit each of the first SKUs of a family, the same ones every time.
#[derive(Debug)]
pub(crate) struct Baskets {
    template: Vec<u8>,
    key_at: usize,
    owner_at: usize,
    rng: Rng,
}

impl Baskets {
    pub(crate) fn new(family: &str, lines: usize, ttl_seconds: u64, rng: Rng) -> Self {
        let skus: Vec<String> = (0..lines).map(|number| sku(family, number)).collect();
        Self::of(&skus, ttl_seconds, rng)
    }

    /// Of these SKUs.
    pub(crate) fn of(skus: &[String], ttl_seconds: u64, rng: Rng) -> Self {
        let blank = uuid(0, 0);
        let line = |sku: &String| format!(r#"{{"sku":"{sku}","quantity":1}}"#);
        let lines = skus.iter().map(line).collect::<Vec<_>>().join(",");
        let body = format!(r#"{{"owner_id":"{blank}","ttl_seconds":{ttl_seconds},"lines":[{lines}]}}"#);
        let request = Request {
            method: "POST",
            path: "/v1/reservations".to_owned(),
            key: Some(blank.clone()),
            if_match: None,
            body: Some(body),
        };
        let template = request.render();
        let text = String::from_utf8_lossy(&template);
        let find = |what: &str| text.find(what).unwrap_or_default() + what.len();
        Self { key_at: find("Idempotency-Key: "), owner_at: find("\"owner_id\":\""), template, rng }
    }
}

impl Traffic for Baskets {
    fn request(&mut self, _connection: usize, out: &mut Vec<u8>) -> bool {
        let (one, two, three) = (self.rng.next(), self.rng.next(), self.rng.next());
        write_uuid(&mut self.template[self.key_at..], one, two);
        write_uuid(&mut self.template[self.owner_at..], two, three);
        out.extend_from_slice(&self.template);
        true
    }

    fn answer(&mut self, _connection: usize, received: &[u8]) -> Outcome<Option<usize>> {
        expect(received, &[201])
    }
}

/// A list of requests, each sent once.
#[derive(Debug)]
pub(crate) struct Script<I> {
    requests: I,
    accepted: &'static [u16],
}

impl<I: Iterator<Item = Request>> Script<I> {
    pub(crate) fn new(requests: I, accepted: &'static [u16]) -> Self {
        Self { requests, accepted }
    }
}

impl<I: Iterator<Item = Request>> Traffic for Script<I> {
    fn request(&mut self, _connection: usize, out: &mut Vec<u8>) -> bool {
        match self.requests.next() {
            Some(request) => {
                out.extend_from_slice(&request.render());
                true
            }
            None => false,
        }
    }

    fn answer(&mut self, _connection: usize, received: &[u8]) -> Outcome<Option<usize>> {
        expect(received, self.accepted)
    }
}

/// Messages of a fixed size both ways: what a round trip costs when nothing is done.
#[derive(Debug)]
pub(crate) struct Fixed {
    pub(crate) request: usize,
    pub(crate) answer: usize,
}

impl Traffic for Fixed {
    fn request(&mut self, _connection: usize, out: &mut Vec<u8>) -> bool {
        out.resize(self.request, b'.');
        true
    }

    fn answer(&mut self, _connection: usize, received: &[u8]) -> Outcome<Option<usize>> {
        Ok((received.len() >= self.answer).then_some(received.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserves_differ_in_key_owner_and_sku_and_keep_their_length() {
        let mut reserves = Reserves::new("cold", 3, 600, Rng::new(1));
        let mut texts = Vec::new();
        for _ in 0..4 {
            let mut out = Vec::new();
            assert!(reserves.request(0, &mut out));
            texts.push(String::from_utf8(out).unwrap());
        }
        assert!(texts[1].starts_with("POST /v1/inventory/cold-000001/reserve HTTP/1.1\r\n"), "{}", texts[1]);
        assert!(texts[3].starts_with("POST /v1/inventory/cold-000000/reserve"));
        assert_ne!(texts[0], texts[3]);
        let (head, body) = texts[2].split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["ttl_seconds"], 600);
        assert_eq!(body["owner_id"].as_str().unwrap().len(), UUID_TEXT);
    }

    #[test]
    fn reserves_of_one_sku_of_a_family_end_after_the_first_of_them() {
        let mut reserves = Reserves::new("hall", 1, 600, Rng::new(1)).only(7).first(2);
        for _ in 0..2 {
            let mut out = Vec::new();
            assert!(reserves.request(0, &mut out));
            assert!(out.starts_with(b"POST /v1/inventory/hall-000007/reserve HTTP/1.1\r\n"));
        }
        assert!(!reserves.request(0, &mut Vec::new()));
    }

    #[test]
    fn a_basket_has_its_lines_and_an_owner_of_its_own() {
        let mut baskets = Baskets::new("hue", 3, 600, Rng::new(1));
        let mut body = || {
            let mut out = Vec::new();
            assert!(baskets.request(0, &mut out));
            let text = String::from_utf8(out).unwrap();
            serde_json::from_str::<serde_json::Value>(text.split_once("\r\n\r\n").unwrap().1).unwrap()
        };
        let (first, second) = (body(), body());
        assert_eq!(first["lines"], second["lines"]);
        assert_ne!(first["owner_id"], second["owner_id"]);
        assert_eq!(first["lines"][2], serde_json::json!({"sku": "hue-000002", "quantity": 1}));
    }

    #[test]
    fn a_refusal_voids_unless_it_is_what_was_asked_for() {
        let mut reserves = Reserves::new("hot", 1, 600, Rng::new(1));
        let refusal = b"HTTP/1.1 409 Conflict\r\ncontent-length: 2\r\n\r\n{}";
        assert!(reserves.answer(0, &refusal[..20]).unwrap().is_none());
        assert!(reserves.answer(0, refusal).is_err());
        assert_eq!(reserves.refused().answer(0, refusal).unwrap(), Some(refusal.len()));
    }
}
