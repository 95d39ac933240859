//! A set of small numbers as a bitmap with two levels. A bit of the second level says whether a word of the first
//! level has any bit set, so the first of 100,000 members is found in a few steps.

use alloc::vec::Vec;

const WORD: usize = 64;

/// A bitmap with two levels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bits {
    words: Vec<u64>,
    /// One bit for each word that is not zero.
    some: Vec<u64>,
}

impl Bits {
    /// An empty set of numbers below `len`.
    pub(crate) fn new(len: usize) -> Self {
        let mut bits = Self::default();
        bits.grow(len);
        bits
    }

    /// Makes room for numbers below `len`.
    pub(crate) fn grow(&mut self, len: usize) {
        self.words.resize(len.div_ceil(WORD).max(self.words.len()), 0);
        self.some.resize(self.words.len().div_ceil(WORD), 0);
    }

    /// Adds or removes a number. A number past the end is ignored.
    pub(crate) fn set(&mut self, at: usize, on: bool) {
        let Some(word) = self.words.get_mut(at / WORD) else { return };
        let bit = 1 << (at % WORD);
        if on {
            *word |= bit;
        } else {
            *word &= !bit;
        }
        let any = *word != 0;
        let place = at / WORD;
        if let Some(some) = self.some.get_mut(place / WORD) {
            let bit = 1 << (place % WORD);
            if any {
                *some |= bit;
            } else {
                *some &= !bit;
            }
        }
    }

    /// Adds the members of another set.
    pub(crate) fn add(&mut self, others: &Self) {
        self.grow(others.words.len() * WORD);
        for (words, others) in [(&mut self.words, &others.words), (&mut self.some, &others.some)] {
            words.iter_mut().zip(others).for_each(|(word, other)| *word |= other);
        }
    }

    /// Whether the set contains a number.
    pub(crate) fn has(&self, at: usize) -> bool {
        self.words.get(at / WORD).is_some_and(|word| word & (1 << (at % WORD)) != 0)
    }

    /// The first member that is at least `from`.
    pub(crate) fn next(&self, from: usize) -> Option<usize> {
        let first = from / WORD;
        let rest = *self.words.get(first)? & (u64::MAX << (from % WORD));
        if rest != 0 {
            return Some(first * WORD + low(rest));
        }
        let next = first + 1;
        let mut place = next / WORD;
        let mut some = *self.some.get(place)? & (u64::MAX << (next % WORD));
        while some == 0 {
            place += 1;
            some = *self.some.get(place)?;
        }
        let word = place * WORD + low(some);
        self.words.get(word).map(|bits| word * WORD + low(*bits))
    }

    /// The first number that is at least `from` and no member.
    pub(crate) fn next_out(&self, from: usize) -> usize {
        let mut place = from / WORD;
        let mut mask = u64::MAX << (from % WORD);
        while let Some(word) = self.words.get(place) {
            let out = !word & mask;
            if out != 0 {
                return place * WORD + low(out);
            }
            (place, mask) = (place + 1, u64::MAX);
        }
        place * WORD
    }

    /// The bits in words, the lowest first.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// The set without the positions that `removed` has: later positions move up, and `count` positions remain.
    pub(crate) fn words_without(&self, others: &Self, count: usize) -> Vec<u64> {
        let mut packed = Packed { words: Vec::with_capacity(self.words.len()), filled: 0 };
        for (word, others) in self.words.iter().zip(&others.words) {
            let (mut word, mut keep) = (*word, !others);
            // Copies runs of kept positions. A word from which nothing is removed is one run.
            while keep != 0 {
                let skipped = keep.trailing_zeros();
                (word, keep) = (word >> skipped, keep >> skipped);
                let kept = keep.trailing_ones();
                packed.push(word, kept);
                (word, keep) = (word.checked_shr(kept).unwrap_or(0), keep.checked_shr(kept).unwrap_or(0));
            }
        }
        packed.words.truncate(count.div_ceil(WORD));
        packed.words
    }
}

/// Appends bits to words, the lowest first.
struct Packed {
    words: Vec<u64>,
    /// Number of used bits in the last word.
    filled: u32,
}

impl Packed {
    /// Adds the lowest bits of a word, 1 to 64 of them.
    fn push(&mut self, word: u64, count: u32) {
        let bits = word & (u64::MAX >> (u64::BITS - count));
        let room = match self.words.last_mut().filter(|_| self.filled < u64::BITS) {
            Some(last) => {
                *last |= bits << self.filled;
                u64::BITS - self.filled
            }
            None => 0,
        };
        self.filled = if count > room {
            self.words.push(bits.checked_shr(room).unwrap_or(0));
            count - room
        } else {
            self.filled + count
        };
    }
}

/// Index of the lowest bit, below 64.
fn low(word: u64) -> usize {
    usize::try_from(word.trailing_zeros()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn the_next_in_and_out_are_those_of_a_set() {
        let mut bits = Bits::new(20_000);
        let mut set = BTreeSet::new();
        let mut seed = 7_u64;
        for _ in 0..3_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = usize::try_from(seed >> 40).unwrap() % 20_000;
            let on = seed & (1 << 33) != 0;
            // Whole stretches, so that words are full and empty.
            for at in at..(at + usize::try_from(seed >> 57).unwrap()).min(20_000) {
                bits.set(at, on);
                if on {
                    set.insert(at)
                } else {
                    set.remove(&at)
                };
            }
            assert_eq!(bits.next(at), set.range(at..).next().copied());
            let out = (at..=20_000).find(|at| !set.contains(at)).unwrap();
            assert_eq!(bits.next_out(at), out);
            assert_eq!(bits.has(at), set.contains(&at));
        }
        assert_eq!(bits.next(20_001), None);
        bits.set(usize::MAX, true);
        assert!(!bits.has(usize::MAX));
    }

    #[test]
    fn a_sum_has_the_members_of_both() {
        let (mut small, mut large) = (Bits::new(5), Bits::new(9_000));
        small.set(3, true);
        for at in [3, 70, 8_999] {
            large.set(at, true);
        }
        small.add(&large);
        assert_eq!([0, 4, 71].map(|from| small.next(from)), [Some(3), Some(70), Some(8_999)]);
        small.set(8_999, false);
        assert_eq!(small.next(71), None);
    }

    #[test]
    fn where_all_are_in_the_next_out_is_past_the_end() {
        let mut bits = Bits::new(2 * WORD);
        (0..2 * WORD).for_each(|at| bits.set(at, true));
        assert_eq!((bits.next_out(0), bits.next_out(70)), (128, 128));
        bits.set(127, false);
        assert_eq!((bits.next_out(0), bits.next_out(70)), (127, 127));
    }

    #[test]
    fn words_have_the_lowest_number_first() {
        let mut bits = Bits::new(65);
        assert_eq!(bits.words(), [0, 0]);
        for at in [0, 3, 64] {
            bits.set(at, true);
        }
        assert_eq!(bits.words(), [0b1001, 1]);
        bits.grow(129);
        assert_eq!(bits.words(), [0b1001, 1, 0]);
    }

    #[test]
    fn words_without_some_numbers_are_those_of_the_others_moved_up() {
        const LEN: usize = 700;
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from((seed >> 33) % below).unwrap()
        };
        let mut gone = 0;
        for round in 0..300 {
            let len = LEN - random(100);
            let (mut bits, mut others) = (Bits::new(len), Bits::new(len));
            (0..len).for_each(|at| bits.set(at, random(2) == 0));
            // From none that goes over single ones and stretches to all of them.
            for _ in 0..round / 10 {
                let from = random(LEN as u64);
                (from..from + random(round + 1)).for_each(|at| others.set(at, at < len));
            }
            let kept: Vec<usize> = (0..len).filter(|at| !others.has(*at)).collect();
            gone += len - kept.len();
            let mut slowly = Bits::new(kept.len());
            for (to, from) in kept.iter().enumerate() {
                slowly.set(to, bits.has(*from));
            }
            assert_eq!(bits.words_without(&others, kept.len()), slowly.words(), "round {round}");
        }
        assert!(gone > 10_000, "{gone} went");
    }
}
