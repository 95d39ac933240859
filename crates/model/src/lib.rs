//! What stores and the simulator are compared with, and the commands that they are given. It reads no clock and no real randomness.
//!
//! [`Model`] is the naive reference model: a second implementation of the rules. [`NaiveState`] is the plainest state over which
//! [`stockhold_domain::decide`] can run. [`maker`] and [`checkout_maker`] make commands; [`Op`] is a command in small numbers, which a
//! [`Random`] chooses and an [`OpContext`] turns into an envelope.

pub mod checkout_maker;
pub mod maker;

mod op;
mod random;

mod model;

pub use maker::{Maker, START};
pub use model::{
    Model, NaiveCustomers, NaiveState, ShownUnit, audit, check_successor, find, holds_agree, outcomes_agree,
};
pub use op::{ChangeKind, ChangeOp, ORDERS, Op, OpContext, SourceOp, TTLS, TermsOp};
pub use random::Random;
