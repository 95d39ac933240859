//! Which error where: [`OpenError`] is for people, at start and in `verify`; while serving, a failing log or index
//! poisons the store (`Core::poison`) and callers see [`stockhold_store::Failure`].

use std::fmt;
use std::path::PathBuf;

/// Why a data directory can't be used.
#[derive(Debug)]
pub enum OpenError {
    /// Another process has it.
    InUse(PathBuf),
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
