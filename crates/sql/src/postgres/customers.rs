//! Rows of customers. Each request is one statement that commits by itself.

use super::connect::PostgresConnection;
use super::rows::{self, figure, label, stored};
use crate::engine::DbError;
use stockhold_domain::Label;
use stockhold_store::{CustomerRequest, CustomerResult, CustomerRow};
use tokio_postgres::Row;

impl PostgresConnection {
    pub(super) async fn run_customer_request(
        &mut self,
        request: &CustomerRequest,
    ) -> Result<CustomerResult, DbError> {
        let s = &self.statements;
        let (id, affected) = match request {
            CustomerRequest::Get(id) => {
                return Ok(CustomerResult::Row(self.customer(id).await?));
            }
            CustomerRequest::Page { after, limit } => {
                let after = after.as_ref().map_or("", Label::as_str);
                let found = self.client.query(&s.customer_page, &[&after, &rows::rows(*limit)]).await?;
                return Ok(CustomerResult::Page(found.iter().map(read).collect::<Result<_, _>>()?));
            }
            CustomerRequest::Put { row, expected: None } => {
                let values: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
                    [&row.id.as_str(), &stored(row.version)?, &&row.value[..]];
                (&row.id, self.client.execute(&s.insert_customer, &values).await?)
            }
            CustomerRequest::Put { row, expected: Some(expected) } => {
                let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                    [&row.id.as_str(), &stored(row.version)?, &&row.value[..], &stored(*expected)?];
                (&row.id, self.client.execute(&s.update_customer, &values).await?)
            }
            CustomerRequest::Delete { id, expected } => {
                let expected = expected.map(stored).transpose()?;
                (id, self.client.execute(&s.delete_customer, &[&id.as_str(), &expected]).await?)
            }
        };
        if affected > 0 {
            return Ok(CustomerResult::Done);
        }
        Ok(CustomerResult::Changed(self.customer(id).await?.map(|row| row.version)))
    }

    async fn customer(&self, id: &Label) -> Result<Option<CustomerRow>, DbError> {
        let found = self.client.query_opt(&self.statements.read_customer, &[&id.as_str()]).await?;
        found.as_ref().map(read).transpose()
    }
}

fn read(row: &Row) -> Result<CustomerRow, DbError> {
    let value: &[u8] = row.try_get("value")?;
    Ok(CustomerRow { id: label(row, "id")?, version: figure(row, "version")?, value: value.into() })
}
