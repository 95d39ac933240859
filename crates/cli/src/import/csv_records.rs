//! Reads a CSV file record by record, without holding the file in memory. Lines are counted as an editor counts them. A quotation mark
//! that is not closed takes at most the length of one row, and never becomes a row.

use super::row::RowError;
use crate::csv_lines::LineCounter;
use crate::spreadsheet::read_back;
use csv::{ByteRecord, Reader, ReaderBuilder};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;

/// Longest row in bytes: much longer than the longest names and metadata. It bounds a quotation mark that is never closed.
const ROW_BYTES: u64 = 1 << 20;
/// Bytes of one read.
pub(super) const BUFFER: usize = 1 << 16;

/// The records of a CSV file. `C` is the meaning of a column.
pub(super) struct CsvRecords<C> {
    reader: Box<Reader<BoundedReader>>,
    lines: Rc<RefCell<LineCounter>>,
    meter: Rc<ReadMeter>,
    form: CsvForm,
    columns: Vec<(String, C)>,
}

/// How a CSV file is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct CsvForm {
    pub(super) delimiter: u8,
    /// Whether cells that a spreadsheet would take for formulas have ' in front.
    pub(super) is_spreadsheet_safe: bool,
}

impl<C> CsvRecords<C> {
    /// Reads the first line. `columns` returns the meaning of each name.
    pub(super) fn open(
        input: Box<dyn Read>,
        meter: Rc<ReadMeter>,
        form: CsvForm,
        columns: impl FnOnce(&[String]) -> Result<Vec<C>, String>,
    ) -> Result<Self, String> {
        let lines = Rc::<RefCell<LineCounter>>::default();
        let input = BoundedReader { input, meter: Rc::clone(&meter), lines: Some(Rc::clone(&lines)) };
        let mut builder = ReaderBuilder::new();
        builder.flexible(true).delimiter(form.delimiter).buffer_capacity(BUFFER);
        let mut reader = Box::new(builder.from_reader(input));
        let header = reader.byte_headers().map_err(|error| error.to_string())?.clone();
        let line = lines.borrow_mut().record(0);
        if lines.borrow().is_open(reader.position().byte(), form.delimiter) {
            return Err(not_closed(line));
        }
        let names = names_of(&header)?;
        let columns = columns(&names)?;
        let columns = names.into_iter().zip(columns).collect();
        Ok(Self { reader, lines, meter, form, columns })
    }

    /// The next record, or what is wrong with it; `None` at the end. `begin` makes a value for the record's line, and `put` adds the
    /// fields one by one. An error ends the file.
    pub(super) fn next<R>(
        &mut self,
        begin: impl FnOnce(u64) -> R,
        put: impl Fn(&mut R, &C, &str) -> Result<(), String>,
    ) -> Result<Option<Result<R, RowError>>, String> {
        self.meter.next_row();
        let mut record = ByteRecord::new();
        let begins = self.reader.position().byte();
        let read = self.reader.read_byte_record(&mut record);
        let line = self.lines.borrow_mut().record(begins);
        match read {
            Ok(false) => return Ok(None),
            Ok(true) => {}
            Err(error) => return Err(format!("from line {line} on: {error}")),
        }
        if self.lines.borrow().is_open(self.reader.position().byte(), self.form.delimiter) {
            return Err(not_closed(line));
        }
        let mut row = begin(line);
        Ok(Some(self.fill(&record, line, |column, text| put(&mut row, column, text)).map(|()| row)))
    }

    fn fill(
        &self,
        record: &ByteRecord,
        line: u64,
        mut put: impl FnMut(&C, &str) -> Result<(), String>,
    ) -> Result<(), RowError> {
        let bad = |column: &str, what: String| RowError { line, column: column.to_owned(), what };
        if record.len() != self.columns.len() {
            let what = format!(
                "{} fields, but the header has {}; a separator or a quotation mark is missing or extra",
                record.len(),
                self.columns.len()
            );
            return Err(bad("", what));
        }
        for (bytes, (name, column)) in record.iter().zip(&self.columns) {
            let text = std::str::from_utf8(bytes).map_err(|_| {
                bad(
                    name,
                    format!("is not UTF-8 ({}); save the file as UTF-8", String::from_utf8_lossy(bytes)),
                )
            })?;
            let text = if self.form.is_spreadsheet_safe { read_back(text) } else { text };
            put(column, text).map_err(|what| bad(name, what))?;
        }
        Ok(())
    }
}

fn names_of(header: &ByteRecord) -> Result<Vec<String>, String> {
    let mut names = Vec::with_capacity(header.len());
    for name in header {
        match std::str::from_utf8(name) {
            Ok(name) if !name.contains('\0') => names.push(name.trim().to_owned()),
            _ => return Err("is not a CSV file: its first line is not text".to_owned()),
        }
    }
    Ok(names)
}

/// The error of a row that ends with the file.
fn not_closed(line: u64) -> String {
    format!("from line {line} on: a quotation mark is not closed, so that the rest of the file is one row")
}

/// Opens a file; `-` is standard input.
pub(super) fn input(path: &Path) -> Result<Box<dyn Read>, String> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdin()));
    }
    Ok(Box::new(File::open(path).map_err(|error| error.to_string())?))
}

/// How much was read, and how many more bytes the current row may have.
pub(super) struct ReadMeter {
    read: Cell<u64>,
    left: Cell<u64>,
}

impl Default for ReadMeter {
    fn default() -> Self {
        Self { read: Cell::new(0), left: Cell::new(ROW_BYTES) }
    }
}

impl ReadMeter {
    /// Bytes read so far.
    pub(super) fn read(&self) -> u64 {
        self.read.get()
    }

    pub(super) fn next_row(&self) {
        self.left.set(ROW_BYTES);
    }
}

/// Counts bytes, and reads at most the longest row.
pub(super) struct BoundedReader {
    pub(super) input: Box<dyn Read>,
    pub(super) meter: Rc<ReadMeter>,
    /// Counts the lines of a CSV file.
    pub(super) lines: Option<Rc<RefCell<LineCounter>>>,
}

impl Read for BoundedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let ReadMeter { read, left } = &*self.meter;
        if left.get() == 0 {
            return Err(io::Error::other(format!(
                "a row is longer than {ROW_BYTES} bytes; is a quotation mark not closed?"
            )));
        }
        let count = self.input.read(buffer)?;
        left.set(left.get().saturating_sub(count as u64));
        read.set(read.get() + count as u64);
        if let Some(lines) = &self.lines {
            lines.borrow_mut().add(buffer.get(..count).unwrap_or_default());
        }
        Ok(count)
    }
}
