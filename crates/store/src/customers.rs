//! Rows of customers: personal data that a store keeps outside of its events, its log and its archives, so that it can be erased.
//!
//! A row changes in place. Its value is encrypted by the caller (`stockhold_customers`), and a store never looks into it. A deleted
//! row leaves nothing behind, its id included.

use core::fmt;
use stockhold_domain::Label;

/// Maximum number of bytes of the value of a row.
pub const CUSTOMER_VALUE_BYTES: usize = 16 << 10;

/// One row.
#[derive(Clone, PartialEq, Eq)]
pub struct CustomerRow {
    /// The id of the customer.
    pub id: Label,
    /// The version, 1 or more. The caller chooses it, and each change has another one.
    pub version: u64,
    /// Encrypted personal data, at most [`CUSTOMER_VALUE_BYTES`].
    pub value: Box<[u8]>,
}

impl fmt::Debug for CustomerRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CustomerRow(version {}, {} bytes)", self.version, self.value.len())
    }
}

/// What is asked of the rows of customers.
#[derive(Clone, PartialEq, Eq)]
pub enum CustomerRequest {
    /// One row.
    Get(Label),
    /// Writes a row, if it has the expected version. It is durable when it is answered.
    Put {
        /// The row as it becomes.
        row: CustomerRow,
        /// The version that the row has until then. `None`: there is no such row.
        expected: Option<u64>,
    },
    /// Deletes a row. It is durable when it is answered.
    Delete {
        /// The id of the customer.
        id: Label,
        /// The version that the row has until then. `None`: any.
        expected: Option<u64>,
    },
    /// A page of rows, in order of their ids.
    Page {
        /// Id of the last row of the page before.
        after: Option<Label>,
        /// Maximum number of rows.
        limit: usize,
    },
}

impl CustomerRequest {
    /// Whether it may change a row.
    pub const fn is_write(&self) -> bool {
        matches!(self, Self::Put { .. } | Self::Delete { .. })
    }
}

impl fmt::Debug for CustomerRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Get(_) => "Get",
            Self::Put { .. } => "Put",
            Self::Delete { .. } => "Delete",
            Self::Page { .. } => "Page",
        };
        write!(f, "CustomerRequest::{name}")
    }
}

/// The result of a [`CustomerRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CustomerResult {
    /// Result of [`CustomerRequest::Get`]. `None` when there is no such row.
    Row(Option<CustomerRow>),
    /// A [`CustomerRequest::Put`] or [`CustomerRequest::Delete`] was done.
    Done,
    /// Nothing was changed, because the row has this version. `None` when there is no such row.
    Changed(Option<u64>),
    /// Result of [`CustomerRequest::Page`]. Only the last page has fewer rows than the limit.
    Page(Vec<CustomerRow>),
}
