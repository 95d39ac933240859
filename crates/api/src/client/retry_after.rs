//! `Retry-After` of RFC 9110 10.2.3: seconds, or a date.

use hyper::header::{DATE, HeaderMap, RETRY_AFTER};
use std::time::{Duration, SystemTime};
use stockhold_domain::Instant;

/// The pause that an answer asks for. A date is compared with the date of the answer, so that the clocks of two machines need not agree, and
/// without one with `now`. A time that is over asks for no pause.
pub fn retry_after(headers: &HeaderMap, now: impl FnOnce() -> Instant) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = |text: &str| httpdate::parse_http_date(text).ok();
    let until = date(text)?;
    let sent = headers.get(DATE).and_then(|date| date.to_str().ok()).and_then(date);
    let now = sent.unwrap_or_else(|| {
        SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(now().micros()).unwrap_or(0))
    });
    Some(until.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};

    fn asked(headers: &[(HeaderName, &'static str)]) -> Option<Duration> {
        let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
        // 2026-11-20T12:00:00Z
        retry_after(&headers.collect(), || Instant::from_micros(1_795_176_000_000_000))
    }

    #[test]
    fn both_forms_are_read() {
        let (after, date) = (RETRY_AFTER, DATE);
        let one = |value| asked(&[(after.clone(), value)]);
        assert_eq!(one("0"), Some(Duration::ZERO));
        assert_eq!(one(" 120 "), Some(Duration::from_mins(2)));
        // The three forms of a date.
        assert_eq!(one("Fri, 20 Nov 2026 12:01:30 GMT"), Some(Duration::from_secs(90)));
        assert_eq!(one("Friday, 20-Nov-26 12:01:30 GMT"), Some(Duration::from_secs(90)));
        assert_eq!(one("Fri Nov 20 12:01:30 2026"), Some(Duration::from_secs(90)));
        assert_eq!(one("Fri, 20 Nov 2026 11:59:00 GMT"), Some(Duration::ZERO));
        for wrong in ["-1", "1.5", "soon", ""] {
            assert_eq!(one(wrong), None, "{wrong}");
        }
        assert_eq!(asked(&[]), None);
        let pair = [(after, "Fri, 20 Nov 2026 12:01:30 GMT"), (date, "Fri, 20 Nov 2026 12:01:00 GMT")];
        assert_eq!(asked(&pair), Some(Duration::from_secs(30)));
    }
}
