//! Cursors of lists: opaque hexadecimal digits that say where a page ended.

use stockhold_domain::{ItemKey, Label};
use stockhold_service::KeyId;
use stockhold_store::Cursor;

/// Hexadecimal digits of a reservation's place.
const PLACE_DIGITS: usize = 32;
/// Hexadecimal digits of a unit's position.
const POSITION_DIGITS: usize = 16;
/// Hexadecimal digits of an API key's id.
const KEY_DIGITS: usize = 32;
/// The separator between location and SKU. No label can contain it.
const BETWEEN: u8 = 0;

/// A place among reservations.
pub fn of_place(place: Cursor) -> String {
    format!("{:0PLACE_DIGITS$x}", place.0)
}

/// The place that [`of_place`] wrote.
pub(crate) fn place(text: &str) -> Option<Cursor> {
    let digits = text.len() == PLACE_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u128::from_str_radix(text, 16).ok().filter(|_| digits).map(Cursor)
}

/// An item's place in the order of items.
pub fn of_item(key: &ItemKey) -> String {
    let bytes = key.location().bytes().chain([BETWEEN]).chain(key.sku().bytes());
    bytes
        .flat_map(|byte| [byte >> 4, byte & 0xf])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

/// The item that [`of_item`] wrote.
pub(crate) fn item(text: &str) -> Option<ItemKey> {
    let digits = text.bytes().map(|byte| char::from(byte).to_digit(16)).collect::<Option<Vec<_>>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    let bytes =
        pairs.iter().map(|[high, low]| u8::try_from(high << 4 | low)).collect::<Result<Vec<_>, _>>().ok()?;
    let text = String::from_utf8(bytes).ok().filter(|_| rest.is_empty())?;
    let (location, sku) = text.split_once(char::from(BETWEEN))?;
    Some(ItemKey::new(&Label::new(location).ok()?, &Label::new(sku).ok()?))
}

/// A unit's place in the order of claims.
pub fn of_unit(position: u64, id: &Label) -> String {
    let digits = id.as_str().bytes().flat_map(|byte| [byte >> 4, byte & 0xf]);
    let id: String = digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect();
    format!("{position:0POSITION_DIGITS$x}{id}")
}

/// The place that [`of_unit`] wrote.
pub(crate) fn unit(text: &str) -> Option<(u64, Label)> {
    let (position, id) = text.split_at_checked(POSITION_DIGITS)?;
    let digits =
        |text: &str| text.bytes().map(|byte| char::from(byte).to_digit(16)).collect::<Option<Vec<_>>>();
    let position = digits(position)?.into_iter().fold(0, |number, digit| (number << 4) | u64::from(digit));
    let digits = digits(id)?;
    let (pairs, rest) = digits.as_chunks::<2>();
    let bytes =
        pairs.iter().map(|[high, low]| u8::try_from(high << 4 | low)).collect::<Result<Vec<_>, _>>().ok()?;
    let id = String::from_utf8(bytes).ok().filter(|_| rest.is_empty())?;
    Some((position, Label::new(&id).ok()?))
}

/// A label's place in the order of labels.
pub fn of_label(label: &Label) -> String {
    let digits = label.as_str().bytes().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

/// The label that [`of_label`] wrote.
pub(crate) fn label(text: &str) -> Option<Label> {
    let digits = text.bytes().map(|byte| char::from(byte).to_digit(16)).collect::<Option<Vec<_>>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    let bytes =
        pairs.iter().map(|[high, low]| u8::try_from(high << 4 | low)).collect::<Result<Vec<_>, _>>().ok()?;
    Label::new(&String::from_utf8(bytes).ok().filter(|_| rest.is_empty())?).ok()
}

/// An API key's place in the order of ids.
pub fn of_key(id: KeyId) -> String {
    format!("{:0KEY_DIGITS$x}", id.as_u128())
}

/// The id that [`of_key`] wrote.
pub(crate) fn key(text: &str) -> Option<KeyId> {
    KeyId::parse(&format!("key_{text}"))
}

/// The position of an event, which is written as it is.
pub(crate) fn position(text: &str) -> Option<u64> {
    text.parse().ok().filter(|position| *position > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for number in [0, 1, u128::MAX] {
            assert_eq!(place(&of_place(Cursor(number))), Some(Cursor(number)));
        }
        let seat = Label::new("é-12").unwrap();
        for position in [0, 7, u64::MAX] {
            assert_eq!(unit(&of_unit(position, &seat)), Some((position, seat.clone())));
        }
        for bad in ["", "0000000000000000", "00000000000000006", "000000000000000zé", "+00000000000000061"] {
            assert_eq!(unit(bad), None, "{bad}");
        }
        let key = ItemKey::new(&Label::new("hub/9 é").unwrap(), &Label::new("\u{1f980}").unwrap());
        assert_eq!(item(&of_item(&key)), Some(key));
        for bad in ["", "0", "zz", "6100", "0061", "61006", "ff0061", "610000", "+1", "61 062"] {
            assert_eq!(item(bad), None, "{bad}");
        }
        let id = KeyId::parse("key_000102030405060708090a0b0c0d0e0f").unwrap();
        assert_eq!(super::key(&of_key(id)), Some(id));
        for bad in ["", "0", "key_000102030405060708090a0b0c0d0e0f", "000102030405060708090A0B0C0D0E0F"] {
            assert_eq!(super::key(bad), None, "{bad}");
        }
        for bad in ["", "0", "+0000000000000000000000000000001", "00000000000000000000000000000000f"] {
            assert_eq!(place(bad), None, "{bad}");
        }
    }
}
