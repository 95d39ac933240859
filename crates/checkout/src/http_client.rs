//! The HTTP client of providers: one request, one answer as JSON, within a time.

use crate::provider::ProviderError;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use stockhold_api::client::ClientAccess;

/// Longest time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an unused connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest answer that is read.
const ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// A request to a provider.
pub(crate) struct HttpRequest<'a> {
    pub(crate) method: Method,
    /// The path with its query.
    pub(crate) path: String,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
    /// The idempotency key of a request that has an effect.
    pub(crate) key: Option<&'a str>,
    /// Other headers.
    pub(crate) headers: Vec<(&'static str, String)>,
}

/// An answer of a provider.
pub(crate) struct HttpAnswer {
    pub(crate) status: StatusCode,
    pub(crate) json: Value,
}

/// Sends requests to one provider.
pub(crate) struct HttpClient {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    /// The value of the header `Authorization`, which no log shows.
    authorization: Option<HeaderValue>,
    timeout: Duration,
}

impl HttpClient {
    pub(crate) fn new(base: &str, bearer: Option<&str>, timeout: Duration) -> Result<Self, String> {
        let tls = ClientAccess::default().tls().map_err(|error| error.to_string())?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.enforce_http(false);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(Arc::unwrap_or_clone(tls))
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE_TIMEOUT);
        let authorization = match bearer {
            Some(bearer) => {
                let value = HeaderValue::from_str(&format!("Bearer {bearer}"));
                let mut value = value.map_err(|_| "the key has characters that no header can have")?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        let base = base.trim_end_matches('/').to_owned();
        Ok(Self { client: builder.build(connector), base, authorization, timeout })
    }

    /// Sends a request. An answer is anything with a status below 500 and JSON, apart from those that say "later".
    pub(crate) async fn send(&self, request: HttpRequest<'_>) -> Result<HttpAnswer, ProviderError> {
        let mut builder =
            Request::builder().method(request.method).uri(format!("{}{}", self.base, request.path));
        builder = builder
            .header("user-agent", concat!("stockhold/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, request.content_type);
        if let Some(authorization) = &self.authorization {
            builder = builder.header(AUTHORIZATION, authorization);
        }
        if let Some(key) = request.key {
            builder = builder.header("idempotency-key", key);
        }
        for (name, value) in request.headers {
            builder = builder.header(name, value);
        }
        let built = builder.body(Full::new(Bytes::from(request.body)));
        let built = built.map_err(|_| ProviderError::Refused("request_not_possible".to_owned()))?;
        let answer = async {
            let answer = self.client.request(built).await.map_err(|error| {
                tracing::debug!(%error, "a payment provider gave no answer");
                ProviderError::NoAnswer("no_connection".to_owned())
            })?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, ANSWER_BYTES).collect().await;
            let body = body.map_err(|_| ProviderError::NoAnswer("answer_cut".to_owned()))?.to_bytes();
            Ok((head.status, body))
        };
        let (status, body) = match tokio::time::timeout(self.timeout, answer).await {
            Ok(answer) => answer?,
            Err(_) => return Err(ProviderError::NoAnswer("timeout".to_owned())),
        };
        match status.as_u16() {
            401 | 403 => Err(ProviderError::Unauthorized),
            // A conflict is a request with the same key that is still at work.
            409 | 429 => Err(ProviderError::NoAnswer(format!("http_{}", status.as_u16()))),
            500.. => Err(ProviderError::Failed(format!("http_{}", status.as_u16()))),
            _ => match serde_json::from_slice(&body) {
                Ok(json) => Ok(HttpAnswer { status, json }),
                Err(_) => Err(ProviderError::NoAnswer("answer_not_json".to_owned())),
            },
        }
    }
}
