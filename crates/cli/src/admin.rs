//! Reads a server's metrics from its admin listener: its version, store and durability, and its counters.

use crate::client::RetryClient;
use std::time::Duration;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// The server's metrics at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Scrape {
    text: String,
}

/// The labels of the metric `stockhold_info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerInfo {
    pub(super) version: String,
    pub(super) store: String,
    pub(super) durability: String,
    /// Address of its API.
    pub(super) listen: String,
}

/// A client for a server's admin listener.
pub(super) struct AdminClient {
    caller: RetryClient,
}

impl AdminClient {
    pub(super) fn new(url: &str) -> Option<Self> {
        Some(Self { caller: RetryClient::without_key(url, PATIENCE, Box::new(|_| {})).ok()? })
    }

    /// Its metrics now, if it answers.
    pub(super) async fn scrape(&self) -> Option<Scrape> {
        let raw = self.caller.client().send_raw("GET", "/metrics", b"").await.ok()?;
        (raw.status == 200).then(|| Scrape { text: String::from_utf8_lossy(&raw.body).into_owned() })
    }
}

impl Scrape {
    /// The sum of a metric over all its labels.
    pub(super) fn sum(&self, name: &str) -> f64 {
        let lines = self
            .text
            .lines()
            .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// The labels of `stockhold_info`, if it has that metric.
    pub(super) fn info(&self) -> Option<ServerInfo> {
        let line = self.text.lines().find(|line| line.starts_with("stockhold_info{"))?;
        let label = |name: &str| {
            let value = line.split_once(&format!("{name}=\""))?.1;
            value.split_once('"').map(|(value, _)| value.to_owned())
        };
        Some(ServerInfo {
            version: label("version")?,
            store: label("store")?,
            durability: label("durability")?,
            listen: label("listen")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read_by_their_whole_names() {
        let text = "# TYPE a counter\na{x=\"1\"} 2\na{x=\"2\"} 3.5\nab 100\nstockhold_info{version=\"0.1.0\",store=\"embedded\",\
                    durability=\"synced\",listen=\"127.0.0.1:1\"} 1\n";
        let scrape = Scrape { text: text.to_owned() };
        assert!((scrape.sum("a") - 5.5).abs() < f64::EPSILON);
        assert!((scrape.sum("ab") - 100.0).abs() < f64::EPSILON);
        let info = scrape.info().unwrap();
        assert_eq!(
            (info.version.as_str(), info.durability.as_str(), info.listen.as_str()),
            ("0.1.0", "synced", "127.0.0.1:1")
        );
    }
}
