//! An event on its way to a sink.

use std::sync::Arc;
use stockhold_api::encode::{
    self, CLOUD_EVENT_PREFIX, event_subject, event_type, inventory_cloud_event, item_subject,
};
use stockhold_api::{InventoryEvent, InventoryEventType};
use stockhold_domain::{Event, EventId, Instant, Item, ItemKey, StockChange, Transition};
use stockhold_store::EventRow;

/// What became of an item.
#[derive(Clone, Debug)]
pub(crate) enum ItemState {
    /// It has these figures.
    Updated(Box<Item>),
    /// It was deleted.
    Deleted(ItemKey),
}

/// An event as sinks get it.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// The event's id.
    pub(crate) id: EventId,
    /// The type, with the prefix of the service.
    pub(crate) kind: String,
    /// What it is about. The order of the messages of one subject is kept.
    pub(crate) subject: String,
    /// The event's position. Of a derived event: that of the newest event it covers.
    pub(crate) position: u64,
    /// When the event was decided.
    pub(crate) at: Instant,
    /// The number of the replay that it belongs to.
    pub(crate) replay: Option<u32>,
    /// What became of an item, of `inventory.updated` and of the deletion of an item.
    pub(crate) item: Option<ItemState>,
    /// The event of the feed. A derived event has none.
    pub(crate) event: Option<Arc<Event>>,
    /// The event in JSON.
    pub(crate) body: Vec<u8>,
}

impl Message {
    /// An event of the feed.
    pub(crate) fn of_row(row: EventRow, source: &str, replay: Option<u32>) -> Self {
        let mut body = Vec::with_capacity(1_024);
        encode::cloud_event(&mut body, &row, source);
        Self {
            id: row.event.id,
            kind: format!("{CLOUD_EVENT_PREFIX}{}", event_type(&row.event)),
            subject: event_subject(&row.event),
            position: row.position,
            at: row.event.at,
            replay,
            item: match &row.event.transition {
                Transition::Stock { change: StockChange::Deleted, item } => {
                    Some(ItemState::Deleted(item.key.clone()))
                }
                _ => None,
            },
            event: Some(Arc::new(row.event)),
            body,
        }
    }

    /// A derived event.
    pub(crate) fn of_inventory(derived: InventoryEvent, source: &str) -> Self {
        let mut body = Vec::with_capacity(512);
        inventory_cloud_event(&mut body, &derived, source);
        Self {
            id: EventId::from_u128(derived.id),
            kind: format!("{CLOUD_EVENT_PREFIX}{}", derived.kind.name()),
            subject: item_subject(&derived.item.key),
            position: derived.position,
            at: derived.at,
            replay: None,
            item: (derived.kind == InventoryEventType::Updated)
                .then(|| ItemState::Updated(Box::new(derived.item))),
            event: None,
            body,
        }
    }

    /// The id by which a broker recognizes a message that it has already. A replayed event is a new message.
    pub(crate) fn deduplication_id(&self) -> String {
        match self.replay {
            Some(replay) => format!("{};replay={replay}", self.id),
            None => self.id.to_string(),
        }
    }
}

/// The length of the longest beginning of the messages in which no subject is there twice. Messages of different subjects may be
/// delivered at once, because only the order within a subject is kept.
pub(crate) fn independent(messages: &[Message]) -> usize {
    let mut seen = std::collections::HashSet::with_capacity(messages.len());
    messages.iter().position(|message| !seen.insert(message.subject.as_str())).unwrap_or(messages.len())
}
