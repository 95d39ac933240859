//! Generates ids: one system call for a seed, then the output stream of BLAKE3. An id costs no system call, and no id can be
//! guessed from another.

use blake3::OutputReader;
use stockhold_domain::{EventId, GeneratedIds, Instant, ReservationId};

/// Bytes that are taken from the stream at a time.
const BUFFER: usize = 4096;
/// Random bytes of one id.
const ID_BYTES: usize = 16;

/// A source of ids, for one thread.
pub struct IdSource {
    stream: OutputReader,
    buffer: [u8; BUFFER],
    used: usize,
}

impl IdSource {
    /// Seeds a source from the operating system.
    pub fn from_system() -> Result<Self, getrandom::Error> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)?;
        Ok(Self::from_seed(&seed))
    }

    /// A source that repeats the same ids for the same seed.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let stream = blake3::Hasher::new_keyed(seed).finalize_xof();
        Self { stream, buffer: [0; BUFFER], used: BUFFER }
    }

    /// 128 random bits.
    pub fn random(&mut self) -> u128 {
        if self.used + ID_BYTES > BUFFER {
            self.stream.fill(&mut self.buffer);
            self.used = 0;
        }
        let bytes = self.buffer.iter().skip(self.used).take(ID_BYTES);
        self.used += ID_BYTES;
        bytes.fold(0, |bits, byte| (bits << 8) | u128::from(*byte))
    }

    /// Ids for the reservation and the event that a command may create.
    pub fn generate(&mut self, now: Instant, bucket: u16) -> GeneratedIds {
        GeneratedIds {
            reservation: ReservationId::new(now, self.random(), bucket),
            event: EventId::new(now, self.random()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_do_not_repeat_and_follow_from_their_seed() {
        let mut source = IdSource::from_seed(&[7; 32]);
        let mut again = IdSource::from_seed(&[7; 32]);
        let ids: Vec<u128> = (0..1_000).map(|_| source.random()).collect();
        assert!(ids.iter().all(|id| *id == again.random()));
        let mut sorted = ids;
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 1_000);
    }
}
