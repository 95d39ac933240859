//! Which error where: [`OpenError`] is for people, at start and in `verify`; while serving, a failing log or index
//! poisons the store (`Core::poison`) and callers see [`stockhold_store::Failure`]; what a file was found to be on the way is
//! [`IndexError`].

use std::fmt;
use std::path::{Path, PathBuf};
use stockhold_store::codec::DecodeError;

/// What an operator does about an index that can't be used.
const REBUILD_INDEX: &str = "while no server runs on the data directory, move index.db, index.db-wal and index.db-shm away; \
                             the next start rebuilds the index from the log";

/// Why a data directory can't be used.
#[derive(Debug)]
pub enum OpenError {
    /// Another process has it.
    InUse(PathBuf),
    /// A copy into it was cut, or is under way.
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
    /// What is there is not what was written.
    Damaged {
        /// Which file.
        file: PathBuf,
        /// What is wrong with it, and what can be done.
        what: String,
    },
    /// The operating system or SQLite refused.
    Io {
        /// What was being done.
        doing: String,
        /// What came back.
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

    /// An error of SQLite: damage where it says so.
    pub(crate) fn sqlite(file: impl Into<PathBuf>, doing: &str, error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        let file = file.into();
        match error.sqlite_error_code() {
            Some(DatabaseCorrupt | NotADatabase) => {
                Self::Damaged { file, what: format!("{error} while {doing}") }
            }
            _ => Self::io(format!("{doing} in {}", file.display()), error),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(dir) => write!(
                f,
                "the data directory {} is in use by another stockhold: stop it, or give --data-dir another directory",
                dir.display()
            ),
            Self::IncompleteCopy(dir) => write!(
                f,
                "{0} is a backup that is still being made or was cut: run `stockhold backup --to {0}` again, which goes on with \
                 it. If the original is lost, what is here is good up to its last batch: move {0}/{1} away, and `stockhold \
                 verify` says what there is",
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
                write!(f, "{} is damaged and is not used: {what}", file.display())
            }
            Self::Io { doing, error } => write!(f, "{doing}: {error}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// What is wrong with the index, or with reading it.
#[derive(Debug)]
pub(crate) enum IndexError {
    /// A row is not what was written.
    Damaged(String),
    /// SQLite says so.
    Sqlite(rusqlite::Error),
    /// Something else stood in the way.
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

/// Where something is read in order to be written on, a row that is not what was written is a value that can't be read.
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
            Self::Sqlite(error) => error.fmt(f),
            Self::Open(error) => error.fmt(f),
        }
    }
}

impl IndexError {
    /// Whether what failed may work later, and nothing says that what is stored is not what was written.
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
        let advice = REBUILD_INDEX;
        let what = match self {
            Self::Open(error) => return error,
            Self::Damaged(what) => format!("{what}; {advice}"),
            Self::Sqlite(error) => match OpenError::sqlite(file, "reading", error) {
                OpenError::Damaged { what, .. } => format!("{what}; {advice}"),
                other => return other,
            },
        };
        OpenError::Damaged { file: file.to_owned(), what }
    }
}
