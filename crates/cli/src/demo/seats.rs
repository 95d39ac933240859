//! `stockhold demo --seats`: a small hall sells out by itself, drawn as it fills, and audited seat by seat.

use super::{PATIENCE, ServerProcess, bug};
use crate::client::{CallError, RetryClient};
use crate::out;
use crate::seat_map::drawn;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::rc::Rc;
use std::time::{Duration, Instant};
use stockhold_api::client::{At, Client, UnitsListed};
use stockhold_api::problem::Reason;
use stockhold_api::wire::{PostedUnit, Reservation, SeatLayout, SeatMap, Stands, Status, Stock, Terms, Wish};
use stockhold_domain::ReservationId;
use tokio::task::JoinSet;

/// What is sold.
const HERE: At<'_> = At { sku: "concert", location: None };
/// Sections, their rows and how many seats each has.
const HALL: [(&str, &str, usize); 2] = [("stalls", "ABCDEF", 14), ("balcony", "GHJ", 10)];
/// How long a hold lasts, in seconds.
const HOLD_SECONDS: u32 = 2;
/// Seats on a page, which is more than there are.
const MOST_SEATS: usize = 1_000;
/// Groups that choose and decide at once.
const AT_ONCE: usize = 4;
/// Largest group.
const GROUP: u64 = 5;
/// Longest time that a group takes to make up its mind, in milliseconds.
const THINK_MILLIS: u64 = 800;
/// How often the map is drawn.
const FRAME: Duration = Duration::from_millis(120);
/// How long a group waits for seats of others to come back.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// Longest sale: every seat comes back within a hold's life, and most are bought.
const LONGEST: Duration = Duration::from_mins(2);

/// A group's seats, as it was told that they are its own.
struct Ticket {
    id: ReservationId,
    seats: Vec<String>,
}

/// The sale as its buyers see it.
struct SeatSale {
    caller: RetryClient,
    seed: u64,
    tickets: RefCell<Vec<Ticket>>,
    sold: Cell<usize>,
    given_back: Cell<u64>,
    left_to_expire: Cell<u64>,
}

/// Runs the sale; whether the audit is right.
pub(super) async fn tell(seed: u64) -> Result<bool, CallError> {
    let dir = tempfile::tempdir()
        .map_err(|error| CallError::Unexpected(format!("a temporary directory: {error}")))?;
    let server = ServerProcess::start(dir.path(), &[]).await?;
    let caller = RetryClient::without_key(&server.url(), PATIENCE, Box::new(|_| {}))?;
    let seats = open(&caller).await?;
    println!("{seats} seats in {} sections; groups of up to {GROUP} want to sit together", HALL.len());
    let sale = Rc::new(SeatSale {
        caller,
        seed,
        tickets: RefCell::default(),
        sold: Cell::new(0),
        given_back: Cell::new(0),
        left_to_expire: Cell::new(0),
    });
    sell(&sale, seats).await?;
    println!(
        "{} groups have their tickets; {} changed their minds, {} walked away and their holds ran out",
        sale.tickets.borrow().len(),
        sale.given_back.get(),
        sale.left_to_expire.get()
    );
    let wrong = audit(&sale, seats).await?;
    match &wrong {
        None => println!("the audit: {seats} seats are sold, each to the one group that was told so"),
        Some(what) => println!("the audit: WRONG: {what}; this is a bug"),
    }
    Ok(wrong.is_none())
}

/// Makes the hall; how many seats it has.
async fn open(caller: &RetryClient) -> Result<usize, CallError> {
    let stock = Stock { mode: Some("units"), ..Stock::default() };
    caller.ask(async |client| client.put_stock(HERE, &stock, None).await).await?;
    let mut units = Vec::new();
    for (section, rows, width) in HALL {
        for row in rows.chars() {
            let seat = |n: usize| PostedUnit {
                unit_id: format!("{row}-{n}"),
                section: Some(section.to_owned()),
                row: Some(row.to_string()),
                number: Some(n.to_string()),
                ..PostedUnit::default()
            };
            units.extend((1..=width).map(seat));
        }
    }
    caller.ask(async |client| client.add_units(HERE, &units).await).await?;
    Ok(units.len())
}

/// Groups come until every seat is sold.
async fn sell(sale: &Rc<SeatSale>, seats: usize) -> Result<(), CallError> {
    let begun = Instant::now();
    let empty = map(sale, true).await?;
    let mut picture = SeatMapView::new(empty.layout.clone());
    picture.draw(&empty);
    let mut groups = JoinSet::new();
    let mut next = 0;
    let mut frame = tokio::time::interval(FRAME);
    while sale.sold.get() < seats {
        if begun.elapsed() > LONGEST {
            return Err(CallError::Unexpected(format!(
                "{} of {seats} seats are sold after {LONGEST:?}",
                sale.sold.get()
            )));
        }
        while groups.len() < AT_ONCE {
            next += 1;
            let (sale, group) = (Rc::clone(sale), next);
            groups.spawn_local(async move { sale.group(group).await });
        }
        tokio::select! {
            done = groups.join_next() => {
                if let Some(done) = done {
                    done.map_err(|error| bug(&error))??;
                }
            }
            _ = frame.tick() => picture.draw(&map(sale, false).await?),
        }
    }
    groups.shutdown().await;
    picture.last(&map(sale, false).await?);
    Ok(())
}

async fn map(sale: &SeatSale, layout: bool) -> Result<SeatMap, CallError> {
    sale.caller.ask(async |client| client.seat_map(HERE, layout).await).await
}

impl SeatSale {
    /// One group: the best seats there are, some thought, and then they pay, give them back or walk away.
    async fn group(&self, group: u64) -> Result<(), CallError> {
        let mut size = 1 + self.dice(group, "size") % GROUP;
        let mut tries = 0;
        let made = loop {
            tries += 1;
            let owner_id = format!("group-{group}");
            let key = format!("{owner_id}:{tries}");
            let wish = Wish {
                quantity: Some(size),
                adjacent: true,
                sections: HALL.map(|(section, ..)| section.to_owned()).to_vec(),
                min_together: (size > 3).then_some(2),
                ..Wish::default()
            };
            let terms = Terms { owner_id, ttl_seconds: Some(HOLD_SECONDS), ..Terms::default() };
            let ask = async |client: &Client| client.reserve_units(HERE, &wish, &terms, Some(&key)).await;
            match self.caller.ask(ask).await {
                Ok(made) => break made,
                Err(CallError::Refused(problem))
                    if problem.reason == Reason::InsufficientInventory.name() =>
                {
                    match problem.lines.first().map(|line| (line.available, line.next_expiry_at)) {
                        // So many can sit together.
                        Some((some @ 1.., _)) => size = some,
                        Some((0, Some(_))) => tokio::time::sleep(ASK_EVERY).await,
                        _ => return Ok(()),
                    }
                }
                Err(other) => return Err(other),
            }
        };
        tokio::time::sleep(Duration::from_millis(self.dice(group, "think") % THINK_MILLIS)).await;
        let id = made.reservation_id;
        match self.dice(group, "fate") % 6 {
            0 => {
                self.left_to_expire.set(self.left_to_expire.get() + 1);
                Ok(())
            }
            1 => {
                self.caller.ask(async |client| client.release(id, Some("changed our minds")).await).await?;
                self.given_back.set(self.given_back.get() + 1);
                Ok(())
            }
            _ => self.pay(group, &made).await,
        }
    }

    async fn pay(&self, group: u64, made: &Reservation) -> Result<(), CallError> {
        let id = made.reservation_id;
        let (order, key) = (format!("order-{group}"), format!("group-{group}:pay"));
        let ask = async |client: &Client| client.confirm(id, Some(&order), Some(&key)).await;
        match self.caller.ask(ask).await {
            Ok(paid) => {
                let units = paid.lines.into_iter().flat_map(|line| line.units);
                let seats: Vec<String> = units.map(|unit| unit.unit_id).collect();
                self.sold.set(self.sold.get() + seats.len());
                self.tickets.borrow_mut().push(Ticket { id, seats });
                Ok(())
            }
            Err(CallError::Refused(problem)) if problem.reason == Reason::ReservationExpired.name() => Ok(()),
            Err(other) => Err(other),
        }
    }

    /// A number that depends on the seed, the group and the question.
    fn dice(&self, group: u64, question: &str) -> u64 {
        let hash = blake3::hash(format!("{}:{group}:{question}", self.seed).as_bytes());
        hash.as_bytes().iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))
    }
}

/// The hall on the terminal: drawn over itself there, and only now and then where it is a file.
struct SeatMapView {
    layout: Option<SeatLayout>,
    on_terminal: bool,
    lines: usize,
    /// Quarters of the hall that were sold when it was last drawn.
    quarters: Option<u64>,
}

impl SeatMapView {
    fn new(layout: Option<SeatLayout>) -> Self {
        Self { layout, on_terminal: std::io::stdout().is_terminal(), lines: 0, quarters: None }
    }

    fn draw(&mut self, map: &SeatMap) {
        let quarters = (map.sold * 4).checked_div(map.count as u64);
        if !self.on_terminal && self.quarters == quarters {
            return;
        }
        self.quarters = quarters;
        self.print(map);
    }

    fn last(&mut self, map: &SeatMap) {
        if self.on_terminal || self.quarters != Some(4) {
            self.print(map);
        }
    }

    fn print(&mut self, map: &SeatMap) {
        let Some(layout) = &self.layout else { return };
        if self.on_terminal && self.lines > 0 {
            // Up to where it began.
            out::bytes(format!("\u{1b}[{}A", self.lines).as_bytes());
        }
        print!("{}", drawn(layout, map));
        self.lines = layout.rows.len() + 1;
    }
}

/// Checks that every seat is sold, by the reservation of the group that got it. Returns what is wrong.
async fn audit(sale: &SeatSale, seats: usize) -> Result<Option<String>, CallError> {
    let all = UnitsListed::default();
    let page = sale.caller.ask(async |client| client.units(HERE, all, Some(MOST_SEATS), None).await).await?;
    let mut of: BTreeMap<String, ReservationId> = BTreeMap::new();
    for unit in page.data {
        match (unit.status, unit.reservation_id) {
            (Stands::Sold, Some(id)) => of.insert(unit.unit_id, id),
            (status, _) => return Ok(Some(format!("seat {} is {status:?}", unit.unit_id))),
        };
    }
    let mut told = 0;
    let tickets = sale.tickets.take();
    for Ticket { id, seats } in &tickets {
        told += seats.len();
        if let Some(seat) = seats.iter().find(|seat| of.get(*seat) != Some(id)) {
            return Ok(Some(format!("seat {seat} was sold to {id}, and the server has {:?}", of.get(seat))));
        }
        let status = sale.caller.ask(async |client| client.reservation(*id).await).await?.status;
        if status != Status::Confirmed {
            return Ok(Some(format!("{id} was confirmed and is {status:?}")));
        }
    }
    Ok((told != seats || of.len() != seats)
        .then(|| format!("{told} seats were sold of {seats}, the server has {}", of.len())))
}
