//! Records: put and delete if the version is the expected one.

use super::{CommandContext, DecideError, add};
use crate::command::SetRecord;
use crate::event::{KeyTarget, Transition};
use crate::outcome::{Outcome, Reply};
use crate::record::Record;
use crate::rejection::Rejection;
use crate::state::State;
use crate::time::Instant;
use alloc::string::ToString;

pub(super) fn set<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &SetRecord,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let before = context.state.record(&command.key)?;
    let version = before.map_or(0, Record::current_version);
    if version != command.expected_version {
        return Ok(Outcome::Refused(Rejection::RecordChanged { version }));
    }
    if version == 0 && command.value.is_none() {
        let detail = "must be the version of the record that is deleted, not 0".to_string();
        return Ok(Outcome::Refused(Rejection::invalid("/expected_version", detail)));
    }
    // A deleted record counts too: the versions of an id never repeat.
    let version = add(before.map_or(0, |record| record.version), 1)?;
    let record = Record { key: command.key.clone(), version, value: command.value.clone() };
    let transition = Transition::Record { change: command.change, record: record.clone() };
    context.emit(context.fresh.event, now, None, transition);
    context.remember(KeyTarget::Record(command.key.clone()), now);
    Ok(Outcome::Done(Reply::Record(record)))
}
