//! Holds that two instances change at the same time.

use super::Database;
use super::used::verify;
use crate::support::Server;
use std::collections::BTreeMap;
use std::sync::Mutex;
use stockhold_api::client::{At, Change, Client, Error};
use stockhold_api::wire::{
    AmendedLine, Amendment, MergeRequest, PaymentWindow, Recipient, RequestedLine, Stock, Terms,
};
use stockhold_conformance::Random;
use stockhold_domain::ReservationId;

/// Callers, half of them at each instance.
const CALLERS: u64 = 8;
/// Changes of each caller.
const CHANGES: u64 = 60;
/// Units of each of the two items, fewer than the holds would like to have.
const UNITS: u64 = 20;
/// Reasons that a change may be refused for: the hold is not as the caller thinks, or there are no units.
const REASONS: [&str; 7] = [
    "insufficient_inventory",
    "payment_in_progress",
    "reservation_cancelled",
    "reservation_confirmed",
    "split_exceeds_held",
    "invalid_request",
    "precondition_failed",
];

fn line(sku: &str, quantity: u64) -> RequestedLine {
    RequestedLine { sku: sku.to_owned(), location: None, quantity }
}

fn lines(all: Vec<RequestedLine>) -> Amendment {
    Amendment { lines: Some(all.into_iter().map(AmendedLine::from).collect()), ..Amendment::default() }
}

async fn hold(client: &Client, all: &[RequestedLine]) -> ReservationId {
    let terms = Terms { owner_id: "cart".to_owned(), ..Terms::default() };
    client.reserve_basket(all, &terms, None).await.unwrap().reservation_id
}

async fn stock(client: &Client, sku: &str, units: u64) {
    let stock = Stock { total_units: Some(units), ..Stock::default() };
    client.put_stock(At { sku, location: None }, &stock, None).await.unwrap();
}

/// One change of a hold. A split returns the hold that it makes.
async fn change(
    client: &Client,
    random: &mut Random,
    [id, other]: [ReservationId; 2],
) -> Result<Option<ReservationId>, Error> {
    let any = Change::default();
    let quantity = 1 + random.below(3);
    match random.below(7) {
        0 => client.amend(id, &lines(vec![line("a", quantity)]), any).await.map(|_| None),
        1 => client.amend(id, &lines(vec![line("b", quantity), line("a", 1)]), any).await.map(|_| None),
        2 => {
            let owner_id = Some(format!("owner-{quantity}"));
            client.transfer(id, &Recipient { owner_id, ..Recipient::default() }, any).await.map(|_| None)
        }
        3 => {
            let part = client.split(id, &[line("a", 1)], any).await?;
            Ok(Some(part.reservation_id))
        }
        4 => client
            .merge(id, &MergeRequest { from: vec![other], ..MergeRequest::default() }, any)
            .await
            .map(|_| None),
        5 => {
            let window = PaymentWindow { payment_id: "p".to_owned(), window_seconds: Some(60) };
            client.open_payment(id, &window, any).await.map(|_| None)
        }
        _ => client.close_payment(id, None, None).await.map(|()| None),
    }
}

pub(super) fn two_instances_change_the_same_holds<D: Database>(database: &mut D) {
    let servers = [Server::over(&database.url()), Server::over(&database.url())];
    let holds = servers[0].ask(async |client| {
        stock(client, "a", UNITS).await;
        stock(client, "b", UNITS).await;
        let mut holds = Vec::new();
        for _ in 0..8 {
            holds.push(hold(client, &[line("a", 1), line("b", 1)]).await);
        }
        holds
    });
    let holds = Mutex::new(holds);
    let refused = Mutex::new(BTreeMap::<String, u64>::new());
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let server = &servers[usize::try_from(caller % 2).unwrap()];
            let (holds, refused) = (&holds, &refused);
            scope.spawn(move || {
                server.ask(async |client| {
                    let mut random = Random::new(caller);
                    for _ in 0..CHANGES {
                        let pair = {
                            let known = holds.lock().unwrap();
                            [random.pick(&known), random.pick(&known)]
                        };
                        match change(client, &mut random, pair).await {
                            Ok(made) => holds.lock().unwrap().extend(made),
                            Err(Error::Refused(problem)) => {
                                *refused.lock().unwrap().entry(problem.reason).or_default() += 1;
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            });
        }
    });
    let refused = refused.into_inner().unwrap();
    assert!(refused.keys().all(|reason| REASONS.contains(&reason.as_str())), "{refused:?}");
    let verdict = verify(&servers[0], &database.url());
    assert_eq!((&verdict["adds_up"], &verdict["drift"]), (&true.into(), &0.into()), "{verdict}");
    for sku in ["a", "b"] {
        let item = servers[0].item(sku).unwrap();
        assert!(item.held_units <= UNITS && item.held_under_payment <= item.held_units, "{item:?}");
    }
}

/// Each of two holds has the only unit of an item and wants that of the other: neither gets it, and nobody waits for ever.
pub(super) fn holds_that_want_each_others_units<D: Database>(database: &mut D) {
    let servers = [Server::over(&database.url()), Server::over(&database.url())];
    let ids = servers[0].ask(async |client| {
        stock(client, "a", 1).await;
        stock(client, "b", 1).await;
        [hold(client, &[line("a", 1)]).await, hold(client, &[line("b", 1)]).await]
    });
    std::thread::scope(|scope| {
        for (server, id, sku) in [(&servers[0], ids[0], "b"), (&servers[1], ids[1], "a")] {
            scope.spawn(move || {
                server.ask(async |client| {
                    for _ in 0..20 {
                        let refused = client.amend(id, &lines(vec![line(sku, 1)]), Change::default()).await;
                        let Err(Error::Refused(problem)) = refused else { panic!("{refused:?}") };
                        assert_eq!(problem.reason, "insufficient_inventory");
                    }
                });
            });
        }
    });
    for (id, sku) in [(ids[0], "a"), (ids[1], "b")] {
        let kept = servers[0].ask(async |client| client.reservation(id).await.unwrap());
        assert_eq!((kept.version, kept.lines[0].sku.as_str()), (1, sku));
    }
    let verdict = verify(&servers[1], &database.url());
    assert_eq!((&verdict["adds_up"], &verdict["drift"]), (&true.into(), &0.into()), "{verdict}");
}
