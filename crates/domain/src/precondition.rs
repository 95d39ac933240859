//! Preconditions: changes that are made only if nobody else has changed the same meanwhile.

use alloc::boxed::Box;

/// The state that an item or a reservation must have for a change to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// It does not exist.
    Absent,
    /// It exists, in any version.
    Exists,
    /// It exists in one of these versions. An empty list matches nothing.
    VersionIn(Box<[u64]>),
}

impl Precondition {
    /// It exists in this version.
    pub fn version(version: u64) -> Self {
        Self::VersionIn([version].into())
    }

    /// Whether something of this version fulfils the condition. `None` stands for what does not exist.
    pub fn is_met(&self, version: Option<u64>) -> bool {
        match (self, version) {
            (Self::Absent, version) => version.is_none(),
            (Self::Exists, version) => version.is_some(),
            (Self::VersionIn(versions), Some(version)) => versions.contains(&version),
            (Self::VersionIn(_), None) => false,
        }
    }
}
