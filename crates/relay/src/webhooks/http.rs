//! Sends webhooks. The client connects only to addresses that were checked, and follows no redirect.

use super::address::AllowedNetworks;
use crate::connection::last_cause;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::ext::ReasonPhrase;
use hyper::header::CONTENT_TYPE;
use hyper::{Request, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use stockhold_api::client::{ClientAccess, retry_after};
use stockhold_api::encode::CLOUD_EVENT_CONTENT;
use stockhold_domain::Instant;
use tower_service::Service;

/// Longest time of one attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an unused connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of an answer that are read.
const ANSWER_BYTES: usize = 4 * 1024;
/// What is said of a name without addresses, and of an address that is not allowed, whatever it is.
const UNUSABLE: &str = "the host has no address that may be used";
/// What may be used.
const USABLE: &str = "https needs a public address, and http one in webhook_allowed_networks";
/// How long the rest of an answer may take, so that its connection can be used again.
const REST_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest address of an endpoint, in bytes.
const URL_BYTES: usize = 2_048;

/// What an attempt came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AttemptResult {
    /// The endpoint answered.
    Answered {
        /// The status of the answer.
        status: u16,
        /// What stands behind it in the first line.
        reason: String,
        /// The pause that the endpoint asks for.
        retry_after: Option<Duration>,
    },
    /// There was no answer.
    Failed(String),
}

/// The address of an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct EndpointUrl {
    uri: Uri,
    is_https: bool,
}

/// Headers of a webhook, besides the signature of the body.
pub(crate) struct SignedHeaders<'a> {
    pub(crate) id: &'a str,
    pub(crate) timestamp: u64,
    pub(crate) signatures: &'a str,
}

/// Looks up the addresses of names.
pub(crate) trait Lookup: Send + Sync {
    /// The addresses of a name.
    fn look_up(&self, name: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;
}

/// Names as the system knows them.
pub(crate) struct SystemLookup;

impl Lookup for SystemLookup {
    fn look_up(&self, name: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.collect()) })
    }
}

/// Looks up names, and refuses those of which an address may not be connected to.
#[derive(Clone)]
struct CheckedLookup {
    lookup: Arc<dyn Lookup>,
    allowed: AllowedNetworks,
    is_https: bool,
}

impl Service<Name> for CheckedLookup {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (found, allowed, is_https) =
            (self.lookup.look_up(name.as_str().to_owned()), self.allowed.clone(), self.is_https);
        Box::pin(async move {
            // A caller who creates endpoints must not learn which names exist here, and which of them lead to addresses of the server's network.
            let unusable = || io::Error::other(UNUSABLE);
            let found = found.await.map_err(|_| unusable())?;
            let are_usable = found.iter().all(|address| may_connect(&allowed, address.ip(), is_https));
            if found.is_empty() || !are_usable {
                return Err(unusable());
            }
            Ok(found.into_iter())
        })
    }
}

/// Whether an address may be connected to.
fn may_connect(allowed: &AllowedNetworks, address: IpAddr, is_https: bool) -> bool {
    if is_https { allowed.permit(address) } else { allowed.has(address) }
}

type Secure = Client<HttpsConnector<HttpConnector<CheckedLookup>>, Full<Bytes>>;

/// Sends webhooks.
#[derive(Clone)]
pub(crate) struct WebhookClient {
    allowed: AllowedNetworks,
    secure: Secure,
    plain: Client<HttpConnector<CheckedLookup>, Full<Bytes>>,
}

impl WebhookClient {
    pub(crate) fn new(
        allowed: AllowedNetworks,
        access: &ClientAccess,
        lookup: &Arc<dyn Lookup>,
    ) -> Result<Self, String> {
        let connector = |is_https: bool| {
            let lookup = CheckedLookup { lookup: Arc::clone(lookup), allowed: allowed.clone(), is_https };
            let mut connector = HttpConnector::new_with_resolver(lookup);
            connector.set_nodelay(true);
            connector.enforce_http(false);
            connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
            connector
        };
        let tls = access.tls().map_err(|error| error.to_string())?;
        let secure = HttpsConnectorBuilder::new()
            .with_tls_config(Arc::unwrap_or_clone(tls))
            .https_only()
            .enable_http1()
            .wrap_connector(connector(true));
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE_TIMEOUT);
        Ok(Self { secure: builder.build(secure), plain: builder.build(connector(false)), allowed })
    }

    /// Checks the address of an endpoint. Names are looked up with each connection, so a name that is refused later passes here.
    pub(crate) fn check_url(&self, url: &str) -> Result<EndpointUrl, String> {
        if url.len() > URL_BYTES {
            return Err(format!("is {} bytes long, at most {URL_BYTES} are allowed", url.len()));
        }
        let uri: Uri =
            url.parse().map_err(|_| "must be an address like https://shop.example/hook".to_owned())?;
        let is_https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("must begin with https://".to_owned()),
        };
        let authority = uri.authority().map(hyper::http::uri::Authority::as_str).unwrap_or_default();
        if authority.contains('@') {
            return Err("must have no user name: webhooks are signed and carry no password".to_owned());
        }
        let host = uri.host().unwrap_or_default();
        if host.is_empty() {
            return Err("must name a host".to_owned());
        }
        if !is_https && self.allowed.0.is_empty() {
            return Err("must begin with https://: the server allows no network without TLS".to_owned());
        }
        if let Ok(address) = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>()
            && !may_connect(&self.allowed, address, is_https)
        {
            return Err(format!("can't be used: {UNUSABLE}; {USABLE}"));
        }
        Ok(EndpointUrl { uri, is_https })
    }

    /// Sends a webhook once.
    pub(crate) async fn send(
        &self,
        url: &EndpointUrl,
        headers: &SignedHeaders<'_>,
        body: Bytes,
        now: Instant,
    ) -> AttemptResult {
        let request = Request::post(url.uri.clone())
            .header(CONTENT_TYPE, CLOUD_EVENT_CONTENT)
            .header("user-agent", concat!("stockhold/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", headers.id)
            .header("webhook-timestamp", headers.timestamp)
            .header("webhook-signature", headers.signatures)
            .body(Full::new(body));
        let request = match request {
            Ok(request) => request,
            Err(error) => return AttemptResult::Failed(error.to_string()),
        };
        let answer = async {
            let sent = if url.is_https { self.secure.request(request) } else { self.plain.request(request) };
            let answer = sent.await.map_err(|error| last_cause(&error))?;
            let (head, body) = answer.into_parts();
            // The status alone decides. The body is read for the connection alone, and a longer one is left unread, with its connection.
            tokio::spawn(tokio::time::timeout(REST_TIMEOUT, Limited::new(body, ANSWER_BYTES).collect()));
            let said =
                head.extensions.get::<ReasonPhrase>().and_then(|said| str::from_utf8(said.as_bytes()).ok());
            Ok(AttemptResult::Answered {
                status: head.status.as_u16(),
                reason: said.or(head.status.canonical_reason()).unwrap_or_default().to_owned(),
                retry_after: retry_after(&head.headers, || now),
            })
        };
        match tokio::time::timeout(ATTEMPT_TIMEOUT, answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(what)) => AttemptResult::Failed(what),
            Err(_) => AttemptResult::Failed(format!("no answer within {} s", ATTEMPT_TIMEOUT.as_secs())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::Mutex;

    /// A name whose addresses are others at each look-up.
    struct Changing(Mutex<VecDeque<Vec<IpAddr>>>);

    impl Lookup for Changing {
        fn look_up(&self, _: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>> {
            let found = self.0.lock().unwrap().pop_front().unwrap();
            Box::pin(
                async move { Ok(found.into_iter().map(|address| SocketAddr::new(address, 0)).collect()) },
            )
        }
    }

    /// Counts the requests to an address of this machine, and answers with 200.
    fn receiver() -> (u16, Arc<Mutex<usize>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let count = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&count);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4_096]);
                *counted.lock().unwrap() += 1;
                let _ =
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            }
        });
        (port, count)
    }

    fn send(lookups: &[&[&str]], allowed: &str, url: &str) -> Vec<Result<AttemptResult, String>> {
        let addresses = lookups.iter().map(|one| one.iter().map(|text| text.parse().unwrap()).collect());
        let lookup: Arc<dyn Lookup> = Arc::new(Changing(Mutex::new(addresses.collect())));
        let allowed = AllowedNetworks(vec![allowed.parse().unwrap()]);
        let client = WebhookClient::new(allowed, &ClientAccess::default(), &lookup).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let headers = SignedHeaders { id: "i", timestamp: 1, signatures: "v1,s" };
        let mut results = Vec::new();
        for _ in lookups {
            let sent = client.check_url(url).map(|url| {
                runtime.block_on(client.send(
                    &url,
                    &headers,
                    Bytes::from_static(b"{}"),
                    Instant::from_micros(0),
                ))
            });
            results.push(sent);
        }
        results
    }

    fn failed(result: &Result<AttemptResult, String>) -> &str {
        let Ok(AttemptResult::Failed(why)) = result else { panic!("{result:?}") };
        why
    }

    #[test]
    fn a_name_that_leads_elsewhere_at_the_second_look_up_is_refused() {
        let (port, count) = receiver();
        let url = format!("http://shop.example:{port}/");
        let results = send(&[&["127.0.0.1"], &["127.0.0.2"]], "127.0.0.1/32", &url);
        assert_eq!(
            results[0],
            Ok(AttemptResult::Answered { status: 200, reason: "OK".to_owned(), retry_after: None })
        );
        assert_eq!(failed(&results[1]), UNUSABLE);
        assert_eq!(*count.lock().unwrap(), 1);
    }

    #[test]
    fn nothing_is_sent_if_one_of_several_addresses_is_forbidden() {
        let (port, count) = receiver();
        let url = format!("http://shop.example:{port}/");
        let results = send(&[&["127.0.0.1", "10.0.0.1"], &["10.0.0.1", "127.0.0.1"]], "127.0.0.1/32", &url);
        assert!(results.iter().all(|result| failed(result) == UNUSABLE), "{results:?}");
        let results = send(&[&["8.8.8.8", "127.0.0.2"]], "127.0.0.1/32", "https://shop.example/");
        assert_eq!(failed(&results[0]), UNUSABLE);
        assert_eq!(*count.lock().unwrap(), 0);
    }

    #[test]
    fn a_name_that_does_not_exist_looks_like_one_that_is_internal() {
        let texts: Vec<_> =
            [&[][..], &["10.0.0.1"], &["169.254.169.254"], &["fd00::1"], &["8.8.8.8", "10.0.0.1"]]
                .into_iter()
                .map(|found| {
                    failed(&send(&[found], "127.0.0.1/32", "https://intranet.example/")[0]).to_owned()
                })
                .collect();
        assert!(texts.iter().all(|text| text == UNUSABLE), "{texts:?}");
    }

    #[test]
    fn an_address_in_the_url_is_checked_each_time() {
        let results = send(&[&[]], "127.0.0.1/32", "http://127.0.0.2:1/");
        assert!(results[0].as_ref().unwrap_err().contains(UNUSABLE), "{results:?}");
        let results = send(&[&[]], "127.0.0.1/32", "https://[::ffff:127.0.0.3]/");
        assert!(results[0].as_ref().unwrap_err().contains(UNUSABLE), "{results:?}");
    }
}
