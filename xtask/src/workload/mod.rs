//! Buyers who remember every answer: the load that the crash and fault harnesses put on a server, and the audit of what
//! they were told. Each client works on its own reservations, one request at a time, so what it was told is the truth
//! about them; over all clients the sums must be what the items say.

mod amended_lines;
mod audit;
mod change;
mod choose;
mod client;
mod counts;
mod failover_load;
mod known_line;
mod known_reservation;
mod limits;
mod op;
mod operator;
mod settle;

use crate::http::{Connection, Request};
use crate::rng::Rng;
use crate::{Outcome, fail};
pub(crate) use audit::Depth;
use client::Client;
pub(crate) use client::Tolerance;
pub(crate) use counts::Counts;
pub(crate) use failover_load::RecoveryWatch;
use operator::Operator;
use serde_json::json;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Clients, each with a connection of its own.
pub(crate) const CLIENTS: usize = 48;

/// An item that is sold.
#[derive(Clone, Debug)]
pub(crate) struct Stock {
    pub(crate) sku: String,
    pub(crate) total: u64,
    /// Whether its units have ids: those of [`seat`].
    pub(crate) seats: bool,
}

/// The id of a unit of an item whose units have ids.
fn seat(number: u64) -> String {
    format!("s-{number}")
}

const SCARCE: usize = 3;
const SCARCE_UNITS: u64 = 400;
const SEATS: u64 = 600;
const PLENTY: usize = 4;
/// The SKUs that [`limits`] are about. The first is of no other use, the last has units with ids.
const DROP: &str = "drop";
const PLENTY_LIMITED: &str = "plenty-0";
const HALL: &str = "hall";
const PLENTY_UNITS: u64 = 1_000_000_000;
/// Long enough that a hold only falls due when it was meant to.
const MAX_HOLD_SECONDS: u64 = 86_400;

/// All clients and all they know.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    stock: Arc<[Stock]>,
    clients: Vec<Client>,
    operator: Operator,
}

impl Fleet {
    /// Clients that know nothing yet. `short_holds` lets some holds fall due while the run lasts.
    pub(crate) fn new(seed: u64, clients: usize, short_holds: bool) -> Self {
        let counted = |sku, total| Stock { sku, total, seats: false };
        let scarce = (0..SCARCE).map(|n| counted(format!("scarce-{n}"), SCARCE_UNITS));
        let plenty = (0..PLENTY).map(|n| counted(format!("plenty-{n}"), PLENTY_UNITS));
        let hall = Stock { sku: HALL.to_owned(), total: SEATS, seats: true };
        let drop = counted(DROP.to_owned(), PLENTY_UNITS);
        let stock: Arc<[Stock]> = scarce.chain(plenty).chain([hall, drop]).collect();
        let mut rng = Rng::new(seed);
        let clients =
            (0..clients).map(|_| Client::new(rng.next(), Arc::clone(&stock), short_holds)).collect();
        Self { stock, clients, operator: Operator::default() }
    }

    /// Puts the stock and the limits there; once, before anything else.
    pub(crate) fn set_stock(&self, address: SocketAddr) -> Outcome<()> {
        let mut connection = Connection::open(address)?;
        let mut send = |method, path, body: serde_json::Value, status| {
            let request = Request { method, path, key: None, if_match: None, body: Some(body.to_string()) };
            let answer = connection.call(&request)?;
            if answer.status == status { Ok(()) } else { fail(format!("set stock: {}", answer.brief())) }
        };
        for Stock { sku, total, seats } in &*self.stock {
            let path = format!("/v1/inventory/{sku}");
            if *seats {
                let body = json!({"mode": "units", "max_hold_seconds": MAX_HOLD_SECONDS});
                send("PUT", path.clone(), body, 201)?;
                let units: Vec<_> = (0..*total).map(|n| json!({"unit_id": seat(n)})).collect();
                send("POST", format!("{path}/units"), json!({"units": units}), 200)?;
            } else {
                let body = json!({"total_units": total, "max_hold_seconds": MAX_HOLD_SECONDS});
                send("PUT", path, body, 201)?;
            }
        }
        limits::set(&mut connection)
    }

    /// One round of what an operator does, of items that no client asks for.
    pub(crate) fn operate(&mut self, address: SocketAddr, tolerance: Tolerance) -> Outcome<()> {
        self.operator.operate(address, tolerance)
    }

    /// Runs all clients until `stop`, or until the server is gone, which is no failure here.
    pub(crate) fn load(
        &mut self,
        address: SocketAddr,
        stop: &AtomicBool,
        tolerance: Tolerance,
    ) -> Outcome<()> {
        self.each(|client| client.load(address, stop, tolerance))
    }

    /// A server that is well does its work: so many operations of each client, every one of them answered.
    pub(crate) fn answers_everything(&mut self, address: SocketAddr, operations: usize) -> Outcome<()> {
        self.each(|client| client.work(address, operations))
    }

    /// Checks that every request was answered, so that no outcome is uncertain.
    pub(crate) fn all_answered(&self) -> Outcome<()> {
        match self.clients.iter().find_map(|client| client.pending.as_ref()) {
            None => Ok(()),
            Some(op) => fail(format!("never answered: {op:?}")),
        }
    }

    /// Repeats every request whose answer never came, with its key, until it is answered.
    pub(crate) fn resolve(&mut self, address: SocketAddr) -> Outcome<()> {
        self.each(|client| client.resolve(address))
    }

    /// How many clients sent a request before `moment` and were never answered.
    pub(crate) fn cut_off(&self, moment: Instant) -> usize {
        self.clients.iter().filter(|client| client.cut.is_some_and(|sent| sent < moment)).count()
    }

    /// Up to `moment` the server of the last load was there for every client.
    pub(crate) fn none_lost_before(&self, moment: Instant) -> Outcome<()> {
        match self.clients.iter().filter(|client| client.lost.is_some_and(|lost| lost < moment)).count() {
            0 => Ok(()),
            lost => fail(format!("a server that was well lost {lost} clients")),
        }
    }

    /// What all clients have counted.
    pub(crate) fn counts(&self) -> Counts {
        self.clients.iter().fold(Counts::default(), |sum, client| sum.plus(&client.counts))
    }

    /// Runs every client in a thread of its own and gathers what they found wrong.
    fn each(&mut self, work: impl Fn(&mut Client) -> Outcome<()> + Sync) -> Outcome<()> {
        let mut wrong = String::new();
        std::thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> =
                self.clients.iter_mut().map(|client| scope.spawn(move || work(client))).collect();
            for thread in threads {
                match thread.join() {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => writeln!(wrong, "{error}").unwrap_or_default(),
                    Err(_) => wrong.push_str("a client panicked\n"),
                }
            }
        });
        if wrong.is_empty() { Ok(()) } else { fail(wrong.trim_end()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write as _};
    use std::net::{Ipv4Addr, TcpListener};

    const UNKNOWN: Option<(u16, &str)> = Some((503, r#"{"reason":"outcome_unknown"}"#));

    /// Gives every request this answer; closes the connection where it has none.
    fn server(answer: Option<(u16, &'static str)>) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, mut request) = (stream.unwrap(), [0; 4_096]);
                if let Some((status, body)) = answer
                    && stream.read(&mut request).unwrap() > 0
                {
                    let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n", body.len());
                    stream.write_all((head + body).as_bytes()).unwrap();
                }
            }
        });
        address
    }

    fn wrong(result: Outcome<()>) -> String {
        result.expect_err("a server that does no work is well").to_string()
    }

    #[test]
    fn a_server_that_is_well_answers_everything() {
        let fleet = || Fleet::new(1, 2, false);
        assert!(wrong(fleet().answers_everything(server(UNKNOWN), 1)).contains("for no reason"));
        assert!(wrong(fleet().answers_everything(server(None), 1)).contains("never answered"));
        let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        assert!(wrong(fleet().answers_everything(nobody, 1)).contains("refused"));
    }

    #[test]
    fn an_outcome_is_unknown_only_where_something_may_fail() {
        let address = server(UNKNOWN);
        for tolerance in [Tolerance::None, Tolerance::Stopping] {
            let load = Fleet::new(1, 2, false).load(address, &AtomicBool::new(false), tolerance);
            assert!(wrong(load).contains("for no reason"), "{tolerance:?}");
        }
        let mut fleet = Fleet::new(1, 2, false);
        fleet.load(address, &AtomicBool::new(false), Tolerance::Failure).unwrap();
        assert_eq!(fleet.counts().outcome_unknown, 2);
        assert!(wrong(fleet.audit(address, Depth::Recent)).contains("never answered"));
    }

    #[test]
    fn clients_are_lost_to_a_server_that_goes_and_to_no_other() {
        let mut fleet = Fleet::new(1, 2, false);
        let before = Instant::now();
        fleet.load(server(None), &AtomicBool::new(false), Tolerance::None).unwrap();
        fleet.none_lost_before(before).unwrap();
        assert!(wrong(fleet.none_lost_before(Instant::now())).contains("lost 2 clients"));
        fleet.load(server(None), &AtomicBool::new(true), Tolerance::None).unwrap();
        fleet.none_lost_before(Instant::now()).unwrap();
    }

    #[test]
    fn what_an_operator_is_refused_is_a_failure() {
        let operate = |status, tolerance| {
            Fleet::new(1, 1, false).operate(server(Some((status, "{}"))), tolerance).is_ok()
        };
        let (none, failure, failover) = (Tolerance::None, Tolerance::Failure, Tolerance::Failover);
        assert!(operate(503, failover) && operate(503, failure) && operate(500, failure));
        assert!(!operate(400, failure) && !operate(409, failover) && !operate(500, failover));
        assert!(!operate(503, none) && operate(200, none));
    }
}
