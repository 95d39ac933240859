//! Hold tokens: a storefront's browser gets one with its reservation, to keep or release exactly that reservation.
//!
//! A token is `sh_hold_` and base64url of the reservation's id, a generation, and an HMAC-SHA-256 over both. The generation is the
//! number of transfers of the reservation, so that a transfer ends the tokens that were made before. Tokens need no storage.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use std::fmt;
use stockhold_domain::ReservationId;

const PREFIX: &str = "sh_hold_";
const ID_BYTES: usize = 16;
const GENERATION_BYTES: usize = 4;
const TAG_BYTES: usize = 32;
const BODY_BYTES: usize = ID_BYTES + GENERATION_BYTES;
/// What the signature covers before the token's content, so that a signature of something else is never a token.
const DOMAIN: &[u8] = b"stockhold hold token 1\0";

/// The key that signs the tokens of a store.
#[derive(Clone)]
pub struct HoldTokenKey {
    key: hmac::Key,
}

/// What a token says, once its signature is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldTokenClaims {
    /// The reservation.
    pub reservation: ReservationId,
    /// How often the reservation was transferred when the token was made.
    pub generation: u32,
}

/// Why a text is no hold token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldTokenError {
    /// It has another form.
    Form,
    /// Its signature is wrong.
    Signature,
}

impl fmt::Display for HoldTokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "is no hold token",
            Self::Signature => "is a hold token with a wrong signature",
        })
    }
}

impl std::error::Error for HoldTokenError {}

impl HoldTokenKey {
    /// Bytes of a signing key.
    pub const BYTES: usize = 32;

    /// The key of these bytes.
    pub fn new(bytes: &[u8; Self::BYTES]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, bytes) }
    }

    /// Whether a text starts as hold tokens do.
    pub fn has_prefix(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// Makes a token. The same claims always give the same token, so a replayed reserve can show it again.
    pub fn sign(&self, claims: HoldTokenClaims) -> String {
        let mut token = Vec::with_capacity(BODY_BYTES + TAG_BYTES);
        token.extend_from_slice(&claims.reservation.as_u128().to_be_bytes());
        token.extend_from_slice(&claims.generation.to_be_bytes());
        let tag = hmac::sign(&self.key, &signed(&token));
        token.extend_from_slice(tag.as_ref());
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(token))
    }

    /// Checks a token's signature, in constant time.
    pub fn verify(&self, text: &str) -> Result<HoldTokenClaims, HoldTokenError> {
        let encoded = text.strip_prefix(PREFIX).ok_or(HoldTokenError::Form)?;
        let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| HoldTokenError::Form)?;
        let token: &[u8; BODY_BYTES + TAG_BYTES] =
            bytes.as_slice().try_into().map_err(|_| HoldTokenError::Form)?;
        let (body, tag) = token.split_at(BODY_BYTES);
        hmac::verify(&self.key, &signed(body), tag).map_err(|_| HoldTokenError::Signature)?;
        let (id, generation) = body.split_at(ID_BYTES);
        let id: [u8; ID_BYTES] = id.try_into().map_err(|_| HoldTokenError::Form)?;
        let generation: [u8; GENERATION_BYTES] = generation.try_into().map_err(|_| HoldTokenError::Form)?;
        Ok(HoldTokenClaims {
            reservation: ReservationId::from_u128(u128::from_be_bytes(id)),
            generation: u32::from_be_bytes(generation),
        })
    }
}

fn signed(body: &[u8]) -> Vec<u8> {
    [DOMAIN, body].concat()
}

impl fmt::Debug for HoldTokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HoldTokenKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> HoldTokenClaims {
        HoldTokenClaims {
            reservation: ReservationId::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001),
            generation: 3,
        }
    }

    #[test]
    fn a_token_is_read_by_its_key_only() {
        let key = HoldTokenKey::new(&[1; 32]);
        let token = key.sign(claims());
        assert_eq!(key.verify(&token), Ok(claims()));
        assert_eq!(key.sign(claims()), token);
        assert_eq!(HoldTokenKey::new(&[2; 32]).verify(&token), Err(HoldTokenError::Signature));
    }

    #[test]
    fn any_other_byte_is_refused() {
        let key = HoldTokenKey::new(&[1; 32]);
        let token = key.sign(claims());
        for at in 0..token.len() {
            let mut wrong = token.clone().into_bytes();
            wrong[at] = if wrong[at] == b'A' { b'B' } else { b'A' };
            let wrong = String::from_utf8(wrong).unwrap();
            assert!(key.verify(&wrong).is_err(), "{at}");
        }
        for wrong in ["", PREFIX, &token[..token.len() - 1], &format!("{token}A"), &format!("{token}=")] {
            assert_eq!(key.verify(wrong), Err(HoldTokenError::Form), "{wrong}");
        }
    }
}
