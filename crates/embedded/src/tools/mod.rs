//! What operators do with a data directory: recount it, look at it, copy it, carry it to another store.

pub(crate) mod backup;
pub(crate) mod export;
pub(crate) mod inspect;
pub(crate) mod verify;
