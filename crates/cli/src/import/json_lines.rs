//! Reads a file of JSON lines object by object, without holding the file in memory. Empty lines are skipped.

use super::csv_records::{BUFFER, BoundedReader, ReadMeter};
use super::row::RowError;
use super::strict_json::StrictJson;
use serde_json::{Map, Value};
use std::io::{BufRead, BufReader, Read};
use std::rc::Rc;

/// The lines of a file.
pub(super) struct JsonLines {
    reader: BufReader<BoundedReader>,
    meter: Rc<ReadMeter>,
    line: u64,
}

/// The number of a line, from 1, and its object.
type NumberedObject = (u64, Map<String, Value>);

impl JsonLines {
    pub(super) fn open(input: Box<dyn Read>, meter: Rc<ReadMeter>) -> Self {
        let input = BoundedReader { input, meter: Rc::clone(&meter), lines: None };
        Self { reader: BufReader::with_capacity(BUFFER, input), meter, line: 0 }
    }

    /// The next object, or what is wrong with its line; `None` at the end. An error ends the file.
    pub(super) fn next(&mut self) -> Result<Option<Result<NumberedObject, RowError>>, String> {
        loop {
            self.meter.next_row();
            let mut text = Vec::new();
            let read = self.reader.read_until(b'\n', &mut text);
            if read.map_err(|error| format!("line {}: {error}", self.line + 1))? == 0 {
                return Ok(None);
            }
            self.line += 1;
            if self.line == 1 && text.starts_with("\u{feff}".as_bytes()) {
                text.drain(..3);
            }
            let text = text.trim_ascii();
            if text.contains(&b'\r') {
                return Err(format!(
                    "line {} has carriage returns inside: lines must end with newlines, as after `tr '\\r' '\\n'`",
                    self.line
                ));
            }
            if !text.is_empty() {
                return Ok(Some(object(text, self.line)));
            }
        }
    }
}

fn object(text: &[u8], line: u64) -> Result<NumberedObject, RowError> {
    let bad = |what: String| RowError { line, column: String::new(), what };
    let StrictJson(value) = serde_json::from_slice(text)
        .map_err(|error| bad(format!("must be one JSON object: {error} (counted within the line)")))?;
    match value {
        Value::Object(object) => Ok((line, object)),
        other => Err(bad(format!("must be one JSON object, found {other}"))),
    }
}
