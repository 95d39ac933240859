//! Statements that are sent together: their text in packets, and the kind of each statement, by which its rows or its error are
//! handled.

use crate::engine::subject_column;
use core::fmt::Write;
use stockhold_domain::{CounterKey, ItemKey, RecordKey, ReservationId};

/// Text after which a script goes on in another packet, which costs a round trip: a server takes no larger packet than it was
/// told to.
const PACKET_BYTES: usize = 1 << 20;
/// Longest row, in hexadecimal: the events of a command that adds 10,000 units with more than 700 bytes of labels each, which is far
/// beyond what anybody has.
const ROW_BYTES: usize = 15 << 20;
/// What a server has to take: the row that follows when a packet is just not full. MariaDB's default.
pub(super) const LARGEST_PACKET: usize = PACKET_BYTES + ROW_BYTES;
/// Most rows of one statement. MariaDB makes a subquery of a list of 1,000 values (a key of two columns has two) and then scans
/// the table; MySQL does where the planner's memory is not enough.
pub(super) const ROWS_PER_STATEMENT: usize = 200;

/// Begins a compound statement that fails if the transaction is gone that it is to continue. A Galera cluster may abort a transaction
/// between two statements of a packet without an error: the statements behind it would then commit one by one.
const COMPOUND: &str = "BEGIN NOT ATOMIC IF @@in_transaction=0 THEN SIGNAL SQLSTATE '40001' \
SET MYSQL_ERRNO=1213,MESSAGE_TEXT='the cluster has aborted the transaction';END IF;";
/// Around a statement that inserts what another instance may insert: a duplicate gets a number that only the errors of this program have.
const RACED: [&str; 2] = ["BEGIN DECLARE EXIT HANDLER FOR 1062 RESIGNAL SET MYSQL_ERRNO=1022;", ";END"];
/// Around COMMIT: an error gets a number of its own, unless it says that the transaction was rolled back.
const COMMIT: [&str; 2] = [
    "BEGIN DECLARE EXIT HANDLER FOR 1213 RESIGNAL;DECLARE EXIT HANDLER FOR SQLEXCEPTION RESIGNAL SET MYSQL_ERRNO=1180;",
    ";END",
];

/// What begins the part of an upsert that changes a row.
const UPSERT: &str = " ON DUPLICATE KEY UPDATE ";

/// How the part of an upsert that changes a row names the value that was given for a column. Statements are written with `VALUE(column)`,
/// and the columns of the table that they read there have the name of the table before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upserts {
    /// `VALUE(column)`: MariaDB.
    Value,
    /// `VALUES(column)`: MySQL before 8.0.19.
    Values,
    /// `new.column`: MySQL since, which warns of the other form.
    RowAlias,
}

impl Upserts {
    /// Writes what stands behind the rows of a statement.
    fn put(self, text: &mut String, tail: &str) {
        let before = match (self, tail.strip_prefix(UPSERT)) {
            (Self::Value, _) | (_, None) => return text.push_str(tail),
            (Self::Values, Some(_)) => "",
            (Self::RowAlias, Some(_)) => " AS new",
        };
        text.push_str(before);
        for (number, part) in tail.split("VALUE(").enumerate() {
            match (number, self, part.split_once(')')) {
                (0, ..) | (_, _, None) => text.push_str(part),
                (_, Self::RowAlias, Some((column, rest))) => text.extend(["new.", column, rest]),
                (_, Self::Value | Self::Values, Some(_)) => text.extend(["VALUES(", part]),
            }
        }
    }
}

/// Statements in their order; `T` says what one is.
pub(super) struct Script<T> {
    packets: Vec<Packet<T>>,
    upserts: Upserts,
}

/// What is sent in one go.
pub(super) struct Packet<T> {
    pub(super) text: String,
    /// One for each statement in it.
    pub(super) steps: Vec<T>,
    /// Where each statement begins.
    starts: Vec<usize>,
}

/// What a statement of a script that writes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A write. It fails for nobody's doing but a bug's.
    Write,
    /// A write of rows that another instance may make at the same time.
    Raced,
    Commit,
}

/// A statement over any number of rows, made as often as they need.
pub(super) struct Bulk<T> {
    /// What it is.
    pub(super) step: T,
    /// What stands before the rows,
    pub(super) head: &'static str,
    /// between them,
    pub(super) between: &'static str,
    /// and behind them.
    pub(super) tail: &'static str,
    /// What the statement is that counts how many rows were affected, and how many that has to be for each given.
    pub(super) affects: Option<(T, usize)>,
}

impl<T> Packet<T> {
    fn begin(&mut self, step: T) -> &mut String {
        if !self.steps.is_empty() {
            self.text.push(';');
        }
        self.steps.push(step);
        self.starts.push(self.text.len());
        &mut self.text
    }
}

impl Packet<Step> {
    /// The packet as one compound statement, of which all or nothing is done: the transaction that it continues is not replaced by
    /// another one on the way. The number of an error says which kind of statement failed.
    pub(super) fn compound(&self) -> String {
        let mut text = String::with_capacity(self.text.len() + 2 * COMPOUND.len() + 2 * COMMIT[0].len());
        text.push_str(COMPOUND);
        let ends = self.starts.iter().skip(1).map(|start| start - 1).chain([self.text.len()]);
        for ((start, end), step) in self.starts.iter().zip(ends).zip(&self.steps) {
            let [before, behind] = match step {
                Step::Write => ["", ""],
                Step::Raced => RACED,
                Step::Commit => COMMIT,
            };
            text.push_str(before);
            text.push_str(self.text.get(*start..end).unwrap_or_default());
            text.push_str(behind);
            text.push(';');
        }
        text.push_str("END");
        text
    }
}

impl<T: Copy> Script<T> {
    /// One without upserts.
    pub(super) fn new() -> Self {
        Self::of_upserts(Upserts::Value)
    }

    pub(super) fn of_upserts(upserts: Upserts) -> Self {
        Self { packets: Vec::new(), upserts }
    }

    fn packet(&mut self) -> &mut Packet<T> {
        let full = |packet: &Packet<T>| packet.text.len() >= PACKET_BYTES;
        if self.packets.last().is_none_or(full) {
            self.packets.push(Packet { text: String::new(), steps: Vec::new(), starts: Vec::new() });
        }
        let last = self.packets.len() - 1;
        &mut self.packets[last]
    }

    /// Adds one statement; its text is written to what is returned.
    pub(super) fn add(&mut self, step: T) -> &mut String {
        self.packet().begin(step)
    }

    /// Adds statements over rows: none when there are none.
    pub(super) fn add_rows<R>(
        &mut self,
        bulk: &Bulk<T>,
        rows: impl IntoIterator<Item = R>,
        mut put: impl FnMut(&mut String, R),
    ) {
        let mut rows = rows.into_iter().peekable();
        let upserts = self.upserts;
        while rows.peek().is_some() {
            let packet = self.packet();
            let text = packet.begin(bulk.step);
            text.push_str(bulk.head);
            let mut count = 0;
            while count < ROWS_PER_STATEMENT
                && text.len() < PACKET_BYTES
                && let Some(row) = rows.next()
            {
                if count > 0 {
                    text.push_str(bulk.between);
                }
                put(text, row);
                count += 1;
            }
            upserts.put(text, bulk.tail);
            if let Some((step, each)) = bulk.affects {
                packet.begin(step).push_str(&counted(each * count));
            }
        }
    }

    /// Adds a statement that fails if the one before it affected another number of rows.
    pub(super) fn add_count(&mut self, step: T, rows: usize) {
        let Some(packet) = self.packets.last_mut() else { return };
        packet.begin(step).push_str(&counted(rows));
    }

    pub(super) fn packets(&self) -> &[Packet<T>] {
        &self.packets
    }
}

/// A scalar subquery of two rows is the one error that both servers raise on demand and outside a procedure.
fn counted(rows: usize) -> String {
    format!("SET @stockhold_counted = IF(ROW_COUNT() = {rows}, 1, (SELECT 1 UNION ALL SELECT 2))")
}

/// Bytes as a literal that is nothing but digits.
pub(super) fn hex(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    text.reserve(2 * bytes.len() + 3);
    text.push_str("x'");
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text.push('\'');
}

pub(super) fn int(text: &mut String, value: impl Into<i128>) {
    // Writing to a string fails only if a formatter does, and those of numbers don't.
    let _ = write!(text, "{}", value.into());
}

/// `NULL` where there is none.
pub(super) fn option<V>(text: &mut String, value: Option<V>, put: impl FnOnce(&mut String, V)) {
    match value {
        Some(value) => put(text, value),
        None => text.push_str("NULL"),
    }
}

pub(super) fn id(text: &mut String, id: ReservationId) {
    hex(text, &id.as_u128().to_be_bytes());
}

/// Location and SKU.
pub(super) fn key(text: &mut String, key: &ItemKey) {
    hex(text, key.location().as_bytes());
    text.push(',');
    hex(text, key.sku().as_bytes());
}

/// Limit, generation and subject of a counter.
pub(super) fn counter_key(text: &mut String, key: &CounterKey) {
    hex(text, key.limit.as_str().as_bytes());
    text.push(',');
    int(text, key.generation);
    text.push(',');
    hex(text, &subject_column(&key.subject));
}

/// Kind and id of a record.
pub(super) fn record_key(text: &mut String, key: &RecordKey) {
    hex(text, key.kind.name().as_bytes());
    text.push(',');
    hex(text, key.id.as_str().as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Kind {
        Row,
        Count,
    }

    const BULK: Bulk<Kind> =
        Bulk { step: Kind::Row, head: "(", between: ",", tail: ")", affects: Some((Kind::Count, 2)) };

    #[test]
    fn a_compound_statement_has_the_statements_of_the_packet() {
        let mut script = Script::new();
        script.add(Step::Write).push_str("INSERT INTO a");
        script.add(Step::Raced).push_str("INSERT INTO b");
        script.add(Step::Commit).push_str("COMMIT");
        let compound = script.packets()[0].compound();
        let rest = compound.strip_prefix(COMPOUND).unwrap();
        assert_eq!(
            rest,
            format!(
                "INSERT INTO a;{}INSERT INTO b{};{}COMMIT{};END",
                RACED[0], RACED[1], COMMIT[0], COMMIT[1]
            )
        );
    }

    #[test]
    fn an_upsert_names_what_was_given_as_the_server_wants_it() {
        let written = |upserts: Upserts, tail: &str| {
            let mut text = String::new();
            upserts.put(&mut text, tail);
            text
        };
        let tail = " ON DUPLICATE KEY UPDATE a=VALUE(a),b=RIGHT(CONCAT(t.b,VALUE(b)),9),c=NULL";
        assert_eq!(written(Upserts::Value, tail), tail);
        assert_eq!(written(Upserts::Values, tail), tail.replace("VALUE(", "VALUES("));
        let alias = " AS new ON DUPLICATE KEY UPDATE a=new.a,b=RIGHT(CONCAT(t.b,new.b),9),c=NULL";
        assert_eq!(written(Upserts::RowAlias, tail), alias);
        assert_eq!(written(Upserts::RowAlias, ")"), ")");
    }

    #[test]
    fn literals_are_digits_and_nothing_else() {
        let mut text = String::new();
        hex(&mut text, b"'; DROP\0\\");
        text.push(' ');
        hex(&mut text, b"");
        text.push(' ');
        int(&mut text, i64::MIN);
        assert_eq!(text, "x'273B2044524F50005C' x'' -9223372036854775808");
    }

    #[test]
    fn rows_are_spread_over_statements_and_statements_over_packets() {
        let mut script = Script::new();
        script.add_rows(&BULK, core::iter::empty::<u8>(), |_, _| ());
        assert!(script.packets().is_empty(), "no rows, no statement");
        script.add_rows(&BULK, 0..=ROWS_PER_STATEMENT, |text, _| text.push('1'));
        assert_eq!(script.packets().len(), 1);
        let packet = &script.packets()[0];
        assert_eq!(packet.steps, [Kind::Row, Kind::Count, Kind::Row, Kind::Count]);
        assert!(packet.text.contains("() = 400, 1,"), "{}", packet.text);
        assert!(packet.text.ends_with("() = 2, 1, (SELECT 1 UNION ALL SELECT 2))"));

        let row = "x".repeat(PACKET_BYTES / 2 + 1);
        let mut script = Script::new();
        script.add_rows(&BULK, 0..3, |text, _| text.push_str(&row));
        script.add(Kind::Row).push_str("last");
        let steps: Vec<_> = script.packets().iter().map(|packet| packet.steps.len()).collect();
        assert_eq!(steps, [2, 3]);
        assert!(script.packets().iter().all(|packet| packet.text.len() <= LARGEST_PACKET));
    }
}
