//! The stores that a server archives.

use std::fmt;
use std::sync::Arc;
use stockhold_embedded::{EmbeddedStore, OpenError};
use stockhold_store::{ArchiveError, ArchiveRequest, ArchiveSummary, EventArchive};

/// A store that can be archived.
pub(crate) enum ArchivableStore {
    /// In the data directory.
    Embedded(Arc<EmbeddedStore>),
    /// A database, by its address. An archive has a connection of its own.
    Sql(String, Box<stockhold_sql::Options>),
}

/// Why the store could not be used.
#[derive(Debug)]
pub(crate) struct StoreError {
    pub(crate) why: String,
    /// Whether the same request may succeed later.
    pub(crate) is_temporary: bool,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl ArchivableStore {
    /// Whether no other machine can archive it.
    pub(super) fn is_embedded(&self) -> bool {
        matches!(self, Self::Embedded(_))
    }

    pub(super) fn archive(
        &self,
        request: &ArchiveRequest<'_>,
        files: &mut (dyn EventArchive + Send),
    ) -> Result<ArchiveSummary, ArchiveError<StoreError>> {
        match self {
            Self::Embedded(store) => store.archive(request, files).map_err(|error| {
                error.map_store(|error| StoreError {
                    // Then the store has failed, and the server ends.
                    is_temporary: matches!(
                        error,
                        OpenError::Damaged { .. } | OpenError::UnknownFormat { .. }
                    ),
                    why: error.to_string(),
                })
            }),
            Self::Sql(url, options) => {
                stockhold_sql::archive(url, options, request, files, |_| ()).map_err(|error| {
                    error.map_store(|error| StoreError { why: error.to_string(), is_temporary: true })
                })
            }
        }
    }
}
