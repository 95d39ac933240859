//! What a batch has to lock: the lock set. Each command names its footprint; the plan adds what earlier attempts found missing and
//! what this instance remembers. Everything here is a guess that the locks verify: no answer is made from it.

mod command;
mod lock_hints;
mod lock_plan;
mod retry_plan;

pub(crate) use command::{PlannedCommand, ReservationRefs, fitting, lines_of};
pub(crate) use lock_hints::LockHints;
pub(crate) use lock_plan::{BatchLockPlan, plan_locks};
pub(crate) use retry_plan::RetryPlan;
