//! The audit of the drop: what buyers know of their holds, against what the database has.

use super::buyers::{AcknowledgedHold, GatedSale, LOCATION, SKU, owner};
use crate::client::CallError;
use crate::demo::audit::AuditCheck;
use std::collections::{HashMap, HashSet};
use std::process::{Command, Stdio};
use stockhold_api::client::{At, Listed};
use stockhold_api::wire::{Reservation, Status};

/// Entries in a page.
const PAGE: usize = 1_000;

/// Compares. `variables` name the store for `stockhold verify`.
pub(super) async fn audit(
    sale: &GatedSale,
    units: u64,
    variables: &[(String, String)],
) -> Result<Vec<AuditCheck>, CallError> {
    let at = At { sku: SKU, location: Some(LOCATION) };
    let item = sale.caller(0).ask(async |client| client.item(at).await).await?;
    let there = reservations(sale).await?;
    let known: HashMap<_, &Reservation> = there.iter().map(|hold| (hold.reservation_id, hold)).collect();
    let owners: HashSet<&str> = there.iter().map(|hold| hold.owner_id.as_str()).collect();
    let acknowledged = sale.holds();
    let is_there = |hold: &&AcknowledgedHold| {
        let status = if hold.is_paid { Status::Confirmed } else { Status::Active };
        known.get(&hold.id).is_some_and(|found| found.status == status && found.owner_id == owner(hold.buyer))
    };
    let lost = acknowledged.iter().filter(|hold| !is_there(hold)).count();
    let quantity: u64 = there.iter().map(|hold| hold.quantity).sum();
    let recounted = verify(variables)?;
    let check = |right: bool, says: String| AuditCheck { right, says };
    Ok(vec![
        check(
            item.held_units + item.confirmed_sold == units && item.available == 0,
            format!(
                "of {units} units exactly {units} are given away: {} are sold, {} held, {} available",
                item.confirmed_sold, item.held_units, item.available
            ),
        ),
        check(
            there.len() as u64 == units && quantity == units && owners.len() == there.len(),
            format!(
                "{} reservations have {quantity} units, and belong to {} different buyers",
                there.len(),
                owners.len()
            ),
        ),
        check(
            lost == 0 && acknowledged.len() == there.len(),
            format!("of {} holds that were acknowledged, {lost} are lost", acknowledged.len()),
        ),
        check(recounted, "`stockhold verify` has recounted the database".to_owned()),
    ])
}

/// All reservations of the item.
async fn reservations(sale: &GatedSale) -> Result<Vec<Reservation>, CallError> {
    let (mut all, mut after): (Vec<Reservation>, Option<String>) = (Vec::new(), None);
    loop {
        let listed = Listed { sku: Some(SKU), ..Listed::default() };
        let cursor = after.as_deref();
        let page =
            sale.caller(0).ask(async |client| client.reservations(listed, Some(PAGE), cursor).await).await?;
        all.extend(page.data);
        after = page.next_cursor;
        if !page.has_more {
            return Ok(all);
        }
    }
}

/// Whether the events of the database add up to its rows.
fn verify(variables: &[(String, String)]) -> Result<bool, CallError> {
    let failed = |error: std::io::Error| CallError::Unexpected(format!("stockhold verify: {error}"));
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    command.arg("verify").envs(variables.iter().cloned()).current_dir(std::env::temp_dir());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command.status().map_err(failed)?.success())
}
