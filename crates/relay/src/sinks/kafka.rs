//! Events as records of two topics of Kafka: one for reservations, keyed by their ids, and one for everything else, keyed by what it is
//! about. Records of one key are in one partition, in the order of their events.
//!
//! Each batch waits for all replicas that are in sync. The client is not idempotent, so a batch whose answer was lost comes again.

use super::{TIMEOUT, failure, in_time};
use crate::message::Message;
use crate::options::KafkaOptions;
use crate::sink::{DeliveryError, Sink, SinkFuture, send_up_to_refused};
use rskafka::BackoffConfig;
use rskafka::chrono::DateTime;
use rskafka::client::error::{Error, ProtocolError};
use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder, Credentials, SaslConfig};
use rskafka::record::Record;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stockhold_api::client::ClientAccess;
use stockhold_api::encode::{CLOUD_EVENT_CONTENT, CLOUD_EVENT_PREFIX};
use tokio::task::JoinSet;

/// Bytes of records that are sent to a partition at once. Brokers take a batch of 1 MiB unless they are configured otherwise.
const BATCH_BYTES: usize = 512 * 1024;
/// How long the client itself tries again. Shorter than [`TIMEOUT`], so that the error says why a connection fails.
const CLIENT_RETRIES: Duration = Duration::from_secs(5);
/// Partitions of a topic that is made.
const PARTITIONS: i32 = 12;
/// The broker's own number of replicas.
const DEFAULT_REPLICAS: i16 = -1;

/// The topics of Kafka.
pub(super) struct Kafka {
    options: KafkaOptions,
    access: ClientAccess,
    connection: Option<KafkaConnection>,
}

/// A connection to a cluster, and what is known of its topics.
struct KafkaConnection {
    client: Client,
    /// The partitions of each topic that was written to.
    partitions: BTreeMap<String, Vec<Arc<PartitionClient>>>,
}

impl Kafka {
    pub(super) fn new(options: KafkaOptions, access: ClientAccess) -> Self {
        Self { options, access, connection: None }
    }

    fn topic(&self, message: &Message) -> &str {
        let kind = message.kind.strip_prefix(CLOUD_EVENT_PREFIX).unwrap_or(&message.kind);
        let is_reservation = kind.starts_with("reservation.");
        if is_reservation { &self.options.reservations_topic } else { &self.options.inventory_topic }
    }

    /// The connection, which is made if there is none.
    async fn connected(&mut self) -> Result<&mut KafkaConnection, DeliveryError> {
        if self.connection.is_none() {
            let backoff = BackoffConfig { deadline: Some(CLIENT_RETRIES), ..BackoffConfig::default() };
            let mut builder = ClientBuilder::new(self.options.brokers.clone())
                .client_id("stockhold")
                .backoff_config(backoff);
            if self.options.is_secure {
                let tls = self.access.tls().map_err(DeliveryError::failed)?;
                builder = builder.tls_config(tls);
            }
            if let Some((name, password)) = self.options.user.clone() {
                let credentials = Credentials::new(name, password);
                // Without TLS the password must not be sent.
                let sasl = if self.options.is_secure {
                    SaslConfig::Plain(credentials)
                } else {
                    SaslConfig::ScramSha256(credentials)
                };
                builder = builder.sasl_config(sasl);
            }
            let client = in_time("connecting to Kafka", builder.build()).await?;
            self.connection = Some(KafkaConnection { client, partitions: BTreeMap::new() });
        }
        self.connection.as_mut().ok_or_else(|| DeliveryError::failed("Kafka is not connected"))
    }

    async fn send(&mut self, messages: &[Message]) -> Result<(), DeliveryError> {
        let routes: Vec<String> = messages.iter().map(|message| self.topic(message).to_owned()).collect();
        let connection = self.connected().await?;
        let mut batches: BTreeMap<(String, usize), Vec<Record>> = BTreeMap::new();
        for (message, topic) in messages.iter().zip(routes) {
            let count = connection.partitions_of(&topic).await?.len();
            let place = partition(message.subject.as_bytes(), count);
            batches.entry((topic, place)).or_default().push(record(message));
        }
        let mut sending = JoinSet::new();
        for ((topic, place), records) in batches {
            let partitions = connection.partitions_of(&topic).await?;
            let Some(client) = partitions.get(place) else { continue };
            sending.spawn(produce(Arc::clone(client), records));
        }
        while let Some(sent) = sending.join_next().await {
            sent.map_err(DeliveryError::failed)??;
        }
        Ok(())
    }
}

impl KafkaConnection {
    /// The partitions of a topic.
    async fn partitions_of(&mut self, topic: &str) -> Result<&[Arc<PartitionClient>], DeliveryError> {
        if !self.partitions.contains_key(topic) {
            let topics = in_time("listing topics", self.client.list_topics()).await?;
            let Some(found) = topics.into_iter().find(|found| found.name == topic) else {
                return Err(DeliveryError::refused(format!("there is no topic {topic}"))
                    .with_action("make it with stockhold ctl sinks init"));
            };
            let mut clients = Vec::with_capacity(found.partitions.len());
            for number in found.partitions {
                let client = self.client.partition_client(topic, number, UnknownTopicHandling::Error);
                let client = in_time("finding the leader of a partition", client).await;
                clients.push(Arc::new(client?));
            }
            self.partitions.insert(topic.to_owned(), clients);
        }
        Ok(self.partitions.get(topic).map(Vec::as_slice).unwrap_or_default())
    }
}

impl Sink for Kafka {
    fn deliver<'a>(&'a mut self, messages: &'a [Message]) -> SinkFuture<'a, ()> {
        Box::pin(async move {
            send_up_to_refused(messages, async |part| {
                let sent = self.send(part).await;
                if sent.is_err() {
                    // The topics and their leaders are read again.
                    self.connection = None;
                }
                sent
            })
            .await
        })
    }

    fn init(&mut self) -> SinkFuture<'_, ()> {
        Box::pin(async move {
            let topics = [self.options.reservations_topic.clone(), self.options.inventory_topic.clone()];
            let connection = self.connected().await?;
            let controller = connection.client.controller_client().map_err(DeliveryError::failed)?;
            let patience = i32::try_from(TIMEOUT.as_millis()).unwrap_or(i32::MAX);
            for topic in topics {
                let made = controller.create_topic(topic, PARTITIONS, DEFAULT_REPLICAS, patience);
                match tokio::time::timeout(TIMEOUT, made).await {
                    Ok(
                        Ok(())
                        | Err(Error::ServerError { protocol_error: ProtocolError::TopicAlreadyExists, .. }),
                    ) => {}
                    Ok(Err(error)) => return Err(failure(error)),
                    Err(_) => return Err(DeliveryError::failed("making a topic: no answer")),
                }
            }
            self.connection = None;
            Ok(())
        })
    }
}

/// Sends records to a partition in their order.
async fn produce(client: Arc<PartitionClient>, records: Vec<Record>) -> Result<(), DeliveryError> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    let mut batches = Vec::new();
    for record in records {
        let size = record.approximate_size();
        if bytes + size > BATCH_BYTES && !batch.is_empty() {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes += size;
        batch.push(record);
    }
    batches.push(batch);
    for batch in batches {
        let sent = tokio::time::timeout(TIMEOUT, client.produce(batch, Compression::NoCompression)).await;
        match sent {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(delivery_error(&error)),
            Err(_) => return Err(DeliveryError::failed("writing to Kafka: no answer")),
        }
    }
    Ok(())
}

/// What a failed write means.
fn delivery_error(error: &Error) -> DeliveryError {
    match error {
        Error::ServerError {
            protocol_error:
                ProtocolError::MessageTooLarge
                | ProtocolError::RecordListTooLarge
                | ProtocolError::InvalidRecord
                | ProtocolError::UnknownTopicOrPartition,
            ..
        } => DeliveryError::refused(error),
        _ => failure(error),
    }
}

fn record(message: &Message) -> Record {
    Record {
        key: Some(message.subject.clone().into_bytes()),
        value: Some(message.body.clone()),
        headers: [("content-type".to_owned(), CLOUD_EVENT_CONTENT.into())].into(),
        timestamp: DateTime::from_timestamp_micros(message.at.micros()).unwrap_or_default(),
    }
}

/// The partition of a key, as the clients of Apache Kafka choose it: by murmur2, so that other producers and stream processors find the
/// same one. <https://github.com/apache/kafka/blob/4.1/clients/src/main/java/org/apache/kafka/common/utils/Utils.java>
fn partition(key: &[u8], count: usize) -> usize {
    let hash = murmur2(key) & 0x7fff_ffff;
    usize::try_from(hash).unwrap_or(0) % count.max(1)
}

/// 32-bit murmur2 with the seed of Kafka.
fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    let mut hash = SEED ^ u32::try_from(data.len()).unwrap_or(u32::MAX);
    let (words, rest) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (place, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * place);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::murmur2;

    #[test]
    fn keys_are_hashed_as_apache_kafka_hashes_them() {
        // From UtilsTest of Apache Kafka.
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
    }
}
