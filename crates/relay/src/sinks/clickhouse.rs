//! Events as rows of a table of `ClickHouse`, over its HTTP interface.
//!
//! Only the text of an event is inserted. The table has an expression for each other column, so what columns there are is the operator's
//! affair. An event that is delivered again is a row with the same sort key, which `ReplacingMergeTree` removes.

use super::{failure, in_time};
use crate::connection::{User, last_cause, split_user};
use crate::message::Message;
use crate::sink::{DeliveryError, Sink, SinkFuture, send_up_to_refused};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::TokioExecutor;
use std::sync::Arc;
use std::time::Duration;
use stockhold_api::client::ClientAccess;
use stockhold_api::encode::path_segment;
use tokio::time::Instant;

/// Most events of an insert. Each insert makes a part, and costs much more than a row.
const INSERT_EVENTS: usize = 16_384;
/// Shortest time between two inserts of fewer events, because parts have to be merged.
const INSERT_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of an answer that are read.
const ANSWER_BYTES: usize = 64 * 1024;
/// Characters of an error of `ClickHouse` that are shown.
const ERROR_CHARACTERS: usize = 300;

/// The columns besides the text of the event. `{table}` is the name of the table.
const TABLE: &str = include_str!("clickhouse.sql");

/// A table of `ClickHouse`.
pub(super) struct ClickHouse {
    address: ServerAddress,
    table: String,
    access: ClientAccess,
    client: Option<HttpClient>,
    inserted_at: Option<Instant>,
}

/// How requests are sent. A server without TLS needs no certificates of the system.
enum HttpClient {
    Plain(Client<HttpConnector, Full<Bytes>>),
    Secure(Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
}

impl HttpClient {
    fn new(is_secure: bool, access: &ClientAccess) -> Result<Self, DeliveryError> {
        let builder = Client::builder(TokioExecutor::new());
        if !is_secure {
            return Ok(Self::Plain(builder.build_http()));
        }
        let tls = access.tls().map_err(DeliveryError::failed)?;
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(Arc::unwrap_or_clone(tls))
            .https_only()
            .enable_http1()
            .build();
        Ok(Self::Secure(builder.build(connector)))
    }

    fn request(&self, request: Request<Full<Bytes>>) -> ResponseFuture {
        match self {
            Self::Plain(client) => client.request(request),
            Self::Secure(client) => client.request(request),
        }
    }
}

/// The parts of the address of a server.
struct ServerAddress {
    /// Scheme, host and port.
    origin: String,
    database: Option<String>,
    user: Option<User>,
}

impl ServerAddress {
    /// Reads `http[s]://[user:password@]host[:port][/database]`, whose scheme was checked before.
    fn parse(url: &str) -> Self {
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, host) = split_user(authority);
        let database = path.trim_end_matches('/');
        Self {
            origin: format!("{scheme}://{host}"),
            database: (!database.is_empty()).then(|| database.to_owned()),
            user,
        }
    }
}

impl ClickHouse {
    pub(super) fn new(url: &str, table: String, access: ClientAccess) -> Self {
        Self { address: ServerAddress::parse(url), table, access, client: None, inserted_at: None }
    }

    async fn insert(&mut self, messages: &[Message]) -> Result<(), DeliveryError> {
        let mut body = Vec::with_capacity(messages.iter().map(|message| message.body.len() + 1).sum());
        for message in messages {
            body.extend_from_slice(&message.body);
            body.push(b'\n');
        }
        let query = format!("INSERT INTO {} (event) FORMAT JSONAsString", self.table);
        self.query(&query, body).await?;
        self.inserted_at = Some(Instant::now());
        Ok(())
    }

    /// Runs a query, whose data are the body.
    async fn query(&mut self, query: &str, body: Vec<u8>) -> Result<(), DeliveryError> {
        let client = match &self.client {
            Some(client) => client,
            None => {
                let is_secure = self.address.origin.starts_with("https:");
                self.client.insert(HttpClient::new(is_secure, &self.access)?)
            }
        };
        let mut uri = format!("{}/?query={}", self.address.origin, path_segment(query));
        if let Some(database) = &self.address.database {
            uri.push_str("&database=");
            // It is percent-encoded as it came.
            uri.push_str(database);
        }
        let mut request = Request::post(uri);
        if let Some((name, password)) = &self.address.user {
            request = request.header("X-ClickHouse-User", name).header("X-ClickHouse-Key", password);
        }
        let request = request.body(Full::new(Bytes::from(body)));
        let request =
            request.map_err(|_| DeliveryError::failed("the address or the name of the user is wrong"))?;
        let answer = async {
            let answer = client.request(request).await.map_err(|error| last_cause(&error))?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, ANSWER_BYTES).collect().await;
            let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            Ok::<_, String>((head.status, String::from_utf8_lossy(&body).into_owned()))
        };
        let (status, text) = match in_time("asking ClickHouse", answer).await {
            Ok(answer) => answer,
            Err(error) => {
                // The next one reads the files of TLS again.
                self.client = None;
                return Err(error);
            }
        };
        if status.is_success() {
            return Ok(());
        }
        let text: String = text.trim().chars().take(ERROR_CHARACTERS).collect();
        let message = format!("ClickHouse answered {}: {text}", status.as_u16());
        Err(match status {
            StatusCode::NOT_FOUND => {
                DeliveryError::refused(message).with_action("make the table with stockhold ctl sinks init")
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => DeliveryError::blocked(
                message,
                "correct the user and the password in the sink's url, or have ClickHouse let this user insert",
            ),
            StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE => DeliveryError::refused(message),
            _ => failure(message),
        })
    }
}

impl Sink for ClickHouse {
    fn batch_events(&self) -> usize {
        INSERT_EVENTS
    }

    fn deliver<'a>(&'a mut self, messages: &'a [Message]) -> SinkFuture<'a, ()> {
        Box::pin(async move {
            if messages.len() < INSERT_EVENTS
                && let Some(last) = self.inserted_at
            {
                tokio::time::sleep_until(last + INSERT_INTERVAL).await;
            }
            send_up_to_refused(messages, async |part| self.insert(part).await).await
        })
    }

    fn init(&mut self) -> SinkFuture<'_, ()> {
        Box::pin(async move {
            let create = TABLE.replace("{table}", &self.table);
            self.query(&create, Vec::new()).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_user_and_a_database() {
        let address = ServerAddress::parse("https://shop:p%40ss@ch.example:8443/stock");
        assert_eq!(address.origin, "https://ch.example:8443");
        assert_eq!(address.user, Some(("shop".to_owned(), "p@ss".to_owned())));
        assert_eq!(address.database.as_deref(), Some("stock"));
        let address = ServerAddress::parse("http://localhost:8123");
        assert_eq!((address.user, address.database), (None, None));
        assert_eq!(ServerAddress::parse("http://h/").database, None);
    }
}
