//! The requests on event sinks.

use super::{EventBound, Invalid, body, both, path};
use crate::resources::sinks::{ReplayRequest, SkipRequest};

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
pub fn skip_event(name: &str, query: Option<&str>, body: &[u8]) -> Result<(String, SkipRequest), Invalid> {
    both(sink(name, query), body::read_request(body))
}

/// `POST /v1/sinks/{sink}/replay`: the sink, and the first event to deliver again.
pub fn replay_sink(name: &str, query: Option<&str>, body: &[u8]) -> Result<(String, EventBound), Invalid> {
    let (name, body) = both(sink(name, query), body::read_request::<ReplayRequest>(body))?;
    Ok((name, body.from()?))
}
