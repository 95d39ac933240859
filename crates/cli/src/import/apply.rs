//! Applies rows to the server: many in one request when a row only has to be set, or one by one when the item has to be read first.
//! It decides what a refusal means for a row. It never changes an item that a row does not name.

use super::prediction::PredictedItem;
use super::row::{ItemRow, OVERRIDE, RowError, UNITS, first_segment};
use crate::client::{CallError, RetryClient};
use serde::Deserialize;
use serde_json::Value;
use stockhold_api::problem::Reason;
use stockhold_api::wire::Problem;

/// The route for many commands.
const COMMANDS: &str = "/v1/commands";
/// How often a number of unsold units is set again because a sale happened meanwhile.
const TRIES: u32 = 8;

/// What `total_units` of a row counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum StockMeaning {
    /// Units that exist, including sold ones
    Total,
    /// Units that are not sold
    Unsold,
}

/// What to do with an item that exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ExistingItems {
    /// Set what the row names
    Update,
    /// Leave the item unchanged
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

/// The field of an item that is needed here.
#[derive(Deserialize)]
struct SoldCount {
    confirmed_sold: u64,
}

/// The answer to a batch of commands.
#[derive(Deserialize)]
struct BatchAnswer {
    results: Vec<SetResult>,
}

/// The part of one result that is needed here.
#[derive(Deserialize)]
struct SetResult {
    status: u16,
    problem: Option<Box<Problem>>,
}

impl ApplyOptions {
    /// Whether rows can be set without a look at their items, so that many go into one request.
    pub(super) fn can_batch(self) -> bool {
        self.existing == ExistingItems::Update && self.stock == StockMeaning::Total && !self.dry_run
    }

    /// Sets the items of many rows in one request. No two rows may name the same item: a row that the server could not decide on is
    /// sent again alone, after the others.
    pub(super) async fn set_many(
        self,
        caller: &RetryClient,
        rows: Vec<ItemRow>,
    ) -> Result<Vec<(ItemRow, RowOutcome)>, CallError> {
        let mut body = br#"{"commands":["#.to_vec();
        for (number, row) in rows.iter().enumerate() {
            if number > 0 {
                body.push(b',');
            }
            put_command(&mut body, row).map_err(|error| CallError::Unexpected(error.to_string()))?;
        }
        body.extend_from_slice(b"]}");
        let raw = caller.send("POST", COMMANDS, &body).await?;
        drop(body);
        let answer: BatchAnswer = serde_json::from_slice(&raw.body)
            .map_err(|error| CallError::Unexpected(format!("an answer that can't be read: {error}")))?;
        if answer.results.len() != rows.len() {
            let (sent, found) = (rows.len(), answer.results.len());
            return Err(CallError::Unexpected(format!("{found} results of {sent} commands")));
        }
        let mut outcomes = Vec::with_capacity(rows.len());
        for (row, result) in rows.into_iter().zip(answer.results) {
            let outcome = match (result.status, result.problem) {
                (201, None) => RowOutcome::Created,
                (_, None) => RowOutcome::Updated,
                (_, Some(problem)) if is_about_the_row(&problem) => {
                    RowOutcome::Rejected(refused(&row, &problem))
                }
                // For example overloaded: the single route retries until the patience ends.
                (_, Some(_)) => self.apply(caller, &row, None).await?,
            };
            outcomes.push((row, outcome));
        }
        Ok(outcomes)
    }

    /// Applies one row. A dry run predicts the outcome; `earlier` is what the rows before would have made of the item. An error is not
    /// the row's fault.
    pub(super) async fn apply(
        self,
        caller: &RetryClient,
        row: &ItemRow,
        earlier: Option<PredictedItem>,
    ) -> Result<RowOutcome, CallError> {
        // The total of an item whose units have ids is their number, and a count of the shelf says itself what it counts.
        let has_total = !row.is_of_units() && row.settings.contains_key("total_units");
        let stock = if has_total { self.stock } else { StockMeaning::Total };
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
        // Sales continue meanwhile: the total is right if as much was sold when it was set as it was computed with.
        let mut sold = found.as_ref().map_or(0, sold_of);
        let mut first = None;
        for _ in 0..TRIES {
            let (fate, sold_now) = set(caller, row, Some(sold)).await?;
            if matches!(fate, RowOutcome::Rejected(_)) {
                return Ok(fate);
            }
            // Only the first try says whether the item was created.
            let fate = first.take().unwrap_or(fate);
            if sold_now == sold {
                return Ok(fate);
            }
            (first, sold) = (Some(fate), sold_now);
        }
        let what = format!(
            "a sale happened each of the {TRIES} times that it was set; pause its sale and import this row again"
        );
        Ok(RowOutcome::Rejected(RowError { line: row.line, column: "total_units".to_owned(), what }))
    }

    /// The item as the server has it.
    async fn look(self, caller: &RetryClient, row: &ItemRow) -> Result<Option<Value>, CallError> {
        match caller.send("GET", &row.path(), b"").await {
            Ok(raw) => serde_json::from_slice(&raw.body)
                .map(Some)
                .map_err(|error| CallError::Unexpected(format!("an item that can't be read: {error}"))),
            Err(CallError::Refused(problem)) if problem.reason == Reason::UnknownItem.name() => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Predicts the result of a row from the current item and from the rows before.
    fn predict(self, row: &ItemRow, found: Option<&Value>, earlier: Option<PredictedItem>) -> RowOutcome {
        let sold = if self.stock == StockMeaning::Unsold { Some(found.map_or(0, sold_of)) } else { None };
        let body = match body_of(row, sold).and_then(|body| counted_total(row, body, found.is_some())) {
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
        if let Some(bad) = owned_elsewhere(row, &body, item) {
            return RowOutcome::Rejected(bad);
        }
        let is_same = |(name, value): (&String, &Value)| name == OVERRIDE || item[name] == *value;
        let same = earlier.is_none() && body.iter().all(is_same);
        if same { RowOutcome::Unchanged } else { RowOutcome::Updated }
    }
}

/// Why an item of this mode would refuse the row: the mode never changes, and the total of units with ids is their number.
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

/// Why an item would refuse the row if it has sold or holds more units than the row's total.
fn below_committed(row: &ItemRow, body: &serde_json::Map<String, Value>, item: &Value) -> Option<RowError> {
    let figure = |name: &str| item[name].as_u64().unwrap_or(0);
    let committed = figure("confirmed_sold") + figure("held_units");
    let total = body.get("total_units")?.as_u64().filter(|total| *total < committed)?;
    let what = format!("{total} is less than the {committed} that are sold or held: it would be refused");
    Some(RowError { line: row.line, column: "total_units".to_owned(), what })
}

/// Why an item whose total an external system owns would refuse the row. A row that names another owner has a total of its own.
fn owned_elsewhere(row: &ItemRow, body: &serde_json::Map<String, Value>, item: &Value) -> Option<RowError> {
    let owner = item["stock_master"].as_str()?;
    let keeps_owner = body.get("stock_master").is_none_or(|asked| asked == owner);
    let total = body.get("total_units").filter(|total| **total != item["total_units"])?;
    if !keeps_owner || body.contains_key(OVERRIDE) {
        return None;
    }
    let what = format!(
        "the stock master {owner:?} owns the total, found {total}: it would be refused without --override"
    );
    Some(RowError { line: row.line, column: "total_units".to_owned(), what })
}

fn sold_of(item: &Value) -> u64 {
    item["confirmed_sold"].as_u64().unwrap_or(0)
}

/// Sets the item, and returns how many units are sold. `sold` is the number of sold units to add to a number of unsold units.
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
        Err(CallError::Refused(problem)) if is_about_the_row(&problem) => {
            Ok((RowOutcome::Rejected(refused(row, &problem)), 0))
        }
        Err(other) => Err(other),
    }
}

/// Whether a refusal is the row's fault, so that the import continues without it.
pub(super) fn is_about_the_row(problem: &Problem) -> bool {
    matches!(problem.status, 400 | 409 | 412 | 413 | 422)
}

/// Writes a row as a command of a batch.
fn put_command(body: &mut Vec<u8>, row: &ItemRow) -> serde_json::Result<()> {
    body.extend_from_slice(br#"{"op":"set_stock","sku":"#);
    serde_json::to_writer(&mut *body, &row.sku)?;
    body.extend_from_slice(br#","location":"#);
    serde_json::to_writer(&mut *body, &row.location)?;
    for (name, value) in &row.settings {
        // Names of settings are ours and need no escapes.
        body.extend_from_slice(b",\"");
        body.extend_from_slice(name.as_bytes());
        body.extend_from_slice(b"\":");
        serde_json::to_writer(&mut *body, value)?;
    }
    body.push(b'}');
    Ok(())
}

/// The body of a request that sets the item. If the row has a number of unsold units, the total is that number and the sold units.
fn body_of(row: &ItemRow, sold: Option<u64>) -> Result<serde_json::Map<String, Value>, RowError> {
    let mut body = row.settings.clone();
    let Some(sold) = sold else { return Ok(body) };
    let Some(total) = body.get("total_units").and_then(Value::as_u64) else { return Ok(body) };
    let bad = |what: String| RowError { line: row.line, column: "total_units".to_owned(), what };
    let unsold = total.checked_sub(row.sold).ok_or_else(|| {
        bad(format!("is {total}, and confirmed_sold is {}, which is more: one of the two is wrong", row.sold))
    })?;
    let total = unsold
        .checked_add(sold)
        .ok_or_else(|| bad(format!("{unsold} unsold and {sold} sold are more than an item can have")))?;
    body.insert("total_units".to_owned(), total.into());
    Ok(body)
}

/// The body with the total that a count of the shelf leads to.
fn counted_total(
    row: &ItemRow,
    mut body: serde_json::Map<String, Value>,
    exists: bool,
) -> Result<serde_json::Map<String, Value>, RowError> {
    let Some(on_hand) = body.remove("on_hand").and_then(|units| units.as_u64()) else { return Ok(body) };
    let seen = body.remove("fulfilled_units_seen").and_then(|units| units.as_u64());
    let seen = match seen {
        None if exists => {
            let what = "is missing: a count of an existing item needs it, and it would be refused".to_owned();
            return Err(RowError { line: row.line, column: "fulfilled_units_seen".to_owned(), what });
        }
        seen => seen.filter(|_| exists).unwrap_or(0),
    };
    body.insert("total_units".to_owned(), on_hand.saturating_add(seen).into());
    Ok(body)
}

/// The error of a row that the server refused, at the column that it is about.
fn refused(row: &ItemRow, problem: &Problem) -> RowError {
    let line = row.line;
    match problem.errors.first() {
        Some(error) => {
            let column = first_segment(&error.pointer).to_owned();
            RowError { line, column, what: format!("{}: {}", problem.reason, error.detail) }
        }
        None => {
            let advice = if problem.reason == Reason::BelowCommitted.name() {
                " If the number counts unsold units, use --stock unsold; if it is a count of the shelf, use the column on_hand."
            } else {
                ""
            };
            let what = format!("{}: {}{advice}", problem.reason, problem.detail);
            let other_mode =
                problem.reason == Reason::ModeMismatch.name() && row.settings.contains_key("mode");
            let column = if other_mode { "mode" } else { "total_units" };
            RowError { line, column: column.to_owned(), what }
        }
    }
}
