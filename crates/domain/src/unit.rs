//! Units with ids: their status, place and attributes, and the units of a line.

use crate::id::ReservationId;
use crate::label::Label;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The status of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitStatus {
    /// It can be reserved.
    Available,
    /// It is part of this active reservation.
    Held(ReservationId),
    /// It was sold by this reservation, has not left the shelf and was not returned.
    Sold(ReservationId),
    /// It was sold by this reservation, has left the shelf and was not returned.
    Fulfilled(ReservationId),
}

impl UnitStatus {
    /// Whether it was sold and not returned.
    pub fn is_sold(self) -> bool {
        matches!(self, Self::Sold(_) | Self::Fulfilled(_))
    }

    /// The reservation that has it.
    pub fn holder(self) -> Option<ReservationId> {
        match self {
            Self::Available => None,
            Self::Held(id) | Self::Sold(id) | Self::Fulfilled(id) => Some(id),
        }
    }
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attribute {
    /// True or false.
    Flag(bool),
    /// A whole number.
    Number(i64),
    /// A text.
    Text(Label),
}

/// The attributes of a unit: names and values, sorted by name, each name once. Clones share them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attributes(Option<Arc<[(Label, Attribute)]>>);

impl Attributes {
    /// Attributes of these names and values. Of two with one name the later one counts.
    pub fn new(mut named: Vec<(Label, Attribute)>) -> Self {
        named.reverse();
        named.sort_by(|one, other| one.0.cmp(&other.0));
        named.dedup_by(|next, before| next.0 == before.0);
        Self((!named.is_empty()).then(|| named.into()))
    }

    /// Names and values, sorted by name.
    pub fn all(&self) -> &[(Label, Attribute)] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Whether all of `wanted` are among these attributes.
    pub fn include(&self, wanted: &Self) -> bool {
        wanted.all().iter().all(|one| self.all().contains(one))
    }
}

/// The place and the attributes of a unit, as an operator gave them. They never change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Units are claimed in this order, and in the order of their ids at one position. Two units of a row are adjacent
    /// when their positions follow each other.
    pub position: u64,
    /// Section of the venue.
    pub section: Option<Label>,
    /// Row of the section.
    pub row: Option<Label>,
    /// The number that is printed on it.
    pub number: Option<Label>,
    /// Its attributes.
    pub attributes: Attributes,
}

/// One unit of an item whose units have ids: a seat, a slot, a serial number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its id, unique within the item.
    pub id: Label,
    /// Its place.
    pub place: Place,
    /// Its status.
    pub status: UnitStatus,
    /// Number of its transitions, including its creation.
    pub version: u64,
    /// The pool that it is set aside for. A unit that is held or sold keeps the pool that it was drawn from.
    pub pool: Option<Label>,
}

/// A unit whose pool an event changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PooledUnit {
    /// Its id.
    pub id: Label,
    /// Its version after the event.
    pub version: u64,
}

/// A unit in a line of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineUnit {
    /// Its id.
    pub id: Label,
    /// The unit's version at the line's latest transition of it.
    pub version: u64,
    /// Whether it left the shelf after the sale. It stays set when the unit is returned later.
    pub fulfilled: bool,
    /// Whether it was returned after the sale.
    pub returned: bool,
    /// The unit's pool after the line's latest transition of it: the pool that it was drawn from, and `None` once it came back and the
    /// pool had been released.
    pub pool: Option<Label>,
}

/// The units of a line, in the order in which they were granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineUnits(Box<[LineUnit]>);

impl LineUnits {
    /// A line's units.
    pub fn new(units: Vec<LineUnit>) -> Self {
        Self(units.into())
    }

    /// The units.
    pub fn all(&self) -> &[LineUnit] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(text: &str) -> Label {
        Label::new(text).unwrap()
    }

    #[test]
    fn attributes_are_sorted_and_the_later_of_two_counts() {
        let flag = |name, yes| (label(name), Attribute::Flag(yes));
        let all = Attributes::new(alloc::vec![flag("b", true), flag("a", true), flag("b", false)]);
        assert_eq!(all.all(), [flag("a", true), flag("b", false)]);
        assert!(all.include(&Attributes::new(alloc::vec![flag("b", false)])));
        assert!(!all.include(&Attributes::new(alloc::vec![flag("b", true)])));
        assert!(all.include(&Attributes::default()));
        assert!(!Attributes::default().include(&all));
    }

    #[test]
    fn a_unit_that_is_held_or_sold_is_somebodys() {
        let id = ReservationId::from_u128(7);
        assert_eq!(UnitStatus::Available.holder(), None);
        assert_eq!(UnitStatus::Held(id).holder(), Some(id));
        assert_eq!(UnitStatus::Sold(id).holder(), Some(id));
        assert_eq!(UnitStatus::Fulfilled(id).holder(), Some(id));
    }
}
