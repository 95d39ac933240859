//! The records of stock masters, and who serves one.

use crate::lease::LeasedRecord;
use crate::records::StoredRecord;
use stockhold_api::stock_master_record::{ReportRecord, StockMasterRecord};
use stockhold_domain::RecordKind;

impl StoredRecord for StockMasterRecord {
    const KIND: RecordKind = RecordKind::StockMaster;

    fn to_stored(&self) -> Vec<u8> {
        self.to_bytes()
    }

    fn from_stored(bytes: &[u8]) -> Result<Self, String> {
        Self::from_bytes(bytes).map_err(|error| error.to_string())
    }
}

impl StoredRecord for ReportRecord {
    const KIND: RecordKind = RecordKind::Reconciliation;

    fn to_stored(&self) -> Vec<u8> {
        self.to_bytes()
    }

    fn from_stored(bytes: &[u8]) -> Result<Self, String> {
        Self::from_bytes(bytes).map_err(|error| error.to_string())
    }
}

impl LeasedRecord for StockMasterRecord {
    fn holder(&self) -> Option<&str> {
        self.holder.as_deref()
    }

    fn set_holder(&mut self, instance: &str) {
        self.holder = Some(instance.to_owned());
    }

    fn clear_holder(&mut self) {
        self.holder = None;
    }
}

/// The name of the record with the last report of a stock master. A dry run has a record of its own.
pub(crate) fn report_name(stock_master: &str, dry_run: bool) -> String {
    if dry_run { format!("{stock_master}:dry_run") } else { stock_master.to_owned() }
}
