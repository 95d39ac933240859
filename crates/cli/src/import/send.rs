//! One row against the server: what it is to do with an item, and what became of it.

use super::earlier::Earlier;
use super::row::{Bad, Row, UNITS, first_segment};
use crate::call::{Caller, Failed};
use serde::Deserialize;
use serde_json::Value;
use stockhold_api::problem::Reason;
use stockhold_api::wire::Problem;

/// How often a number on hand is tried to be set while sales go on.
const TRIES: u32 = 8;

/// What a row's number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Stock {
    /// Units that exist, sold ones included.
    Total,
    /// Units that are not sold.
    OnHand,
}

/// What is done with an item that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Existing {
    /// Set what the row names.
    Update,
    /// Leave it as it is.
    Keep,
}

/// How rows are applied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) stock: Stock,
    pub(super) existing: Existing,
    pub(super) dry_run: bool,
}

/// What became of a row.
#[derive(Debug)]
pub(super) enum Fate {
    Created,
    Updated,
    Kept,
    Bad(Bad),
}

/// Of an item, what is needed here.
#[derive(Deserialize)]
struct Sold {
    confirmed_sold: u64,
}

impl Rules {
    /// Applies one row; in a dry run, after what the rows before have made of its item. An error is no fault of the row.
    pub(super) async fn apply(
        self,
        caller: &Caller,
        row: &Row,
        earlier: Option<Earlier>,
    ) -> Result<Fate, Failed> {
        // Units that have ids are not counted by a row, on hand or otherwise.
        let stock = if row.is_of_units() { Stock::Total } else { self.stock };
        if self.existing == Existing::Update && stock == Stock::Total && !self.dry_run {
            return Ok(set(caller, row, None).await?.0);
        }
        let found = self.look(caller, row).await?;
        if (found.is_some() || earlier.is_some()) && self.existing == Existing::Keep {
            return Ok(Fate::Kept);
        }
        if self.dry_run {
            return Ok(self.foretell(row, found.as_ref(), earlier));
        }
        if stock == Stock::Total {
            return Ok(set(caller, row, None).await?.0);
        }
        // Sales go on: what was sold when the total was set must be what it was reckoned with.
        let mut sold = found.as_ref().map_or(0, sold_of);
        let mut first = None;
        for _ in 0..TRIES {
            let (fate, sold_now) = set(caller, row, Some(sold)).await?;
            if matches!(fate, Fate::Bad(_)) {
                return Ok(fate);
            }
            // Whether the item was there is known by the first try.
            let fate = first.take().unwrap_or(fate);
            if sold_now == sold {
                return Ok(fate);
            }
            (first, sold) = (Some(fate), sold_now);
        }
        let what = format!(
            "it sells while it is being set, {TRIES} times in a row; pause its sale and import this row again"
        );
        Ok(Fate::Bad(Bad { line: row.line, column: "total_units".to_owned(), what }))
    }

    /// The item as it is.
    async fn look(self, caller: &Caller, row: &Row) -> Result<Option<Value>, Failed> {
        match caller.send("GET", &row.path(), b"").await {
            Ok(raw) => serde_json::from_slice(&raw.body)
                .map(Some)
                .map_err(|error| Failed::Broken(format!("an item that can't be read: {error}"))),
            Err(Failed::Refused(problem)) if problem.reason == Reason::UnknownItem.name() => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// What would become of the row. The server decides; this is what its figures say now, and what the rows before would
    /// have made of the item.
    fn foretell(self, row: &Row, found: Option<&Value>, earlier: Option<Earlier>) -> Fate {
        let sold = if self.stock == Stock::OnHand { Some(found.map_or(0, sold_of)) } else { None };
        let body = match body_of(row, sold) {
            Ok(body) => body,
            Err(bad) => return Fate::Bad(bad),
        };
        let mode = found.and_then(|item| item["mode"].as_str()).or(earlier.and_then(Earlier::mode));
        if let Some(bad) = mode.and_then(|mode| misfit(row, &body, mode, found)) {
            return Fate::Bad(bad);
        }
        let Some(item) = found else {
            return if earlier.is_some() { Fate::Updated } else { Fate::Created };
        };
        if let Some(bad) = too_few(row, &body, item) {
            return Fate::Bad(bad);
        }
        let same = earlier.is_none() && body.iter().all(|(name, value)| item[name] == *value);
        if same { Fate::Kept } else { Fate::Updated }
    }
}

/// Why an item of this mode would refuse the row: its mode stays, and of units with ids there are as many as were added.
fn misfit(
    row: &Row,
    body: &serde_json::Map<String, Value>,
    mode: &str,
    found: Option<&Value>,
) -> Option<Bad> {
    let bad = |column: &str, what: String| Some(Bad { line: row.line, column: column.to_owned(), what });
    if let Some(asked) = body.get("mode").filter(|asked| *asked != mode) {
        let what = format!("must stay {mode:?} as the item is, found {asked}: it would be refused");
        return bad("mode", what);
    }
    let there = found.and_then(|item| item["total_units"].as_u64()).unwrap_or(0);
    let asked = body.get("total_units").and_then(Value::as_u64);
    match asked.filter(|asked| mode == UNITS && *asked != there) {
        Some(asked) => bad(
            "total_units",
            format!(
                "must be left out, found {asked}: the item has {there} units with ids, and it would be refused"
            ),
        ),
        None => None,
    }
}

/// Why an item that has sold or holds more would refuse the row.
fn too_few(row: &Row, body: &serde_json::Map<String, Value>, item: &Value) -> Option<Bad> {
    let figure = |name: &str| item[name].as_u64().unwrap_or(0);
    let committed = figure("confirmed_sold") + figure("held_units");
    let total = body.get("total_units")?.as_u64().filter(|total| *total < committed)?;
    let what = format!("{total} is less than the {committed} that are sold or held: it would be refused");
    Some(Bad { line: row.line, column: "total_units".to_owned(), what })
}

fn sold_of(item: &Value) -> u64 {
    item["confirmed_sold"].as_u64().unwrap_or(0)
}

/// Sets the item, and tells what is sold of it. `sold` is what was, when the row says what is on hand.
async fn set(caller: &Caller, row: &Row, sold: Option<u64>) -> Result<(Fate, u64), Failed> {
    let body = match body_of(row, sold) {
        Ok(body) => body,
        Err(bad) => return Ok((Fate::Bad(bad), 0)),
    };
    let body = Value::Object(body).to_string();
    match caller.send("PUT", &row.path(), body.as_bytes()).await {
        Ok(raw) => {
            let item: Sold = serde_json::from_slice(&raw.body)
                .map_err(|error| Failed::Broken(format!("an answer that can't be read: {error}")))?;
            Ok((if raw.status == 201 { Fate::Created } else { Fate::Updated }, item.confirmed_sold))
        }
        Err(Failed::Refused(problem)) if matches!(problem.status, 400 | 409 | 412 | 413 | 422) => {
            Ok((Fate::Bad(refused(row, &problem)), 0))
        }
        Err(other) => Err(other),
    }
}

/// The request's body; with a number on hand, its total is that and what is sold.
fn body_of(row: &Row, sold: Option<u64>) -> Result<serde_json::Map<String, Value>, Bad> {
    let mut body = row.settings.clone();
    let Some(sold) = sold else { return Ok(body) };
    let Some(total) = body.get("total_units").and_then(Value::as_u64) else { return Ok(body) };
    let bad = |what: String| Bad { line: row.line, column: "total_units".to_owned(), what };
    let on_hand = total.checked_sub(row.sold).ok_or_else(|| {
        bad(format!(
            "{total} exist and {} of them are sold, which is more; one of the two is wrong",
            row.sold
        ))
    })?;
    let total = on_hand
        .checked_add(sold)
        .ok_or_else(|| bad(format!("{on_hand} on hand and {sold} sold are more than an item can have")))?;
    body.insert("total_units".to_owned(), total.into());
    Ok(body)
}

/// A refusal, at the column that it is about.
fn refused(row: &Row, problem: &Problem) -> Bad {
    let line = row.line;
    match problem.errors.first() {
        Some(error) => {
            let column = first_segment(&error.pointer).to_owned();
            Bad { line, column, what: format!("{}: {}", problem.reason, error.detail) }
        }
        None => {
            let advice = if problem.reason == Reason::BelowCommitted.name() {
                " If the number is what is on hand, not what exists, say --stock on-hand."
            } else {
                ""
            };
            let what = format!("{}: {}{advice}", problem.reason, problem.detail);
            Bad { line, column: "total_units".to_owned(), what }
        }
    }
}
