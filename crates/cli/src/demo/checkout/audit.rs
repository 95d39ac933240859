//! The audit of the demo with payments: the ledger of the provider beside the orders of the server.

use super::buyers::{LOCATION, PaidSale, SKU};
use crate::client::CallError;
use crate::demo::audit::AuditCheck;
use crate::table::{Column, table};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use stockhold_api::client::At;
use stockhold_api::wire::Order;

/// Entries in a page.
const PAGE: usize = 1_000;
/// How long payments may take to come to rest.
const SETTLING: Duration = Duration::from_mins(1);
const SETTLING_POLL_INTERVAL: Duration = Duration::from_millis(200);

const COLUMNS: [Column; 3] =
    [Column("", "what"), Column("PROVIDER", "provider"), Column("STOCKHOLD", "stockhold")];

/// The money of one reservation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Money {
    captures: u64,
    captured: u64,
    refunded: u64,
}

/// Compares, once no payment is under way any more. Prints the ledger beside the orders.
pub(super) async fn audit(sale: &PaidSale, units: u64) -> Result<Vec<AuditCheck>, CallError> {
    let (orders, waiting) = settled(sale).await?;
    let ledger = sale.provider.ledger().await?;
    let mut theirs: HashMap<&str, Money> = HashMap::new();
    for payment in ledger.iter().filter(|payment| payment.captured_amount > 0) {
        let money = theirs.entry(&payment.reservation_id).or_default();
        money.captures += 1;
        money.captured += payment.captured_amount;
        money.refunded += payment.refunded_amount;
    }
    let taken = orders.iter().filter(|order| order.summary.status != "cancelled");
    let ours: HashMap<String, Money> = taken
        .map(|order| {
            let (captured, refunded) = (order.summary.amount, order.summary.refunded_amount);
            (order.reservation_id.to_string(), Money { captures: 1, captured, refunded })
        })
        .collect();
    print!("{}", side_by_side(&theirs, &ours));
    let is_matched = |(id, money): (&&str, &Money)| {
        ours.get(*id).is_some_and(|own| own == money)
            // Money that came after its hold was given up has gone back.
            || (!ours.contains_key(*id) && money.captures == 1 && money.captured == money.refunded)
    };
    let unmatched = theirs.iter().filter(|one| !is_matched((one.0, one.1))).count()
        + ours.keys().filter(|id| !theirs.contains_key(id.as_str())).count();
    let twice = theirs.values().filter(|money| money.captures > 1).count();
    let reserved = ledger.iter().filter(|payment| payment.state == "authorized").count();
    let lost = sale.paid.borrow().iter().filter(|id| !ours.contains_key(&id.to_string())).count();
    let at = At { sku: SKU, location: Some(LOCATION) };
    let item = sale.caller.ask(async |client| client.item(at).await).await?;
    let check = |right: bool, says: String| AuditCheck { right, says };
    Ok(vec![
        check(
            item.confirmed_sold == units && item.held_units == 0,
            format!("of {units} units {} are sold and {} held", item.confirmed_sold, item.held_units),
        ),
        check(waiting == 0, format!("{waiting} payments are still under way")),
        check(
            unmatched == 0,
            format!(
                "{} reservations have money at the provider; the ledger and the orders differ about {unmatched} of them",
                theirs.len()
            ),
        ),
        check(twice == 0, format!("{twice} reservations were charged twice")),
        check(reserved == 0, format!("{reserved} payments are reserved at the provider and not moved")),
        check(
            lost == 0,
            format!(
                "{} buyers were told that they have paid; {lost} of them have no order",
                sale.paid.borrow().len()
            ),
        ),
    ])
}

/// All orders, once no payment is under way, and the number of payments that still are.
async fn settled(sale: &PaidSale) -> Result<(Vec<Order>, usize), CallError> {
    let begun = Instant::now();
    loop {
        let checkouts = sale.checkouts.borrow().clone();
        let mut waiting = 0;
        for id in checkouts {
            let shown = sale.caller.ask(async |client| client.reservation(id).await).await?;
            waiting += usize::from(!super::buyers::is_at_rest(&shown));
        }
        if waiting == 0 || begun.elapsed() > SETTLING {
            // What is read before that may be out of date.
            return Ok((orders(sale).await?, waiting));
        }
        tokio::time::sleep(SETTLING_POLL_INTERVAL).await;
    }
}

async fn orders(sale: &PaidSale) -> Result<Vec<Order>, CallError> {
    let (mut all, mut after): (Vec<Order>, Option<String>) = (Vec::new(), None);
    loop {
        let page = sale
            .caller
            .ask(async |client| client.orders((None, None), Some(PAGE), after.as_deref()).await)
            .await?;
        all.extend(page.data);
        match page.next_cursor {
            Some(cursor) if page.has_more => after = Some(cursor),
            _ => return Ok(all),
        }
    }
}

/// The ledger beside the orders.
fn side_by_side(theirs: &HashMap<&str, Money>, ours: &HashMap<String, Money>) -> String {
    let sum = |money: &mut dyn Iterator<Item = &Money>| {
        money.fold((0, 0, 0), |sum, one| (sum.0 + 1, sum.1 + one.captured, sum.2 + one.refunded))
    };
    let (their, our) = (sum(&mut theirs.values()), sum(&mut ours.values()));
    let row =
        |what: &str, provider: u64, own: u64| json!({ "what": what, "provider": provider, "stockhold": own });
    let rows = [
        row("reservations with money", their.0, our.0),
        row("taken, in cents", their.1, our.1),
        row("given back, in cents", their.2, our.2),
        row("left, in cents", their.1 - their.2, our.1 - our.2),
    ];
    table(&COLUMNS, &rows.iter().collect::<Vec<&Value>>())
}
