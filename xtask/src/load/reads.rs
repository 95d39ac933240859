//! What changes nothing: one request over and over, and figures summed over a family of SKUs. And reserves that a server
//! may shed, which are nobody's books but their own.

use super::Traffic;
use super::http::{Reserves, SKU_DIGITS, expect, sku, write_digits};
use crate::http::Request;
use crate::{Outcome, fail};
use memchr::memmem;

/// The same request over and over.
#[derive(Debug)]
pub(crate) struct Constant(Vec<u8>);

impl Constant {
    pub(crate) fn get(path: &str) -> Self {
        Self(Request::get(path).render())
    }
}

impl Traffic for Constant {
    fn request(&mut self, _connection: usize, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(&self.0);
        true
    }

    fn answer(&mut self, _connection: usize, received: &[u8]) -> Outcome<Option<usize>> {
        expect(received, &[200])
    }
}

/// Figures of items, summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ItemCounters {
    pub(crate) held: u64,
    pub(crate) sold: u64,
    pub(crate) active: u64,
}

/// Every SKU of a family is read once.
#[derive(Debug)]
pub(crate) struct CountersSum {
    template: Vec<u8>,
    digits_at: usize,
    skus: usize,
    next: usize,
    pub(crate) figures: ItemCounters,
}

impl CountersSum {
    pub(crate) fn new(family: &str, skus: usize) -> Self {
        let path = format!("/v1/inventory/{}", sku(family, 0));
        let digits_at = "GET ".len() + path.len() - SKU_DIGITS;
        let template = Request::get(path).render();
        Self { template, digits_at, skus, next: 0, figures: ItemCounters::default() }
    }
}

impl Traffic for CountersSum {
    fn request(&mut self, _connection: usize, out: &mut Vec<u8>) -> bool {
        if self.next == self.skus {
            return false;
        }
        write_digits(&mut self.template[self.digits_at..self.digits_at + SKU_DIGITS], self.next);
        self.next += 1;
        out.extend_from_slice(&self.template);
        true
    }

    fn answer(&mut self, _connection: usize, received: &[u8]) -> Outcome<Option<usize>> {
        let Some(length) = expect(received, &[200])? else { return Ok(None) };
        self.figures.held += number(received, "\"held_units\":")?;
        self.figures.sold += number(received, "\"confirmed_sold\":")?;
        self.figures.active += number(received, "\"active_reservations\":")?;
        Ok(Some(length))
    }
}

/// The number behind a name.
fn number(answer: &[u8], name: &str) -> Outcome<u64> {
    let digits = memmem::find(answer, name.as_bytes()).map(|at| &answer[at + name.len()..]);
    let digits = digits.map(|rest| rest.iter().take_while(|byte| byte.is_ascii_digit()));
    let number =
        digits.and_then(|digits| digits.map(|digit| char::from(*digit)).collect::<String>().parse().ok());
    match number {
        Some(number) => Ok(number),
        None => fail(format!("no {name} in {}", String::from_utf8_lossy(answer))),
    }
}

/// Reserves of which the server may shed some: only those that are made count.
#[derive(Debug)]
pub(crate) struct OverloadReserves {
    pub(crate) reserves: Reserves,
    made: bool,
    /// Reserves that were made.
    pub(crate) reserved: u64,
    /// Reserves that were answered with 503.
    pub(crate) sent_away: u64,
}

impl OverloadReserves {
    pub(crate) fn new(reserves: Reserves) -> Self {
        Self { reserves, made: false, reserved: 0, sent_away: 0 }
    }
}

impl Traffic for OverloadReserves {
    fn request(&mut self, connection: usize, out: &mut Vec<u8>) -> bool {
        self.reserves.request(connection, out)
    }

    fn answer(&mut self, _connection: usize, received: &[u8]) -> Outcome<Option<usize>> {
        let Some(length) = expect(received, &[200, 503])? else { return Ok(None) };
        self.made = received.starts_with(b"HTTP/1.1 200");
        if self.made {
            self.reserved += 1;
        } else {
            self.sent_away += 1;
        }
        Ok(Some(length))
    }

    fn counts(&self) -> bool {
        self.made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn answer(status: &str, body: &str) -> Vec<u8> {
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    }

    #[test]
    fn every_sku_is_read_once_and_summed() {
        let mut sum = CountersSum::new("hue", 2);
        let mut out = Vec::new();
        assert!(sum.request(0, &mut out));
        assert!(sum.request(0, &mut out));
        assert!(!sum.request(0, &mut out));
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains("GET /v1/inventory/hue-000000 HTTP")
                && text.contains("GET /v1/inventory/hue-000001 HTTP")
        );
        let item = answer("200 OK", r#"{"confirmed_sold":3,"held_units":20,"active_reservations":11}"#);
        for _ in 0..2 {
            assert_eq!(sum.answer(0, &item).unwrap(), Some(item.len()));
        }
        assert_eq!(sum.figures, ItemCounters { held: 40, sold: 6, active: 22 });
        assert!(sum.answer(0, &answer("200 OK", r#"{"held_units":20}"#)).is_err());
    }

    #[test]
    fn only_what_is_made_counts() {
        let mut shed = OverloadReserves::new(Reserves::new("hot", 1, 600, Rng::new(1)));
        assert!(shed.answer(0, &answer("200 OK", "{}")).unwrap().is_some() && shed.counts());
        assert!(
            shed.answer(0, &answer("503 Service Unavailable", "{}")).unwrap().is_some() && !shed.counts()
        );
        assert!(shed.answer(0, &answer("409 Conflict", "{}")).is_err());
        assert_eq!((shed.reserved, shed.sent_away), (1, 1));
    }
}
