//! Reads a file of items row by row. A row that can't be used becomes an error with its line and column. Nothing is dropped and nothing
//! is guessed.

use super::csv_records::{CsvForm, CsvRecords, ReadMeter, input};
use super::json_lines::JsonLines;
use super::row::{FieldValue, ItemField, ItemRow, RowBuilder, RowError};
use serde_json::{Map, Value};
use std::path::Path;
use std::rc::Rc;

/// Most columns that an error names.
const NAMED_COLUMNS: usize = 30;

/// Format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FileFormat {
    /// Comma-separated values; the first line names the columns
    Csv,
    /// One JSON object a line
    Jsonl,
}

impl FileFormat {
    /// The format by the file's name.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "csv" => Some(Self::Csv),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
        }
    }
}

/// Options for reading a file.
pub(super) struct ReadOptions<'a> {
    pub(super) format: FileFormat,
    pub(super) csv: CsvForm,
    /// Location of items whose rows name none.
    pub(super) location: &'a str,
    /// Columns of the file for our fields.
    pub(super) renamed: &'a [(ItemField, String)],
    /// Columns to ignore.
    pub(super) ignored: &'a [String],
    /// Whether totals are set that an external system owns.
    pub(super) override_owner: bool,
}

/// The rows of a file.
pub(super) struct ItemSource<'a> {
    rows: RowReader,
    reading: &'a ReadOptions<'a>,
    meter: Rc<ReadMeter>,
}

enum RowReader {
    Csv(CsvRecords<ItemField>),
    Jsonl(JsonLines),
}

impl<'a> ItemSource<'a> {
    /// Opens a file; `-` is standard input. An error says what would be right.
    pub(super) fn open(path: &Path, reading: &'a ReadOptions<'a>) -> Result<Self, String> {
        let (input, meter) = (input(path)?, Rc::<ReadMeter>::default());
        let rows = match reading.format {
            FileFormat::Jsonl => RowReader::Jsonl(JsonLines::open(input, Rc::clone(&meter))),
            FileFormat::Csv => {
                RowReader::Csv(CsvRecords::open(input, Rc::clone(&meter), reading.csv, |names| {
                    columns(names, reading)
                })?)
            }
        };
        Ok(Self { rows, reading, meter })
    }

    /// Bytes read so far.
    pub(super) fn bytes(&self) -> u64 {
        self.meter.read()
    }

    /// The next row, or what is wrong with it; `None` at the end. An error ends the file.
    pub(super) fn next(&mut self) -> Result<Option<Result<ItemRow, RowError>>, String> {
        match &mut self.rows {
            RowReader::Csv(records) => {
                let put = |draft: &mut RowBuilder, field: &ItemField, text: &str| {
                    draft.put(*field, FieldValue::Text(text))
                };
                let draft = records.next(RowBuilder::new, put)?;
                Ok(draft.map(|draft| draft.and_then(|draft| draft.row(self.reading))))
            }
            RowReader::Jsonl(lines) => {
                let row = lines.next()?;
                Ok(row.map(|row| row.and_then(|(line, object)| json_row(object, line, self.reading))))
            }
        }
    }
}

/// The meaning of each column.
fn columns(names: &[String], reading: &ReadOptions<'_>) -> Result<Vec<ItemField>, String> {
    if names.iter().all(String::is_empty) {
        return Err("is empty; the first line must name the columns, like: sku,total_units".to_owned());
    }
    let found = names.iter().take(NAMED_COLUMNS).map(String::as_str).collect::<Vec<_>>().join(", ");
    if let ([only], Some(separator)) = (names, names.first().and_then(|only| only.find([';', '\t', '|'])))
        && let Some(separator) = only.get(separator..).and_then(|rest| rest.chars().next())
    {
        let shown = if separator == '\t' { "\\t".to_owned() } else { separator.to_string() };
        return Err(format!(
            "the fields are separated by {separator:?}, not by commas: use --delimiter '{shown}'"
        ));
    }
    if let Some((field, theirs)) = reading.renamed.iter().find(|(_, theirs)| !names.contains(theirs)) {
        let ours = field.name();
        return Err(format!(
            "there is no column {theirs:?}, which --column {ours}={theirs} names. Found: {found}."
        ));
    }
    let mut columns: Vec<ItemField> = Vec::with_capacity(names.len());
    for name in names {
        let field = field_of(name, reading).map_err(|why| format!("{why} Found: {found}."))?;
        if field != ItemField::Ignored && columns.contains(&field) {
            return Err(format!("two columns are for {}. Found: {found}.", field.name()));
        }
        columns.push(field);
    }
    for needed in [ItemField::Sku, ItemField::TotalUnits] {
        // An item whose units have ids needs no total, and a count of the shelf takes its place.
        let others = [ItemField::Mode, ItemField::OnHand];
        let spared = needed == ItemField::TotalUnits && others.iter().any(|other| columns.contains(other));
        if !spared && !columns.contains(&needed) {
            let name = needed.name();
            return Err(format!(
                "there is no column {name}; if it has another name, say --column {name}=NAME. Found: {found}."
            ));
        }
    }
    Ok(columns)
}

fn field_of(name: &str, reading: &ReadOptions<'_>) -> Result<ItemField, String> {
    if let Some((field, _)) = reading.renamed.iter().find(|(_, theirs)| theirs == name) {
        return Ok(*field);
    }
    if name.is_empty() || reading.ignored.iter().any(|ignored| ignored == name) {
        return Ok(ItemField::Ignored);
    }
    let known = ItemField::named(name);
    // A field whose column has another name is not looked for under its own.
    if let Some((_, theirs)) = reading.renamed.iter().find(|(ours, _)| Some(*ours) == known) {
        return Err(format!(
            "--column takes {name} from {theirs:?}, so {name:?} is another column: ignore it with --ignore {name}, or map \
             it with --column FIELD={name}."
        ));
    }
    known.ok_or_else(|| {
        format!(
            "{name:?} is not a field of an item; ignore it with --ignore {name}, or map it with \
             --column FIELD={name}, where FIELD is one of {}.",
            ItemField::SETTABLE
        )
    })
}

fn json_row(object: Map<String, Value>, line: u64, reading: &ReadOptions<'_>) -> Result<ItemRow, RowError> {
    let bad = |column: &str, what: String| RowError { line, column: column.to_owned(), what };
    let mut draft = RowBuilder::new(line);
    for (name, value) in object {
        let field = field_of(&name, reading).map_err(|why| bad(&name, why))?;
        draft.put(field, FieldValue::Json(value)).map_err(|what| bad(&name, what))?;
    }
    draft.row(reading)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(format: FileFormat, content: &[u8]) -> Result<Vec<Result<ItemRow, RowError>>, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, content).unwrap();
        let reading = ReadOptions {
            format,
            csv: CsvForm { delimiter: b',', is_spreadsheet_safe: false },
            location: "default",
            renamed: &[],
            ignored: &["note".to_owned()],
            override_owner: false,
        };
        let mut source = ItemSource::open(file.path(), &reading)?;
        let mut rows = Vec::new();
        while let Some(row) = source.next()? {
            rows.push(row);
        }
        Ok(rows)
    }

    /// Any bytes: rows, what is wrong with them and where, or why the file ends; never a panic.
    #[test]
    fn files_that_are_nearly_right() {
        fn parse(format: FileFormat, content: &[u8]) {
            let rows = read(format, content).unwrap_or_default();
            assert!(rows.iter().flatten().all(|row| row.line > 0 && !row.sku.is_empty()));
        }
        let csv = b"sku,location,total_units,safety_stock,metadata,note\na,,5,,,\n\"b,b\",hub,7,1,\"{\"\"x\"\":1}\",x\n";
        let json = b"{\"sku\":\"a\",\"total_units\":5}\n\n{\"sku\":\"b\",\"location\":\"hub\",\"metadata\":{\"x\":[1]}}\n";
        stockhold_conformance::mutate::mutate(
            ("items.csv", |bytes| parse(FileFormat::Csv, bytes)),
            &[csv.to_vec()],
            2_000,
        );
        stockhold_conformance::mutate::mutate(
            ("items.jsonl", |bytes| parse(FileFormat::Jsonl, bytes)),
            &[json.to_vec()],
            2_000,
        );
    }

    #[test]
    fn every_bad_row_has_its_line_and_column() {
        let rows = read(
            FileFormat::Csv,
            b"sku,location,total_units,safety_stock,metadata,note\n\
              a,,5,,,\n\
              \"b\nb\",,5,,,\n\
              c,,five,,,\n\
              d,,5\n\
              ,,5,,,\n\
              e,,5,,\"{\"\"x\"\":1}\",\n\
              f,,5,,[1],\n\
              g,,,,,\n\
              \xff,,5,,,\n\
              h,hub,-1,,,\n",
        )
        .unwrap();
        let told: Vec<(u64, String)> = rows
            .into_iter()
            .map(|row| match row {
                Ok(row) => (row.line, format!("{}@{}", row.sku, row.location)),
                Err(bad) => (bad.line, bad.column),
            })
            .collect();
        let expected = [
            (2, "a@default"),
            (3, "sku"),
            (5, "total_units"),
            (6, ""),
            (7, "sku"),
            (8, "e@default"),
            (9, "metadata"),
            (10, "total_units"),
            (11, "sku"),
            (12, "total_units"),
        ];
        let expected: Vec<(u64, String)> =
            expected.into_iter().map(|(line, text)| (line, text.to_owned())).collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn json_lines_are_taken_one_by_one() {
        let rows = read(
            FileFormat::Jsonl,
            "\u{feff}{\"sku\":\"a\",\"total_units\":1,\"available\":1,\"version\":3}\n\n\
             {\"sku\":\"b\",\"total_units\":\"1\"}\n{\"sku\":\"c\",\"total\":1}\nnonsense\n{\"sku\":\"d\",\"mode\":\"counted\",\"total_units\":2}"
                .as_bytes(),
        )
        .unwrap();
        let lines: Vec<_> = rows
            .iter()
            .map(|row| row.as_ref().map(|row| row.line).map_err(|bad| (bad.line, bad.column.as_str())))
            .collect();
        assert_eq!(lines, [Ok(1), Err((3, "total_units")), Err((4, "total")), Err((5, "")), Ok(6)]);
    }

    #[test]
    fn an_open_quotation_mark_does_not_swallow_the_file() {
        let mut content = b"sku,total_units\n\"a,1\n".to_vec();
        content.resize(3 << 20, b'x');
        let why = read(FileFormat::Csv, &content).unwrap_err();
        assert!(why.contains("from line 2") && why.contains("quotation mark"), "{why}");
    }

    #[test]
    fn lines_are_counted_whatever_ends_them() {
        for end in ["\n", "\r\n", "\r"] {
            let content = "sku,total_units\na,1\n\nb,x\n\"c\",3\n".replace('\n', end);
            let rows = read(FileFormat::Csv, content.as_bytes()).unwrap();
            let lines: Vec<_> =
                rows.iter().map(|row| row.as_ref().map_or_else(|bad| bad.line, |row| row.line)).collect();
            assert_eq!(lines, [2, 4, 5], "{end:?}");
        }
        let rows = b"{\"sku\":\"a\",\"total_units\":1}\r{\"sku\":\"b\",\"total_units\":1}\r";
        let why = read(FileFormat::Jsonl, rows).unwrap_err();
        assert!(why.contains("line 1 has carriage returns"), "{why}");
        let rows = read(FileFormat::Jsonl, b"{\"sku\":\"a\",\"total_units\":1}\r\n{\"sku\":1}\r\n").unwrap();
        assert_eq!(rows.len(), 2);
    }

    #[test]
    fn a_quotation_mark_that_is_open_at_the_end_is_no_row() {
        for (content, line) in [
            ("sku,total_units\na,1\n\"b,2\nc,3\n", 3),
            ("sku,total_units\r\na,1\r\nb,\"2\r\nc,3", 3),
            ("sku,\"total_units\na,1\n", 1),
        ] {
            let why = read(FileFormat::Csv, content.as_bytes()).unwrap_err();
            let words = format!("from line {line} on: a quotation mark is not closed");
            assert!(why.contains(&words), "{content:?}: {why}");
        }
        assert_eq!(read(FileFormat::Csv, b"sku,total_units\n\"a\",\"1\"").unwrap().len(), 1);
    }

    #[test]
    fn a_member_that_is_there_twice_is_a_bad_row() {
        let rows = read(
            FileFormat::Jsonl,
            b"{\"sku\":\"a\",\"total_units\":1,\"total_units\":2}\n\
              {\"sku\":\"a\",\"total_units\":1,\"metadata\":{\"x\":1,\"x\":2}}\n[1]\n\
              {\"sku\":\"a\",\"total_units\":1,\"metadata\":{\"x\":1.5e3,\"y\":[null,true,-1]}}\n",
        )
        .unwrap();
        let told = |n: usize| rows[n].as_ref().unwrap_err().what.clone();
        assert!(told(0).contains("\"total_units\" is given twice"), "{}", told(0));
        assert!(told(1).contains("\"x\" is given twice"), "{}", told(1));
        assert!(told(2).contains("found [1]"), "{}", told(2));
        assert_eq!(
            rows[3].as_ref().unwrap().settings["metadata"].to_string(),
            r#"{"x":1500.0,"y":[null,true,-1]}"#
        );
    }

    #[test]
    fn a_header_that_does_not_fit_says_what_would() {
        for (header, words) in [
            ("sku;total_units\n", "--delimiter"),
            ("sku\n", "--column total_units=NAME"),
            ("sku,total_units,colour\n", "--ignore colour"),
            ("sku,sku,total_units\n", "two columns are for sku"),
            ("", "is empty"),
        ] {
            let why = read(FileFormat::Csv, header.as_bytes()).unwrap_err();
            assert!(why.contains(words), "{header}: {why}");
        }
    }
}
