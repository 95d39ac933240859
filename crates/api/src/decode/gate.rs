//! The routes of the gate.

use super::explain::clip;
use super::{Invalid, key_at, path};
use stockhold_domain::Label;
use stockhold_store::GateSelection;

/// `GET /v1/gate`
pub fn gate(query: Option<&str>) -> Result<(), Invalid> {
    path::no_query(query)
}

/// `POST /v1/gate/reload?sku=&location=`
pub fn reload_gate(query: Option<&str>) -> Result<GateSelection, Invalid> {
    let mut named: [Option<Label>; 2] = [None, None];
    path::parameters(query, &["sku", "location"], |at, text| {
        let label = Label::new(text).map_err(|error| format!("{error}, found \"{}\"", clip(text)))?;
        if let Some(slot) = named.get_mut(at) {
            *slot = Some(label);
        }
        Ok(())
    })?;
    Ok(match named {
        [Some(sku), location] => GateSelection::Item(key_at(location.as_ref(), &sku)),
        [None, Some(location)] => GateSelection::Location(location),
        [None, None] => GateSelection::All,
    })
}
