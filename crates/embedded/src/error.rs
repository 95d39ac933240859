//! The errors of this crate. [`OpenError`] is for operators, at a start and in the tools. While the store runs, a
//! failing log or index poisons it (`Core::poison`), and callers get a [`stockhold_store::Failure`]. [`IndexError`] is
//! the error of reading the index.

use rusqlite::ffi;
use std::fmt;
use std::path::{Path, PathBuf};
use stockhold_store::codec::DecodeError;

/// What an operator does about an index that can't be used.
pub(crate) const REBUILD_INDEX: &str = "while no server runs on the data directory, move index.db, index.db-wal and index.db-shm away; \
                             the next start rebuilds the index from the log";

/// Why a data directory can't be used.
#[derive(Debug)]
pub enum OpenError {
    /// Another process uses it.
    InUse(PathBuf),
    /// A backup into it was interrupted or is still running.
    IncompleteCopy(PathBuf),
    /// A file has a format that this version does not read.
    UnknownFormat {
        /// The file.
        file: PathBuf,
        /// The format of the file.
        found: i64,
        /// The format that this version reads and writes.
        known: i64,
    },
    /// The content of a file is not what was written.
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it, and what the operator can do.
        what: String,
    },
    /// The operating system or SQLite returned an error.
    Io {
        /// The operation that failed.
        doing: String,
        /// The error.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl OpenError {
    pub(crate) fn io(
        doing: impl Into<String>,
        error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Io { doing: doing.into(), error: error.into() }
    }

    /// Converts an error of SQLite. It is damage if SQLite says so.
    #[expect(clippy::needless_pass_by_value, reason = "callers pass it on with map_err")]
    pub(crate) fn sqlite(file: impl Into<PathBuf>, doing: &str, error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        let file = file.into();
        match error.sqlite_error_code() {
            Some(DatabaseCorrupt | NotADatabase) => {
                Self::Damaged { file, what: format!("{error} while {doing}") }
            }
            _ => Self::io(format!("{doing} in {}", file.display()), describe(&error)),
        }
    }
}

/// The text of an error of SQLite. A full disk has one text, although SQLite reports it as "disk I/O error" if it can't
/// extend its shared memory.
pub(crate) fn describe(error: &rusqlite::Error) -> String {
    const FULL_DISK: [i32; 2] = [ffi::SQLITE_FULL, ffi::SQLITE_IOERR_SHMSIZE];
    match error.sqlite_error() {
        Some(code) if FULL_DISK.contains(&code.extended_code) => format!("no space left on device ({error})"),
        _ => error.to_string(),
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(dir) => write!(
                f,
                "the data directory {} is in use by another stockhold: stop that process, or use --data-dir to name another \
                 directory",
                dir.display()
            ),
            Self::IncompleteCopy(dir) => write!(
                f,
                "{0} is an incomplete backup: it is still running or was interrupted. Run `stockhold backup --to {0}` again to \
                 continue it. If the original is lost, the copy is valid up to its last batch: move {0}/{1} away and run \
                 `stockhold verify` to see what it has",
                dir.display(),
                crate::files::INCOMPLETE_COPY
            ),
            Self::UnknownFormat { file, found, known } => {
                write!(
                    f,
                    "{} was written by another version of stockhold: it has format {found}, and this version reads format \
                     {known} only. Use the version that wrote it",
                    file.display()
                )?;
                if file.ends_with(crate::files::INDEX) {
                    write!(f, ", or rebuild the index: {REBUILD_INDEX}")?;
                }
                Ok(())
            }
            Self::Damaged { file, what } => {
                write!(f, "{} is damaged and is not used: {what}", file.display())?;
                if file.ends_with(crate::files::INDEX) {
                    write!(f, "; {REBUILD_INDEX}")?;
                }
                Ok(())
            }
            Self::Io { doing, error } => write!(f, "{doing}: {error}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// An error of reading the index.
#[derive(Debug)]
pub(crate) enum IndexError {
    /// A row is not what was written.
    Damaged(String),
    /// An error of SQLite.
    Sqlite(rusqlite::Error),
    /// Another error.
    Open(OpenError),
}

impl From<OpenError> for IndexError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Damaged { .. } => Self::Damaged(error.to_string()),
            other => Self::Open(other),
        }
    }
}

impl From<rusqlite::Error> for IndexError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<DecodeError> for IndexError {
    fn from(error: DecodeError) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// For code that reads a row in order to update it: a damaged row is a value that can't be read.
impl From<IndexError> for rusqlite::Error {
    fn from(damage: IndexError) -> Self {
        match damage {
            IndexError::Sqlite(error) => error,
            IndexError::Open(error) => Self::ToSqlConversionFailure(Box::new(error)),
            IndexError::Damaged(what) => {
                Self::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, what.into())
            }
        }
    }
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(what) => f.write_str(what),
            Self::Sqlite(error) => f.write_str(&describe(error)),
            Self::Open(error) => error.fmt(f),
        }
    }
}

impl IndexError {
    /// Whether the operation may succeed later. It may not if the stored data is damaged.
    pub(crate) fn is_transient(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        match self {
            Self::Damaged(_) => false,
            Self::Sqlite(error) => {
                !matches!(error.sqlite_error_code(), None | Some(DatabaseCorrupt | NotADatabase))
            }
            Self::Open(_) => true,
        }
    }

    pub(crate) fn into_open_error(self, file: &Path) -> OpenError {
        let what = match self {
            Self::Open(error) => return error,
            Self::Damaged(what) => what,
            Self::Sqlite(error) => return OpenError::sqlite(file, "reading", error),
        };
        OpenError::Damaged { file: file.to_owned(), what }
    }
}
