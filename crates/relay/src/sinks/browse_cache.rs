//! The availability of each item as a hash in Redis, for listing pages. Nothing that decides reads it.
//!
//! A script drops what is older than what the hash has. A marker key says that Redis has all items. Where it is missing, Redis was
//! emptied, and all items are written anew.

use super::in_time;
use crate::filter::EventFilter;
use crate::message::{ItemState, Message};
use crate::sink::{DeliveryError, Sink, SinkFuture};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ClientTlsConfig, RedisError, Script, TlsCertificates};
use std::path::Path;
use std::sync::Arc;
use stockhold_api::client::ClientAccess;
use stockhold_api::encode::{instant_text, path_segment};
use stockhold_domain::{Instant, Item, ItemKey, Mode};
use stockhold_store::{ItemPageRequest, Query, QueryResult, Store};

/// The key that says that Redis has all items.
const MARKER: &str = "stockhold:available";
/// Items that are read and written at a time.
const ITEMS_AT_ONCE: usize = 500;

/// Hashes in Redis.
pub(super) struct BrowseCache {
    url: String,
    access: ClientAccess,
    store: Arc<dyn Store>,
    filter: EventFilter,
    script: Script,
    connection: Option<MultiplexedConnection>,
}

/// A hash to write.
struct CacheEntry {
    key: String,
    position: u64,
    /// The available units; `None` if the item was deleted.
    available: Option<u64>,
    sequence: Option<u64>,
    at: Instant,
}

impl CacheEntry {
    fn of(item: &Item, position: u64, at: Instant) -> Self {
        Self {
            key: key(&item.key),
            position,
            available: Some(item.available()),
            sequence: (item.mode == Mode::Counted).then_some(item.figures.sequence),
            at,
        }
    }

    fn deleted(item: &ItemKey, position: u64, at: Instant) -> Self {
        Self { key: key(item), position, available: None, sequence: None, at }
    }
}

impl BrowseCache {
    pub(super) fn new(url: String, access: ClientAccess, store: Arc<dyn Store>, filter: EventFilter) -> Self {
        let script = Script::new(include_str!("browse_cache.lua"));
        Self { url, access, store, filter, script, connection: None }
    }

    fn client(&self) -> Result<Client, DeliveryError> {
        let (ca, own) = (self.access.ca_file(), self.access.client_certificate());
        let client = if ca.is_none() && own.is_none() {
            Client::open(self.url.as_str())
        } else {
            // An error names the file. The client of Redis takes the content of the files.
            self.access.tls().map_err(DeliveryError::failed)?;
            let read = |file: &Path| std::fs::read(file).map_err(DeliveryError::failed);
            let client_tls = match own {
                Some((cert, key)) => {
                    Some(ClientTlsConfig { client_cert: read(cert)?, client_key: read(key)? })
                }
                None => None,
            };
            let files = TlsCertificates { client_tls, root_cert: ca.map(read).transpose()? };
            Client::build_with_tls(self.url.as_str(), files)
        };
        // The error of an address may repeat it, and it may have a password.
        client.map_err(|_| DeliveryError::failed("the address of Redis is not valid"))
    }

    async fn connect(&self) -> Result<MultiplexedConnection, DeliveryError> {
        let client = self.client()?;
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(super::TIMEOUT));
        let connect = client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = in_time("connecting to Redis", connect).await.map_err(DeliveryError::failed)?;
        self.script.load_async(&mut connection).await.map_err(|error| failed(&error))?;
        Ok(connection)
    }

    async fn write(
        &self,
        connection: &mut MultiplexedConnection,
        entries: &[CacheEntry],
    ) -> Result<(), RedisError> {
        for part in entries.chunks(ITEMS_AT_ONCE) {
            let mut pipe = redis::pipe();
            for entry in part {
                let text = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
                let mut call = self.script.key(&entry.key);
                call.arg(entry.position)
                    .arg(text(entry.available))
                    .arg(text(entry.sequence))
                    .arg(instant_text(entry.at));
                pipe.invoke_script(&call).ignore();
            }
            pipe.query_async::<()>(connection).await?;
        }
        Ok(())
    }

    /// Writes all items, and then the marker.
    async fn write_all(
        &self,
        connection: &mut MultiplexedConnection,
        at: Instant,
    ) -> Result<(), DeliveryError> {
        // Read before the items: they may be newer than this position, never older.
        let position = self.store.newest();
        let mut after: Option<ItemKey> = None;
        loop {
            let request = ItemPageRequest { location: None, after, limit: ITEMS_AT_ONCE };
            let found = stockhold_store::query(&*self.store, Query::ItemPage(request)).await;
            let QueryResult::ItemPage(page) = found.map_err(DeliveryError::failed)? else {
                return Err(DeliveryError::failed("the store answered another question"));
            };
            after = page.last().map(|item| item.key.clone());
            let all: Vec<_> = page
                .iter()
                .filter(|item| self.filter.has_item(&item.key))
                .map(|item| CacheEntry::of(item, position, at))
                .collect();
            self.write(connection, &all).await.map_err(|error| failed(&error))?;
            if page.len() < ITEMS_AT_ONCE {
                break;
            }
        }
        redis::cmd("SET")
            .arg(MARKER)
            .arg(position)
            .query_async::<()>(connection)
            .await
            .map_err(|error| failed(&error))
    }

    async fn deliver_all(
        &self,
        connection: &mut MultiplexedConnection,
        messages: &[Message],
    ) -> Result<(), DeliveryError> {
        let Some(last) = messages.last() else { return Ok(()) };
        let is_filled: bool =
            redis::cmd("EXISTS").arg(MARKER).query_async(connection).await.map_err(|error| failed(&error))?;
        if !is_filled {
            self.write_all(connection, last.at).await?;
        }
        let entries = messages.iter().filter_map(|message| {
            Some(match message.item.as_ref()? {
                ItemState::Updated(item) => CacheEntry::of(item, message.position, message.at),
                ItemState::Deleted(item) => CacheEntry::deleted(item, message.position, message.at),
            })
        });
        self.write(connection, &entries.collect::<Vec<_>>()).await.map_err(|error| failed(&error))
    }
}

fn failed(error: &RedisError) -> DeliveryError {
    DeliveryError::failed(format!("Redis: {error}"))
}

/// The hash of an item. The parts are percent-encoded, so that a colon in them makes no two items one.
fn key(item: &ItemKey) -> String {
    format!("{MARKER}:{}:{}", path_segment(item.location()), path_segment(item.sku()))
}

impl Sink for BrowseCache {
    fn deliver<'a>(&'a mut self, messages: &'a [Message]) -> SinkFuture<'a, ()> {
        Box::pin(async move {
            let mut connection = match self.connection.take() {
                Some(connection) => connection,
                None => self.connect().await?,
            };
            self.deliver_all(&mut connection, messages).await?;
            self.connection = Some(connection);
            Ok(())
        })
    }
}
