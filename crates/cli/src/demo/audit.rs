//! The demo's verdict: what buyers were told, against what the server has.

use super::sale::{BuyerOutcome, DemoSale};
use super::say;
use crate::client::CallError;
use stockhold_api::wire::Status;

/// One thing that must hold, and whether it does.
pub(super) struct AuditCheck {
    pub(super) right: bool,
    pub(super) says: String,
}

impl AuditCheck {
    fn print(&self) {
        println!("           {} {}", if self.right { "ok   " } else { "WRONG" }, self.says);
    }
}

/// Prints what was checked and the verdict. Returns whether all of it is right.
pub(super) fn conclude(begun: std::time::Instant, checks: &[AuditCheck], verdict: &str) -> bool {
    say(begun, "audit:");
    for check in checks {
        check.print();
    }
    let right = checks.iter().all(|check| check.right);
    if right {
        say(begun, format_args!("the audit is right: {verdict}"));
    } else {
        say(begun, "the audit is WRONG: this is a bug");
    }
    right
}

/// Compares. Every hold must have ended.
pub(super) async fn audit(sale: &DemoSale, units: u64) -> Result<Vec<AuditCheck>, CallError> {
    let item = sale.item().await?;
    let given = sale.given.borrow().clone();
    let mut ended = [0_u64; 3];
    let mut wrong = Vec::new();
    for hold in &given {
        let now = sale.caller.ask(async |client| client.reservation(hold.id).await).await?.status;
        let is_expected = match hold.told {
            BuyerOutcome::Sold => now == Status::Confirmed,
            // The release of a reservation that has expired succeeds too.
            BuyerOutcome::Released => matches!(now, Status::Cancelled | Status::Expired),
            BuyerOutcome::Abandoned | BuyerOutcome::Expired => now == Status::Expired,
        };
        match now {
            Status::Confirmed => ended[0] += 1,
            Status::Cancelled => ended[1] += 1,
            Status::Expired => ended[2] += 1,
            Status::Active => {}
        }
        if !is_expected {
            wrong.push(format!("buyer {} was told {:?}, the server has {now:?}", hold.buyer, hold.told));
        }
    }
    let sold = sale.sold.get();
    let [confirmed, released, expired] = ended;
    let holds = given.len() as u64;
    let check = |right: bool, says: String| AuditCheck { right, says };
    Ok(vec![
        check(
            sold == item.confirmed_sold,
            format!("{sold} sales were acknowledged, the ledger says confirmed_sold {}", item.confirmed_sold),
        ),
        check(
            item.confirmed_sold + item.held_units <= units && item.total_units == units,
            format!(
                "of {units} units never more than {units}: {} are sold, {} held",
                item.confirmed_sold, item.held_units
            ),
        ),
        check(
            item.held_units == 0 && item.active_reservations == 0 && confirmed + released + expired == holds,
            format!(
                "{holds} holds were given: {confirmed} sold, {released} released, {expired} expired, none is open"
            ),
        ),
        check(
            wrong.is_empty(),
            wrong.first().map_or_else(|| "each hold ended as its buyer was told".to_owned(), Clone::clone),
        ),
    ])
}
