//! Signatures of the webhooks of payment providers, as Stripe makes them: <https://docs.stripe.com/webhooks#verify-manually>.

use ring::hmac;
use std::fmt::Write;
use stockhold_domain::Instant;

/// How far the time of a webhook may be from the server's, in seconds, in both directions.
const TOLERANCE_SECONDS: i64 = 300;

/// Checks the header of a webhook, `t=…,v1=…`. One of the signatures has to be right.
pub(crate) fn check(header: Option<&str>, secret: &str, body: &[u8], now: Instant) -> Result<(), String> {
    let header = header.ok_or("the header Stripe-Signature is missing")?;
    let members = || header.split(',').filter_map(|member| member.trim().split_once('='));
    let time = members().find(|(name, _)| *name == "t").map(|(_, value)| value);
    let seconds: i64 =
        time.and_then(|time| time.parse().ok()).ok_or("the header Stripe-Signature has no time `t`")?;
    if now.millis().saturating_sub(seconds.saturating_mul(1_000)).abs() > TOLERANCE_SECONDS * 1_000 {
        return Err(format!("it is more than {TOLERANCE_SECONDS} seconds from the server's time"));
    }
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signed = [seconds.to_string().as_bytes(), b".", body].concat();
    let fits = |value: &str| decode_hex(value).is_some_and(|tag| hmac::verify(&key, &signed, &tag).is_ok());
    if members().any(|(name, value)| name == "v1" && fits(value)) {
        Ok(())
    } else {
        Err("no signature `v1` is of this body and the configured secret".to_owned())
    }
}

/// The header of a webhook.
pub(crate) fn sign(secret: &str, body: &[u8], seconds: i64) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signed = [seconds.to_string().as_bytes(), b".", body].concat();
    let mut header = format!("t={seconds},v1=");
    for byte in hmac::sign(&key, &signed).as_ref() {
        // Writing to a String does not fail.
        let _ = write!(header, "{byte:02x}");
    }
    header
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if text.len().is_multiple_of(2) { pairs.map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_millis(1_795_627_174_000);

    #[test]
    fn a_signature_is_of_one_body_one_secret_and_one_time() {
        let seconds = 1_795_627_174;
        let header = sign("whsec_a", b"{}", seconds);
        assert_eq!(check(Some(&header), "whsec_a", b"{}", NOW), Ok(()));
        assert!(check(Some(&header), "whsec_b", b"{}", NOW).unwrap_err().contains("secret"));
        assert!(check(Some(&header), "whsec_a", b"{ }", NOW).unwrap_err().contains("body"));
        assert!(check(None, "whsec_a", b"{}", NOW).unwrap_err().contains("missing"));
        assert!(check(Some("v1=00"), "whsec_a", b"{}", NOW).unwrap_err().contains("no time"));
        for (offset, fits) in [(-301, false), (-300, true), (300, true), (301, false)] {
            let header = sign("whsec_a", b"{}", seconds + offset);
            assert_eq!(check(Some(&header), "whsec_a", b"{}", NOW).is_ok(), fits, "{offset}");
        }
        let rolled = format!("{header},v1=00,v0=1");
        assert_eq!(check(Some(&rolled), "whsec_a", b"{}", NOW), Ok(()), "one of several signatures");
    }

    /// The expected value was made with Python's `hmac`.
    #[test]
    fn a_signature_is_hmac_sha256_of_time_and_body() {
        let header = sign("whsec_test", b"{\"id\":1}", 1_700_000_000);
        let expected = "t=1700000000,v1=2f441ba4b3b2d50d28a9ab9d9fd8880376ecd1eb5d0435401553f5d8d0a5dcf8";
        assert_eq!(header, expected);
    }
}
