//! Which events a sink gets.

use stockhold_api::encode::CLOUD_EVENT_PREFIX;
use stockhold_api::{EventType, EventTypes, InventoryEventType, event_types_named, is_named};
use stockhold_domain::{Event, ItemKey, Scope, Transition};

/// The types of the feed and the derived types that a sink gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeFilter {
    feed: EventTypes,
    inventory: [bool; InventoryEventType::ALL.len()],
}

impl TypeFilter {
    /// What a sink gets that names no types: every type, also types that later versions add, without those about API keys.
    pub const DEFAULT: Self = Self {
        feed: EventTypes::ALL.without(EventTypes::ACCESS),
        inventory: [true; InventoryEventType::ALL.len()],
    };

    /// Reads names of types: `reservation.created`, `reservation.*`, and either with the prefix `stockhold.`. Without a name it is the
    /// default.
    pub fn parse(names: &[String]) -> Result<Self, String> {
        if names.is_empty() {
            return Ok(Self::DEFAULT);
        }
        let mut filter =
            Self { feed: EventTypes::default(), inventory: [false; InventoryEventType::ALL.len()] };
        for name in names {
            if !filter.add(name.strip_prefix(CLOUD_EVENT_PREFIX).unwrap_or(name)) {
                let feed = EventType::ALL.iter().map(|kind| kind.name());
                let inventory = InventoryEventType::ALL.iter().map(|kind| kind.name());
                let known: Vec<_> = feed.chain(inventory).collect();
                return Err(format!(
                    "{name:?} is no type of events; there are {}, and patterns like \"reservation.*\"",
                    known.join(", ")
                ));
            }
        }
        Ok(filter)
    }

    /// The same for readers that get no derived events. Without a name it is every type.
    pub(crate) fn of_feed(names: &[String]) -> Self {
        let feed = if names.is_empty() { EventTypes::ALL } else { EventTypes::named(names) };
        Self { feed, inventory: [false; InventoryEventType::ALL.len()] }
    }

    /// These types without those about API keys.
    pub(crate) fn without_access(self) -> Self {
        Self { feed: self.feed.without(EventTypes::ACCESS), ..self }
    }

    /// Adds the types of a name or of a pattern. Whether there are any.
    fn add(&mut self, name: &str) -> bool {
        let mut is_known = false;
        for kind in event_types_named(name) {
            self.feed.add(kind);
            is_known = true;
        }
        for (wanted, kind) in self.inventory.iter_mut().zip(InventoryEventType::ALL) {
            if is_named(name, kind.name()) {
                *wanted = true;
                is_known = true;
            }
        }
        is_known
    }
}

/// Which events a sink gets. All conditions that are set apply together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFilter {
    /// The types.
    pub types: TypeFilter,
    /// SKUs; empty for all.
    pub skus: Vec<String>,
    /// Locations; empty for all.
    pub locations: Vec<String>,
}

impl EventFilter {
    /// What a sink gets without any condition.
    pub const DEFAULT: Self = Self { types: TypeFilter::DEFAULT, skus: Vec::new(), locations: Vec::new() };

    /// Whether the sink gets an event of the feed. Nobody gets those without a type.
    pub(crate) fn has(&self, event: &Event) -> bool {
        self.types.feed.has(event) && self.concerns(event)
    }

    /// Whether the sink gets derived events of this type about this item.
    pub(crate) fn has_inventory(&self, kind: InventoryEventType, item: &ItemKey) -> bool {
        let wanted = InventoryEventType::ALL.iter().zip(self.types.inventory);
        wanted.into_iter().any(|(known, wanted)| *known == kind && wanted) && self.has_item(item)
    }

    /// Whether the sink gets derived events at all.
    pub(crate) fn wants_inventory(&self) -> bool {
        self.types.inventory.contains(&true)
    }

    fn concerns(&self, event: &Event) -> bool {
        if self.skus.is_empty() && self.locations.is_empty() {
            return true;
        }
        match &event.transition {
            Transition::Hold { hold, .. } => hold.lines.iter().any(|line| self.has_item(&line.item)),
            Transition::Stock { item, .. } => self.has_item(&item.key),
            Transition::Sale { scope: Scope::Item(key), .. } => self.has_item(key),
            // A pause of a location or of everything concerns all items there.
            Transition::Sale { scope: Scope::Location(location), .. } => {
                self.locations.is_empty() || self.locations.iter().any(|name| name == location.as_str())
            }
            Transition::Sale { scope: Scope::Everything, .. } => true,
            Transition::Limit { .. } | Transition::Record { .. } => false,
        }
    }

    /// Whether the item has one of the SKUs and one of the locations.
    pub(crate) fn has_item(&self, key: &ItemKey) -> bool {
        let has = |names: &[String], name: &str| names.is_empty() || names.iter().any(|one| one == name);
        has(&self.skus, key.sku()) && has(&self.locations, key.location())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(names: &[&str]) -> Result<TypeFilter, String> {
        TypeFilter::parse(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn types_are_named_with_and_without_the_prefix_and_by_pattern() {
        assert_eq!(parse(&[]).unwrap(), TypeFilter::DEFAULT);
        assert!(!TypeFilter::DEFAULT.feed.overlaps(EventTypes::ACCESS));
        assert!(parse(&["access.*"]).unwrap().feed.overlaps(EventTypes::ACCESS), "what is named");
        assert_eq!(parse(&["reservation.created"]), parse(&["stockhold.reservation.created"]));
        assert_ne!(parse(&["reservation.*"]), parse(&["reservation.created"]));
        let inventory = parse(&["inventory.*"]).unwrap();
        assert_eq!(inventory.feed, EventTypes::default());
        assert_eq!(inventory.inventory, [true; 4]);
        for wrong in ["reservation", "*", "reservation.*.x", "order.made", ""] {
            assert!(parse(&[wrong]).unwrap_err().contains("there are reservation.created"), "{wrong}");
        }
    }
}
