//! Which error where: [`OpenError`] is for people, at start and in `verify`; while serving, a failing log or index
//! poisons the store (`Core::poison`) and callers see [`stockhold_store::Failure`]; what a file was found to be on the way is
//! [`Damage`].

use std::fmt;
use std::path::{Path, PathBuf};
use stockhold_store::codec::DecodeError;

/// Why a data directory can't be used.
#[derive(Debug)]
pub enum OpenError {
    /// Another process has it.
    InUse(PathBuf),
    /// A copy into it was cut, or is under way.
    Unfinished(PathBuf),
    /// It was written by a newer version.
    Newer {
        /// Which file.
        file: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format known here.
        known: i64,
    },
    /// It was written by an older version, in a format that is not read any more.
    Older {
        /// Which file.
        file: PathBuf,
        /// Its format.
        found: i64,
        /// The oldest format known here.
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
            Self::Unfinished(dir) => write!(
                f,
                "{0} is a backup that is still being made or was cut: run `stockhold backup --to {0}` again, which goes on with \
                 it. If the original is lost, what is here is good up to its last batch: move {0}/{1} away, and `stockhold \
                 verify` says what there is",
                dir.display(),
                crate::files::UNFINISHED
            ),
            Self::Newer { file, found, known } => write!(
                f,
                "{} was written by a newer stockhold (format {found}, this one knows {known}): use that version or newer",
                file.display()
            ),
            Self::Older { file, found, known } => write!(
                f,
                "{} was written by an older stockhold (format {found}, this one knows {known}): use that version",
                file.display()
            ),
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
pub(crate) enum Damage {
    /// A row is not what was written.
    What(String),
    /// SQLite says so.
    Sqlite(rusqlite::Error),
    /// Something else stood in the way.
    Other(OpenError),
}

impl From<OpenError> for Damage {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Damaged { .. } => Self::What(error.to_string()),
            other => Self::Other(other),
        }
    }
}

impl From<rusqlite::Error> for Damage {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<DecodeError> for Damage {
    fn from(error: DecodeError) -> Self {
        Self::What(error.to_string())
    }
}

/// Where something is read in order to be written on, a row that is not what was written is a value that can't be read.
impl From<Damage> for rusqlite::Error {
    fn from(damage: Damage) -> Self {
        match damage {
            Damage::Sqlite(error) => error,
            Damage::Other(error) => Self::ToSqlConversionFailure(Box::new(error)),
            Damage::What(what) => Self::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, what.into()),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::What(what) => f.write_str(what),
            Self::Sqlite(error) => error.fmt(f),
            Self::Other(error) => error.fmt(f),
        }
    }
}

impl Damage {
    /// Whether what failed may work later, and nothing says that what is stored is not what was written.
    pub(crate) fn is_passing(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        match self {
            Self::What(_) => false,
            Self::Sqlite(error) => {
                !matches!(error.sqlite_error_code(), None | Some(DatabaseCorrupt | NotADatabase))
            }
            Self::Other(_) => true,
        }
    }

    pub(crate) fn into_open(self, file: &Path) -> OpenError {
        let advice = "it can be made anew from the log: move index.db, index.db-wal and index.db-shm away and start again";
        let what = match self {
            Self::Other(error) => return error,
            Self::What(what) => format!("{what}; {advice}"),
            Self::Sqlite(error) => match OpenError::sqlite(file, "reading", error) {
                OpenError::Damaged { what, .. } => format!("{what}; {advice}"),
                other => return other,
            },
        };
        OpenError::Damaged { file: file.to_owned(), what }
    }
}
