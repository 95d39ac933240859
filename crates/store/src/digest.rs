//! The digests of idempotency keys and of requests. Keys are found by the first 128 bits of BLAKE3, for which callers
//! can't find collisions. Requests are compared by XXH3, which is faster and for which they can. A caller that sends
//! two colliding requests with one of its own keys gets the second answered as a replay of the first, which harms
//! nobody else.

use crate::codec;
use stockhold_domain::{Command, Fingerprint, KeyHash};
use twox_hash::XxHash3_128;

/// Version of the encoding that fingerprints are made of. Raise it when the encoding changes, so that old keys never
/// match by chance.
const FINGERPRINT_VERSION: u8 = 2;
/// Version of the fingerprints of [`request_fingerprint`]. It differs from every version of the encoding of commands.
const REQUEST_FINGERPRINT_VERSION: u8 = 0xff;

/// Capacity for most commands.
const COMMAND_BYTES: usize = 192;

/// The digest under which a principal's key is stored, for one operation. The reserve routes are one operation.
pub fn key_hash(principal: &str, operation: &str, key: &str) -> KeyHash {
    let mut hasher = blake3::Hasher::new();
    for part in [principal, operation, key] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    KeyHash(first_half(&hasher.finalize()))
}

/// Digest of a parsed command. Two requests with different bytes and the same meaning have the same digest.
pub fn fingerprint(command: &Command) -> Fingerprint {
    let mut bytes = Vec::with_capacity(COMMAND_BYTES);
    bytes.push(FINGERPRINT_VERSION);
    codec::put_command(&mut bytes, command);
    Fingerprint(XxHash3_128::oneshot(&bytes))
}

/// Digest of a request whose command differs each time it is sent, because the service puts random content into it: a new API
/// key, for example. `request` are the bytes of what the caller asked for, in a form that has the same bytes for the same
/// meaning. The caller of this function changes that form only together with the name of the operation in [`key_hash`].
pub fn request_fingerprint(request: &[u8]) -> Fingerprint {
    let mut bytes = Vec::with_capacity(1 + request.len());
    bytes.push(REQUEST_FINGERPRINT_VERSION);
    bytes.extend_from_slice(request);
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

    #[test]
    fn requests_that_differ_have_different_fingerprints() {
        let all = [b"".as_slice(), b"a", b"ab", b"ba"].map(request_fingerprint);
        for (n, one) in all.iter().enumerate() {
            assert!(all.iter().skip(n + 1).all(|other| other != one));
        }
        assert_eq!(request_fingerprint(b"ab"), all[2]);
        assert_ne!(REQUEST_FINGERPRINT_VERSION, FINGERPRINT_VERSION);
    }
}
