//! Why something could not be archived.

use crate::error::OpenError;
use std::fmt;

/// Why something could not be archived.
#[derive(Debug)]
pub enum ArchiveError {
    /// The request can't be met. Nothing was changed.
    InvalidRequest(String),
    /// The archive does not belong to the data directory.
    Refused(String),
    /// The archive can't be written or read.
    Archive(String),
    /// It was ended before it was done, and can be made again.
    Interrupted(String),
    /// The data directory can't be used.
    Open(OpenError),
}

impl From<OpenError> for ArchiveError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidRequest(why) | Self::Refused(why) | Self::Archive(why) | Self::Interrupted(why) => {
                f.write_str(why)
            }
            Self::Open(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ArchiveError {}
