//! One row against the server: what it is to do with an item, and what became of it.

use super::prediction::PredictedItem;
use super::row::{ItemRow, RowError, UNITS, first_segment};
use crate::client::{CallError, RetryClient};
use serde::Deserialize;
use serde_json::Value;
use stockhold_api::problem::Reason;
use stockhold_api::wire::Problem;

/// How often a number on hand is tried to be set while sales go on.
const TRIES: u32 = 8;

/// What a row's number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum StockMeaning {
    /// Units that exist, sold ones included.
    Total,
    /// Units that are not sold.
    OnHand,
}

/// What is done with an item that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ExistingItems {
    /// Set what the row names.
    Update,
    /// Leave it as it is.
    Keep,
}

/// How rows are applied.
#[derive(Clone, Copy, Debug)]
pub(super) struct ApplyOptions {
    pub(super) stock: StockMeaning,
    pub(super) existing: ExistingItems,
    pub(super) dry_run: bool,
}

/// What became of a row.
#[derive(Debug)]
pub(super) enum RowOutcome {
    Created,
    Updated,
    Unchanged,
    Rejected(RowError),
}

/// Of an item, what is needed here.
#[derive(Deserialize)]
struct SoldCount {
    confirmed_sold: u64,
}

impl ApplyOptions {
    /// Applies one row; in a dry run, after what the rows before have made of its item. An error is no fault of the row.
    pub(super) async fn apply(
        self,
        caller: &RetryClient,
        row: &ItemRow,
        earlier: Option<PredictedItem>,
    ) -> Result<RowOutcome, CallError> {
        // Units that have ids are not counted by a row, on hand or otherwise.
        let stock = if row.is_of_units() { StockMeaning::Total } else { self.stock };
        if self.existing == ExistingItems::Update && stock == StockMeaning::Total && !self.dry_run {
            return Ok(set(caller, row, None).await?.0);
        }
        let found = self.look(caller, row).await?;
        if (found.is_some() || earlier.is_some()) && self.existing == ExistingItems::Keep {
            return Ok(RowOutcome::Unchanged);
        }
        if self.dry_run {
            return Ok(self.predict(row, found.as_ref(), earlier));
        }
        if stock == StockMeaning::Total {
            return Ok(set(caller, row, None).await?.0);
        }
        // Sales go on: what was sold when the total was set must be what it was reckoned with.
        let mut sold = found.as_ref().map_or(0, sold_of);
        let mut first = None;
        for _ in 0..TRIES {
            let (fate, sold_now) = set(caller, row, Some(sold)).await?;
            if matches!(fate, RowOutcome::Rejected(_)) {
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
        Ok(RowOutcome::Rejected(RowError { line: row.line, column: "total_units".to_owned(), what }))
    }

    /// The item as it is.
    async fn look(self, caller: &RetryClient, row: &ItemRow) -> Result<Option<Value>, CallError> {
        match caller.send("GET", &row.path(), b"").await {
            Ok(raw) => serde_json::from_slice(&raw.body)
                .map(Some)
                .map_err(|error| CallError::Unexpected(format!("an item that can't be read: {error}"))),
            Err(CallError::Refused(problem)) if problem.reason == Reason::UnknownItem.name() => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// What would become of the row. The server decides; this is what its figures say now, and what the rows before would
    /// have made of the item.
    fn predict(self, row: &ItemRow, found: Option<&Value>, earlier: Option<PredictedItem>) -> RowOutcome {
        let sold = if self.stock == StockMeaning::OnHand { Some(found.map_or(0, sold_of)) } else { None };
        let body = match body_of(row, sold) {
            Ok(body) => body,
            Err(bad) => return RowOutcome::Rejected(bad),
        };
        let mode = found.and_then(|item| item["mode"].as_str()).or(earlier.and_then(PredictedItem::mode));
        if let Some(bad) = mode.and_then(|mode| mode_conflict(row, &body, mode, found)) {
            return RowOutcome::Rejected(bad);
        }
        let Some(item) = found else {
            return if earlier.is_some() { RowOutcome::Updated } else { RowOutcome::Created };
        };
        if let Some(bad) = below_committed(row, &body, item) {
            return RowOutcome::Rejected(bad);
        }
        let same = earlier.is_none() && body.iter().all(|(name, value)| item[name] == *value);
        if same { RowOutcome::Unchanged } else { RowOutcome::Updated }
    }
}

/// Why an item of this mode would refuse the row: its mode stays, and of units with ids there are as many as were added.
fn mode_conflict(
    row: &ItemRow,
    body: &serde_json::Map<String, Value>,
    mode: &str,
    found: Option<&Value>,
) -> Option<RowError> {
    let bad = |column: &str, what: String| Some(RowError { line: row.line, column: column.to_owned(), what });
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
fn below_committed(row: &ItemRow, body: &serde_json::Map<String, Value>, item: &Value) -> Option<RowError> {
    let figure = |name: &str| item[name].as_u64().unwrap_or(0);
    let committed = figure("confirmed_sold") + figure("held_units");
    let total = body.get("total_units")?.as_u64().filter(|total| *total < committed)?;
    let what = format!("{total} is less than the {committed} that are sold or held: it would be refused");
    Some(RowError { line: row.line, column: "total_units".to_owned(), what })
}

fn sold_of(item: &Value) -> u64 {
    item["confirmed_sold"].as_u64().unwrap_or(0)
}

/// Sets the item, and tells what is sold of it. `sold` is what was, when the row says what is on hand.
async fn set(caller: &RetryClient, row: &ItemRow, sold: Option<u64>) -> Result<(RowOutcome, u64), CallError> {
    let body = match body_of(row, sold) {
        Ok(body) => body,
        Err(bad) => return Ok((RowOutcome::Rejected(bad), 0)),
    };
    let body = Value::Object(body).to_string();
    match caller.send("PUT", &row.path(), body.as_bytes()).await {
        Ok(raw) => {
            let item: SoldCount = serde_json::from_slice(&raw.body)
                .map_err(|error| CallError::Unexpected(format!("an answer that can't be read: {error}")))?;
            Ok((
                if raw.status == 201 { RowOutcome::Created } else { RowOutcome::Updated },
                item.confirmed_sold,
            ))
        }
        Err(CallError::Refused(problem)) if matches!(problem.status, 400 | 409 | 412 | 413 | 422) => {
            Ok((RowOutcome::Rejected(refused(row, &problem)), 0))
        }
        Err(other) => Err(other),
    }
}

/// The request's body; with a number on hand, its total is that and what is sold.
fn body_of(row: &ItemRow, sold: Option<u64>) -> Result<serde_json::Map<String, Value>, RowError> {
    let mut body = row.settings.clone();
    let Some(sold) = sold else { return Ok(body) };
    let Some(total) = body.get("total_units").and_then(Value::as_u64) else { return Ok(body) };
    let bad = |what: String| RowError { line: row.line, column: "total_units".to_owned(), what };
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
fn refused(row: &ItemRow, problem: &Problem) -> RowError {
    let line = row.line;
    match problem.errors.first() {
        Some(error) => {
            let column = first_segment(&error.pointer).to_owned();
            RowError { line, column, what: format!("{}: {}", problem.reason, error.detail) }
        }
        None => {
            let advice = if problem.reason == Reason::BelowCommitted.name() {
                " If the number is what is on hand, not what exists, say --stock on-hand."
            } else {
                ""
            };
            let what = format!("{}: {}{advice}", problem.reason, problem.detail);
            RowError { line, column: "total_units".to_owned(), what }
        }
    }
}
