//! The Rust client with the scenarios that all clients share.

use super::proxy::LossyProxy;
use super::repository;
use super::scenarios::{Outcome, Run};
use crate::support::Server;
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;
use stockhold_api::client::{At, Change, Client, Error, Hold, HoldError};
use stockhold_api::wire::{
    AmendedLine, Amendment, Confirmation, Disposition, Item, Line, RequestedLine, Reservation, ReturnFrom,
    ReturnedUnits, Shipment, Status, Stock, Terms,
};
use stockhold_domain::ReservationId;

#[path = "../../../../api/examples/sell.rs"]
#[expect(dead_code, reason = "the example has a main function of its own")]
mod sell;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn its_scenarios_end_with_the_same_counters_through_a_proxy_that_loses_answers() {
    let server = Server::start();
    let proxy = LossyProxy::start(&server.url());
    block_on(async {
        let client = Client::new(&proxy.url).unwrap();
        let run = Run::new();
        assert_eq!(run.perform(async |step| perform(&client, step).await).await, 14);
        let read = async |item: &Value| shown_item(&client.item(place(item)).await.unwrap());
        assert!(run.compare_counters(read).await >= 14);
    });
    assert!(proxy.lost() >= 50, "{}", proxy.lost());
}

#[test]
fn its_quick_start_runs_as_the_page_shows_it() {
    let page = fs::read_to_string(repository("docs/how-to/rust.md")).unwrap();
    let source = fs::read_to_string(repository("crates/api/examples/sell.rs")).unwrap();
    assert!(page.contains(&format!("```rust\n{source}```")), "the page shows another program");
    let server = Server::start();
    assert_eq!(block_on(sell::sell(&server.url())).unwrap(), 8);
}

async fn perform(client: &Client, step: &Value) -> Outcome {
    if let Some(seconds) = step["wait"].as_f64() {
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        return Ok(json!({}));
    }
    let done = if step["hold"].is_object() { hold(client, step).await } else { call(client, step).await };
    done.map_err(|error| match error {
        Error::Refused(problem) => json!({
            "status": problem.status,
            "reason": problem.reason,
            "retryable": problem.retryable,
            "lines": problem.lines.iter().map(|line| json!({ "sku": line.sku, "available": line.available })).collect::<Value>(),
        }),
        other => panic!("{step}: {other}"),
    })
}

async fn call(client: &Client, step: &Value) -> Result<Value, Error> {
    let (at, body, key) = (&step["at"], Members::of(&step["body"]), step["key"].as_str());
    let id = || -> ReservationId { at["reservation_id"].as_str().unwrap().parse().unwrap() };
    let reservation = match step["call"].as_str().unwrap() {
        "set_stock" => return Ok(shown_item(&client.put_stock(place(at), &body.stock(), None).await?)),
        "get_item" => return Ok(shown_item(&client.item(place(at)).await?)),
        "get_availability" => {
            let found = client.available(place(at)).await?;
            return Ok(json!({
                "available": found.available,
                "held_units": found.held_units,
                "active_reservations": found.active_reservations,
            }));
        }
        "release" => {
            client.release(id(), at["reason"].as_str()).await?;
            return Ok(json!({}));
        }
        "reserve" => {
            let quantity = body.number("quantity").unwrap_or(1);
            client.reserve(place(at), quantity, &body.terms(), key).await?
        }
        "reserve_basket" => client.reserve_basket(&body.lines().unwrap(), &body.terms(), key).await?,
        "get_reservation" => client.reservation(id()).await?,
        "confirm" => client.confirm(id(), body.text("order_id").as_deref(), key).await?,
        "extend" => {
            let seconds = body.number("ttl_seconds").unwrap();
            client.extend(id(), u32::try_from(seconds).unwrap(), key).await?
        }
        "amend" => {
            let change = Change { version: step["version"].as_u64(), key };
            client.amend(id(), &body.amendment(), change).await?
        }
        "fulfil" => {
            client.fulfil(id(), &Shipment { lines: body.lines(), ..Shipment::default() }, key).await?
        }
        "return_units" => client.return_units(id(), &body.returned(), key).await?,
        other => panic!("no call is named {other}"),
    };
    body.assert_all_sent();
    Ok(shown(&reservation))
}

/// A hold for as long as a function runs. Its own error must come out unchanged.
async fn hold(client: &Client, step: &Value) -> Result<Value, Error> {
    let members = Members::of(&step["hold"]);
    let sku = members.text("sku").unwrap();
    let quantity = members.number("quantity").unwrap();
    let terms = members.terms();
    members.assert_all_sent();
    let ends = step["ends"].as_str().unwrap();
    let mut begun = Value::Null;
    let work = async |hold: &Hold| {
        begun = shown(hold.reservation());
        tokio::time::sleep(Duration::from_secs_f64(step["seconds"].as_f64().unwrap())).await;
        match ends {
            "confirms" => drop(hold.confirm(&Confirmation::default(), None).await.unwrap()),
            "returns" => {}
            "fails" => return Err("this error is expected"),
            other => panic!("no hold ends like {other}"),
        }
        Ok(())
    };
    let ended = client.with_hold(At { sku: &sku, location: None }, quantity, &terms, None, work).await;
    match ended {
        Ok(()) if ends != "fails" => Ok(begun),
        Err(HoldError::Work("this error is expected")) if ends == "fails" => Ok(begun),
        Err(HoldError::Reserve(error) | HoldError::Release(error)) => Err(error),
        other => panic!("{step} came to {other:?}"),
    }
}

fn place(at: &Value) -> At<'_> {
    At { sku: at["sku"].as_str().unwrap(), location: at["location"].as_str() }
}

/// What the scenarios look at. A member that they expect and that is not here fails the comparison.
fn shown(reservation: &Reservation) -> Value {
    let status = match reservation.status {
        Status::Active => "active",
        Status::Confirmed => "confirmed",
        Status::Cancelled => "cancelled",
        Status::Expired => "expired",
    };
    json!({
        "reservation_id": reservation.reservation_id.to_string(),
        "status": status,
        "version": reservation.version,
        "owner_id": reservation.owner_id,
        "order_id": reservation.order_id,
        "close_reason": reservation.close_reason,
        "metadata": reservation.metadata,
        "quantity": reservation.quantity,
        "lines": reservation.lines.iter().map(shown_line).collect::<Value>(),
    })
}

fn shown_line(line: &Line) -> Value {
    json!({
        "sku": line.sku,
        "location": line.location,
        "quantity": line.quantity,
        "requested_quantity": line.requested_quantity,
        "fulfilled_quantity": line.fulfilled_quantity,
        "returned_quantity": line.returned_quantity,
    })
}

fn shown_item(item: &Item) -> Value {
    json!({
        "sku": item.sku,
        "location": item.location,
        "mode": item.mode,
        "total_units": item.total_units,
        "safety_stock": item.safety_stock,
        "confirmed_sold": item.confirmed_sold,
        "fulfilled_units": item.fulfilled_units,
        "held_units": item.held_units,
        "available": item.available,
    })
}

/// The members of a body, which become the types of the client.
struct Members<'a> {
    body: &'a Value,
    read: std::cell::RefCell<Vec<&'static str>>,
}

impl<'a> Members<'a> {
    fn of(body: &'a Value) -> Self {
        Self { body, read: std::cell::RefCell::default() }
    }

    fn member(&self, name: &'static str) -> Option<&'a Value> {
        self.read.borrow_mut().push(name);
        self.body.get(name)
    }

    fn text(&self, name: &'static str) -> Option<String> {
        self.member(name).map(|value| value.as_str().unwrap().to_owned())
    }

    fn number(&self, name: &'static str) -> Option<u64> {
        self.member(name).map(|value| value.as_u64().unwrap())
    }

    /// Panics if the body has a member that was not sent.
    fn assert_all_sent(&self) {
        let read = self.read.borrow();
        for name in self.body.as_object().into_iter().flat_map(|members| members.keys()) {
            assert!(read.contains(&name.as_str()), "{name} was not sent");
        }
    }

    fn stock(&self) -> Stock {
        let stock = Stock {
            total_units: self.number("total_units"),
            safety_stock: self.number("safety_stock"),
            ..Stock::default()
        };
        self.assert_all_sent();
        stock
    }

    fn terms(&self) -> Terms {
        Terms {
            owner_id: self.text("owner_id").unwrap(),
            ttl_seconds: self.ttl_seconds(),
            partial: self.text("fulfilment").is_some_and(|fulfilment| fulfilment == "partial"),
            metadata: self.member("metadata").cloned(),
            ..Terms::default()
        }
    }

    fn ttl_seconds(&self) -> Option<u32> {
        self.number("ttl_seconds").map(|seconds| u32::try_from(seconds).unwrap())
    }

    fn lines(&self) -> Option<Vec<RequestedLine>> {
        let lines = self.member("lines")?.as_array().unwrap().iter().map(Members::of);
        Some(lines.map(|line| line.line()).collect())
    }

    fn line(&self) -> RequestedLine {
        let line = RequestedLine {
            sku: self.text("sku").unwrap(),
            location: self.text("location"),
            quantity: self.number("quantity").unwrap(),
        };
        self.assert_all_sent();
        line
    }

    fn amendment(&self) -> Amendment {
        let lines = self.lines().map(|lines| lines.into_iter().map(AmendedLine::from).collect());
        Amendment {
            lines,
            ttl_seconds: self.ttl_seconds(),
            metadata: self.member("metadata").cloned(),
            ..Amendment::default()
        }
    }

    fn returned(&self) -> ReturnedUnits {
        ReturnedUnits {
            lines: self.lines(),
            from: self.text("from").map(|from| match from.as_str() {
                "unfulfilled" => ReturnFrom::Unfulfilled,
                "fulfilled" => ReturnFrom::Fulfilled,
                other => panic!("no units are {other}"),
            }),
            disposition: match self.text("disposition").as_deref() {
                None => Disposition::default(),
                Some("write_off") => Disposition::WriteOff,
                Some(other) => panic!("no disposition is {other}"),
            },
            reason: self.text("reason").unwrap(),
            ..ReturnedUnits::default()
        }
    }
}
