//! A crowd: many buyers who all ask at one moment, each once, over connections that are open by then. Latency counts from that
//! moment, so that whoever's request is sent last has waited as well.

use super::http::{Reserves, expect};
use super::{ANSWER_BYTES, POLL_TIMEOUT, Traffic, Wire, chunk, histogram};
use crate::http::ANSWER_TIMEOUT;
use crate::{Outcome, fail};
use hdrhistogram::Histogram;
use memchr::memmem;
use mio::{Events, Poll};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long the server has to take the connections on before anybody asks.
const ARRIVAL: Duration = Duration::from_millis(200);

/// Lets so many buyers ask and waits for all answers: their latencies in nanoseconds.
pub(crate) fn crowd(
    address: SocketAddr,
    buyers: usize,
    traffic: &mut dyn Traffic,
) -> Outcome<Histogram<u64>> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(buyers.max(1));
    let (mut wires, mut requests) = (Vec::with_capacity(buyers), Vec::with_capacity(buyers));
    for index in 0..buyers {
        wires.push(Wire::open(address, index, &poll)?);
        let mut request = Vec::with_capacity(ANSWER_BYTES);
        if !traffic.request(index, &mut request) {
            return fail(format!("there are {index} requests for {buyers} buyers"));
        }
        requests.push(request);
    }
    let mut chunk = chunk();
    std::thread::sleep(ARRIVAL);

    let begin = Instant::now();
    for (wire, request) in wires.iter_mut().zip(&requests) {
        wire.send(request, begin)?;
    }
    let mut latency = histogram()?;
    while latency.len() < buyers as u64 {
        poll.poll(&mut events, Some(POLL_TIMEOUT))?;
        if begin.elapsed() > ANSWER_TIMEOUT {
            let missing = buyers as u64 - latency.len();
            return fail(format!("{missing} buyers were not answered within {ANSWER_TIMEOUT:?}"));
        }
        for event in &events {
            let index = event.token().0;
            if let Some(since) = wires[index].receive(index, &mut chunk, traffic)? {
                latency.record(u64::try_from(since.elapsed().as_nanos())?.max(1))?;
            }
        }
    }
    Ok(latency)
}

/// Reserves of what most buyers come too late for: each is made, or refused because there is no more.
#[derive(Debug)]
pub(crate) struct LastUnitsReserves {
    reserves: Reserves,
    pub(crate) held: u64,
    pub(crate) refused: u64,
}

impl LastUnitsReserves {
    pub(crate) fn new(reserves: Reserves) -> Self {
        Self { reserves, held: 0, refused: 0 }
    }
}

impl Traffic for LastUnitsReserves {
    fn request(&mut self, connection: usize, out: &mut Vec<u8>) -> bool {
        self.reserves.request(connection, out)
    }

    fn answer(&mut self, _connection: usize, received: &[u8]) -> Outcome<Option<usize>> {
        let Some(length) = expect(received, &[200, 409])? else { return Ok(None) };
        if received.starts_with(b"HTTP/1.1 200") {
            self.held += 1;
        } else if memmem::find(received, b"insufficient_inventory").is_some() {
            self.refused += 1;
        } else {
            return fail(format!("refused for another reason: {}", String::from_utf8_lossy(received)));
        }
        Ok(Some(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn who_comes_too_late_is_refused_for_that_and_nothing_else() {
        let answer = |status: &str, body: &str| {
            format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
        };
        let mut rush = LastUnitsReserves::new(Reserves::new("pair", 1, 600, Rng::new(1)));
        assert!(rush.answer(0, &answer("200 OK", "{}")).unwrap().is_some());
        let none = answer("409 Conflict", r#"{"reason":"insufficient_inventory"}"#);
        assert!(rush.answer(0, &none[..30]).unwrap().is_none());
        assert_eq!(rush.answer(0, &none).unwrap(), Some(none.len()));
        assert_eq!((rush.held, rush.refused), (1, 1));
        assert!(rush.answer(0, &answer("409 Conflict", r#"{"reason":"sale_paused"}"#)).is_err());
        assert!(rush.answer(0, &answer("503 Service Unavailable", "{}")).is_err());
    }
}
