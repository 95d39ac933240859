//! Texts of others, made fit to be shown: on a terminal, in a log line, in a stored error. A control character or a mark of direction could
//! move the cursor, hide what follows, or let a text look like another one.

use std::borrow::Cow;
use std::fmt::Write;

/// Most characters of what another system said that are stored and shown.
pub const QUOTE_CHARS: usize = 256;

/// Whether a character has no glyph of its own and may change how others look: control characters (C0, DEL and C1), line and paragraph
/// separators, marks of direction, and characters that are invisible.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A text with each unprintable character written as an escape of JSON, such as `\u001b`. So a text that is JSON means the same.
pub fn escaped(text: &str) -> Cow<'_, str> {
    escape(text, is_unprintable)
}

/// The same for a text of several lines: line ends and tabs stay.
pub fn escaped_lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| is_unprintable(c) && !matches!(c, '\n' | '\t'))
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            c if !is_escaped(c) => shown.push(c),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a text does not fail.
                    let _ = write!(shown, "\\u{unit:04x}");
                }
            }
        }
    }
    Cow::Owned(shown)
}

/// What another system said: its first [`QUOTE_CHARS`] printable characters. What separates words is one blank.
pub fn quote(text: &str) -> String {
    quote_of(text, QUOTE_CHARS)
}

/// The first printable characters of a text.
pub fn quote_of(text: &str, most: usize) -> String {
    let mut quote = String::new();
    let mut count = 0;
    for c in text.trim().chars() {
        let c = if c.is_whitespace() || c.is_control() { ' ' } else { c };
        if is_unprintable(c) || c == ' ' && quote.ends_with(' ') {
            continue;
        }
        if count == most {
            break;
        }
        quote.push(c);
        count += 1;
    }
    quote.truncate(quote.trim_end().len());
    quote
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_without_a_glyph_are_escaped_and_left_out_of_quotes() {
        let text = "a\u{1b}[2J\u{9b}31m\u{202e}b\u{200b}\u{feff}\u{7f}é 茶";
        assert_eq!(escaped(text), "a\\u001b[2J\\u009b31m\\u202eb\\u200b\\ufeff\\u007fé 茶");
        assert_eq!(quote(text), "a [2J 31mb é 茶");
        assert_eq!(escaped("a\u{e0041}\nb"), "a\\udb40\\udc41\\nb");
        assert_eq!(escaped_lines("a\tb\r\nc"), "a\tb\\r\nc");
        assert!(matches!(escaped("é 茶"), Cow::Borrowed(_)));
        assert_eq!(quote(" 550\r\n\t no\u{2028}\n "), "550 no");
    }

    #[test]
    fn a_quote_has_so_many_characters() {
        assert_eq!(quote(&"é".repeat(400)).chars().count(), QUOTE_CHARS);
        assert_eq!(quote_of("ab cd", 3), "ab");
    }
}
