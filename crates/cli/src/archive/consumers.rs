//! The consumers of events, because of which events stay that they have not got.

use stockhold_api::sink_record::SinkRecord;
use stockhold_api::stock_master_record::StockMasterRecord;
use stockhold_api::webhook_record::{WebhookProgress, WebhookRecord, WebhookStatus};
use stockhold_config::Config;
use stockhold_domain::{Label, Record, RecordKind};
use stockhold_store::ReadPosition;

/// The consumers of a configuration, and those that the records of a store are about.
pub struct Consumers {
    /// The sinks that get all events. Until such a sink has a record, it has got nothing.
    from_beginning: Vec<String>,
}

impl Consumers {
    /// The consumers of a configuration.
    pub fn of(config: &Config) -> Result<Self, String> {
        Ok(Self { from_beginning: config.sinks_from_beginning()? })
    }

    /// All consumers with the positions up to which they need no event, without those that are ignored.
    pub fn behind(&self, records: &[Record], ignored: &[String]) -> Vec<ReadPosition> {
        let has_record = |name: &str| {
            records.iter().any(|record| record.key.kind == RecordKind::Sink && record.key.id.as_str() == name)
        };
        let new = self.from_beginning.iter().filter(|name| !has_record(name) && !ignored.contains(name));
        let new = new.map(|name| (format!("the sink {name}"), 0));
        new.chain(consumers_behind(records, ignored)).collect()
    }
}

/// The sinks and enabled webhooks whose records are among these, with the positions up to which they need no event, without those that
/// are ignored.
fn consumers_behind(records: &[Record], ignored: &[String]) -> Vec<ReadPosition> {
    let counts = |record: &&Record| !ignored.iter().any(|name| name == record.key.id.as_str());
    records.iter().filter(counts).filter_map(|record| consumer(record, records)).collect()
}

/// The consumer that a record is about. The position of a record that can't be read is not known, so it holds back everything.
fn consumer(record: &Record, records: &[Record]) -> Option<ReadPosition> {
    let id = &record.key.id;
    let bytes = record.value.as_ref()?.as_bytes();
    match record.key.kind {
        RecordKind::Sink => {
            let position = SinkRecord::from_bytes(bytes).map_or(0, |sink| sink.needed_after());
            Some((format!("the sink {id}"), position))
        }
        RecordKind::Webhook => {
            let position = match WebhookRecord::from_bytes(bytes) {
                Ok(settings) if settings.status == WebhookStatus::Disabled => return None,
                Ok(settings) => webhook_position(&settings, id, records),
                Err(_) => 0,
            };
            Some((format!("the webhook {id}"), position))
        }
        RecordKind::StockMaster => {
            let needed = StockMasterRecord::from_bytes(bytes)
                .map_or(0, |stock_master| stock_master.position.min(stock_master.compared));
            Some((format!("the stock master {id}"), needed))
        }
        RecordKind::WebhookProgress
        | RecordKind::ApiKey
        | RecordKind::SigningKey
        | RecordKind::Credentials
        | RecordKind::Reconciliation => None,
    }
}

/// The position up to which a webhook needs no event. One that waits for its next attempt is needed.
fn webhook_position(settings: &WebhookRecord, id: &Label, records: &[Record]) -> u64 {
    let is_progress =
        |record: &&Record| record.key.kind == RecordKind::WebhookProgress && record.key.id == *id;
    let Some(value) = records.iter().find(is_progress).and_then(|record| record.value.as_ref()) else {
        return settings.enabled_after;
    };
    let Ok(mut progress) = WebhookProgress::from_bytes(value.as_bytes()) else { return 0 };
    progress.follow(settings);
    let replayed = progress.replay.map(|replay| replay.position);
    let pending = progress.pending.iter().map(|delivery| delivery.position.saturating_sub(1));
    pending.chain(replayed).chain([progress.position]).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_api::webhook_record::{FailedDelivery, ReplayProgress};
    use stockhold_domain::{RecordKey, RecordValue};

    fn record(kind: RecordKind, id: &str, value: &[u8]) -> Record {
        let key = RecordKey { kind, id: Label::new(id).unwrap() };
        Record { key, version: 1, value: Some(RecordValue::new(value).unwrap()) }
    }

    fn webhook(status: WebhookStatus) -> WebhookRecord {
        WebhookRecord {
            url: "https://shop.example".to_owned(),
            types: Vec::new(),
            skus: Vec::new(),
            locations: Vec::new(),
            rate_limit: None,
            status,
            disabled_reason: None,
            secrets: Vec::new(),
            created_at: 0,
            updated_at: 0,
            enabled_after: 5,
            scopes: Vec::new(),
        }
    }

    #[test]
    fn what_a_sink_or_an_enabled_webhook_needs_stays() {
        let delivery = |position| FailedDelivery {
            event_id: "e".to_owned(),
            position,
            attempts: 1,
            at: 0,
            next_at: Some(1),
            status: Some(500),
            error: None,
        };
        let progress = WebhookProgress { position: 50, enabled_after: 5, ..WebhookProgress::default() };
        let waits = WebhookProgress { pending: vec![delivery(40)], ..progress.clone() };
        let replays =
            WebhookProgress { replay: Some(ReplayProgress { position: 20, through: 30 }), ..waits.clone() };
        let given_up = WebhookProgress { failed: vec![delivery(10)], ..progress.clone() };
        let behind = |status, progress: Option<&WebhookProgress>| {
            let mut records = vec![
                record(RecordKind::Sink, "ledger", br#"{"kind":"file","position":60}"#),
                record(RecordKind::Webhook, "w", &webhook(status).to_bytes()),
            ];
            records.extend(
                progress.map(|progress| record(RecordKind::WebhookProgress, "w", &progress.to_bytes())),
            );
            consumers_behind(&records, &["ledger".to_owned()])
        };
        let enabled = |progress| behind(WebhookStatus::Enabled, progress);
        let needs = |position| vec![("the webhook w".to_owned(), position)];
        assert_eq!(enabled(None), needs(5), "it has got nothing yet");
        assert_eq!(enabled(Some(&progress)), needs(50));
        assert_eq!(enabled(Some(&waits)), needs(39));
        assert_eq!(enabled(Some(&replays)), needs(20));
        assert_eq!(enabled(Some(&given_up)), needs(50));
        assert_eq!(behind(WebhookStatus::Disabled, Some(&waits)), []);
        let damaged = [record(RecordKind::Webhook, "w", b"{")];
        assert_eq!(consumers_behind(&damaged, &[]), needs(0));
        assert_eq!(consumers_behind(&damaged, &["w".to_owned()]), []);

        let new = Consumers { from_beginning: vec!["ledger".to_owned(), "new".to_owned()] };
        let ledger = [record(RecordKind::Sink, "ledger", br#"{"kind":"file","position":60}"#)];
        let positions = vec![("the sink new".to_owned(), 0), ("the sink ledger".to_owned(), 60)];
        assert_eq!(new.behind(&ledger, &[]), positions);
        assert_eq!(new.behind(&ledger, &["new".to_owned()]), positions[1..]);
    }
}
