//! Reserves that are each confirmed by the next request of their connection, one by one.

use super::Traffic;
use super::http::{Reserves, expect, id};
use crate::Outcome;
use crate::http::Request;
use crate::rng::{Rng, UUID_TEXT, uuid, write_uuid};

/// The load of reserves that are each confirmed.
#[derive(Debug)]
pub(crate) struct Pairs {
    reserves: Reserves,
    confirm: Vec<u8>,
    id_at: usize,
    key_at: usize,
    /// By connection: reserved and to be confirmed.
    open: Vec<Option<[u8; UUID_TEXT]>>,
    confirming: Vec<bool>,
    rng: Rng,
    /// Reserves and confirms that were answered.
    pub(crate) reserved: u64,
    pub(crate) confirmed: u64,
}

impl Pairs {
    /// Reserves like `reserves`, and their confirms.
    pub(crate) fn new(reserves: Reserves, connections: usize, rng: Rng) -> Self {
        let blank = uuid(0, 0);
        let request = Request {
            method: "POST",
            path: format!("/v1/reservations/{blank}/confirm"),
            key: Some(blank),
            if_match: None,
            body: None,
        };
        let confirm = request.render();
        let text = String::from_utf8_lossy(&confirm);
        let find = |what: &str| text.find(what).unwrap_or_default() + what.len();
        Self {
            reserves,
            id_at: find("/v1/reservations/"),
            key_at: find("Idempotency-Key: "),
            confirm,
            open: vec![None; connections],
            confirming: vec![false; connections],
            rng,
            reserved: 0,
            confirmed: 0,
        }
    }
}

impl Traffic for Pairs {
    fn request(&mut self, connection: usize, out: &mut Vec<u8>) -> bool {
        let Some(id) = self.open[connection].take() else {
            self.confirming[connection] = false;
            return self.reserves.request(connection, out);
        };
        self.confirming[connection] = true;
        self.confirm[self.id_at..self.id_at + UUID_TEXT].copy_from_slice(&id);
        write_uuid(&mut self.confirm[self.key_at..], self.rng.next(), self.rng.next());
        out.extend_from_slice(&self.confirm);
        true
    }

    fn answer(&mut self, connection: usize, received: &[u8]) -> Outcome<Option<usize>> {
        let Some(length) = expect(received, &[200])? else { return Ok(None) };
        if self.confirming[connection] {
            self.confirmed += 1;
        } else {
            self.reserved += 1;
            self.open[connection] = Some(id(received)?.as_bytes().try_into()?);
        }
        Ok(Some(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_is_followed_by_its_confirm() {
        let reserves = Reserves::new("hot", 1, 600, Rng::new(1));
        let mut pairs = Pairs::new(reserves, 1, Rng::new(2));
        let (mut first, mut second, mut third) = (Vec::new(), Vec::new(), Vec::new());
        assert!(pairs.request(0, &mut first));
        let made = uuid(7, 7);
        let body = format!(r#"{{"reservation_id":"{made}"}}"#);
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        assert_eq!(pairs.answer(0, answer.as_bytes()).unwrap(), Some(answer.len()));
        assert!(pairs.request(0, &mut second));
        let text = String::from_utf8(second).unwrap();
        assert!(text.starts_with(&format!("POST /v1/reservations/{made}/confirm HTTP/1.1\r\n")), "{text}");
        assert!(pairs.answer(0, answer.as_bytes()).unwrap().is_some());
        assert!(pairs.request(0, &mut third) && third.starts_with(b"POST /v1/inventory/"));
        assert_eq!((pairs.reserved, pairs.confirmed), (1, 1));
    }
}
