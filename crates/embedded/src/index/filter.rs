//! A blocked Bloom filter over the keys of one run. It rules out most absent keys without a read. All bits of a key lie
//! in one cache line (F. Putze, P. Sanders, J. Singler: "Cache-, Hash- and Space-Efficient Bloom Filters", 2007).

use stockhold_domain::KeyHash;

/// The bits per key of a run. Each false positive costs a read and two context switches, and each key is looked up in a
/// dozen runs.
const BITS_PER_KEY: usize = 24;
/// The bits that are set for each key.
const PROBES: u32 = 8;
/// The words of one block. A block has 64 bytes, which is a cache line.
const BLOCK_WORDS: usize = 8;
const BLOCK_BITS: usize = BLOCK_WORDS * 64;

/// A key to look up. Its bits are computed once for all filters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyProbe {
    pub(crate) key: KeyHash,
    bits: [u64; BLOCK_WORDS],
}

impl From<KeyHash> for KeyProbe {
    /// Each probe uses nine bits of the key: three bits choose the word and six bits choose the bit.
    fn from(key: KeyHash) -> Self {
        // Eight probes take 72 bits. The last eight of these bits are the end of the high half, and mainly the
        // beginning of the high half chooses the block.
        let mut bits = [0; BLOCK_WORDS];
        for n in 0..PROBES {
            let probe = (key.0 >> (9 * n)) as usize;
            if let Some(word) = bits.get_mut(probe % BLOCK_WORDS) {
                *word |= 1_u64 << ((probe / BLOCK_WORDS) % 64);
            }
        }
        Self { key, bits }
    }
}

/// A Bloom filter over the keys of one run.
#[derive(Debug)]
pub(crate) struct BloomFilter {
    blocks: Vec<[u64; BLOCK_WORDS]>,
}

impl BloomFilter {
    /// An empty filter for this number of keys.
    pub(crate) fn with_capacity(keys: usize) -> Self {
        let count = (keys * BITS_PER_KEY).div_ceil(BLOCK_BITS).max(1);
        Self { blocks: vec![[0; BLOCK_WORDS]; count] }
    }

    /// A filter of these keys.
    pub(crate) fn from_keys(keys: impl ExactSizeIterator<Item = KeyHash>) -> Self {
        let mut filter = Self::with_capacity(keys.len());
        for key in keys {
            filter.insert(key);
        }
        filter
    }

    /// `false` means that the key is absent.
    pub(crate) fn may_contain(&self, probe: &KeyProbe) -> bool {
        let Some(block) = self.blocks.get(self.block_of(probe.key)) else { return true };
        // All words are combined without a branch, because the branch could not be predicted.
        block.iter().zip(&probe.bits).fold(0, |missing, (block, bits)| missing | (bits & !block)) == 0
    }

    pub(crate) fn insert(&mut self, key: KeyHash) {
        let block = self.block_of(key);
        let Some(block) = self.blocks.get_mut(block) else { return };
        for (block, bits) in block.iter_mut().zip(KeyProbe::from(key).bits) {
            *block |= bits;
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "below the number of blocks")]
    fn block_of(&self, key: KeyHash) -> usize {
        ((u128::from((key.0 >> 64) as u64) * self.blocks.len() as u128) >> 64) as usize
    }

    /// The bytes of the filter.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.blocks.iter().flatten().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Reads a filter from its bytes. `None` means that they are not a filter.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (blocks, rest) = bytes.as_chunks::<{ BLOCK_WORDS * 8 }>();
        if blocks.is_empty() || !rest.is_empty() {
            return None;
        }
        let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        let blocks = blocks.iter().map(|block| {
            let mut words = [0; BLOCK_WORDS];
            for (to, from) in words.iter_mut().zip(block.as_chunks::<8>().0) {
                *to = word(from);
            }
            words
        });
        Some(Self { blocks: blocks.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u64) -> KeyHash {
        stockhold_store::digest::key_hash("p", "o", &n.to_string())
    }

    fn probe(n: u64) -> KeyProbe {
        key(n).into()
    }

    #[test]
    fn has_what_was_put_in_and_little_else() {
        let filter = BloomFilter::from_keys((0..10_000).map(key).collect::<Vec<_>>().into_iter());
        let again = BloomFilter::from_bytes(&filter.to_bytes()).unwrap();
        assert!((0..10_000).all(|n| filter.may_contain(&probe(n)) && again.may_contain(&probe(n))));
        let wrong = (10_000..110_000).filter(|n| filter.may_contain(&probe(*n))).count();
        assert!(wrong < 100, "{wrong} of 100,000 absent keys were taken for present");
        assert!(BloomFilter::from_bytes(&[0; 63]).is_none());
    }
}
