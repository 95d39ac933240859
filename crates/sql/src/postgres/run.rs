//! Runs statements over arrays: one statement for all rows on one server, one for each bucket on Citus, sent together.

use super::citus::{Layout, for_one_bucket};
use super::connect::PostgresConnection;
use super::params::{Params, Part, as_sql, cut, in_order};
use crate::engine::DbError;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

impl PostgresConnection {
    /// The parameters of each statement that is sent in place of one. `None` if it is sent as it is.
    fn parts<'a>(&self, params: &Params<'a>) -> Option<Vec<Vec<Part<'a>>>> {
        if self.layout == Layout::OneServer { None } else { cut(params, |a, b| a == b) }
    }

    /// Runs a statement over arrays, unless they are empty.
    pub(super) async fn query(
        &self,
        statement: &Statement,
        count: usize,
        params: Params<'_>,
    ) -> Result<Vec<Row>, DbError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let Some(parts) = self.parts(&params) else {
            return Ok(self.client.query(statement, &as_sql(&params)).await?);
        };
        let run = |part| async move { self.client.query(statement, &refs(part)).await };
        Ok(in_order(parts.iter().map(run).collect()).await?.into_iter().flatten().collect())
    }

    /// Runs a write over arrays, unless they are empty.
    pub(super) async fn put(
        &self,
        statement: &Statement,
        count: usize,
        params: Params<'_>,
    ) -> Result<(), DbError> {
        if count == 0 {
            return Ok(());
        }
        match self.parts(&params) {
            None => {
                self.client.execute(statement, &as_sql(&params)).await?;
            }
            Some(parts) => self.put_parts(statement, &parts).await?,
        }
        Ok(())
    }

    /// As [`Self::put`], of rows that have a value of a sequence each. Citus draws one value for a statement.
    pub(super) async fn put_singly(
        &self,
        statement: &Statement,
        count: usize,
        params: Params<'_>,
    ) -> Result<(), DbError> {
        match cut(&params, |_, _| false) {
            Some(parts) if self.layout == Layout::Citus => self.put_parts(statement, &parts).await,
            _ => self.put(statement, count, params).await,
        }
    }

    async fn put_parts(&self, statement: &Statement, parts: &[Vec<Part<'_>>]) -> Result<(), DbError> {
        let run = |part| async move { self.client.execute(statement, &refs(part)).await };
        in_order(parts.iter().map(run).collect()).await?;
        Ok(())
    }

    /// The rows of a statement that is not prepared ahead.
    pub(super) async fn rows_of(&self, text: &str, params: Params<'_>) -> Result<Vec<Row>, DbError> {
        let Some(parts) = self.parts(&params) else {
            return Ok(self.client.query(text, &as_sql(&params)).await?);
        };
        let text = for_one_bucket(text);
        let mut rows = Vec::new();
        for part in &parts {
            rows.append(&mut self.client.query(&text, &refs(part)).await?);
        }
        Ok(rows)
    }

    /// Runs a write that is not prepared ahead. Returns the number of rows that it changed.
    pub(super) async fn execute_text(&self, text: &str, params: Params<'_>) -> Result<u64, DbError> {
        let Some(parts) = self.parts(&params) else {
            return Ok(self.client.execute(text, &as_sql(&params)).await?);
        };
        let text = for_one_bucket(text);
        let mut changed = 0;
        for part in &parts {
            changed += self.client.execute(&text, &refs(part)).await?;
        }
        Ok(changed)
    }
}

fn refs<'a>(part: &'a Vec<Part<'_>>) -> Vec<&'a (dyn ToSql + Sync)> {
    part.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect()
}
