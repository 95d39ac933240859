//! The free units of an item as sets of numbers: those of general stock, and those of each pool.

use super::bits::Bits;
use crate::label::Label;
use alloc::borrow::Cow;
use alloc::vec::Vec;

/// Free units by the pool that they are in. A number stands for a unit in claim order, or for a seat.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeUnits {
    general: Bits,
    /// Pools with free units. An item has few pools, so a search by name is quick.
    pools: Vec<(Label, Bits)>,
    /// Numbers are below this.
    len: usize,
}

impl FreeUnits {
    /// Makes room for numbers below `len`.
    pub(crate) fn grow(&mut self, len: usize) {
        self.len = self.len.max(len);
        self.general.grow(len);
        for (_, bits) in &mut self.pools {
            bits.grow(len);
        }
    }

    /// Adds a number to the set of a pool, or to general stock, or removes it from there.
    pub(crate) fn set(&mut self, at: usize, pool: Option<&Label>, is_free: bool) {
        let Some(pool) = pool else { return self.general.set(at, is_free) };
        match self.pools.iter_mut().find(|(name, _)| name == pool) {
            Some((_, bits)) => bits.set(at, is_free),
            None if is_free => {
                let mut bits = Bits::new(self.len);
                bits.set(at, true);
                self.pools.push((pool.clone(), bits));
            }
            None => {}
        }
        if !is_free {
            self.pools.retain(|(_, bits)| bits.next(0).is_some());
        }
    }

    /// The free units of a pool, or of general stock.
    pub(crate) fn of(&self, pool: Option<&Label>) -> Option<&Bits> {
        match pool {
            None => Some(&self.general),
            Some(pool) => self.pools.iter().find(|(name, _)| name == pool).map(|(_, bits)| bits),
        }
    }

    /// The free units of all pools.
    pub(crate) fn set_aside(&self) -> Bits {
        let mut all = Bits::new(self.len);
        self.pools.iter().for_each(|(_, bits)| all.add(bits));
        all
    }

    /// The free units of a pool and of general stock, as far as each is asked for.
    pub(crate) fn chosen(&self, pool: Option<&Label>, general: bool) -> Cow<'_, Bits> {
        let of_pool = pool.and_then(|pool| self.of(Some(pool)));
        match (of_pool, general) {
            (None, true) => Cow::Borrowed(&self.general),
            (Some(bits), false) => Cow::Borrowed(bits),
            (None, false) => Cow::Owned(Bits::new(self.len)),
            (Some(bits), true) => {
                let mut both = self.general.clone();
                both.add(bits);
                Cow::Owned(both)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(bits: &Bits) -> Vec<usize> {
        super::super::places(bits).collect()
    }

    #[test]
    fn a_unit_is_in_the_set_that_it_was_put_into() {
        let (vip, press) = (Label::new("vip").unwrap(), Label::new("press").unwrap());
        let mut free = FreeUnits::default();
        free.grow(70);
        for (at, pool) in [(0, None), (3, Some(&vip)), (69, Some(&vip)), (5, Some(&press))] {
            free.set(at, pool, true);
        }
        assert_eq!(members(free.of(None).unwrap()), [0]);
        assert_eq!(members(free.of(Some(&vip)).unwrap()), [3, 69]);
        assert_eq!(members(&free.set_aside()), [3, 5, 69]);
        assert_eq!(members(&free.chosen(Some(&vip), false)), [3, 69]);
        assert_eq!(members(&free.chosen(Some(&vip), true)), [0, 3, 69]);
        assert_eq!(members(&free.chosen(None, true)), [0]);
        free.set(5, Some(&press), false);
        free.set(5, Some(&press), false);
        assert!(free.of(Some(&press)).is_none(), "a pool without free units has no set");
        assert_eq!(members(&free.chosen(Some(&press), true)), [0]);
        assert!(members(&free.chosen(Some(&press), false)).is_empty());
        free.grow(200);
        free.set(199, Some(&vip), true);
        assert_eq!(members(&free.chosen(Some(&vip), true)), [0, 3, 69, 199]);
    }
}
