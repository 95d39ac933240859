//! The JSON writer of [`super`] and [`crate::problem`]: members, texts, numbers, times and ids. It escapes every text
//! from outside, and it allocates only when the buffer grows.

use stockhold_domain::Instant;

/// A JSON object that is being written. [`Object::close`] must be called to make it valid.
pub(crate) struct Object<'o> {
    out: &'o mut Vec<u8>,
    empty: bool,
}

impl<'o> Object<'o> {
    pub(crate) fn open(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, empty: true }
    }

    pub(crate) fn close(self) {
        self.out.push(b'}');
    }

    /// Writes a member's name, and returns the buffer for its value. Names are constants of this crate and need no
    /// escapes.
    pub(crate) fn value(&mut self, name: &'static str) -> &mut Vec<u8> {
        self.out.extend_from_slice(if self.empty { b"\"" } else { b",\"" });
        self.empty = false;
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// The members of a shape.
    pub(crate) fn members_of(&mut self, shape: &impl serde::Serialize) {
        let mut written = Vec::new();
        super::shape(&mut written, shape);
        if let Some(members) = written.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}"))
            && !members.is_empty()
        {
            if !std::mem::replace(&mut self.empty, false) {
                self.out.push(b',');
            }
            self.out.extend_from_slice(members);
        }
    }

    /// A text that needs escapes.
    pub(crate) fn text(&mut self, name: &'static str, text: &str) {
        put_text(self.value(name), text);
    }

    pub(crate) fn optional_text(&mut self, name: &'static str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    /// A constant of this crate, which needs no escapes.
    pub(crate) fn word(&mut self, name: &'static str, word: &'static str) {
        let out = self.value(name);
        out.push(b'"');
        out.extend_from_slice(word.as_bytes());
        out.push(b'"');
    }

    pub(crate) fn number(&mut self, name: &'static str, number: u64) {
        put_number(self.value(name), number);
    }

    pub(crate) fn flag(&mut self, name: &'static str, flag: bool) {
        self.raw(name, if flag { "true" } else { "false" });
    }

    /// A value that is JSON already.
    pub(crate) fn raw(&mut self, name: &'static str, json: &str) {
        self.value(name).extend_from_slice(json.as_bytes());
    }

    pub(crate) fn time(&mut self, name: &'static str, at: Instant) {
        let out = self.value(name);
        out.push(b'"');
        out.extend_from_slice(&rfc3339(at));
        out.push(b'"');
    }

    pub(crate) fn uuid(&mut self, name: &'static str, bits: u128) {
        let out = self.value(name);
        out.push(b'"');
        put_uuid(out, bits);
        out.push(b'"');
    }
}

/// Writes an array whose elements `put` writes.
pub(crate) fn array<T>(
    out: &mut Vec<u8>,
    values: impl IntoIterator<Item = T>,
    put: impl Fn(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (n, value) in values.into_iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        put(out, value);
    }
    out.push(b']');
}

/// Writes a JSON string.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| needs_escape(*byte)) {
        let (plain, tail) = rest.split_at(at);
        out.extend_from_slice(plain);
        if let Some((byte, after)) = tail.split_first() {
            put_escaped(out, *byte);
            rest = after;
        }
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

fn put_escaped(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        _ => {
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[hex(byte >> 4), hex(byte & 0xf)]);
        }
    }
}

fn hex(nibble: u8) -> u8 {
    match nibble {
        0..=9 => b'0' + nibble,
        _ => b'a' + (nibble - 10),
    }
}

/// Writes a number.
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    /// Digits of the largest `u64`.
    const DIGITS: usize = 20;
    let mut digits = [b'0'; DIGITS];
    let mut used = 1;
    for (n, digit) in digits.iter_mut().rev().enumerate() {
        *digit = low_digit(number);
        number /= 10;
        if number == 0 {
            used = n + 1;
            break;
        }
    }
    out.extend_from_slice(digits.get(DIGITS - used..).unwrap_or_default());
}

fn low_digit(number: u64) -> u8 {
    b'0' + (number % 10) as u8
}

pub(crate) fn put_uuid(out: &mut Vec<u8>, bits: u128) {
    for (n, byte) in bits.to_be_bytes().into_iter().enumerate() {
        if matches!(n, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.extend_from_slice(&[hex(byte >> 4), hex(byte & 0xf)]);
    }
}

/// An instant as the API writes it.
pub fn instant_text(at: Instant) -> String {
    String::from_utf8_lossy(&rfc3339(at)).into_owned()
}

/// The day of an instant in UTC: `YYYY-MM-DD`.
pub fn day_of(at: Instant) -> String {
    String::from_utf8_lossy(rfc3339(at).get(..10).unwrap_or_default()).into_owned()
}

/// The first and the last millisecond whose year has four digits.
const FIRST_MILLI: i64 = -62_167_219_200_000;
const LAST_MILLI: i64 = 253_402_300_799_999;
const DAY_MILLIS: u64 = 86_400_000;

/// `YYYY-MM-DDThh:mm:ss.mmmZ`.
pub(crate) fn rfc3339(at: Instant) -> [u8; 24] {
    let since_year_0 = at.millis().clamp(FIRST_MILLI, LAST_MILLI).abs_diff(FIRST_MILLI);
    let (days, millis) = (since_year_0 / DAY_MILLIS, since_year_0 % DAY_MILLIS);
    let (year, month, day) = civil(days);
    let mut text = *b"0000-00-00T00:00:00.000Z";
    let mut put = |range: std::ops::Range<usize>, mut number: u64| {
        for digit in text.get_mut(range).unwrap_or_default().iter_mut().rev() {
            *digit = low_digit(number);
            number /= 10;
        }
    };
    put(0..4, year);
    put(5..7, month);
    put(8..10, day);
    put(11..13, millis / 3_600_000);
    put(14..16, millis / 60_000 % 60);
    put(17..19, millis / 1_000 % 60);
    put(20..23, millis % 1_000);
    text
}

/// Year, month and day of a day counted from 0000-01-01 in the proleptic Gregorian calendar; years are counted from
/// March, so that the leap day is the last (Howard Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days_since_year_0: u64) -> (u64, u64, u64) {
    const ERA_DAYS: u64 = 146_097;
    const ERA_YEARS: u64 = 400;
    // Days from 1 March of the year -400 to 1 January of the year 0: an era less January and February.
    const TO_YEAR_0: u64 = ERA_DAYS - 60;
    let days = days_since_year_0 + TO_YEAR_0;
    let (era, day_of_era) = (days / ERA_DAYS, days % ERA_DAYS);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * ERA_YEARS + u64::from(month <= 2) - ERA_YEARS;
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(put: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        put(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_and_texts_are_what_a_parser_reads() {
        for number in [0, 1, 9, 10, 1_000_000, u64::MAX - 1, u64::MAX] {
            assert_eq!(written(|out| put_number(out, number)), number.to_string());
        }
        for text in ["", "plain", "\"\\/", "\u{0}\u{1f}\n\t", "é\u{2028}\u{7f}🦀", "a\"", "\\"] {
            let json = written(|out| put_text(out, text));
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
    }

    #[test]
    fn times_agree_with_a_calendar() {
        let show = |millis: i64| String::from_utf8(rfc3339(Instant::from_millis(millis)).to_vec()).unwrap();
        assert_eq!(show(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(show(1_700_000_000_001), "2023-11-14T22:13:20.001Z");
        assert_eq!(show(i64::MAX), "9999-12-31T23:59:59.999Z");
        assert_eq!(show(i64::MIN), "0000-01-01T00:00:00.000Z");
        // Every day of 9,990 years, at another time of day each.
        let step = i64::try_from(DAY_MILLIS).unwrap() + 12_345;
        let mut millis = FIRST_MILLI;
        while millis < LAST_MILLI - 366 * step {
            let expected = jiff::Timestamp::from_millisecond(millis).unwrap();
            assert_eq!(show(millis), format!("{expected:.3}"));
            millis += step;
        }
    }
}
