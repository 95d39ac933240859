//! The gate as JSON.

use super::json::{Object, array};
use stockhold_store::{GateItem, GateStatus, ReloadSummary};

/// The state of the gate. `None`: no gate is configured.
pub fn gate(out: &mut Vec<u8>, status: Option<&GateStatus>) {
    let mut object = Object::open(out);
    object.flag("enabled", status.is_some());
    if let Some(status) = status {
        object.flag("connected", status.connected);
        object.number("hits", status.admitted);
        object.number("refusals", status.refused);
        object.number("corrections", status.corrections);
        let (seconds, millis) = (status.lag_millis / 1_000, status.lag_millis % 1_000);
        object.raw("lag_seconds", &format!("{seconds}.{millis:03}"));
        array(object.value("items"), &status.items, gate_item);
        object.flag("has_more", status.has_more);
    }
    object.close();
}

fn gate_item(out: &mut Vec<u8>, GateItem { item, counter }: &GateItem) {
    let mut object = Object::open(out);
    super::text_of(&mut object, item);
    if let Some(counter) = counter {
        object.number("units", counter.units);
        object.number("sequence", counter.sequence);
        object.number("epoch", counter.epoch);
    }
    object.close();
}

/// What a reload of the gate did.
pub fn gate_reload(out: &mut Vec<u8>, summary: ReloadSummary) {
    let mut object = Object::open(out);
    object.number("reloaded", summary.reloaded);
    object.number("corrected", summary.corrected);
    object.close();
}
