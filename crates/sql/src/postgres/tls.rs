//! TLS, as `sslmode` and `sslrootcert` in the address say, with the meanings that PostgreSQL's own clients give them.
//!
//! | sslmode | encrypted | whose certificate |
//! |---|---|---|
//! | `disable` | no | – |
//! | `prefer` (when nothing is said) | if the server can | anybody's |
//! | `require` | yes | anybody's; with `sslrootcert` as `verify-ca` |
//! | `verify-ca` | yes | signed by a root that is trusted |
//! | `verify-full` | yes | signed by a root that is trusted, and the host's own |
//!
//! Trusted are the certificates of the file `sslrootcert`, else the system's.

use crate::engine::OpenError;
use percent_encoding::percent_decode_str;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::path::PathBuf;
use std::sync::Arc;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

/// What an address says about TLS, and the address without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TlsOptions {
    pub(super) url: String,
    mode: Mode,
    roots: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl TlsOptions {
    /// Takes the options of TLS out of an address: the driver does not know all of them.
    pub(super) fn of(url: &str) -> Result<Self, OpenError> {
        let mut asked = Self { url: url.to_owned(), mode: Mode::Prefer, roots: None };
        let Some((base, query)) = url.split_once('?') else { return Ok(asked) };
        let mut rest = Vec::new();
        for pair in query.split('&') {
            let value = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
            match pair.split_once('=') {
                Some(("sslmode", mode)) => asked.mode = Mode::of(&value(mode))?,
                Some(("sslrootcert", file)) => asked.roots = Some(PathBuf::from(value(file))),
                _ => rest.push(pair),
            }
        }
        asked.url = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
        if asked.roots.is_some() && asked.mode == Mode::Require {
            asked.mode = Mode::VerifyCa;
        }
        Ok(asked)
    }

    /// What the driver has to know.
    pub(super) fn driver_mode(&self) -> SslMode {
        match self.mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        }
    }

    /// What encrypts; `None` when nothing is to be.
    pub(super) fn connector(&self) -> Result<Option<MakeRustlsConnect>, OpenError> {
        let provider = Arc::new(ring::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match self.mode {
            Mode::Disable => return Ok(None),
            Mode::Prefer | Mode::Require => {
                Arc::new(Verifier { provider: Arc::clone(&provider), chain: None })
            }
            Mode::VerifyCa => {
                let chain = Some(self.chain(&provider)?);
                Arc::new(Verifier { provider: Arc::clone(&provider), chain })
            }
            Mode::VerifyFull => self.chain(&provider)?,
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| OpenError::Address(format!("TLS: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(Some(MakeRustlsConnect::new(config)))
    }

    fn chain(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, OpenError> {
        let mut roots = RootCertStore::empty();
        match &self.roots {
            Some(file) => {
                let wrong =
                    |what: String| OpenError::Address(format!("sslrootcert: {}: {what}", file.display()));
                let found = CertificateDer::pem_file_iter(file).map_err(|error| wrong(error.to_string()))?;
                for certificate in found {
                    let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
                    roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        if roots.is_empty() {
            return Err(OpenError::Address(
                "no certificate is trusted: name a file of them with sslrootcert".to_owned(),
            ));
        }
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .build()
            .map_err(|error| OpenError::Address(format!("TLS: {error}")))
    }
}

impl Mode {
    fn of(text: &str) -> Result<Self, OpenError> {
        Ok(match text {
            "disable" => Self::Disable,
            "prefer" | "allow" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            _ => {
                return Err(OpenError::Address(
                    "sslmode is one of disable, prefer, require, verify-ca, verify-full".to_owned(),
                ));
            }
        })
    }
}

/// Accepts the certificate of any host: any certificate at all, or with a chain only those that a trusted root has signed. Without a
/// chain, the signature of the handshake proves nothing either, and it can't be checked with certificates of version 1, as Citus makes
/// them.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    chain: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify_server_cert(certificate, between, name, ocsp, now) {
            // The name is looked at last: all else was in order.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.chain.is_none() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.chain.is_none() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_concerns_tls_is_taken_out_of_an_address() {
        let of = |url: &str| TlsOptions::of(url).unwrap();
        assert_eq!(of("postgres://h/d").mode, Mode::Prefer);
        let asked = of("postgres://h/d?application_name=x&sslmode=verify-full&sslrootcert=%2Fa%20b");
        assert_eq!(asked.url, "postgres://h/d?application_name=x");
        assert_eq!((asked.mode, asked.roots), (Mode::VerifyFull, Some(PathBuf::from("/a b"))));
        assert_eq!(of("postgres://h/d?sslmode=disable").url, "postgres://h/d");
        assert_eq!(of("postgres://h/d?sslmode=require").mode, Mode::Require);
        assert_eq!(of("postgres://h/d?sslmode=require&sslrootcert=/x").mode, Mode::VerifyCa);
        assert!(matches!(TlsOptions::of("postgres://h/d?sslmode=no"), Err(OpenError::Address(_))));
    }
}
