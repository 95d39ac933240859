//! A gate: a Redis server in front of a store. On the day of a sale most callers have to lose. The gate counts the units that can still
//! be admitted, and refuses reserves of an item that has none, so that the database does not decide them.
//!
//! The gate may refuse, it never grants. Whatever it admits is decided by the store as before, and whatever is uncertain goes to the
//! store: an item that Redis does not know, a Redis server that is away, an answer that does not come in time. So no content of
//! Redis can break a promise of the store. A number that is too high costs a refusal by the store. A number that is too low refuses
//! buyers although there is stock; so the numbers are corrected by what the store has committed.
//!
//! What must never be here: a grant, a rule, or an answer that says more than the gate knows.
//!
//! Reading order: [`GateAddress`] and the connection (`connection`), the counter of one item and its scripts (`counter`), the items that
//! an instance knows (`item_table`), which requests the gate is asked for (`admission`), the rounds in which it is asked (`round`), what
//! follows an answer of the store (`follow_up`), and how numbers are kept right (`refresh`). [`GateStore`] puts them together.

mod address;
mod connection;
mod options;

mod counter;
mod item_table;

mod admission;
mod follow_up;
mod message;
mod meters;
mod refresh;
mod round;
mod shared;
mod store;

pub use address::GateAddress;
pub use connection::RedisConnection;
pub use options::GateOptions;
pub use store::GateStore;
