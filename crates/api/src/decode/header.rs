//! The headers that commands read: `Idempotency-Key`, `If-Match`, `Content-Type`.

use super::Invalid;
use super::explain::clip;
use std::borrow::Cow;
use stockhold_domain::limits::KEY_BYTES;

const KEY_POINTER: &str = "/Idempotency-Key";
const MATCH_POINTER: &str = "/If-Match";

/// The idempotency key of a request, from its header (bare or quoted), its body, or both when they agree.
pub fn idempotency_key<'a>(
    header: Option<&'a [u8]>,
    body: Option<Cow<'a, str>>,
) -> Result<Option<Cow<'a, str>>, Invalid> {
    let Some(header) = header else { return Ok(body) };
    let invalid = |detail: String| Invalid::new(KEY_POINTER, detail);
    let text = std::str::from_utf8(header).map_err(|_| invalid("is not UTF-8".to_owned()))?;
    let key = unquoted(text).map_err(|detail| invalid(detail.to_owned()))?;
    check_key(&key).map_err(invalid)?;
    if let Some(body) = body
        && body != key
    {
        let (key, body) = (clip(&key), clip(&body));
        let detail =
            format!("is \"{key}\" and the body's idempotency_key is \"{body}\": give one, or the same");
        return Err(invalid(detail));
    }
    Ok(Some(key))
}

/// For routes whose commands each have a key of their own.
pub fn no_idempotency_key(given: bool) -> Result<(), Invalid> {
    if given {
        let detail = "is not for many commands at once: give each its own idempotency_key in the body";
        return Err(Invalid::new(KEY_POINTER, detail));
    }
    Ok(())
}

/// What a key may be.
pub(super) fn check_key(key: &str) -> Result<(), String> {
    if key.is_empty() {
        return Err("must not be empty".to_owned());
    }
    if key.len() > KEY_BYTES {
        return Err(format!("is {} bytes long, at most {KEY_BYTES} are allowed", key.len()));
    }
    match key.char_indices().find(|(_, c)| c.is_control()) {
        Some((at, _)) => Err(format!("has a control character at byte {at}")),
        None => Ok(()),
    }
}

/// The content of a quoted string (RFC 8941), or the text itself when it is bare.
fn unquoted(text: &str) -> Result<Cow<'_, str>, &'static str> {
    let text = text.trim_matches([' ', '\t']);
    let Some(quoted) = text.strip_prefix('"') else { return Ok(text.into()) };
    let mut key = String::with_capacity(quoted.len());
    let mut rest = quoted.chars();
    while let Some(c) = rest.next() {
        match c {
            '"' if rest.as_str().is_empty() => return Ok(key.into()),
            '"' => return Err("has text behind its closing quotation mark"),
            '\\' => match rest.next() {
                Some(c @ ('"' | '\\')) => key.push(c),
                _ => return Err("has a backslash that neither a quotation mark nor a backslash follows"),
            },
            c => key.push(c),
        }
    }
    Err("opens with a quotation mark and does not close with one")
}

/// The version in an `If-Match`: one `ETag` as [`crate::encode::etag`] makes them.
pub(super) fn expected_version(header: Option<&[u8]>) -> Result<Option<u64>, Invalid> {
    let Some(header) = header else { return Ok(None) };
    let text = String::from_utf8_lossy(header);
    let digits = text.trim().strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    if let Some(version) = digits.and_then(|digits| digits.parse().ok()) {
        return Ok(Some(version));
    }
    let found = clip(&text);
    let detail = format!("must be one ETag of the item, like \"3\" with its quotation marks, found {found}");
    Err(Invalid::new(MATCH_POINTER, detail))
}

/// Whether a `Content-Type` says JSON: `application/json` with any parameters.
pub fn is_json(content_type: &[u8]) -> bool {
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"application/json")
}
