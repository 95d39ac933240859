//! Files of past orders as they are, read line by line into what a replay needs of them.
//!
//! It never corrects a line and never drops one silently: what can't be used goes to [`UnusableLines`] with its place.

use super::unusable_lines::{LineError, LinePosition, UnusableLines};
use crate::csv_lines::LineCounter;
use csv::ByteRecord;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::path::{Path, PathBuf};
use stockhold_domain::Label;

/// How a shop's export writes the time, besides ISO 8601.
const OTHER_TIMES: [&str; 2] = ["%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M:%S"];
/// Columns that an error names.
const NAMED_COLUMNS: usize = 30;
/// Hexadecimal digits of the contents' digest that go into keys: enough that no two sets of files share them.
const DIGEST_DIGITS: usize = 16;

/// Which column says what.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Columns")]
pub(super) struct ColumnArgs {
    /// Which order a line belongs to; one that starts with C is a cancellation
    #[arg(long = "order-column", value_name = "NAME", default_value = "InvoiceNo")]
    order: String,
    /// What was ordered
    #[arg(long = "sku-column", value_name = "NAME", default_value = "StockCode")]
    sku: String,
    /// How many units
    #[arg(long = "quantity-column", value_name = "NAME", default_value = "Quantity")]
    quantity: String,
    /// When: 2011-11-14 08:10:00, or 11/14/2011 8:10
    #[arg(long = "time-column", value_name = "NAME", default_value = "InvoiceDate")]
    time: String,
    /// Who; may be empty in a line
    #[arg(long = "customer-column", value_name = "NAME", default_value = "CustomerID")]
    customer: String,
}

impl ColumnArgs {
    /// The names with the flags that set them, in the order of [`ColumnPositions`].
    fn named(&self) -> [(&'static str, &str); 5] {
        [
            ("--order-column", &self.order),
            ("--sku-column", &self.sku),
            ("--quantity-column", &self.quantity),
            ("--time-column", &self.time),
            ("--customer-column", &self.customer),
        ]
    }
}

/// A line that can be used.
#[derive(Clone, Debug)]
pub(super) struct OrderLine {
    /// The order's name as the file has it.
    pub(super) order: String,
    /// What.
    pub(super) sku: String,
    /// Units; negative when they came back or were written off. Never 0.
    pub(super) quantity: i64,
    /// When, in seconds of an arbitrary but common origin.
    pub(super) at: i64,
    /// Who, if the file knows.
    pub(super) customer: Option<String>,
    /// Its place in the file.
    pub(super) place: LinePosition,
}

/// What was read.
#[derive(Debug)]
pub(super) struct OrderInput {
    /// Lines that can be used, as they came.
    pub(super) lines: Vec<OrderLine>,
    /// The others.
    pub(super) junk: UnusableLines,
    /// All lines, headers left out.
    pub(super) read: u64,
    /// Names the contents, whatever the files are called and in which order they were given.
    pub(super) digest: String,
}

/// Reads all files. An error names the file and what would be right.
pub(super) fn read(
    files: &[PathBuf],
    columns: &ColumnArgs,
    not_goods: &[String],
) -> Result<OrderInput, String> {
    let mut input =
        OrderInput { lines: Vec::new(), junk: UnusableLines::new(files), read: 0, digest: String::new() };
    let mut digests = Vec::with_capacity(files.len());
    for (number, path) in files.iter().enumerate() {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let digest = blake3::hash(&bytes);
        if let Some(earlier) = digests.iter().position(|known| *known == digest) {
            let earlier = files.get(earlier).map(|path| path.display().to_string()).unwrap_or_default();
            return Err(format!("{}: has the same content as {earlier}; give it once", path.display()));
        }
        digests.push(digest);
        read_file(&mut input, (number, path), &bytes, columns, not_goods)?;
    }
    digests.sort_unstable_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
    let mut all = blake3::Hasher::new();
    for digest in &digests {
        all.update(digest.as_bytes());
    }
    input.digest = all.finalize().to_hex().chars().take(DIGEST_DIGITS).collect();
    Ok(input)
}

fn read_file(
    input: &mut OrderInput,
    (file, path): (usize, &Path),
    bytes: &[u8],
    columns: &ColumnArgs,
    not_goods: &[String],
) -> Result<(), String> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(bytes);
    let mut lines = LineCounter::default();
    lines.add(bytes);
    let header = reader.byte_headers().map_err(|error| format!("{}: {error}", path.display()))?.clone();
    let first = lines.record(0);
    closed(&lines, (path, first), reader.position().byte())?;
    let places =
        ColumnPositions::find(&header, columns).map_err(|why| format!("{}: {why}", path.display()))?;
    let mut record = ByteRecord::new();
    loop {
        let begins = reader.position().byte();
        match reader.read_byte_record(&mut record) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
        input.read += 1;
        let place = LinePosition { file, line: lines.record(begins) };
        closed(&lines, (path, place.line), reader.position().byte())?;
        match places.line(&record, header.len(), place, not_goods) {
            Ok(line) => input.lines.push(line),
            Err((kind, found)) => input.junk.add(kind, place, &found),
        }
    }
}

/// Refuses a file whose rest is one field.
fn closed(lines: &LineCounter, (path, line): (&Path, u64), end: u64) -> Result<(), String> {
    if lines.is_open(end, b',') {
        return Err(format!(
            "{}: from line {line} on: a quotation mark is not closed, so that the rest of the file is one line",
            path.display()
        ));
    }
    Ok(())
}

/// Where in a record the columns are: order, SKU, quantity, time, customer.
struct ColumnPositions([usize; 5]);

impl ColumnPositions {
    fn find(header: &ByteRecord, columns: &ColumnArgs) -> Result<Self, String> {
        let mut names = Vec::with_capacity(header.len());
        for name in header {
            match std::str::from_utf8(name) {
                Ok(name) if !name.contains('\0') => names.push(name.trim()),
                _ => return Err("is not a CSV file: its first line is not text".to_owned()),
            }
        }
        if names.iter().all(|name| name.is_empty()) {
            return Err("is empty; the first line must name the columns".to_owned());
        }
        let mut places = [0; 5];
        for (place, (flag, wanted)) in places.iter_mut().zip(columns.named()) {
            *place =
                names.iter().position(|name| *name == wanted).ok_or_else(|| missing(&names, flag, wanted))?;
        }
        Ok(Self(places))
    }

    fn line(
        &self,
        record: &ByteRecord,
        width: usize,
        place: LinePosition,
        not_goods: &[String],
    ) -> Result<OrderLine, (LineError, String)> {
        if record.len() != width {
            return Err((LineError::Columns, format!("{} fields, the header has {width}", record.len())));
        }
        let mut fields = [""; 5];
        for (field, place) in fields.iter_mut().zip(self.0) {
            let bytes = record.get(place).unwrap_or_default();
            let text = std::str::from_utf8(bytes)
                .map_err(|_| (LineError::NotText, String::from_utf8_lossy(bytes).into_owned()))?;
            *field = text.trim();
        }
        let [order, sku, quantity, time, customer] = fields;
        check_name(order, LineError::NoOrder)?;
        check_name(sku, LineError::NoSku)?;
        if not_goods.iter().any(|code| code.eq_ignore_ascii_case(sku)) {
            return Err((LineError::NotGoods, sku.to_owned()));
        }
        let units: i64 = quantity.parse().map_err(|_| (LineError::Quantity, quantity.to_owned()))?;
        if units == 0 {
            return Err((LineError::Zero, format!("{sku} in {order}")));
        }
        if units > 0 && is_cancellation(order) {
            return Err((LineError::PositiveCancellation, format!("{units} of {sku} in {order}")));
        }
        let at = parse_time(time).ok_or_else(|| (LineError::Time, time.to_owned()))?;
        let customer = plain_number(customer);
        if !customer.is_empty() {
            check_name(customer, LineError::Name)?;
        }
        Ok(OrderLine {
            order: order.to_owned(),
            sku: sku.to_owned(),
            quantity: units,
            at,
            customer: (!customer.is_empty()).then(|| customer.to_owned()),
            place,
        })
    }
}

/// Whether an order's name says that it takes an earlier one back.
pub(super) fn is_cancellation(order: &str) -> bool {
    order.starts_with(['C', 'c'])
}

fn missing(names: &[&str], flag: &str, wanted: &str) -> String {
    let found = names.iter().take(NAMED_COLUMNS).copied().collect::<Vec<_>>().join(", ");
    let hint = match names {
        [only] if only.contains([';', '\t', '|']) => " Fields must be separated by commas.",
        _ => "",
    };
    format!("there is no column {wanted:?}; name the right one with {flag}. Found: {found}.{hint}")
}

fn check_name(text: &str, when_empty: LineError) -> Result<(), (LineError, String)> {
    match Label::check(text) {
        Ok(()) => Ok(()),
        Err(_) if text.is_empty() => Err((when_empty, String::new())),
        Err(error) => Err((LineError::Name, format!("{text:?} {error}"))),
    }
}

/// A number without the `.0` that spreadsheets add to a column with gaps.
fn plain_number(text: &str) -> &str {
    match text.strip_suffix(".0") {
        Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => digits,
        _ => text,
    }
}

fn parse_time(text: &str) -> Option<i64> {
    let civil = |at: DateTime| TimeZone::UTC.to_timestamp(at).ok().map(Timestamp::as_second);
    if let Ok(stamp) = text.parse::<Timestamp>() {
        return Some(stamp.as_second());
    }
    if let Ok(at) = text.parse::<DateTime>() {
        return civil(at);
    }
    OTHER_TIMES.iter().find_map(|form| DateTime::strptime(form, text).ok()).and_then(civil)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any bytes: every line is used or among the junk, and none is lost.
    #[test]
    fn files_that_are_nearly_right() {
        fn parse(bytes: &[u8]) {
            let mut input = OrderInput {
                lines: Vec::new(),
                junk: UnusableLines::new(&[]),
                read: 0,
                digest: String::new(),
            };
            let columns = ColumnArgs {
                order: "InvoiceNo".to_owned(),
                sku: "StockCode".to_owned(),
                quantity: "Quantity".to_owned(),
                time: "InvoiceDate".to_owned(),
                customer: "CustomerID".to_owned(),
            };
            match read_file(&mut input, (0, Path::new("orders.csv")), bytes, &columns, &["POST".to_owned()]) {
                Ok(()) => assert!(input.lines.len() as u64 <= input.read),
                Err(why) => assert!(why.starts_with("orders.csv: "), "{why}"),
            }
            assert!(input.lines.iter().all(|line| line.quantity != 0 && Label::check(&line.sku).is_ok()));
        }
        let good = "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID\n\
            536365,85123A,\"WHITE, HANGING\",6,12/1/2010 8:26,2.55,17850.0\n\
            C536379,D,Discount,-1,2010-12-01 09:41:00,27.5,14527\n536370,POST,POSTAGE,3,2010-12-01T08:45:00Z,18,\n";
        stockhold_conformance::mutate::mutate(("orders", parse), &[good.as_bytes().to_vec()], 20_000);
    }

    fn read_text(text: &str) -> Result<OrderInput, String> {
        let mut input =
            OrderInput { lines: Vec::new(), junk: UnusableLines::new(&[]), read: 0, digest: String::new() };
        let names = ["order", "sku", "quantity", "time", "customer"].map(str::to_owned);
        let [order, sku, quantity, time, customer] = names;
        let columns = ColumnArgs { order, sku, quantity, time, customer };
        read_file(&mut input, (0, Path::new("orders.csv")), text.as_bytes(), &columns, &[])?;
        Ok(input)
    }

    #[test]
    fn lines_are_counted_whatever_ends_them() {
        let text = "order,sku,quantity,time,customer\n1,a,1,2011-11-14 08:10:00,\n\n2,\"b\",1,2011-11-14 08:10:00,c\n";
        for end in ["\n", "\r\n", "\r"] {
            let lines = read_text(&text.replace('\n', end)).unwrap().lines;
            assert_eq!(lines.iter().map(|line| line.place.line).collect::<Vec<_>>(), [2, 4], "{end:?}");
        }
    }

    #[test]
    fn a_quotation_mark_that_is_not_closed_is_no_line() {
        let text =
            "order,sku,quantity,time,customer\n1,\"a,1,2011-11-14 08:10:00,\n2,b,1,2011-11-14 08:10:00,\n";
        let why = read_text(text).unwrap_err();
        assert!(why.contains("orders.csv: from line 2 on: a quotation mark is not closed"), "{why}");
    }

    #[test]
    fn times_of_all_forms_share_an_origin() {
        let expected = parse_time("2011-11-14 08:10:00");
        assert!(expected.is_some());
        for same in
            ["2011-11-14T08:10:00", "2011-11-14T08:10:00Z", "11/14/2011 8:10", "2011-11-14T09:10:00+01:00"]
        {
            assert_eq!(parse_time(same), expected, "{same}");
        }
        for wrong in ["", "yesterday", "14/11/2011 8:10", "2011-02-30 08:10:00"] {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_a_numbers_own_tail_is_cut() {
        for (text, expected) in
            [("18211.0", "18211"), ("18211", "18211"), (".0", ".0"), ("v1.0", "v1.0"), ("1.00", "1.00")]
        {
            assert_eq!(plain_number(text), expected);
        }
    }
}
