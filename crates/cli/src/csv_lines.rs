//! Line numbers of CSV files as an editor shows them: a line ends with a newline, a carriage return, or both. It also finds a record
//! that ends with the file inside quotation marks. The CSV parser counts only newlines, and does not always count those at the end
//! of a record.

/// Consumed bytes that may be kept before they are removed together.
const SLACK: usize = 1 << 16;

/// Counts lines. It gets all bytes as they are read, and keeps those of the current record.
pub(super) struct LineCounter {
    bytes: Vec<u8>,
    /// Where the current record begins in `bytes`.
    begin: usize,
    /// Its offset in the file.
    at: u64,
    line: u64,
    after_cr: bool,
}

impl Default for LineCounter {
    fn default() -> Self {
        Self { bytes: Vec::new(), begin: 0, at: 0, line: 1, after_cr: false }
    }
}

impl LineCounter {
    /// Adds bytes as they are read.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        if self.begin >= SLACK && self.begin * 2 >= self.bytes.len() {
            self.bytes.drain(..self.begin);
            self.begin = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The line of the record that begins at this offset, or after the line ends at this offset.
    pub(super) fn record(&mut self, at: u64) -> u64 {
        while let Some(&byte) = self.bytes.get(self.begin) {
            if self.at >= at && !matches!(byte, b'\r' | b'\n') {
                break;
            }
            self.line += u64::from(byte == b'\r' || byte == b'\n' && !self.after_cr);
            self.after_cr = byte == b'\r';
            self.at += 1;
            self.begin += 1;
        }
        self.line
    }

    /// Whether the current record, which ends at this offset, has a quotation mark that is not closed.
    pub(super) fn is_open(&self, end: u64, delimiter: u8) -> bool {
        let length = usize::try_from(end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let behind = self.bytes.get(self.begin..).unwrap_or_default();
        let record = behind.get(..length).unwrap_or(behind);
        record.contains(&b'"') && ends_quoted(record, delimiter)
    }
}

/// The parser's states for quotation marks. A quotation mark inside a field that did not begin with one is text.
fn ends_quoted(record: &[u8], delimiter: u8) -> bool {
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum QuoteState {
        Start,
        Plain,
        Quoted,
        Quote,
    }
    let record = record.strip_prefix("\u{feff}".as_bytes()).unwrap_or(record);
    let last = record.iter().fold(QuoteState::Start, |at, &byte| match (at, byte) {
        (QuoteState::Quoted, b'"') => QuoteState::Quote,
        (QuoteState::Start | QuoteState::Quote, b'"') | (QuoteState::Quoted, _) => QuoteState::Quoted,
        (_, b'\r' | b'\n') => QuoteState::Start,
        (_, byte) if byte == delimiter => QuoteState::Start,
        _ => QuoteState::Plain,
    });
    last == QuoteState::Quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a file's records, read in chunks of `size`, and the line of a record that is not closed.
    fn lines(text: &str, size: usize) -> (Vec<u64>, Option<u64>) {
        let mut lines = LineCounter::default();
        let mut reader =
            csv::ReaderBuilder::new().flexible(true).has_headers(false).from_reader(text.as_bytes());
        let (mut found, mut open, mut read) = (Vec::new(), None, 0);
        let mut record = csv::ByteRecord::new();
        loop {
            let begins = reader.position().byte();
            if !reader.read_byte_record(&mut record).unwrap() {
                return (found, open);
            }
            let end = reader.position().byte();
            // As a reader ahead of the parser does.
            while (read as u64) < end + 1 && read < text.len() {
                let piece = &text.as_bytes()[read..text.len().min(read + size)];
                lines.add(piece);
                read += piece.len();
            }
            let line = lines.record(begins);
            found.push(line);
            open = lines.is_open(end, b',').then_some(line).or(open);
        }
    }

    #[test]
    fn lines_are_those_of_an_editor() {
        for end in ["\n", "\r\n", "\r"] {
            let text = "h,i\na,1\n\n\n\"b\nb\",2\nc,\"x\"\"y\n\"\n\"d\",4".replace('\n', end);
            for size in [1, 2, 7, 1_000] {
                assert_eq!(lines(&text, size), (vec![1, 2, 5, 7, 9], None), "{end:?} in pieces of {size}");
                let bom = format!("\u{feff}{text}");
                assert_eq!(lines(&bom, size), (vec![1, 2, 5, 7, 9], None), "{end:?} behind a mark");
            }
        }
        assert_eq!(lines("a\r\rb\r\n\nc\n\rd", 3).0, [1, 3, 5, 7]);
    }

    #[test]
    fn what_is_left_open() {
        for (text, line) in [
            ("h,i\n\"a,1\nb,2\n", Some(2)),
            ("h,i\r\na,1\r\nb,\"2\r\nc,3\r\n", Some(3)),
            ("\u{feff}\"h,i\na,1\n", Some(1)),
            ("h,i\na,\"\"\"", Some(2)),
            ("h,i\na,\"\"\n", None),
            ("h,i\na 5\" pipe,1\nb,6\"\n", None),
            ("h,i\n\"a\"x\",1\n", None),
        ] {
            assert_eq!(lines(text, 1_000).1, line, "{text:?}");
        }
    }
}
