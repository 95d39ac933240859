//! The availability of each item as a hash in Redis, for listing pages. Nothing that decides reads it.
//!
//! A script drops what is older than what the hash has. A marker key says up to which position Redis has all items. Where it is missing,
//! Redis was emptied. Where it is ahead of what is delivered, the store was restored from a backup, or the operator asks for a replay. In
//! all these cases all items are written anew, whatever Redis has, and what is no item is deleted.

use super::{failure, in_time};
use crate::filter::EventFilter;
use crate::message::{ItemState, Message};
use crate::sink::{DeliveryError, Sink, SinkFuture};
use percent_encoding::percent_decode_str;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ClientTlsConfig, RedisError, Script, TlsCertificates};
use std::path::Path;
use std::sync::Arc;
use stockhold_api::client::ClientAccess;
use stockhold_api::encode::{instant_text, path_segment};
use stockhold_domain::{Instant, Item, ItemKey, Label, Mode};
use stockhold_store::{ItemPageRequest, Query, QueryResult, Store};

/// The key with the position up to which Redis has all items.
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
    /// The newest update that this process has delivered.
    delivered: Option<u64>,
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
        Self { url, access, store, filter, script, connection: None, delivered: None }
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
        let mut connection = in_time("connecting to Redis", connect).await?;
        self.script.load_async(&mut connection).await.map_err(failed)?;
        Ok(connection)
    }

    async fn write(
        &self,
        connection: &mut MultiplexedConnection,
        entries: &[CacheEntry],
        is_forced: bool,
    ) -> Result<(), RedisError> {
        for part in entries.chunks(ITEMS_AT_ONCE) {
            let mut pipe = redis::pipe();
            for entry in part {
                let text = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
                let mut call = self.script.key(&entry.key);
                call.arg(entry.position)
                    .arg(text(entry.available))
                    .arg(text(entry.sequence))
                    .arg(instant_text(entry.at))
                    .arg(u8::from(is_forced));
                pipe.invoke_script(&call).ignore();
            }
            pipe.query_async::<()>(connection).await?;
        }
        Ok(())
    }

    /// Writes all items, whatever Redis has of them, deletes what is no item, and then sets the marker.
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
                return Err(wrong_answer());
            };
            after = page.last().map(|item| item.key.clone());
            let all: Vec<_> = page
                .iter()
                .filter(|item| self.filter.has_item(&item.key))
                .map(|item| CacheEntry::of(item, position, at))
                .collect();
            self.write(connection, &all, true).await.map_err(failed)?;
            if page.len() < ITEMS_AT_ONCE {
                break;
            }
        }
        self.delete_unknown(connection).await?;
        self.mark(connection, position).await
    }

    /// Deletes the hashes of items that do not exist.
    async fn delete_unknown(&self, connection: &mut MultiplexedConnection) -> Result<(), DeliveryError> {
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(format!("{MARKER}:*")).arg("COUNT").arg(ITEMS_AT_ONCE);
            let (next, found): (u64, Vec<String>) = scan.query_async(connection).await.map_err(failed)?;
            let (items, keys): (Vec<_>, Vec<_>) =
                found.into_iter().filter_map(|key| Some((item_of(&key)?, key))).unzip();
            let known = stockhold_store::query(&*self.store, Query::Items(items)).await;
            let QueryResult::Items(known) = known.map_err(DeliveryError::failed)? else {
                return Err(wrong_answer());
            };
            let unknown: Vec<_> =
                keys.into_iter().zip(known).filter_map(|(key, item)| item.is_none().then_some(key)).collect();
            if !unknown.is_empty() {
                redis::cmd("DEL").arg(unknown).query_async::<()>(connection).await.map_err(failed)?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Says up to which position Redis has everything.
    async fn mark(&self, connection: &mut MultiplexedConnection, position: u64) -> Result<(), DeliveryError> {
        redis::cmd("SET").arg(MARKER).arg(position).query_async::<()>(connection).await.map_err(failed)
    }

    async fn deliver_all(
        &mut self,
        connection: &mut MultiplexedConnection,
        messages: &[Message],
    ) -> Result<(), DeliveryError> {
        let Some(last) = messages.last() else { return Ok(()) };
        let marker: Option<u64> =
            redis::cmd("GET").arg(MARKER).query_async(connection).await.map_err(failed)?;
        // A position that comes again, or one that the store does not have yet, means that Redis may have other figures than the store:
        // after a replay, after a crash, or if the store was restored from a backup. Figures that Redis holds for newer would stay.
        let updates = || {
            let is_update = |message: &&Message| matches!(message.item, Some(ItemState::Updated(_)));
            messages.iter().filter(is_update).map(|message| message.position)
        };
        let before = self.delivered.or(marker).unwrap_or(0);
        let is_again = updates().min().is_some_and(|first| first <= before);
        let is_ahead = marker.is_some_and(|marker| marker > self.store.newest());
        if marker.is_none() || is_again || is_ahead {
            self.write_all(connection, last.at).await?;
        }
        let entries = messages.iter().filter_map(|message| {
            Some(match message.item.as_ref()? {
                ItemState::Updated(item) => CacheEntry::of(item, message.position, message.at),
                ItemState::Deleted(item) => CacheEntry::deleted(item, message.position, message.at),
            })
        });
        self.write(connection, &entries.collect::<Vec<_>>(), false).await.map_err(failed)?;
        if let Some(reached) = updates().max() {
            self.delivered = Some(reached);
            if marker.is_some_and(|marker| marker < reached) {
                self.mark(connection, reached).await?;
            }
        }
        Ok(())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "what fails gives it away")]
fn failed(error: RedisError) -> DeliveryError {
    failure(format!("Redis: {error}"))
}

fn wrong_answer() -> DeliveryError {
    DeliveryError::failed("the store answered another question")
}

/// The hash of an item. The parts are percent-encoded, so that a colon in them makes no two items one.
fn key(item: &ItemKey) -> String {
    format!("{MARKER}:{}:{}", path_segment(item.location()), path_segment(item.sku()))
}

/// The item whose hash has this key.
fn item_of(key: &str) -> Option<ItemKey> {
    let (location, sku) = key.strip_prefix(MARKER)?.strip_prefix(':')?.split_once(':')?;
    let label = |text| Label::new(&percent_decode_str(text).decode_utf8().ok()?).ok();
    Some(ItemKey::new(&label(location)?, &label(sku)?))
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
