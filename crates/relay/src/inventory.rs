//! Derives events about the state of items from the feed.
//!
//! An item that events have changed is read at the next flush, and one `inventory.updated` shows its newest state. So a hot item has one
//! derived event in [`FLUSH_INTERVAL`], and not one for each reserve.

use crate::filter::EventFilter;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use stockhold_api::encode::item_subject;
use stockhold_api::{InventoryEvent, InventoryEventType};
use stockhold_domain::{Event, EventId, Instant, Item, ItemKey, Transition};
use stockhold_store::{EventRow, Failure, Query, QueryResult, Store};
use uuid::Uuid;

/// Shortest time between two derived events of one item.
pub(crate) const FLUSH_INTERVAL: Duration = Duration::from_millis(100);
/// Items whose last figures are remembered. Beyond them, `inventory.depleted` and `inventory.low` may be repeated.
const REMEMBERED_ITEMS: usize = 200_000;
/// Items that are read at a time.
const READ_AT_ONCE: usize = 500;

/// The newest event that changed an item.
#[derive(Clone, Copy, Debug)]
struct Change {
    first_position: u64,
    position: u64,
    event: EventId,
    at: Instant,
}

/// What was shown of an item last.
#[derive(Clone, Copy, Debug)]
struct LastAvailability {
    available: u64,
    is_low: bool,
}

/// The items that events have changed, and what was shown of them last.
#[derive(Default)]
pub(crate) struct Inventory {
    changed: BTreeMap<ItemKey, Change>,
    shown: HashMap<ItemKey, LastAvailability>,
}

impl Inventory {
    /// Notes the items that an event has changed.
    pub(crate) fn note(&mut self, row: &EventRow, filter: &EventFilter) {
        if !filter.wants_inventory() {
            return;
        }
        for item in changed_items(&row.event) {
            if !InventoryEventType::ALL.into_iter().any(|kind| filter.has_inventory(kind, item)) {
                continue;
            }
            let change = Change {
                first_position: row.position,
                position: row.position,
                event: row.event.id,
                at: row.event.at,
            };
            self.changed
                .entry(item.clone())
                .and_modify(|old| *old = Change { first_position: old.first_position, ..change })
                .or_insert(change);
        }
    }

    /// The position before the oldest event that no derived event covers. `None`: all are covered.
    pub(crate) fn covered_through(&self) -> Option<u64> {
        self.changed.values().map(|change| change.first_position - 1).min()
    }

    /// The derived events of all changed items, in the order of the events that they cover.
    pub(crate) async fn flush(
        &mut self,
        store: &dyn Store,
        filter: &EventFilter,
    ) -> Result<Vec<InventoryEvent>, Failure> {
        let changed: Vec<_> = self.changed.iter().map(|(item, change)| (item.clone(), *change)).collect();
        let mut events = Vec::new();
        for part in changed.chunks(READ_AT_ONCE) {
            let keys = part.iter().map(|(item, _)| item.clone()).collect();
            let QueryResult::Items(items) = stockhold_store::query(store, Query::Items(keys)).await? else {
                return Err(Failure::Internal("the store answered another question".to_owned()));
            };
            for ((_, change), item) in part.iter().zip(items) {
                // A deleted item has no figures.
                if let Some(item) = item {
                    self.derive(&mut events, *change, &item, filter);
                }
            }
        }
        self.changed.clear();
        events.sort_by_key(|event| event.position);
        Ok(events)
    }

    fn derive(
        &mut self,
        events: &mut Vec<InventoryEvent>,
        change: Change,
        item: &Item,
        filter: &EventFilter,
    ) {
        let available = item.available();
        if self.shown.len() >= REMEMBERED_ITEMS {
            self.shown.clear();
        }
        let is_low = item.settings.low_stock.is_some_and(|low| available <= low);
        let before = self.shown.insert(item.key.clone(), LastAvailability { available, is_low });
        let low = is_low && before.is_none_or(|before| !before.is_low);
        let low = low.then_some(InventoryEventType::Low);
        let crossed = match (before.map(|before| before.available), available) {
            (Some(0), 0) => None,
            (_, 0) => Some(InventoryEventType::Depleted),
            (Some(0), _) => Some(InventoryEventType::Replenished),
            _ => None,
        };
        for kind in [Some(InventoryEventType::Updated), low, crossed].into_iter().flatten() {
            if filter.has_inventory(kind, &item.key) {
                let id = derived_id(&item.key, change.event, kind);
                events.push(InventoryEvent {
                    kind,
                    id,
                    at: change.at,
                    position: change.position,
                    item: item.clone(),
                });
            }
        }
    }
}

/// The same id for the same item, event and type.
fn derived_id(item: &ItemKey, event: EventId, kind: InventoryEventType) -> u128 {
    let name = format!("stockhold:{}/{event}/{}", item_subject(item), kind.name());
    Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes()).as_u128()
}

/// The items whose figures an event has changed.
fn changed_items(event: &Event) -> Vec<&ItemKey> {
    match &event.transition {
        Transition::Hold { hold, .. } => hold.lines.iter().map(|line| &line.item).collect(),
        Transition::Stock { item, .. } => vec![&item.key],
        Transition::Sale { .. } | Transition::Limit { .. } | Transition::Record { .. } => Vec::new(),
    }
}
