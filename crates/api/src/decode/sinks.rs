//! The requests on event sinks.

use super::body::{self, ReplayBody, SkipBody};
use super::{Invalid, both, path};
use stockhold_domain::Instant;

/// Where a replay begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayFrom {
    /// At this event.
    Position(u64),
    /// At the first event that was decided at this instant or later.
    Since(Instant),
}

/// `GET /v1/sinks`
pub fn sinks(query: Option<&str>) -> Result<(), Invalid> {
    path::no_query(query)
}

/// The name of a sink in a path. A name that no sink can have is unknown like any other.
pub fn sink(name: &str, query: Option<&str>) -> Result<String, Invalid> {
    let (name, ()): (stockhold_domain::Label, ()) = both(path::label("/sink", name), path::no_query(query))?;
    Ok(name.as_str().to_owned())
}

/// `POST /v1/sinks/{sink}/skip`
pub fn skip_event(name: &str, query: Option<&str>, body: &[u8]) -> Result<(String, u64), Invalid> {
    let (name, body) = both(sink(name, query), body::read::<SkipBody>(body))?;
    Ok((name, body.position.0))
}

/// `POST /v1/sinks/{sink}/replay`
pub fn replay_sink(name: &str, query: Option<&str>, body: &[u8]) -> Result<(String, ReplayFrom), Invalid> {
    let (name, body) = both(sink(name, query), body::read::<ReplayBody>(body))?;
    match (body.from_position, body.since) {
        (Some(position), None) => Ok((name, ReplayFrom::Position(position.0))),
        (None, Some(since)) => Ok((name, ReplayFrom::Since(since.0))),
        (Some(_), Some(_)) => Err(Invalid::new("/since", "must be left out beside from_position")),
        (None, None) => Err(Invalid::new("", "must have from_position or since")),
    }
}
