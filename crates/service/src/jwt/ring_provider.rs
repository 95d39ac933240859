//! The signatures of tokens, checked by ring: the one cryptographic library of this product. The `jsonwebtoken` crate has
//! providers for two others, and takes one of ours.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use signature::{Error, Verifier};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: no_signer,
    verifier_factory: verifier,
    // Only needed to make a JWK of a key, which this product never does.
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes ring the provider of `jsonwebtoken` in this process.
pub(super) fn install() {
    // A second call finds the same provider installed.
    let _ = PROVIDER.install_default();
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the provider's signature")]
fn no_signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Err(ErrorKind::InvalidAlgorithm.into())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the provider's signature")]
fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    if key.family() != algorithm.family() {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    let rsa = match algorithm {
        Algorithm::RS256 => &RSA_PKCS1_2048_8192_SHA256,
        Algorithm::RS384 => &RSA_PKCS1_2048_8192_SHA384,
        Algorithm::RS512 => &RSA_PKCS1_2048_8192_SHA512,
        Algorithm::PS256 => &RSA_PSS_2048_8192_SHA256,
        Algorithm::PS384 => &RSA_PSS_2048_8192_SHA384,
        Algorithm::PS512 => &RSA_PSS_2048_8192_SHA512,
        Algorithm::ES256 => return Ok(other(*algorithm, &ECDSA_P256_SHA256_FIXED, key)),
        Algorithm::ES384 => return Ok(other(*algorithm, &ECDSA_P384_SHA384_FIXED, key)),
        Algorithm::EdDSA => return Ok(other(*algorithm, &ED25519, key)),
        // Shared secrets, and what later versions of the library may know.
        _ => return Err(ErrorKind::InvalidAlgorithm.into()),
    };
    Ok(Box::new(RsaVerifier { algorithm: *algorithm, parameters: rsa, key: key.clone() }))
}

fn other(
    algorithm: Algorithm,
    verification: &'static dyn VerificationAlgorithm,
    key: &DecodingKey,
) -> Box<dyn JwtVerifier> {
    Box::new(KeyVerifier { algorithm, verification, key: key.clone() })
}

/// ECDSA and `EdDSA`.
struct KeyVerifier {
    algorithm: Algorithm,
    verification: &'static dyn VerificationAlgorithm,
    key: DecodingKey,
}

impl Verifier<Vec<u8>> for KeyVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let bytes = self.key.try_get_as_bytes().map_err(|_| Error::new())?;
        UnparsedPublicKey::new(self.verification, bytes).verify(message, signature).map_err(|_| Error::new())
    }
}

impl JwtVerifier for KeyVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

/// RSA, of 2,048 to 8,192 bits.
struct RsaVerifier {
    algorithm: Algorithm,
    parameters: &'static RsaParameters,
    key: DecodingKey,
}

impl Verifier<Vec<u8>> for RsaVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        match self.key.kind() {
            DecodingKeyKind::SecretOrDer(der) => {
                UnparsedPublicKey::new(self.parameters, der).verify(message, signature)
            }
            DecodingKeyKind::RsaModulusExponent { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(self.parameters, message, signature)
            }
        }
        .map_err(|_| Error::new())
    }
}

impl JwtVerifier for RsaVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
