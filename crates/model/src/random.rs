//! Random numbers that a seed repeats exactly: `SplitMix64` (Steele, Lea and Flood, 2014). For tests; never for ids or
//! secrets of a real store.

/// A stream of random numbers that its seed alone decides.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// 128 random bits.
    pub fn wide_bits(&mut self) -> u128 {
        (u128::from(self.bits()) << 64) | u128::from(self.bits())
    }

    /// A number from 0 up to, and not including, `end`; 0 when `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.bits() % end }
    }

    /// Eight random bits.
    pub fn byte(&mut self) -> u8 {
        self.bits().to_le_bytes()[0]
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of `all`, which must not be empty.
    pub fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        let n = usize::try_from(self.below(all.len() as u64)).expect("an index into a slice");
        all[n].clone()
    }
}
