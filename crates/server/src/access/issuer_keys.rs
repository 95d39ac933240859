//! The public keys of issuers: a task for each fetches them from their addresses, and reads files again that have changed.

use super::Access;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::StatusCode;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::RootCertStore;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stockhold_config::IssuerSettings;
use stockhold_service::Issuer;
use tokio::task::JoinSet;

/// How often the task looks whether something is to be fetched.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How often keys are fetched again without a reason.
const FETCH_INTERVAL: Duration = Duration::from_mins(5);
/// How soon after a try an unknown key id, or a failure, leads to the next one.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// How often a file is read again.
const FILE_INTERVAL: Duration = Duration::from_secs(30);
/// Longest time of one fetch.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest set of keys, in bytes.
const MAX_SET_BYTES: usize = 1024 * 1024;
/// How long the last set counts when no newer one can be fetched.
const MAX_SET_AGE: Duration = Duration::from_hours(1);

type HttpsClient = Client<HttpsConnector<HttpConnector>, Empty<Bytes>>;

/// The task's view of the issuers.
pub(crate) struct IssuerKeysTask {
    access: Arc<Access>,
    sources: Vec<Source>,
    client: HttpsClient,
}

/// Where the keys of an issuer come from, and how that went.
struct Source {
    issuer: String,
    place: Place,
    tried: Option<Instant>,
    fetched: Option<Instant>,
    is_failing: bool,
}

#[derive(Clone, Debug)]
enum Place {
    Url(String),
    SetFile(PathBuf),
    KeyFile(PathBuf),
}

impl Source {
    fn of(settings: &IssuerSettings) -> Option<Self> {
        let url = settings.jwks_url.clone().map(Place::Url);
        let set_file = settings.jwks_file.clone().map(Place::SetFile);
        let key_file = settings.public_key_file.clone().map(Place::KeyFile);
        let place = url.or(set_file).or(key_file)?;
        // The files were read when the issuer was made.
        let read = matches!(place, Place::SetFile(_) | Place::KeyFile(_)).then(Instant::now);
        Some(Self { issuer: settings.issuer.clone(), place, tried: read, fetched: read, is_failing: false })
    }

    /// Whether it is time for a try. `is_wanted` says that a token named an unknown key.
    fn is_due(&self, is_wanted: bool) -> bool {
        let Some(tried) = self.tried else { return true };
        let interval = match self.place {
            Place::Url(_) if is_wanted || self.is_failing => RETRY_INTERVAL,
            Place::Url(_) => FETCH_INTERVAL,
            Place::SetFile(_) | Place::KeyFile(_) => FILE_INTERVAL,
        };
        tried.elapsed() >= interval
    }
}

impl IssuerKeysTask {
    pub(crate) fn new(access: Arc<Access>, issuers: &[IssuerSettings]) -> Self {
        Self { access, sources: issuers.iter().filter_map(Source::of).collect(), client: https_client() }
    }

    /// Keeps the keys up to date for as long as the server runs. Each issuer has a task of its own, so that one that does not answer
    /// holds up no other.
    pub(crate) async fn run(self) -> Infallible {
        let mut tasks = JoinSet::new();
        for source in self.sources {
            tasks.spawn(source.follow(Arc::clone(&self.access), self.client.clone()));
        }
        loop {
            match tasks.join_next().await {
                Some(Ok(never)) => match never {},
                Some(Err(error)) => {
                    tracing::error!(%error, "the keys of an issuer are not read any more");
                }
                None => std::future::pending().await,
            }
        }
    }
}

impl Source {
    async fn follow(mut self, access: Arc<Access>, client: HttpsClient) -> Infallible {
        loop {
            let issuers = access.authenticator.issuers();
            if let Some(issuer) = issuers.iter().find(|issuer| issuer.name() == self.issuer) {
                self.refresh(issuer, &client).await;
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    async fn refresh(&mut self, issuer: &Issuer, client: &HttpsClient) {
        if !self.is_due(issuer.misses_key()) {
            return;
        }
        self.tried = Some(Instant::now());
        issuer.clear_missed_key();
        match fetch(client, &self.place, issuer).await {
            Ok(changed) => {
                if changed || self.is_failing {
                    tracing::info!(issuer = self.issuer, "the keys of an issuer were read");
                }
                (self.fetched, self.is_failing) = (self.tried, false);
            }
            Err(why) => {
                if !self.is_failing {
                    tracing::warn!(issuer = self.issuer, why, "the keys of an issuer can't be read");
                }
                self.is_failing = true;
                let is_too_old = self.fetched.is_some_and(|at| at.elapsed() > MAX_SET_AGE);
                if is_too_old && matches!(self.place, Place::Url(_)) {
                    self.fetched = None;
                    issuer.drop_keys();
                    tracing::error!(
                        issuer = self.issuer,
                        "tokens of an issuer are refused: its keys are too old"
                    );
                }
            }
        }
    }
}

/// Reads keys and gives them to the issuer. Returns whether they have changed.
async fn fetch(client: &HttpsClient, place: &Place, issuer: &Issuer) -> Result<bool, String> {
    let read = |file: &PathBuf| std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()));
    match place {
        Place::Url(url) => {
            let set = tokio::time::timeout(FETCH_TIMEOUT, get(client, url));
            let shown = without_query(url);
            let set =
                set.await.map_err(|_| format!("{shown}: no answer within {} s", FETCH_TIMEOUT.as_secs()))?;
            let set = set.map_err(|why| format!("{shown}: {why}"))?;
            issuer.set_jwks(&set).map_err(|error| format!("{shown} {error}"))
        }
        Place::SetFile(file) => {
            issuer.set_jwks(&read(file)?).map_err(|error| format!("{} {error}", file.display()))
        }
        Place::KeyFile(file) => {
            issuer.set_public_key(&read(file)?).map_err(|error| format!("{} {error}", file.display()))
        }
    }
}

/// An address for the log. Its query may have a secret.
fn without_query(url: &str) -> &str {
    url.split('?').next().unwrap_or_default()
}

/// The body of a 200. Redirects are not followed.
async fn get(client: &HttpsClient, url: &str) -> Result<Bytes, String> {
    let url = url.parse().map_err(|_| "is no URL".to_owned())?;
    let answer = client.get(url).await.map_err(|error| chain(&error))?;
    if answer.status() != StatusCode::OK {
        return Err(format!("it was answered with {}", answer.status()));
    }
    let body = Limited::new(answer.into_body(), MAX_SET_BYTES).collect().await;
    body.map(http_body_util::Collected::to_bytes).map_err(|error| error.to_string())
}

/// An error with its causes, since the outermost says little.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// A client that trusts the system's certificates.
fn https_client() -> HttpsClient {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    #[expect(clippy::expect_used, reason = "ring has both versions of TLS")]
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
    Client::builder(TokioExecutor::new()).build(connector)
}
