//! `stockhold ctl reconcile`: stock masters, and comparisons with them.

use super::{ApiRequest, show};
use crate::client::encoded;
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write;

/// The path of the stock masters.
const RECONCILIATION: &str = "/v1/reconciliation";

#[derive(Args)]
pub(super) struct ReconcileArgs {
    /// The stock master's name in the configuration
    #[arg(value_name = "STOCK_MASTER", required_unless_present = "last")]
    name: Option<String>,
    /// Change nothing: report what would be corrected and released
    #[arg(long, conflicts_with_all = ["last", "accept_batch"])]
    dry_run: bool,
    /// Show the stock masters and their last reports, and compare nothing
    #[arg(long, conflicts_with_all = ["name", "accept_batch"])]
    last: bool,
    /// Count a batch of decrements that the stock master refuses as booked, because you have booked it by hand
    #[arg(long, value_name = "BATCH_ID")]
    accept_batch: Option<String>,
    /// Delete what is stored of a stock master that is not in the configuration any more
    #[arg(long, conflicts_with_all = ["dry_run", "last", "accept_batch"])]
    forget: bool,
}

impl ReconcileArgs {
    pub(super) fn request(&self) -> ApiRequest {
        let Some(name) = self.name.as_ref().filter(|_| !self.last) else {
            return ApiRequest::get(RECONCILIATION.to_owned(), stock_masters);
        };
        if self.forget {
            let forgotten = |_: &Value| "Nothing is stored of it.\n".to_owned();
            let path = format!("{RECONCILIATION}/{}", encoded(name));
            return ApiRequest { method: "DELETE", ..ApiRequest::get(path, forgotten) };
        }
        let mut body = json!({ "stock_master": name });
        match &self.accept_batch {
            Some(batch) => body["accept_batch"] = json!(batch),
            None => body["dry_run"] = json!(self.dry_run),
        }
        ApiRequest::post(RECONCILIATION.to_owned(), body, report)
    }
}

fn stock_masters(value: &Value) -> String {
    let all = show::entries(&value["data"]);
    if all.is_empty() {
        let none =
            "There are no stock masters. Tables [stock_masters.NAME] in the configuration file make them.\n";
        return none.to_owned();
    }
    let mut shown = String::new();
    for one in all {
        let instance = one["instance"]
            .as_str()
            .map_or_else(|| "no instance".to_owned(), |name| format!("instance {name}"));
        let _ = writeln!(
            shown,
            "{} ({}): position {}, served by {instance}",
            show::text(&one["stock_master"]),
            show::text(&one["kind"]),
            show::text(&one["position"])
        );
        let batch = &one["batch"];
        if batch.is_object() {
            let refused =
                batch["refused"].as_str().map(|why| format!(", refused: {why}")).unwrap_or_default();
            let _ = writeln!(
                shown,
                "  batch {} of {} items: {} failed attempts{refused}",
                show::text(&batch["batch_id"]),
                show::text(&batch["lines"]),
                show::text(&batch["attempts"])
            );
        }
        if one["last_error"].is_object() {
            let error = &one["last_error"];
            let _ = writeln!(
                shown,
                "  {} since {}: {}",
                show::text(&one["state"]),
                show::text(&error["at"]),
                show::text(&error["message"])
            );
            if let Some(action) = error["action"].as_str() {
                let _ = writeln!(shown, "  to do: {action}");
            }
        }
        if one["report"].is_object() {
            shown.push_str(&report(&one["report"]));
        }
    }
    shown
}

/// A report: its numbers, and a line for each finding.
fn report(value: &Value) -> String {
    let kind = if value["dry_run"] == json!(true) { "dry run" } else { "comparison" };
    let mut shown = format!(
        "{kind} at {}: {} figures, {} orders, {} sales compared; {} units not booked there yet\n",
        show::text(&value["at"]),
        show::text(&value["figures_compared"]),
        show::text(&value["orders_compared"]),
        show::text(&value["sales_compared"]),
        show::text(&value["pending_units"]),
    );
    if let Some(why) = value["incomplete"].as_str() {
        let _ = writeln!(shown, "incomplete: {why}");
    }
    let findings = show::entries(&value["findings"]);
    if findings.is_empty() {
        shown.push_str("nothing found\n");
    }
    for finding in &findings {
        let _ = write!(shown, "{}", show::text(&finding["kind"]));
        for (name, member) in MEMBERS {
            if !finding[member].is_null() {
                let _ = write!(shown, " {name} {}", show::text(&finding[member]));
            }
        }
        shown.push('\n');
    }
    let counted: u64 =
        value["counts"].as_object().into_iter().flat_map(|all| all.values()).filter_map(Value::as_u64).sum();
    let more = counted.saturating_sub(findings.len() as u64);
    if more > 0 {
        let _ = writeln!(shown, "and {more} more");
    }
    shown
}

/// The members of a finding, and how they are called in a line.
const MEMBERS: [(&str, &str); 8] = [
    ("sku", "sku"),
    ("location", "location"),
    ("figure", "figure"),
    ("total before", "total_units_before"),
    ("total", "total_units"),
    ("order", "order_id"),
    ("reservation", "reservation_id"),
    ("said", "message"),
];
