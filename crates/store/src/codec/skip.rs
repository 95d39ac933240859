//! Passes records by of which nothing but the id is wanted: nothing is made of their bytes.
//!
//! What must never happen: that a hold ends elsewhere here than where [`hold`] has it end.

use super::read::{DecodeError, Reader, hold};
use super::write::WITH_UNITS;
use stockhold_domain::{Hold, ReservationId, limits};

type Read<T> = Result<T, DecodeError>;

/// Reads a hold if one of this id is wanted, and else passes it by. Of one that is passed by, only its lengths and flags are looked at.
pub fn hold_if(reader: &mut Reader<'_>, wanted: impl FnOnce(ReservationId) -> bool) -> Read<Option<Hold>> {
    let id = ReservationId::from_u128(reader.clone().u128()?);
    if wanted(id) { hold(reader).map(Some) } else { pass_by(reader).map(|()| None) }
}

fn pass_by(reader: &mut Reader<'_>) -> Read<()> {
    reader.u128()?;
    let named = reader.byte("status")? & WITH_UNITS != 0;
    // When it falls due, and its terms.
    reader.u64()?;
    text(reader)?;
    numbers(reader, 2)?;
    reader.option(|reader| (0..4).try_for_each(|_| reader.option(text).map(drop)))?;
    for _ in 0..reader.lines()? {
        // Two texts of an item, three quantities and a sequence.
        text(reader)?;
        text(reader)?;
        numbers(reader, 4)?;
        let units = if named { reader.count(limits::LINE_UNITS)? } else { 0 };
        for _ in 0..units {
            text(reader)?;
            reader.u64()?;
            reader.flag()?;
        }
    }
    reader.option(|reader| {
        reader.u64()?;
        (0..2).try_for_each(|_| reader.option(text).map(drop))
    })?;
    reader.u128().map(drop)
}

fn text(reader: &mut Reader<'_>) -> Read<()> {
    reader.raw_text().map(drop)
}

fn numbers(reader: &mut Reader<'_>, count: usize) -> Read<()> {
    (0..count).try_for_each(|_| reader.u64().map(drop))
}
