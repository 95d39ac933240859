//! Reads a list of the API page by page. The server keeps no state: a page without an answer is requested again.

use crate::client::{CallError, RetryClient, item_path, push_query};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use stockhold_api::problem::Reason;

/// Entries in a page.
const PAGE: &str = "1000";

/// A list and its filters.
pub(super) struct ListQuery {
    path: String,
    /// The parameter that names the cursor.
    cursor: &'static str,
    filters: Vec<(&'static str, String)>,
    /// Whether the entries are the pools of the listed items.
    of_pools: bool,
}

impl ListQuery {
    pub(super) fn new(path: impl Into<String>, cursor: &'static str) -> Self {
        Self { path: path.into(), cursor, filters: Vec::new(), of_pools: false }
    }

    /// The pools of the listed items in place of the items.
    pub(super) fn of_pools(self) -> Self {
        Self { of_pools: true, ..self }
    }

    pub(super) fn filtered(mut self, name: &'static str, value: Option<&String>) -> Self {
        self.filters.extend(value.map(|value| (name, value.clone())));
        self
    }
}

/// The pages of a list.
pub(super) struct PageReader {
    list: ListQuery,
    after: Option<String>,
    ended: bool,
}

/// The entries of one page, each as the server sent it.
#[derive(Deserialize)]
pub(super) struct ListPage {
    data: Vec<Box<RawValue>>,
    has_more: bool,
    #[serde(default)]
    next_cursor: Value,
}

impl ListPage {
    pub(super) fn entries(&self) -> impl Iterator<Item = &str> {
        self.data.iter().map(|entry| entry.get())
    }
}

impl PageReader {
    pub(super) fn new(list: ListQuery, after: Option<String>) -> Self {
        Self { list, after, ended: false }
    }

    /// The cursor after the pages so far.
    pub(super) fn cursor(&self) -> Option<&str> {
        self.after.as_deref()
    }

    /// The next page; `None` after the last.
    pub(super) async fn next(&mut self, caller: &RetryClient) -> Result<Option<ListPage>, CallError> {
        if self.ended {
            return Ok(None);
        }
        let mut path = self.list.path.clone();
        push_query(&mut path, "limit", PAGE);
        for (name, value) in &self.list.filters {
            push_query(&mut path, name, value);
        }
        if let Some(after) = &self.after {
            push_query(&mut path, self.list.cursor, after);
        }
        let raw = caller.send("GET", &path, b"").await?;
        let odd = |what: String| CallError::Unexpected(format!("{path}: a page that can't be read: {what}"));
        let mut page: ListPage = serde_json::from_slice(&raw.body).map_err(|error| odd(error.to_string()))?;
        if self.list.of_pools {
            page.data = pools_of(caller, &page.data).await?;
        }
        self.after = match &page.next_cursor {
            Value::Null if page.has_more => {
                return Err(odd("there are more entries but no cursor".to_owned()));
            }
            Value::Null => self.after.take(),
            Value::String(cursor) => Some(cursor.clone()),
            other => Some(other.to_string()),
        };
        self.ended = !page.has_more;
        Ok(Some(page))
    }
}

/// The part of an item that its pools are exported with.
#[derive(Deserialize, Serialize)]
struct PooledItem {
    sku: String,
    location: String,
    mode: String,
}

/// The pools of an item.
#[derive(Deserialize)]
struct PoolList {
    data: Vec<Map<String, Value>>,
}

/// A pool with its item.
#[derive(Serialize)]
struct ExportedPool<'a> {
    #[serde(flatten)]
    item: &'a PooledItem,
    #[serde(flatten)]
    pool: Map<String, Value>,
}

/// The pools of items, each as one entry.
async fn pools_of(caller: &RetryClient, items: &[Box<RawValue>]) -> Result<Vec<Box<RawValue>>, CallError> {
    let odd = |error: serde_json::Error| {
        CallError::Unexpected(format!("the pools of an item that can't be read: {error}"))
    };
    let mut entries = Vec::new();
    for item in items {
        let item: PooledItem = serde_json::from_str(item.get()).map_err(odd)?;
        let raw = match caller.send("GET", &item_path(&item.sku, &item.location, "/pools"), b"").await {
            Ok(raw) => raw,
            // It was deleted meanwhile.
            Err(CallError::Refused(problem)) if problem.reason == Reason::UnknownItem.name() => continue,
            Err(other) => return Err(other),
        };
        let pools: PoolList = serde_json::from_slice(&raw.body).map_err(odd)?;
        for pool in pools.data {
            entries.push(to_raw_value(&ExportedPool { item: &item, pool }).map_err(odd)?);
        }
    }
    Ok(entries)
}
