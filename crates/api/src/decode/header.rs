//! The headers of commands: `Idempotency-Key`, `If-Match`, `If-None-Match`, `Content-Type`.

use super::Invalid;
use super::explain::clip;
use std::borrow::Cow;
use stockhold_domain::Precondition;
use stockhold_domain::limits::KEY_BYTES;

const KEY_POINTER: &str = "/Idempotency-Key";
const MATCH_POINTER: &str = "/If-Match";
const NONE_MATCH_POINTER: &str = "/If-None-Match";

/// The idempotency key of a request, from its header (bare or quoted), its body, or both when they agree.
pub fn idempotency_key<'a>(
    header: Option<&'a [u8]>,
    body: Option<Cow<'a, str>>,
) -> Result<Option<Cow<'a, str>>, Invalid> {
    let Some(header) = header else { return Ok(body) };
    let invalid = |detail: String| Invalid::header(KEY_POINTER, detail);
    let text = std::str::from_utf8(header).map_err(|_| invalid("is not UTF-8".to_owned()))?;
    let key = unquoted(text).map_err(|detail| invalid(detail.to_owned()))?;
    check_key(&key).map_err(invalid)?;
    if let Some(body) = body
        && body != key
    {
        let (key, body) = (clip(&key), clip(&body));
        let detail = format!(
            "is \"{key}\", but the body's idempotency_key is \"{body}\": send one of them, or the same key"
        );
        return Err(invalid(detail));
    }
    Ok(Some(key))
}

/// Checks the `Host` header.
pub fn host(needed: bool, host: Option<&[u8]>) -> Result<(), Invalid> {
    match host {
        None if needed => Err(Invalid::header("/Host", "is required by HTTP/1.1")),
        _ => Ok(()),
    }
}

/// Refuses the header on routes whose commands have keys of their own.
pub fn no_idempotency_key(given: bool) -> Result<(), Invalid> {
    if given {
        let detail = "is not read by this route: put an idempotency_key into each command";
        return Err(Invalid::header(KEY_POINTER, detail));
    }
    Ok(())
}

/// Checks a key.
pub(crate) fn check_key(key: &str) -> Result<(), String> {
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

/// A header with the precondition of a change, with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match<'a> {
    /// `If-Match`
    If(&'a [u8]),
    /// `If-None-Match`
    IfNone(&'a [u8]),
}

impl Match<'_> {
    /// The precondition (RFC 9110, 13.1.1 and 13.1.2). A well-formed `ETag` of another form matches nothing.
    pub(super) fn expected(self) -> Result<Precondition, Invalid> {
        match self {
            Self::If(header) => {
                let text = String::from_utf8_lossy(header);
                versions(&text).ok_or_else(|| {
                    let found = clip(&text);
                    let detail = format!(
                        "must be an ETag with its quotation marks, like \"3\", or a list of them, or *, found {found}"
                    );
                    Invalid::header(MATCH_POINTER, detail)
                })
            }
            Self::IfNone(header) if header.trim_ascii() == b"*" => Ok(Precondition::Absent),
            Self::IfNone(header) => {
                let text = String::from_utf8_lossy(header);
                let detail = format!("must be * (create, never overwrite), found {}", clip(&text));
                Err(Invalid::header(NONE_MATCH_POINTER, detail))
            }
        }
    }
}

/// The versions in a list of `ETag`s. A weak `ETag` never matches, and only the form of [`crate::encode::etag`] is a
/// version.
fn versions(text: &str) -> Option<Precondition> {
    const BLANK: [char; 2] = [' ', '\t'];
    let mut rest = text.trim_matches(BLANK);
    if rest == "*" {
        return Some(Precondition::Exists);
    }
    let mut versions = Vec::new();
    loop {
        let (strong, tag) = match rest.strip_prefix("W/") {
            Some(tag) => (false, tag),
            None => (true, rest),
        };
        let (opaque, after) = tag.strip_prefix('"')?.split_once('"')?;
        if opaque.contains(|c: char| c.is_ascii_control() || c == ' ') {
            return None;
        }
        let version = opaque.parse::<u64>().ok().filter(|version| version.to_string() == opaque);
        versions.extend(version.filter(|_| strong));
        rest = after.trim_start_matches(BLANK);
        if rest.is_empty() {
            return Some(Precondition::VersionIn(versions.into()));
        }
        rest = rest.strip_prefix(',')?.trim_start_matches(BLANK);
    }
}

/// The precondition, if there is one.
pub(super) fn expected(precondition: Option<Match<'_>>) -> Result<Option<Precondition>, Invalid> {
    precondition.map(Match::expected).transpose()
}

/// Refuses preconditions on routes that do not honour them, because they would have no effect.
pub fn no_precondition(given: bool, none: bool) -> Result<(), Invalid> {
    if !given {
        return Ok(());
    }
    let pointer = if none { NONE_MATCH_POINTER } else { MATCH_POINTER };
    Err(Invalid::header(pointer, "is not read by this route: leave it out"))
}

/// Whether a `Content-Type` says JSON: `application/json` with any parameters.
pub fn is_json(content_type: &[u8]) -> bool {
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"application/json")
}
