//! Reads a list of the API page by page. The server keeps no state: a page without an answer is requested again.

use crate::client::{CallError, RetryClient, push_query};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Entries in a page.
const PAGE: &str = "1000";

/// A list and its filters.
pub(super) struct ListQuery {
    path: String,
    /// The parameter that names the cursor.
    cursor: &'static str,
    filters: Vec<(&'static str, String)>,
}

impl ListQuery {
    pub(super) fn new(path: impl Into<String>, cursor: &'static str) -> Self {
        Self { path: path.into(), cursor, filters: Vec::new() }
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
        let page: ListPage = serde_json::from_slice(&raw.body).map_err(|error| odd(error.to_string()))?;
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
