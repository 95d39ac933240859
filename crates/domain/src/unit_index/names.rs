//! A hash table with open addressing from unit ids to indexes. A claim must not cost a search in a tree of 100,000
//! names. Only operators add ids, so no caller can make them collide.

use crate::label::Label;
use alloc::vec;
use alloc::vec::Vec;

/// Slots for each name. A table is at most half full.
const ROOM: usize = 2;
const SMALLEST: usize = 16;
const EMPTY: u32 = u32::MAX;

/// A table from names to numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// The slots, a power of two. Each has a number or [`EMPTY`].
    places: Vec<u32>,
    count: usize,
}

impl Names {
    /// An empty table with room for `names` names.
    pub(crate) fn with_room(count: usize) -> Self {
        let places = (count * ROOM).next_power_of_two().max(SMALLEST);
        Self { places: vec![EMPTY; places], count: 0 }
    }

    /// Number of names.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Whether there is room for one more.
    pub(crate) fn has_room(&self) -> bool {
        (self.count + 1) * ROOM <= self.places.len()
    }

    /// Sets the number of a name. `is` says whether a number has this name. There must be room.
    pub(crate) fn put(&mut self, name: &Label, number: u32, is: impl Fn(u32) -> bool) {
        let mask = self.places.len().wrapping_sub(1);
        let mut at = hash(name) & mask;
        while let Some(place) = self.places.get_mut(at) {
            if *place == EMPTY {
                self.count += 1;
            }
            if *place == EMPTY || is(*place) {
                *place = number;
                return;
            }
            at = (at + 1) & mask;
        }
    }

    /// The number of a name. `is` says whether a number has this name.
    pub(crate) fn get(&self, name: &Label, is: impl Fn(u32) -> bool) -> Option<u32> {
        let mask = self.places.len().wrapping_sub(1);
        let mut at = hash(name) & mask;
        loop {
            match *self.places.get(at)? {
                EMPTY => return None,
                number if is(number) => return Some(number),
                _ => at = (at + 1) & mask,
            }
        }
    }
}

/// FNV-1a with its high bits mixed in, so that names that differ only at their end get different low bits.
fn hash(name: &Label) -> usize {
    let fnv = name.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (fnv ^ (fnv >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(mixed >> 33).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn a_table_has_room_for_as_many_as_were_asked_for_and_is_never_more_than_half_full() {
        for count in [0, 1, 8, 9, 20, 32] {
            let mut names = Names::with_room(count);
            let most = names.places.len() / ROOM;
            assert!(most >= count.max(SMALLEST / ROOM), "{count}");
            let name = |number: u32| Label::new(&format!("u{number}")).unwrap();
            let mut number = 0;
            while names.has_room() {
                names.put(&name(number), number, |known| known == number);
                number += 1;
            }
            assert_eq!(names.count, most, "{count}");
            let known = |name: Label| names.get(&name, |at| Label::new(&format!("u{at}")).unwrap() == name);
            assert!((0..number).all(|number| known(name(number)) == Some(number)));
            assert_eq!(known(name(number)), None);
        }
    }
}
