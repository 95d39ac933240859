//! The address, and TLS as it says.
//!
//! `mysql://user:password@host:port/database`, or `mariadb://…`, with `?socket=/path` for a Unix socket. Special characters are
//! percent-encoded.
//!
//! | sslmode | encrypted | whose certificate |
//! |---|---|---|
//! | `disable` | no | – |
//! | `prefer` (when nothing is said) | if the server can | anybody's |
//! | `require` | yes | anybody's |
//! | `verify-full` | yes | signed by a root that is trusted, and the host's own |
//!
//! Trusted are the certificates of the file `sslrootcert`, else the system's. The driver can't
//! check a certificate without its host name, which PostgreSQL calls `verify-ca`.

use crate::engine::OpenError;
use core::time::Duration;
use mysql_async::{Conn, DriverError, Error, Opts, OptsBuilder, SslOpts};
use percent_encoding::percent_decode_str;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::path::Path;

/// Silence after which a connection is asked whether it is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const FORM: &str =
    "it has to be mysql://user:password@host:port/database, with special characters percent-encoded";

/// What an address says.
pub(super) struct Address {
    plain: Opts,
    encrypted: Option<Opts>,
    mode: Mode,
    /// What is connected to, for people: never with the password.
    pub(super) name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyFull,
}

impl Address {
    /// Reads one. Nothing of it is quoted where it is wrong: what seems to be a host may be the rest of a password.
    pub(super) fn of(url: &str) -> Result<Self, OpenError> {
        let wrong = |what: &str| OpenError::Address(what.to_owned());
        let (_, rest) = url.split_once("://").ok_or_else(|| wrong(FORM))?;
        let (base, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (mut mode, mut roots, mut socket) = (Mode::Prefer, None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let value = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
            match pair.split_once('=') {
                Some(("sslmode", text)) => mode = Mode::of(&value(text))?,
                Some(("sslrootcert", file)) => roots = Some(value(file)),
                Some(("socket", path)) => socket = Some(value(path)),
                _ => return Err(wrong("the options that are known are sslmode, sslrootcert and socket")),
            }
        }
        if roots.is_some() && mode != Mode::VerifyFull {
            return Err(wrong("sslrootcert goes with sslmode=verify-full"));
        }
        let opts = Opts::from_url(&format!("mysql://{base}")).map_err(|_| wrong(FORM))?;
        let Some(database) = opts.db_name().filter(|name| !name.is_empty()) else {
            return Err(wrong("it names no database: mysql://user:password@host:port/database"));
        };
        let name = match &socket {
            Some(path) => format!("{path}/{database}"),
            None => format!("{}:{}/{database}", opts.ip_or_hostname(), opts.tcp_port()),
        };
        let over_socket = socket.is_some();
        let builder = OptsBuilder::from_opts(opts)
            .socket(socket)
            // The address says what is meant.
            .prefer_socket(false)
            .tcp_keepalive(Some(KEEPALIVE_IDLE))
            .stmt_cache_size(0)
            // Counted are rows that changed.
            .client_found_rows(false);
        let encrypted = match mode {
            _ if over_socket => None,
            Mode::Disable => None,
            Mode::Prefer | Mode::Require => Some(
                SslOpts::default()
                    .with_danger_accept_invalid_certs(true)
                    .with_danger_skip_domain_validation(true),
            ),
            Mode::VerifyFull => {
                let roots = trusted(roots.as_deref().map(Path::new))?;
                Some(
                    SslOpts::default()
                        .with_disable_built_in_roots(true)
                        .with_root_certs(roots.into_iter().map(Into::into).collect()),
                )
            }
        };
        let encrypted = encrypted.map(|ssl| builder.clone().ssl_opts(Some(ssl)).into());
        Ok(Self { plain: builder.into(), encrypted, mode, name })
    }

    /// Connects.
    pub(super) async fn connect(&self) -> Result<Conn, Error> {
        let Some(encrypted) = &self.encrypted else { return Conn::new(self.plain.clone()).await };
        match Conn::new(encrypted.clone()).await {
            Err(Error::Driver(DriverError::NoClientSslFlagFromServer)) if self.mode == Mode::Prefer => {
                Conn::new(self.plain.clone()).await
            }
            done => done,
        }
    }
}

impl Mode {
    fn of(text: &str) -> Result<Self, OpenError> {
        Ok(match text {
            "disable" => Self::Disable,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-full" => Self::VerifyFull,
            _ => {
                return Err(OpenError::Address(
                    "sslmode is one of disable, prefer, require, verify-full".to_owned(),
                ));
            }
        })
    }
}

/// The certificates of a file, or the system's, one by one: the driver refuses all of them for one that it can't read.
fn trusted(file: Option<&Path>) -> Result<Vec<Vec<u8>>, OpenError> {
    let certificates: Vec<CertificateDer<'static>> = match file {
        Some(file) => {
            let wrong = |what: String| OpenError::Address(format!("sslrootcert: {}: {what}", file.display()));
            let found = CertificateDer::pem_file_iter(file).map_err(|error| wrong(error.to_string()))?;
            let found: Result<Vec<_>, _> = found.collect();
            let found = found.map_err(|error| wrong(error.to_string()))?;
            for certificate in &found {
                RootCertStore::empty().add(certificate.clone()).map_err(|error| wrong(error.to_string()))?;
            }
            found
        }
        None => {
            let found = rustls_native_certs::load_native_certs().certs.into_iter();
            found.filter(|certificate| RootCertStore::empty().add(certificate.clone()).is_ok()).collect()
        }
    };
    if certificates.is_empty() {
        return Err(OpenError::Address(
            "no certificate is trusted: name a file of them with sslrootcert".to_owned(),
        ));
    }
    Ok(certificates.into_iter().map(|certificate| certificate.to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_where_and_how() {
        let of = |url: &str| Address::of(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        let plain = of("mysql://u:p%40ss@db.example:3307/shop");
        assert_eq!((plain.mode, plain.name.as_str()), (Mode::Prefer, "db.example:3307/shop"));
        assert_eq!((plain.plain.user(), plain.plain.pass()), (Some("u"), Some("p@ss")));
        assert!(plain.encrypted.is_some());
        let socket = of("mariadb://u@localhost/shop?socket=%2Frun%2Fm.sock");
        assert_eq!((socket.name.as_str(), socket.plain.socket()), ("/run/m.sock/shop", Some("/run/m.sock")));
        assert!(socket.encrypted.is_none());
        assert!(of("mysql://u@h/d?sslmode=disable").encrypted.is_none());
        for wrong in [
            "mysql://u@h",
            "mysql://u@h/",
            "mysql://u@h/d?sslmode=verify-ca",
            "mysql://u@h/d?sslrootcert=/x",
            "mysql://u@h/d?pool_max=3",
        ] {
            assert!(matches!(Address::of(wrong), Err(OpenError::Address(_))), "{wrong}");
        }
    }
}
