//! Rows of customers as a map. They are not in any event, so a world keeps them beside its events.

use std::collections::BTreeMap;
use std::ops::Bound;
use stockhold_domain::Label;
use stockhold_store::{CustomerRequest, CustomerResult, CustomerRow};

/// All rows.
#[derive(Clone, Debug, Default)]
pub struct NaiveCustomers(BTreeMap<Label, CustomerRow>);

impl NaiveCustomers {
    /// Does what is asked.
    pub fn run(&mut self, request: &CustomerRequest) -> CustomerResult {
        let version = |id: &Label| self.0.get(id).map(|row| row.version);
        match request {
            CustomerRequest::Get(id) => CustomerResult::Row(self.0.get(id).cloned()),
            CustomerRequest::Put { row, expected } => {
                let found = version(&row.id);
                if found != *expected {
                    return CustomerResult::Changed(found);
                }
                self.0.insert(row.id.clone(), row.clone());
                CustomerResult::Done
            }
            CustomerRequest::Delete { id, expected } => {
                let found = version(id);
                if found.is_none() || expected.is_some() && *expected != found {
                    return CustomerResult::Changed(found);
                }
                self.0.remove(id);
                CustomerResult::Done
            }
            CustomerRequest::Page { after, limit } => {
                let from = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
                let rows = self.0.range::<Label, _>((from, Bound::Unbounded)).map(|(_, row)| row.clone());
                CustomerResult::Page(rows.take(*limit).collect())
            }
        }
    }
}
