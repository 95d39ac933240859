//! Seeded random numbers and the ids made of them. Not for secrets; a seed repeats a run's choices.

/// `SplitMix64` (Steele, Lea, Flood 2014): one addition and three shifts a number.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

/// Length of a UUID's text.
pub(crate) const UUID_TEXT: usize = 36;

const HEX: &[u8; 16] = b"0123456789abcdef";

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// As many bits as an id has.
    pub(crate) fn wide(&mut self) -> u128 {
        (u128::from(self.next()) << 64) | u128::from(self.next())
    }

    /// A number below `bound`, which must not be 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// An index into something of `len` parts.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// Whether something that happens `percent` times in a hundred happens.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The two digits of every byte.
const PAIRS: [[u8; 2]; 256] = {
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < pairs.len() {
        pairs[byte] = [HEX[byte >> 4], HEX[byte & 0xf]];
        byte += 1;
    }
    pairs
};
/// Where the digits of each of a UUID's bytes stand in its text.
const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
/// Where its dashes stand.
const DASHES: [usize; 4] = [8, 13, 18, 23];

/// Writes a UUID's text made of two numbers over the first 36 bytes of `out`.
pub(crate) fn write_uuid(out: &mut [u8], high: u64, low: u64) {
    let mut bits = (u128::from(high) << 64) | u128::from(low);
    // Version 4, variant 1: valid wherever a UUID is asked for.
    bits = bits & !(0xf << 76) | (0x4 << 76);
    bits = bits & !(0x3 << 62) | (0x2 << 62);
    let out = &mut out[..UUID_TEXT];
    for (place, byte) in PLACES.into_iter().zip(bits.to_be_bytes()) {
        out[place..place + 2].copy_from_slice(&PAIRS[usize::from(byte)]);
    }
    for dash in DASHES {
        out[dash] = b'-';
    }
}

/// A UUID's text made of two numbers.
pub(crate) fn uuid(high: u64, low: u64) -> String {
    let mut text = [0_u8; UUID_TEXT];
    write_uuid(&mut text, high, low);
    text.iter().map(|byte| char::from(*byte)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_its_form_and_its_bits() {
        assert_eq!(uuid(0, 0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid(0x0123_4567_89ab_cdef, u64::MAX), "01234567-89ab-4def-bfff-ffffffffffff");
    }

    #[test]
    fn a_seed_repeats() {
        let draw = |seed| Rng::new(seed).next();
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
