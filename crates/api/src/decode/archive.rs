//! The request for an archive.

use super::{Invalid, body, both, path};
use crate::resources::archive::ArchiveRequest;

/// `POST /v1/archive`
pub fn archive_events(query: Option<&str>, body: &[u8]) -> Result<ArchiveRequest, Invalid> {
    let ((), order) = both(path::no_query(query), body::read_request(body))?;
    Ok(order)
}
