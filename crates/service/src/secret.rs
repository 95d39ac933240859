//! Random bytes for secrets. Ids come from elsewhere, because they need not be secret.

use ring::rand::{SecureRandom, SystemRandom};
use std::io;

/// Random bytes of the operating system. Fails rather than return bytes that can be guessed.
pub fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the operating system returned no random bytes"))?;
    Ok(bytes)
}
