//! Which servers a client trusts, and the key by which they know it.

use super::Error;
use hyper::header::HeaderValue;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a client needs beside a server's address. Without anything it trusts the certificates that the system trusts, and sends no
/// key.
#[derive(Clone, Debug, Default)]
pub struct ClientAccess {
    ca_file: Option<PathBuf>,
    /// The files of a certificate and of its private key.
    client_certificate: Option<(PathBuf, PathBuf)>,
    authorization: Option<HeaderValue>,
}

impl ClientAccess {
    /// Trusts the certificates of this PEM file instead of the system's.
    pub fn with_ca_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(file.into());
        self
    }

    /// Shows the certificate of this PEM file to servers that ask for one. The other file has its private key.
    pub fn with_client_certificate(mut self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.client_certificate = Some((cert.into(), key.into()));
        self
    }

    /// The file whose certificates are trusted, if they are not the system's.
    pub fn ca_file(&self) -> Option<&Path> {
        self.ca_file.as_deref()
    }

    /// The files of the certificate that servers are shown, and of its private key.
    pub fn client_certificate(&self) -> Option<(&Path, &Path)> {
        self.client_certificate.as_ref().map(|(cert, key)| (cert.as_path(), key.as_path()))
    }

    /// Sends this API key with every request. An error does not repeat it.
    pub fn with_api_key(mut self, key: &str) -> Result<Self, Error> {
        let is_token = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
        let value = is_token.then(|| HeaderValue::try_from(format!("Bearer {key}")).ok()).flatten();
        let mut value = value.ok_or_else(|| {
            Error::Unsendable(
                "an API key is one word of visible ASCII characters, and this one is not".to_owned(),
            )
        })?;
        value.set_sensitive(true);
        self.authorization = Some(value);
        Ok(self)
    }

    /// The value of `Authorization`, if there is a key. It is marked as sensitive, so that it is not printed.
    pub fn authorization(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }

    /// Reads the files. An error names the one that can't be used.
    pub fn check_files(&self) -> Result<(), String> {
        self.tls().map(drop).map_err(|error| match error {
            Error::Unsendable(what) => what,
            error => error.to_string(),
        })
    }

    /// The client's side of TLS 1.2 and 1.3. Reads the files, and the certificates that are trusted.
    pub fn tls(&self) -> Result<Arc<ClientConfig>, Error> {
        let mut roots = RootCertStore::empty();
        match &self.ca_file {
            Some(file) => {
                for certificate in certificates(file)? {
                    let added = roots.add(certificate);
                    added
                        .map_err(|error| unusable(file, &format!("a certificate can't be used: {error}")))?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if roots.is_empty() {
                    let why = "this system has no certificates that are trusted (package ca-certificates), and no file names any";
                    return Err(Error::Tls(why.to_owned()));
                }
            }
        }
        with_roots(roots, self.client_certificate())
    }
}

/// TLS that trusts nobody, for clients that speak plain HTTP.
pub(super) fn no_tls() -> Result<Arc<ClientConfig>, Error> {
    with_roots(RootCertStore::empty(), None)
}

fn with_roots(roots: RootCertStore, own: Option<(&Path, &Path)>) -> Result<Arc<ClientConfig>, Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Tls(error.to_string()))?
        .with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let config = builder.with_client_auth_cert(certificates(cert)?, private_key(key)?);
            config.map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => {
                    unusable_key(key, &format!("is not the key of the certificate in {}", cert.display()))
                }
                error => unusable(cert, &format!("the first one can't be used: {error}")),
            })?
        }
    };
    Ok(Arc::new(config))
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    let read = std::fs::read(file).map_err(|error| unusable_key(file, &error.to_string()))?;
    // The error may repeat a part of the key.
    PrivateKeyDer::from_pem_slice(&read).map_err(|_| {
        unusable_key(file, "has no private key: it must be PEM with -----BEGIN PRIVATE KEY-----")
    })
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = std::fs::read(file).map_err(|error| unusable(file, &error.to_string()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read).collect();
    let found = found.map_err(|_| unusable(file, "is not valid PEM"))?;
    if found.is_empty() {
        return Err(unusable(file, "has no certificate: it must be PEM with -----BEGIN CERTIFICATE-----"));
    }
    Ok(found)
}

fn unusable(file: &Path, what: &str) -> Error {
    Error::Unsendable(format!("certificates of {}: {what}", file.display()))
}

fn unusable_key(file: &Path, what: &str) -> Error {
    Error::Unsendable(format!("private key of {}: {what}", file.display()))
}

/// The error of TLS below another one, if it is one. A further try would end in the same way.
pub(super) fn tls_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // The error in an error of I/O is not its source: the source is that of the error in it.
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        next = match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_printed() {
        let access = ClientAccess::default().with_api_key("sh_live_secret").unwrap();
        assert_eq!(access.authorization().unwrap(), "Bearer sh_live_secret");
        assert!(!format!("{access:?}").contains("secret"), "{access:?}");
        for wrong in ["", "secret word", "secret\n", "s\u{e9}cret"] {
            let why = ClientAccess::default().with_api_key(wrong).unwrap_err().to_string();
            assert!(why.contains("visible ASCII") && !why.contains("cret"), "{why}");
        }
    }

    #[test]
    fn a_file_without_certificates_is_named() {
        let why = |file: &str| ClientAccess::default().with_ca_file(file).tls().unwrap_err().to_string();
        assert!(why("/nowhere/ca.pem").contains("/nowhere/ca.pem: No such file"));
        assert!(why(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).contains("has no certificate"));
    }

    #[test]
    fn a_file_without_a_key_is_named() {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let trusts_nobody = |cert: &str, key: &str| {
            let own = Some((Path::new(cert), Path::new(key)));
            with_roots(RootCertStore::empty(), own).unwrap_err().to_string()
        };
        assert!(trusts_nobody(manifest, manifest).contains("Cargo.toml: has no certificate"));
        let why = private_key(Path::new(manifest)).unwrap_err().to_string();
        assert!(why.contains("private key of") && why.contains("has no private key"), "{why}");
        let why = private_key(Path::new("/nowhere/key.pem")).unwrap_err().to_string();
        assert!(why.contains("/nowhere/key.pem: No such file"), "{why}");
    }

    #[test]
    fn an_error_of_tls_is_found_below_others() {
        let tls = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let error = std::io::Error::other(std::io::Error::other(tls.clone()));
        assert_eq!(tls_error(&error), Some(&tls));
        assert_eq!(tls_error(&std::io::Error::other("lost")), None);
    }
}
