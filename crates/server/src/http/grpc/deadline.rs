//! The deadline of a call.

use hyper::header::HeaderMap;
use std::time::Duration;
use stockhold_grpc::{Status, code, plain};
use tokio::time::timeout;

/// Most digits of a timeout (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>).
const DIGITS: usize = 8;

/// The time that the caller gives the call. A malformed one is ignored.
fn given(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if number.is_empty() || number.len() > DIGITS || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = number.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(3_600 * number)),
        "M" => Some(Duration::from_secs(60 * number)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

/// The result of a future, or the status of a call whose deadline has passed. What was sent to the store is not undone.
pub(super) async fn within<T>(headers: &HeaderMap, work: impl Future<Output = T>) -> Result<T, Status> {
    let Some(time) = given(headers) else { return Ok(work.await) };
    timeout(time, work).await.map_err(|_| {
        plain(
            code::DEADLINE_EXCEEDED,
            "The deadline of the call has passed. A command may have taken effect: repeat it with the same idempotency key.",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn timeouts() {
        let read = |text| {
            given(&HeaderMap::from_iter([("grpc-timeout".parse().unwrap(), HeaderValue::from_static(text))]))
        };
        for (text, time) in [
            ("2H", Duration::from_hours(2)),
            ("3M", Duration::from_mins(3)),
            ("4S", Duration::from_secs(4)),
            ("150m", Duration::from_millis(150)),
            ("7u", Duration::from_micros(7)),
            ("99999999n", Duration::from_nanos(99_999_999)),
        ] {
            assert_eq!(read(text), Some(time), "{text}");
        }
        for text in ["", "S", "1", "1x", "-1S", "123456789S", "1.5S"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
