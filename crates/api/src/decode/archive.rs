//! The request for an archive.

use super::body::{self, ArchiveBody};
use super::{Invalid, both, path};
use std::path::PathBuf;
use std::time::Duration;

/// Most sinks and webhooks that a request ignores.
pub const IGNORED_CONSUMERS: usize = 100;

/// What is to be archived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveOrder {
    /// What happened longer ago than this.
    pub older_than: Duration,
    /// The directory of the archive. `None`: that of the configuration.
    pub to: Option<PathBuf>,
    /// Whether the events leave the store, or are only written.
    pub drop: bool,
    /// Sinks and webhooks that may lack what leaves.
    pub ignored: Vec<String>,
}

/// `POST /v1/archive`
pub fn archive_events(query: Option<&str>, body: &[u8]) -> Result<ArchiveOrder, Invalid> {
    let ((), body) = both(path::no_query(query), body::read::<ArchiveBody>(body))?;
    let ignored = body.ignore_sinks.unwrap_or_default();
    if ignored.len() > IGNORED_CONSUMERS {
        return Err(Invalid::new("/ignore_sinks", format!("must have at most {IGNORED_CONSUMERS} names")));
    }
    Ok(ArchiveOrder {
        older_than: Duration::from_secs(u64::from(body.older_than_hours.0) * 3_600),
        to: body.to.map(|dir| dir.0.into()),
        drop: body.drop.is_some_and(|drop| drop.0),
        ignored: ignored.into_iter().map(|name| name.0.as_str().to_owned()).collect(),
    })
}
