//! `customers.db`: the rows of customers. It is apart from the log and the index, because a row changes in place and can be erased.
//!
//! A deleted or replaced value leaves no copy in the file (`secure_delete`), and the rollback journal is emptied after each
//! transaction. So there is no write-ahead log, which would keep old pages. The file is made by the first row.

use crate::error::{OpenError, describe};
use crate::files;
use crate::log::is_retryable;
use crate::start::data_dir::sync_dir;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stockhold_domain::Label;
use stockhold_store::{CustomerRequest, CustomerResult, CustomerRow, own_files};

/// The version of the schema, kept in SQLite's `user_version`.
const FORMAT: i64 = 1;
/// Marks the file as customers of stockhold in SQLite's `application_id`: "SHCU".
const APPLICATION: i64 = 0x5348_4355;
/// How long a statement waits for a backup that is copying the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

const SCHEMA: &str = "
    CREATE TABLE customers (id TEXT PRIMARY KEY, version INTEGER NOT NULL, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
";

/// The rows of customers of a data directory.
pub(crate) struct CustomerFile {
    path: PathBuf,
    /// `None` until there is a first row.
    db: Mutex<Option<Connection>>,
}

/// Why a request was not answered.
#[derive(Debug)]
pub(crate) enum CustomerError {
    /// The disk is full, or the file is being copied. Nothing was done.
    Refused(String),
    /// The file can't be trusted any more. A write may or may not have been done.
    Failed(String),
}

impl From<rusqlite::Error> for CustomerError {
    fn from(error: rusqlite::Error) -> Self {
        let what = format!("{}: {}", files::CUSTOMERS, describe(&error));
        if is_retryable(&error) { Self::Refused(what) } else { Self::Failed(what) }
    }
}

impl CustomerFile {
    /// Opens the file, if it exists, and checks it.
    pub(crate) fn open(dir: &Path) -> Result<Self, OpenError> {
        let path = dir.join(files::CUSTOMERS);
        let db = open_existing(&path)?;
        Ok(Self { path, db: Mutex::new(db) })
    }

    /// Does what is asked. What it changes is durable when it returns.
    pub(crate) fn run(&self, request: &CustomerRequest) -> Result<CustomerResult, CustomerError> {
        let mut db = self.db.lock().unwrap_or_else(PoisonError::into_inner);
        match request {
            CustomerRequest::Get(id) => Ok(CustomerResult::Row(match db.as_ref() {
                Some(db) => row_of(db, id)?,
                None => None,
            })),
            CustomerRequest::Put { row, expected } => self.put(&mut db, row, *expected),
            CustomerRequest::Delete { id, expected } => match db.as_mut() {
                Some(db) => delete(db, id, *expected),
                None => Ok(CustomerResult::Changed(None)),
            },
            CustomerRequest::Page { after, limit } => Ok(CustomerResult::Page(match db.as_ref() {
                Some(db) => page(db, after.as_ref(), *limit)?,
                None => Vec::new(),
            })),
        }
    }

    fn put(
        &self,
        db: &mut MutexGuard<'_, Option<Connection>>,
        row: &CustomerRow,
        expected: Option<u64>,
    ) -> Result<CustomerResult, CustomerError> {
        if expected.is_some() && db.is_none() {
            return Ok(CustomerResult::Changed(None));
        }
        let db = match &mut **db {
            Some(db) => db,
            none => none.insert(self.create()?),
        };
        let transaction = db.transaction()?;
        let found = version_of(&transaction, &row.id)?;
        if found != expected {
            return Ok(CustomerResult::Changed(found));
        }
        let values = params![row.id.as_str(), row.version.cast_signed(), &row.value[..]];
        transaction
            .prepare_cached("INSERT OR REPLACE INTO customers (id, version, value) VALUES (?1, ?2, ?3)")?
            .execute(values)?;
        transaction.commit()?;
        Ok(CustomerResult::Done)
    }

    /// Makes the file. It is complete in one transaction.
    fn create(&self) -> Result<Connection, CustomerError> {
        own_files::create_if_missing(&self.path).map_err(|error| CustomerError::Failed(error.to_string()))?;
        let db = Connection::open(&self.path)?;
        prepare(&db)?;
        db.execute_batch(&format!(
            "BEGIN IMMEDIATE; {SCHEMA} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT}; COMMIT"
        ))?;
        let dir = self.path.parent().unwrap_or(Path::new("."));
        sync_dir(dir).map_err(|error| CustomerError::Failed(error.to_string()))?;
        Ok(db)
    }
}

/// Opens the file of an existing directory. `None` if there is none, or its first transaction never ended.
fn open_existing(path: &Path) -> Result<Option<Connection>, OpenError> {
    let failed = |error| OpenError::sqlite(path, "opening", error);
    if !path.exists() {
        return Ok(None);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(failed)?;
    prepare(&db).map_err(failed)?;
    let number = |name| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(failed);
    let tables: i64 =
        db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    match (number("application_id")?, number("user_version")?) {
        (0, 0) if tables == 0 => return Ok(None),
        (APPLICATION, FORMAT) => {}
        (APPLICATION, found) => {
            return Err(OpenError::UnknownFormat { file: path.to_owned(), found, known: FORMAT });
        }
        _ => {
            let what = "it is another database than one with customers of stockhold".to_owned();
            return Err(OpenError::Damaged { file: path.to_owned(), what });
        }
    }
    Ok(Some(db))
}

/// Sets what keeps erased rows from being found again.
fn prepare(db: &Connection) -> rusqlite::Result<()> {
    db.busy_timeout(BUSY_TIMEOUT)?;
    // Each of these returns its value as a row.
    db.query_row("PRAGMA journal_mode = TRUNCATE", [], |_| Ok(()))?;
    db.query_row("PRAGMA secure_delete = ON", [], |_| Ok(()))?;
    db.pragma_update(None, "synchronous", "FULL")
}

/// Finds damage in the file of a directory. A server may be using it.
pub(crate) fn check(dir: &Path) -> Result<(), OpenError> {
    let path = dir.join(files::CUSTOMERS);
    let Some(db) = open_existing(&path)? else { return Ok(()) };
    let verdict: String = db
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(|error| OpenError::sqlite(&path, "reading", error))?;
    if verdict == "ok" { Ok(()) } else { Err(OpenError::Damaged { file: path, what: verdict }) }
}

/// Copies the rows as one transaction shows them. The copy replaces an earlier one, so what was erased since is not in it any more.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), OpenError> {
    let (source, target) = (from.join(files::CUSTOMERS), to.join(files::CUSTOMERS));
    let new = to.join(files::CUSTOMERS_COPY);
    let failed = |error: std::io::Error| OpenError::io(format!("making {}", target.display()), error);
    remove(&new).map_err(failed)?;
    match open_existing(&source)? {
        Some(db) => {
            own_files::create_if_missing(&new).map_err(failed)?;
            db.execute("VACUUM INTO ?1", [new.to_string_lossy()])
                .map_err(|error| OpenError::sqlite(&source, "copying", error))?;
            std::fs::File::open(&new).and_then(|file| file.sync_all()).map_err(failed)?;
            std::fs::rename(&new, &target).map_err(failed)?;
        }
        None => remove(&target).map_err(failed)?,
    }
    sync_dir(to)
}

fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn version_of(db: &Connection, id: &Label) -> rusqlite::Result<Option<u64>> {
    db.prepare_cached("SELECT version FROM customers WHERE id = ?1")?
        .query_row([id.as_str()], |row| row.get::<_, i64>(0))
        .optional()
        .map(|found| found.map(i64::cast_unsigned))
}

fn row_of(db: &Connection, id: &Label) -> Result<Option<CustomerRow>, CustomerError> {
    let found = db
        .prepare_cached("SELECT id, version, value FROM customers WHERE id = ?1")?
        .query_row([id.as_str()], read)
        .optional()?;
    found.transpose()
}

fn delete(db: &mut Connection, id: &Label, expected: Option<u64>) -> Result<CustomerResult, CustomerError> {
    let transaction = db.transaction()?;
    let found = version_of(&transaction, id)?;
    if found.is_none() || expected.is_some() && expected != found {
        return Ok(CustomerResult::Changed(found));
    }
    transaction.prepare_cached("DELETE FROM customers WHERE id = ?1")?.execute([id.as_str()])?;
    transaction.commit()?;
    Ok(CustomerResult::Done)
}

fn page(db: &Connection, after: Option<&Label>, limit: usize) -> Result<Vec<CustomerRow>, CustomerError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement =
        db.prepare_cached("SELECT id, version, value FROM customers WHERE id > ?1 ORDER BY id LIMIT ?2")?;
    let rows = statement.query_map(params![after.map_or("", Label::as_str), limit], read)?;
    rows.map(|row| row?).collect()
}

/// Reads a row. The inner error is about what it has.
fn read(row: &Row<'_>) -> rusqlite::Result<Result<CustomerRow, CustomerError>> {
    let (id, version): (String, i64) = (row.get(0)?, row.get(1)?);
    let value: Vec<u8> = row.get(2)?;
    Ok(match Label::new(&id) {
        Ok(id) => Ok(CustomerRow { id, version: version.cast_unsigned(), value: value.into() }),
        Err(_) => Err(CustomerError::Failed(format!("{}: a row has no valid id", files::CUSTOMERS))),
    })
}
