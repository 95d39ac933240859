//! The contract of a store, and what every adapter (embedded, PostgreSQL, MySQL) shares. An adapter does three mechanical
//! things around [`stockhold_domain::decide`]: it loads what a batch of commands may touch, decides the commands in turn,
//! and commits everything at once. It answers only after the commit. An adapter must never contain a business rule.
//!
//! Reading order: [`Store`], [`Job`] and [`Query`]; [`codec`], the bytes of events; [`digest`], the hash of idempotency keys. The
//! crate `stockhold-model` has the reference model, and `stockhold-conformance` the suite that every adapter passes.

mod archive;
mod call;
mod closed_reservations;
mod customers;
mod event_row;
mod gate_status;
mod job;
mod query;
mod start_progress;
mod store;
mod unit_history;

pub mod clock;
pub mod codec;
pub mod digest;
pub mod fault;
pub mod ids;
pub mod ledger;
pub mod own_files;
pub mod unit_transitions;

pub use archive::{
    ARCHIVE_FILE_EVENTS, ArchiveError, ArchiveFile, ArchiveMark, ArchiveRequest, ArchiveRun, ArchiveStep,
    ArchiveSummary, ArchivedStore, CONSUMER_KINDS, DroppedEvents, EventArchive, LoggedBatch, LoggedBatches,
    MarkedFile, ReadPosition, Sha256, archived_form, check_age, compare_kept, fold_archived,
};
pub use call::{call, query};
pub use closed_reservations::ClosedReservationCounters;
pub use customers::{CUSTOMER_VALUE_BYTES, CustomerRequest, CustomerResult, CustomerRow};
pub use event_row::EventRow;
pub use gate_status::{GateCounter, GateItem, GateSelection, GateStatus, ReloadSummary};
pub use job::{Answer, Failure, Inbox, Job, ReplyTo, Request};
pub use query::{
    Cursor, ItemPageRequest, LimitUsage, MAX_UNITS_SCANNED, Pauses, Query, QueryResult,
    RESERVATIONS_EXAMINED, ReservationFilter, ReservationPage, SeatMap, UnitFilter, UnitPage, UnitState,
    UsageRequest, subject_of,
};
pub use start_progress::{StartProgress, StartStatus, StartStep};
pub use store::Store;
pub use unit_history::{UNIT_HISTORY_LIMIT, UnitHistory, for_each_unit};
