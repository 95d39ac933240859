//! What leaves the store by itself: the table `[archive]`.

use crate::values::Value;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The members of `[archive]`.
pub(crate) const ARCHIVE_KEYS: [&str; 2] = ["dir", "retention_days"];
/// The variables that set them.
pub(crate) const ARCHIVE_VARIABLES: [(&str, &str); 2] =
    [("ARCHIVE__DIR", "dir"), ("ARCHIVE__RETENTION_DAYS", "retention_days")];
/// The longest retention: a hundred years.
const RETENTION_DAYS: u32 = 36_500;

/// Where old events go, and when.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ArchiveSettings {
    /// The directory of the archive. Without it nothing leaves by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// After how many days events leave. Without it they leave by `stockhold archive` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_days: Option<u32>,
}

impl ArchiveSettings {
    /// Sets a member.
    pub(crate) fn set(&mut self, member: &str, value: &Value, from_file: bool) -> Result<(), String> {
        match member {
            "dir" => self.dir = Some(value.text()?.into()),
            _ => self.retention_days = Some(value.number(from_file)?),
        }
        Ok(())
    }

    /// After which time events leave by themselves, if they do.
    pub fn retention(&self) -> Option<Duration> {
        self.retention_days.map(|days| Duration::from_secs(u64::from(days) * 86_400))
    }

    /// Refuses what can't be met. Idempotency keys are kept for this many hours.
    pub(crate) fn check(&self, key_retention_hours: u32, data_dir: &Path) -> Result<(), String> {
        if self.dir.as_deref().is_some_and(|dir| dir.as_os_str().is_empty()) {
            return Err("archive.dir: must be a directory".to_owned());
        }
        if self.dir.as_deref() == Some(data_dir) {
            return Err(
                "archive.dir: is the data directory: name another one, on another disk if you can".to_owned()
            );
        }
        let Some(days) = self.retention_days else { return Ok(()) };
        if self.dir.is_none() {
            return Err(
                "archive.retention_days: needs archive.dir, the directory that old events go to".to_owned()
            );
        }
        if days > RETENTION_DAYS {
            return Err(format!("archive.retention_days {days}: must be at most {RETENTION_DAYS}"));
        }
        if u64::from(days) * 24 < u64::from(key_retention_hours) {
            let least = key_retention_hours.div_ceil(24);
            return Err(format!(
                "archive.retention_days {days}: must be at least {least}, because idempotency keys are kept for \
                 {key_retention_hours} h (key_retention_hours)"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_younger_than_a_key_does_not_leave() {
        let settings = |dir: Option<&str>, retention_days| ArchiveSettings {
            dir: dir.map(PathBuf::from),
            retention_days,
        };
        let check = |settings: ArchiveSettings, hours| settings.check(hours, Path::new("data"));
        assert_eq!(check(ArchiveSettings::default(), 24), Ok(()));
        assert_eq!(check(settings(Some("archive"), None), 24), Ok(()));
        assert_eq!(check(settings(Some("archive"), Some(1)), 24), Ok(()));
        assert_eq!(check(settings(Some("archive"), Some(3)), 72), Ok(()));
        for (dir, days, hours, what) in [
            (None, Some(90), 24, "needs archive.dir"),
            (Some("archive"), Some(0), 24, "must be at least 1"),
            (Some("archive"), Some(2), 72, "must be at least 3"),
            (Some("archive"), Some(2), 49, "must be at least 3"),
            (Some("archive"), Some(36_501), 24, "at most 36500"),
            (Some("data"), None, 24, "is the data directory"),
            (Some(""), None, 24, "must be a directory"),
        ] {
            let refused = check(settings(dir, days), hours).unwrap_err();
            assert!(refused.contains(what), "{refused}");
        }
    }
}
