//! Instants in queries: RFC 3339, with any offset.

use super::explain::clip;
use stockhold_domain::Instant;

/// Most digits of a fraction of a second. A store counts microseconds.
const FRACTION_DIGITS: usize = 6;

/// An instant such as `2026-11-24T09:30:00Z` or `2026-11-24T10:30:00.5+01:00`: with seconds, at most six digits of a
/// fraction, and an offset. The text says what is wrong otherwise.
pub fn instant(text: &str) -> Result<Instant, String> {
    is_shaped(text).then(|| micros(text)).flatten().map(Instant::from_micros).ok_or_else(|| {
        let found = clip(text);
        let hint = if text.contains(' ') { "; in a query, write + as %2B" } else { "" };
        format!(
            "must be a time in RFC 3339 like 2026-11-24T09:30:00Z or 2026-11-24T10:30:00.5+01:00, found \"{found}\"{hint}"
        )
    })
}

/// The microseconds of a shaped text; `None` if the calendar or the clock does not have it. Every day of the years 0000
/// to 9999 counts, also the last one, which is the latest time that an answer shows.
fn micros(text: &str) -> Option<i64> {
    let (local, offset) = text.split_at_checked(text.rfind(['Z', '+', '-'])?)?;
    let local: jiff::civil::DateTime = local.parse().ok()?;
    let since = local.duration_since(jiff::civil::DateTime::constant(1970, 1, 1, 0, 0, 0, 0));
    let east = match offset.split_once(':') {
        None => 0,
        Some((hours, minutes)) => {
            let (sign, hours) = hours.split_at_checked(1)?;
            let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 60 + minutes) * 60_000_000 * if sign == "-" { -1 } else { 1 }
        }
    };
    i64::try_from(since.as_micros()).ok()?.checked_sub(east)
}

/// Whether the characters are where they have to be. The calendar is not checked.
fn is_shaped(text: &str) -> bool {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00";
    let Some((whole, rest)) = text.as_bytes().split_at_checked(SHAPE.len()) else { return false };
    let rest = match rest.strip_prefix(b".") {
        None => rest,
        Some(fraction) => {
            let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if !(1..=FRACTION_DIGITS).contains(&digits) {
                return false;
            }
            fraction.get(digits..).unwrap_or_default()
        }
    };
    let offset = match rest {
        b"Z" => true,
        [b'+' | b'-', offset @ ..] => has_shape(offset, b"00:00"),
        _ => false,
    };
    // A leap second has no place in a count of microseconds.
    offset && has_shape(whole, SHAPE) && !whole.ends_with(b":60")
}

fn has_shape(text: &[u8], shape: &[u8]) -> bool {
    let fits = |(byte, shape): (&u8, &u8)| if *shape == b'0' { byte.is_ascii_digit() } else { byte == shape };
    text.len() == shape.len() && text.iter().zip(shape).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_have_an_offset_and_at_most_microseconds() {
        let second = 1_764_000_000_000_000;
        for (text, micros) in [
            ("2025-11-24T16:00:00Z", 0),
            ("2025-11-24T16:00:00.0Z", 0),
            ("2025-11-24T16:00:00.000001Z", 1),
            ("2025-11-24T16:00:00.25+00:00", 250_000),
            ("2025-11-24T17:30:00+01:30", 0),
            ("2025-11-23T23:00:01-17:00", 1_000_000),
        ] {
            assert_eq!(instant(text), Ok(Instant::from_micros(second + micros)), "{text}");
        }
        // The first and the last time of four digits.
        assert_eq!(instant("0000-01-01T00:00:00Z"), Ok(Instant::from_millis(-62_167_219_200_000)));
        assert_eq!(instant("9999-12-31T23:59:59.999Z"), Ok(Instant::from_millis(253_402_300_799_999)));
        assert!(instant("9999-12-31T23:59:59-23:59").is_ok());
        for text in [
            "",
            "now",
            "1764000000",
            "2025-11-24",
            "2025-11-24T16:00:00",
            "2025-11-24T16:00Z",
            "2025-11-24 16:00:00Z",
            "2025-11-24t16:00:00z",
            "2025-11-24T16:00:00.Z",
            "2025-11-24T16:00:00.0000001Z",
            "2025-11-24T16:00:60Z",
            "2025-02-29T16:00:00Z",
            "2025-11-24T24:00:00Z",
            "2025-11-24T16:00:00+24:00",
            "2025-11-24T16:00:00+01:60",
            "2025-11-24T16:00:00+0100",
            "2025-11-24T16:00:00+01",
            "2025-11-24T16:00:00Z[UTC]",
            "+02025-11-24T16:00:00Z",
            "2025-11-24T16:00:00Zé",
        ] {
            let why = instant(text).unwrap_err();
            assert!(why.starts_with("must be a time in RFC 3339 like"), "{text}: {why}");
        }
        let why = instant("2025-11-24T16:00:00 01:00").unwrap_err();
        assert!(why.ends_with("found \"2025-11-24T16:00:00 01:00\"; in a query, write + as %2B"), "{why}");
    }
}
