//! Why something could not be archived.

use core::fmt;

/// Why something could not be archived. `E` is the error of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArchiveError<E> {
    /// The request can't be met. Nothing was changed.
    InvalidRequest(String),
    /// The archive does not belong to the store, or the store is not consistent.
    Refused(String),
    /// The archive can't be written or read.
    Archive(String),
    /// It was ended before it was done, or another archive is at work. It can be made again.
    Interrupted(String),
    /// The store can't be used.
    Store(E),
}

impl<E> ArchiveError<E> {
    /// The same error with another error of the store.
    pub fn map_store<F>(self, map: impl FnOnce(E) -> F) -> ArchiveError<F> {
        match self {
            Self::InvalidRequest(why) => ArchiveError::InvalidRequest(why),
            Self::Refused(why) => ArchiveError::Refused(why),
            Self::Archive(why) => ArchiveError::Archive(why),
            Self::Interrupted(why) => ArchiveError::Interrupted(why),
            Self::Store(error) => ArchiveError::Store(map(error)),
        }
    }
}

impl<E: fmt::Display> fmt::Display for ArchiveError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidRequest(why) | Self::Refused(why) | Self::Archive(why) | Self::Interrupted(why) => {
                f.write_str(why)
            }
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for ArchiveError<E> {}
