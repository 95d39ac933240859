//! Encoding of limits, their counters and what a change of a reservation did to them.

use super::pools::{pools_after, put_pools_after};
use super::read::{DecodeError, Reader};
use super::write::{end_fields, put_field, put_key, put_text, put_u64};
use std::sync::Arc;
use stockhold_domain::{
    CounterKey, Label, Limit, LimitCounter, LimitEffects, LimitTarget, LimitTerms, LimitedUnits, LineCount,
    Subject, SubjectKind, limits,
};

type Read<T> = Result<T, DecodeError>;

/// Appends a limit.
pub fn put_limit(out: &mut Vec<u8>, limit: &Limit) {
    put_text(out, limit.id.as_str());
    put_u64(out, limit.version);
    put_u64(out, limit.generation);
    put_field(out, 1, limit.terms.as_deref(), put_terms);
    end_fields(out);
}

/// Reads a limit.
pub fn limit(reader: &mut Reader<'_>) -> Read<Limit> {
    let (id, version, generation) = (reader.label()?, reader.u64()?, reader.u64()?);
    let mut limit = Limit { id, version, generation, terms: None };
    reader.fields(|reader, tag| {
        limit.terms = Some(Arc::new(terms(reader)?));
        Ok(tag == 1)
    })?;
    Ok(limit)
}

/// Appends what a limit says.
pub(super) fn put_terms(out: &mut Vec<u8>, terms: &LimitTerms) {
    let LimitTerms { targets, channels, per, limit, counts } = terms;
    put_u64(out, targets.len() as u64);
    for target in targets {
        match target {
            LimitTarget::Sku(sku) => {
                out.push(0);
                put_text(out, sku.as_str());
            }
            LimitTarget::Location(location) => {
                out.push(1);
                put_text(out, location.as_str());
            }
            LimitTarget::Item(key) => {
                out.push(2);
                put_key(out, key);
            }
        }
    }
    put_u64(out, channels.len() as u64);
    channels.iter().for_each(|channel| put_text(out, channel.as_str()));
    out.push(match per {
        None => 0,
        Some(SubjectKind::Customer) => 1,
        Some(SubjectKind::Owner) => 2,
    });
    put_u64(out, *limit);
    out.push(match counts {
        LimitedUnits::HeldAndSold => 0,
        LimitedUnits::Held => 1,
    });
}

fn terms(reader: &mut Reader<'_>) -> Read<LimitTerms> {
    let count = reader.count(limits::LIMIT_TARGETS as u64)?;
    let target = |reader: &mut Reader<'_>| {
        Ok(match reader.byte("target of a limit")? {
            0 => LimitTarget::Sku(reader.label()?),
            1 => LimitTarget::Location(reader.label()?),
            2 => LimitTarget::Item(reader.item_key()?),
            _ => return Err(reader.bad("target of a limit")),
        })
    };
    let targets = (0..count).map(|_| target(reader)).collect::<Read<_>>()?;
    let count = reader.count(limits::LIMIT_CHANNELS as u64)?;
    let channels = (0..count).map(|_| reader.label()).collect::<Read<_>>()?;
    let per = match reader.byte("subject of a limit")? {
        0 => None,
        1 => Some(SubjectKind::Customer),
        2 => Some(SubjectKind::Owner),
        _ => return Err(reader.bad("subject of a limit")),
    };
    let limit = reader.u64()?;
    let counts = match reader.byte("units of a limit")? {
        0 => LimitedUnits::HeldAndSold,
        1 => LimitedUnits::Held,
        _ => return Err(reader.bad("units of a limit")),
    };
    Ok(LimitTerms { targets, channels, per, limit, counts })
}

/// Appends the key of a counter.
pub fn put_counter_key(out: &mut Vec<u8>, key: &CounterKey) {
    put_text(out, key.limit.as_str());
    put_u64(out, key.generation);
    put_subject(out, &key.subject);
}

/// Reads the key of a counter.
pub fn counter_key(reader: &mut Reader<'_>) -> Read<CounterKey> {
    Ok(CounterKey { limit: reader.label()?, generation: reader.u64()?, subject: subject(reader)? })
}

/// Appends a subject.
pub fn put_subject(out: &mut Vec<u8>, subject: &Subject) {
    match subject {
        Subject::Everyone => out.push(0),
        Subject::Customer(name) => {
            out.push(1);
            put_text(out, name.as_str());
        }
        Subject::Owner(name) => {
            out.push(2);
            put_text(out, name.as_str());
        }
    }
}

/// Reads a subject.
pub fn subject(reader: &mut Reader<'_>) -> Read<Subject> {
    Ok(match reader.byte("subject")? {
        0 => Subject::Everyone,
        1 => Subject::Customer(reader.label()?),
        2 => Subject::Owner(reader.label()?),
        _ => return Err(reader.bad("subject")),
    })
}

/// Appends a counter.
pub fn put_counter(out: &mut Vec<u8>, counter: LimitCounter) {
    put_u64(out, counter.held);
    put_u64(out, counter.sold);
}

/// Reads a counter.
pub fn counter(reader: &mut Reader<'_>) -> Read<LimitCounter> {
    Ok(LimitCounter { held: reader.u64()?, sold: reader.u64()? })
}

/// Appends the counters that count a line.
pub(super) fn put_counted(out: &mut Vec<u8>, counted: &[LineCount]) {
    put_u64(out, counted.len() as u64);
    for LineCount { key, units } in counted {
        put_counter_key(out, key);
        put_u64(out, u64::from(*units));
    }
}

/// Reads the counters that count a line; there is one at least.
pub(super) fn counted(reader: &mut Reader<'_>) -> Read<Vec<LineCount>> {
    // A line may be counted by ended generations too.
    let count = reader.count(2 * limits::LIMITS as u64)?;
    if count == 0 {
        return Err(reader.bad("counters of a line"));
    }
    let one = |reader: &mut Reader<'_>| Ok(LineCount { key: counter_key(reader)?, units: reader.u32()? });
    (0..count).map(|_| one(reader)).collect()
}

/// Appends what a change of a reservation did to limits.
pub(super) fn put_limit_effects(out: &mut Vec<u8>, effects: &LimitEffects) {
    put_u64(out, effects.counters.len() as u64);
    for (key, moved) in &effects.counters {
        put_counter_key(out, key);
        put_counter(out, *moved);
    }
    put_u64(out, effects.overridden.len() as u64);
    effects.overridden.iter().for_each(|id: &Label| put_text(out, id.as_str()));
    put_pools_after(out, &effects.pools);
}

/// Reads what a change of a reservation did to limits.
pub(super) fn limit_effects(reader: &mut Reader<'_>) -> Read<LimitEffects> {
    // Each line of a reservation may have counters of its own before and after the change.
    let count = reader.count(4 * limits::LIMITS as u64 * limits::BASKET_LINES as u64)?;
    let one = |reader: &mut Reader<'_>| Ok((counter_key(reader)?, counter(reader)?));
    let counters = (0..count).map(|_| one(reader)).collect::<Read<_>>()?;
    let count = reader.count(limits::LIMITS as u64)?;
    let overridden = (0..count).map(|_| reader.label()).collect::<Read<_>>()?;
    Ok(LimitEffects { counters, overridden, pools: pools_after(reader)? })
}
