//! How idempotency keys are found and how a repeated request is told from another one. Keys are found by the first 128 bits
//! of BLAKE3, which callers can't make collide. What is asked under a key is compared by XXH3, which is quicker and which
//! they can: whoever makes two requests of his own that collide, and sends both under one of his own keys, is answered the
//! second as a replay of the first.

use crate::codec;
use stockhold_domain::{Command, Fingerprint, KeyHash};
use twox_hash::XxHash3_128;

/// Version of the form that fingerprints are taken of. Raised when the form changes, so that old keys mismatch loudly
/// and not by chance.
const FINGERPRINT_VERSION: u8 = 2;

/// Room for what most commands ask.
const COMMAND_BYTES: usize = 192;

/// What a principal's key is stored under, for one operation (the reserve routes are one operation).
pub fn key_hash(principal: &str, operation: &str, key: &str) -> KeyHash {
    let mut hasher = blake3::Hasher::new();
    for part in [principal, operation, key] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    KeyHash(first_half(&hasher.finalize()))
}

/// Digest of a parsed command: the same for two requests that ask for the same thing in different bytes.
pub fn fingerprint(command: &Command) -> Fingerprint {
    let mut bytes = Vec::with_capacity(COMMAND_BYTES);
    bytes.push(FINGERPRINT_VERSION);
    codec::put_command(&mut bytes, command);
    Fingerprint(XxHash3_128::oneshot(&bytes))
}

fn first_half(hash: &blake3::Hash) -> u128 {
    let (half, _) = hash.as_bytes().split_at(16);
    half.iter().fold(0, |bits, byte| (bits << 8) | u128::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_key_do_not_run_together() {
        let all = [
            key_hash("a", "b", "c"),
            key_hash("ab", "", "c"),
            key_hash("a", "bc", ""),
            key_hash("b", "a", "c"),
        ];
        for (n, one) in all.iter().enumerate() {
            assert!(all.iter().skip(n + 1).all(|other| other != one));
        }
        assert_eq!(key_hash("a", "b", "c"), key_hash("a", "b", "c"));
    }
}
