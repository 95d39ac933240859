//! Where a unit stands by its id: a table with open addressing, since a claim must not cost a walk through a tree of a
//! hundred thousand names. Ids are put in by operators alone, so nobody else can make them collide.

use crate::label::Label;
use alloc::vec;
use alloc::vec::Vec;

/// Places for each name: a table is never more than half full.
const ROOM: usize = 2;
const SMALLEST: usize = 16;
const EMPTY: u32 = u32::MAX;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// A power of two of places, each a number or [`EMPTY`].
    places: Vec<u32>,
    count: usize,
}

impl Names {
    /// An empty table with room for so many.
    pub(crate) fn with_room(count: usize) -> Self {
        let places = (count * ROOM).next_power_of_two().max(SMALLEST);
        Self { places: vec![EMPTY; places], count: 0 }
    }

    /// Names that are in.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Whether one more can be put in.
    pub(crate) fn has_room(&self) -> bool {
        (self.count + 1) * ROOM <= self.places.len()
    }

    /// Puts a number in under a name, in place of another that had it; `is` says whether a number's is. Needs room.
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

    /// The number whose name is asked for; `is` says whether a number's is.
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

/// FNV-1a, with its high bits mixed in: names that differ at their end differ everywhere.
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
