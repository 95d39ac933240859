//! `stockhold archive` of a data directory. If a server uses it, the server archives.

use super::{ArchiveArgs, running};
use crate::event_files::EventFiles;
use crate::plural::counted;
use crate::verify::may_read;
use indicatif::ProgressBar;
use std::path::Path;
use stockhold_api::sink_record::SinkRecord;
use stockhold_api::stock_master_record::StockMasterRecord;
use stockhold_api::webhook_record::{WebhookProgress, WebhookRecord, WebhookStatus};
use stockhold_config::{Config, exit};
use stockhold_domain::{Label, Record, RecordKind};
use stockhold_embedded::{ArchiveError, ArchiveRequest, ArchiveSummary, OpenError};
use stockhold_store::EventArchive;

/// Archives and reports.
pub(super) fn run(args: &ArchiveArgs, to: &Path, config: &Config) -> Result<(), (u8, String)> {
    let options = config.options().map_err(|error| (exit::USAGE, error))?;
    may_read(&config.data_dir)?;
    if let Some(noted) = stockhold_embedded::server_of(&config.data_dir) {
        let url = args.server.as_deref().map_or(noted.as_str(), |url| url.trim_end_matches('/'));
        return running::run(args, to, url);
    }
    let mut files = EventFiles::open(to).map_err(|error| (exit::FAILED, error))?;
    let request = ArchiveRequest {
        older_than: args.older_than,
        key_retention: options.key_retention,
        now: options.clock.now(),
        drop: args.drop,
        consumers: &|records| consumers_behind(records, &args.ignore_sink),
        files: usize::MAX,
        is_cancelled: &|| false,
    };
    let bar = ProgressBar::new_spinner();
    let done = stockhold_embedded::archive(&config.data_dir, &request, &mut files, |done| {
        bar.set_message(format!("archived up to position {}", done.through));
        bar.tick();
    });
    bar.finish_and_clear();
    let done = done.map_err(|error| (exit_code(&error), advice(&error)))?;
    tell(args, to, &done, count_files(to));
    Ok(())
}

/// The number of files of an archive.
pub(super) fn count_files(dir: &Path) -> usize {
    EventFiles::read_only(dir).files().map_or(0, |files| files.len())
}

/// The sinks and enabled webhooks whose records are among these, with the positions up to which they need no event, without those that
/// are ignored.
pub fn consumers_behind(records: &[Record], ignored: &[String]) -> Vec<(String, u64)> {
    let counts = |record: &&Record| !ignored.iter().any(|name| name == record.key.id.as_str());
    records.iter().filter(counts).filter_map(|record| consumer(record, records)).collect()
}

/// The consumer that a record is about. The position of a record that can't be read is not known, so it holds back everything.
fn consumer(record: &Record, records: &[Record]) -> Option<(String, u64)> {
    let id = &record.key.id;
    let bytes = record.value.as_ref()?.as_bytes();
    match record.key.kind {
        RecordKind::Sink => {
            let position = SinkRecord::from_bytes(bytes).map_or(0, |sink| sink.position);
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

fn exit_code(error: &ArchiveError) -> u8 {
    match error {
        ArchiveError::InvalidRequest(_) => exit::USAGE,
        ArchiveError::Open(OpenError::Io { .. })
        | ArchiveError::Refused(_)
        | ArchiveError::Archive(_)
        | ArchiveError::Interrupted(_) => exit::FAILED,
        ArchiveError::Open(_) => exit::DATA,
    }
}

fn advice(error: &ArchiveError) -> String {
    match error {
        ArchiveError::Open(OpenError::InUse(dir)) => format!(
            "another process uses {}, and it is no server that could archive: try again once it has ended. Nothing was archived",
            dir.display()
        ),
        other => other.to_string(),
    }
}

pub(super) fn tell(args: &ArchiveArgs, to: &Path, done: &ArchiveSummary, files: usize) {
    let ArchiveSummary { after, through, dropped, dropped_through, reservations, held_back, .. } = done;
    if args.json {
        println!(
            "{:#}",
            serde_json::json!({
                "after": after, "through": through, "events": through - after, "files": files,
                "dropped_events": dropped, "dropped_through": dropped_through, "reservations": reservations,
                "held_back_by": held_back.as_ref().map(|(name, _)| name), "to": to,
            })
        );
        return;
    }
    if through > after {
        println!(
            "{} (positions {} to {through}) {} written to {}",
            counted(through - after, "event", "events"),
            after + 1,
            if through - after == 1 { "was" } else { "were" },
            to.display()
        );
    } else if held_back.is_none() {
        println!("no other event is that old; {} has the events up to position {through}", to.display());
    }
    if *dropped > 0 {
        println!(
            "{} and {} left the data directory, which begins after position {dropped_through}",
            counted(*dropped, "event", "events"),
            counted(*reservations, "reservation", "reservations")
        );
    } else if dropped_through < through && !args.drop {
        println!(
            "the events after position {dropped_through} are still in the data directory; --drop removes them"
        );
    }
    if let Some((name, position)) = held_back {
        println!(
            "older events stay, because {name} has got the events up to position {position} only; --ignore-sink lets them leave"
        );
    }
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
    }
}
