//! Path segments and queries: percent-decoded, checked, and no parameter that is not known or is there twice.
//!
//! In a query `+` is a space, as forms write it; in a path it is itself.

use super::explain::{clip, push};
use super::{FaultLocation, Invalid, MAX_FAULTS};
use std::borrow::Cow;
use stockhold_domain::{Label, ReservationId};

/// A label in a path segment.
pub(crate) fn label(pointer: &str, segment: &str) -> Result<Label, Invalid> {
    let text = percent_decoded(segment).map_err(|detail| Invalid::path(pointer, detail))?;
    Label::new(&text).map_err(|error| Invalid::path(pointer, error.to_string()))
}

/// Any UUID with hyphens.
pub(super) fn reservation_id(segment: &str) -> Result<ReservationId, Invalid> {
    segment.parse().map_err(|_| {
        let found = clip(segment);
        let detail = format!("must be a UUID like 018bcfe5-6800-7fff-bfff-ffffffffffff, found \"{found}\"");
        Invalid::path("/reservation_id", detail)
    })
}

/// The named parameters of a query, each a label and each optional.
pub(super) fn query<const N: usize>(
    query: Option<&str>,
    names: [&str; N],
) -> Result<[Option<Label>; N], Invalid> {
    let mut values = [const { None }; N];
    parameters(query, &names, |at, text| {
        let label = Label::new(text).map_err(|error| error.to_string())?;
        if let Some(slot) = values.get_mut(at) {
            *slot = Some(label);
        }
        Ok(())
    })?;
    Ok(values)
}

/// The named parameters of a query, each optional and each at most once: `read` takes the number of a name and its value,
/// and says what is wrong with it. At most 64 names.
pub(crate) fn parameters(
    query: Option<&str>,
    names: &[&str],
    mut read: impl FnMut(usize, &str) -> Result<(), String>,
) -> Result<(), Invalid> {
    let mut seen = 0_u64;
    let mut errors = Vec::new();
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = form_decoded(name).unwrap_or(name.into());
        let checked = match names.iter().position(|known| *known == name) {
            None => Err(match names.join("`, `") {
                known if known.is_empty() => "is not known: this route has no query parameters".to_owned(),
                known => format!("is not a query parameter of this route; these are: `{known}`"),
            }),
            Some(at) if seen & (1 << at) != 0 => Err("is given twice".to_owned()),
            Some(at) => {
                seen |= 1 << at;
                form_decoded(value).and_then(|text| read(at, &text))
            }
        };
        if let Err(detail) = checked {
            if errors.len() == MAX_FAULTS {
                break;
            }
            let mut pointer = String::new();
            push(&mut pointer, &name);
            errors.extend(Invalid::at(FaultLocation::Query, pointer, detail).errors);
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(Invalid { errors }) }
}

/// For routes without parameters.
pub(super) fn no_query(text: Option<&str>) -> Result<(), Invalid> {
    let [] = query(text, [])?;
    Ok(())
}

fn form_decoded(text: &str) -> Result<Cow<'_, str>, String> {
    if text.contains('+') {
        return percent_decoded(&text.replace('+', " ")).map(|text| Cow::Owned(text.into_owned()));
    }
    percent_decoded(text)
}

fn percent_decoded(text: &str) -> Result<Cow<'_, str>, String> {
    if !text.contains('%') {
        return Ok(text.into());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes().enumerate();
    while let Some((at, byte)) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|(_, byte)| hex(byte));
        match (digit(), digit()) {
            (Some(high), Some(low)) => bytes.push(high << 4 | low),
            _ => return Err(format!("has a % at byte {at} without two hexadecimal digits after it")),
        }
    }
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| "is not UTF-8 once it is percent-decoded".to_owned())
}

fn hex(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}
