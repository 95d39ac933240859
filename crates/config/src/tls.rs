//! The files of TLS: which ones are set, and what the server's side of a handshake needs of them.

use crate::settings::Config;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest file that is read, in bytes. A chain of certificates has a few thousand.
const FILE_BYTES: u64 = 1 << 20;
/// The protocols that a client may choose from, the preferred one first (RFC 7301).
const ALPN_PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Where the files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsPaths {
    cert: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

/// What the files hold. It has the private key, so it can't be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsFiles {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Config {
    /// The files of TLS, if the API speaks it.
    pub fn tls(&self) -> Option<TlsPaths> {
        let (cert, key) = (self.tls_cert.clone()?, self.tls_key.clone()?);
        Some(TlsPaths { cert, key, client_ca: self.tls_client_ca.clone() })
    }

    /// How addresses of the API begin.
    pub fn scheme(&self) -> &'static str {
        if self.tls_cert.is_some() { "https" } else { "http" }
    }

    pub(crate) fn check_tls(&self) -> Result<(), (&'static str, String)> {
        let wrong = |key: &'static str, path: &Path, what: &str| {
            Err((key, format!("{key} {}: {what}", path.display())))
        };
        match (&self.tls_cert, &self.tls_key, &self.tls_client_ca) {
            (Some(cert), None, _) => {
                wrong("tls_cert", cert, "a certificate needs its private key: set tls_key too")
            }
            (None, Some(key), _) => {
                wrong("tls_key", key, "a private key needs its certificate: set tls_cert too")
            }
            (None, None, Some(ca)) => {
                wrong("tls_client_ca", ca, "client certificates need TLS: set tls_cert and tls_key too")
            }
            _ => Ok(()),
        }
    }
}

impl TlsPaths {
    /// Reads the files. An error has the setting and the file that it is about.
    pub fn read(&self) -> Result<TlsFiles, String> {
        let client_ca = self.client_ca.as_deref().map(|path| read("tls_client_ca", path)).transpose()?;
        Ok(TlsFiles { cert: read("tls_cert", &self.cert)?, key: read("tls_key", &self.key)?, client_ca })
    }

    /// Whether clients have to show a certificate.
    pub fn asks_clients(&self) -> bool {
        self.client_ca.is_some()
    }

    /// The server's side of TLS 1.2 and 1.3 with these files, which were read from here. Checks that the key belongs to the
    /// certificate. An error has the setting and the file, and nothing of its content.
    pub fn server_config(&self, files: &TlsFiles) -> Result<Arc<ServerConfig>, String> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS: {error}"))?;
        let builder = match (&self.client_ca, &files.client_ca) {
            (Some(path), Some(pem)) => builder.with_client_cert_verifier(
                client_verifier(pem, provider).map_err(|what| about("tls_client_ca", path, &what))?,
            ),
            _ => builder.with_no_client_auth(),
        };
        let certificates = certificates(&files.cert).map_err(|what| about("tls_cert", &self.cert, &what))?;
        let key = private_key(&files.key).map_err(|what| about("tls_key", &self.key, &what))?;
        let mut config = builder.with_single_cert(certificates, key).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                let what = format!("is not the key of the certificate in {}", self.cert.display());
                about("tls_key", &self.key, &what)
            }
            rustls::Error::InvalidCertificate(why) => {
                about("tls_cert", &self.cert, &format!("its first certificate can't be used: {why}"))
            }
            error => about("tls_key", &self.key, &format!("can't be used: {error}")),
        })?;
        config.alpn_protocols = ALPN_PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(Arc::new(config))
    }
}

fn about(setting: &str, path: &Path, what: &str) -> String {
    format!("{setting} {}: {what}", path.display())
}

fn read(setting: &str, path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| about(setting, path, &error.to_string());
    let found = std::fs::metadata(path).map_err(failed)?;
    if !found.is_file() {
        return Err(about(setting, path, "is not a file"));
    }
    if found.len() > FILE_BYTES {
        let what = format!("has {} bytes, which is too long: at most {FILE_BYTES} are read", found.len());
        return Err(about(setting, path, &what));
    }
    std::fs::read(path).map_err(failed)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found.map_err(|error| malformed(&error))? {
        none if none.is_empty() => {
            Err("has no certificate: it must be PEM with -----BEGIN CERTIFICATE-----".to_owned())
        }
        some => Ok(some),
    }
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            "has no private key that can be read: it must be PEM, as PKCS #8, PKCS #1 or SEC1, without a passphrase".to_owned()
        }
        error => malformed(&error),
    })
}

fn client_verifier(
    pem: &[u8],
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate).map_err(|error| format!("a certificate can't be used: {error}"))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| error.to_string())
}

/// What is wrong with a PEM file. The library's own texts may repeat a part of the file.
fn malformed(error: &pem::Error) -> String {
    let what = match error {
        pem::Error::MissingSectionEnd { .. } => "a section has no end",
        pem::Error::IllegalSectionStart { .. } => "a section's first line is malformed",
        pem::Error::Base64Decode(_) => "a section is not base64",
        _ => "it can't be read",
    };
    format!("is not valid PEM: {what}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};

    fn pair() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    /// Writes these files, and reads them as a server does.
    fn load(cert: &str, key: &str, client_ca: Option<&str>) -> Result<Arc<ServerConfig>, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            std::fs::write(dir.path().join(name), text).unwrap();
            dir.path().join(name)
        };
        let client_ca = client_ca.map(|text| file("ca.pem", text));
        let paths = TlsPaths { cert: file("cert.pem", cert), key: file("key.pem", key), client_ca };
        paths.read().and_then(|files| paths.server_config(&files))
    }

    #[test]
    fn a_pair_speaks_both_protocols() {
        let (cert, key) = pair();
        let config = load(&cert, &key, Some(&cert)).unwrap();
        assert_eq!(config.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
        // Both in one file, as some tools write them.
        load(&format!("{key}{cert}"), &format!("{cert}{key}"), None).unwrap();
    }

    #[test]
    fn an_error_says_which_file_and_shows_nothing_of_it() {
        let ((cert, key), (_, other)) = (pair(), pair());
        let cut = key.replace("-----END PRIVATE KEY-----", "");
        let secret = key.lines().nth(1).unwrap();
        let scrambled = key.replace(secret, &format!("!{secret}"));
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (cert, key, client_ca, setting, what) in [
            ("", key.as_str(), None, "tls_cert", "has no certificate"),
            (key.as_str(), key.as_str(), None, "tls_cert", "has no certificate"),
            (broken, key.as_str(), None, "tls_cert", "its first certificate can't be used"),
            (&cert, "", None, "tls_key", "has no private key that can be read"),
            (&cert, cert.as_str(), None, "tls_key", "has no private key that can be read"),
            (&cert, cut.as_str(), None, "tls_key", "is not valid PEM: a section has no end"),
            (&cert, scrambled.as_str(), None, "tls_key", "is not valid PEM: a section is not base64"),
            (&cert, other.as_str(), None, "tls_key", "is not the key of the certificate in "),
            (&cert, key.as_str(), Some("x"), "tls_client_ca", "has no certificate"),
            (&cert, key.as_str(), Some(broken), "tls_client_ca", "a certificate can't be used"),
        ] {
            let why = load(cert, key, client_ca).map(|_| ()).unwrap_err();
            assert!(why.starts_with(&format!("{setting} /")) && why.contains(what), "{what}: {why}");
            assert!(!why.contains(&secret[..8]), "{why}");
        }
    }

    #[test]
    fn files_that_are_not_there_or_too_long_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let paths =
            TlsPaths { cert: dir.path().join("cert.pem"), key: dir.path().to_owned(), client_ca: None };
        let why = paths.read().map(|_| ()).unwrap_err();
        assert!(why.starts_with("tls_cert ") && why.contains("cert.pem: No such file"), "{why}");
        std::fs::write(&paths.cert, "").unwrap();
        let why = paths.read().map(|_| ()).unwrap_err();
        assert!(why.starts_with("tls_key ") && why.ends_with("is not a file"), "{why}");
        std::fs::File::create(&paths.cert).unwrap().set_len(FILE_BYTES + 1).unwrap();
        let why = paths.read().map(|_| ()).unwrap_err();
        assert!(why.contains("too long"), "{why}");
    }
}
