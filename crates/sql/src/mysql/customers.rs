//! Rows of customers. Each request is one statement that commits by itself.

use super::connect::MysqlConnection;
use super::rows;
use super::script::{hex, int};
use crate::engine::DbError;
use mysql_async::Row;
use stockhold_domain::Label;
use stockhold_store::{CustomerRequest, CustomerResult, CustomerRow};

const SELECT: &str = "SELECT id,version,value FROM stockhold_customers FORCE INDEX (PRIMARY) WHERE id";
/// The number of rows that the statement before has changed.
const COUNT: &str = ";SELECT ROW_COUNT()";

impl MysqlConnection {
    pub(super) async fn run_customer_request(
        &mut self,
        request: &CustomerRequest,
    ) -> Result<CustomerResult, DbError> {
        let (id, text) = match request {
            CustomerRequest::Get(id) => {
                return Ok(CustomerResult::Row(self.customer(id).await?));
            }
            CustomerRequest::Page { after, limit } => {
                let found = self.query(&page(after.as_ref(), *limit)).await?.concat();
                return Ok(CustomerResult::Page(found.iter().map(read).collect::<Result<_, _>>()?));
            }
            CustomerRequest::Put { row, expected: None } => (&row.id, insert(row)),
            CustomerRequest::Put { row, expected: Some(expected) } => (&row.id, update(row, *expected)),
            CustomerRequest::Delete { id, expected } => (id, delete(id, *expected)),
        };
        let affected = self.query(&text).await?.concat();
        let affected = affected.first().map(|row| rows::int(row, 0)).transpose()?;
        if affected.is_some_and(|count| count > 0) {
            return Ok(CustomerResult::Done);
        }
        Ok(CustomerResult::Changed(self.customer(id).await?.map(|row| row.version)))
    }

    async fn customer(&mut self, id: &Label) -> Result<Option<CustomerRow>, DbError> {
        let mut text = format!("{SELECT}=");
        hex(&mut text, id.as_str().as_bytes());
        let found = self.query(&text).await?.concat();
        found.first().map(read).transpose()
    }
}

fn page(after: Option<&Label>, limit: usize) -> String {
    let mut text = format!("{SELECT}>");
    hex(&mut text, after.map_or("", Label::as_str).as_bytes());
    text.push_str(" ORDER BY id LIMIT ");
    int(&mut text, limit as u64);
    text
}

/// A row that exists is left as it is, and is not counted.
fn insert(row: &CustomerRow) -> String {
    let mut text = "INSERT INTO stockhold_customers (id,version,value) VALUES (".to_owned();
    hex(&mut text, row.id.as_str().as_bytes());
    text.push(',');
    int(&mut text, row.version);
    text.push(',');
    hex(&mut text, &row.value);
    text.push_str(") ON DUPLICATE KEY UPDATE id=id");
    text.push_str(COUNT);
    text
}

fn update(row: &CustomerRow, expected: u64) -> String {
    let mut text = "UPDATE stockhold_customers SET version=".to_owned();
    int(&mut text, row.version);
    text.push_str(",value=");
    hex(&mut text, &row.value);
    text.push_str(" WHERE id=");
    hex(&mut text, row.id.as_str().as_bytes());
    text.push_str(" AND version=");
    int(&mut text, expected);
    text.push_str(COUNT);
    text
}

fn delete(id: &Label, expected: Option<u64>) -> String {
    let mut text = "DELETE FROM stockhold_customers WHERE id=".to_owned();
    hex(&mut text, id.as_str().as_bytes());
    if let Some(expected) = expected {
        text.push_str(" AND version=");
        int(&mut text, expected);
    }
    text.push_str(COUNT);
    text
}

fn read(row: &Row) -> Result<CustomerRow, DbError> {
    Ok(CustomerRow {
        id: rows::label(row, 0)?,
        version: rows::figure(row, 1)?,
        value: rows::bytes(row, 2)?.into(),
    })
}
