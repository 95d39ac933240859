//! The model's records. A deleted one stays in the list without a value, because its version must not come again.

use super::{Model, invalid};
use stockhold_domain::{Record, RecordKey, Rejection, Reply, SetRecord};

impl Model {
    /// A record as it is now; `None` when it is deleted too.
    pub fn service_record(&self, key: &RecordKey) -> Option<Record> {
        self.record_or_rest(key).filter(|record| record.value.is_some())
    }

    pub(super) fn record_or_rest(&self, key: &RecordKey) -> Option<Record> {
        self.service_records.iter().find(|record| record.key == *key).cloned()
    }

    pub(super) fn set_record(&mut self, asked: &SetRecord) -> Result<Reply, Rejection> {
        let there = self.service_record(&asked.key).map_or(0, |record| record.version);
        if there != asked.expected_version {
            return Err(Rejection::RecordChanged { version: there });
        }
        if there == 0 && asked.value.is_none() {
            return Err(invalid("/expected_version"));
        }
        let used = self.record_or_rest(&asked.key).map_or(0, |record| record.version);
        let record = Record { key: asked.key.clone(), version: used + 1, value: asked.value.clone() };
        self.service_records.retain(|record| record.key != asked.key);
        self.service_records.push(record.clone());
        Ok(Reply::Record(record))
    }
}
