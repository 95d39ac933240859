//! The fault points of commands: before one is decided, and when it is decided and nothing of it is durable.

use stockhold_domain::{Command, DecideError, Event, Outcome};

/// Before a command is decided.
#[cfg(not(feature = "faults"))]
pub(crate) fn deciding(_: &Command) {}

/// After a command was decided, with its events. What is decided in vain is a broken invariant: nothing of it may become
/// durable.
#[cfg(not(feature = "faults"))]
pub(crate) fn decided(
    _: &Command,
    _: &[Event],
    decided: Result<Outcome, DecideError>,
) -> Result<Outcome, DecideError> {
    decided
}

#[cfg(feature = "faults")]
pub(crate) use points::{decided, deciding};

#[cfg(feature = "faults")]
mod points {
    use super::{Command, DecideError, Event, Outcome};
    use stockhold_domain::{HoldChange, Transition};
    use stockhold_store::fault;

    const IN_VAIN: DecideError = DecideError::InvariantViolated("a fault point");

    pub(crate) fn deciding(command: &Command) {
        match command {
            Command::Reserve(_) => {
                fault!("reserve.deciding");
            }
            Command::Confirm(_) => {
                fault!("confirm.deciding");
            }
            Command::Release(_) => {
                fault!("release.deciding");
            }
            Command::Extend(_) => {
                fault!("extend.deciding");
            }
            Command::Return(_) => {
                fault!("return.deciding");
            }
            Command::AdjustStock(_) => {
                fault!("adjust.deciding");
            }
            Command::Sweep => {
                fault!("sweep.deciding");
            }
            Command::SetStock(_) | Command::AddUnits(_) | Command::RetireUnit(_) | Command::SetSale(_) => {
                fault!("operator.deciding");
            }
        }
    }

    pub(crate) fn decided(
        command: &Command,
        events: &[Event],
        decided: Result<Outcome, DecideError>,
    ) -> Result<Outcome, DecideError> {
        let expired =
            |event: &Event| matches!(&event.transition, Transition::Hold { change: HoldChange::Expired, .. });
        if events.iter().any(expired) {
            fault!("expire.decided" => IN_VAIN);
        }
        match (command, &decided) {
            (_, Err(_)) => {}
            (_, Ok(Outcome::Replayed(_))) => fault!("replay.decided" => IN_VAIN),
            (_, Ok(Outcome::Refused(_))) => fault!("refusal.decided" => IN_VAIN),
            (Command::Reserve(_), _) => fault!("reserve.decided" => IN_VAIN),
            (Command::Confirm(_), _) => fault!("confirm.decided" => IN_VAIN),
            (Command::Release(_), _) => fault!("release.decided" => IN_VAIN),
            (Command::Extend(_), _) => fault!("extend.decided" => IN_VAIN),
            (Command::Return(_), _) => fault!("return.decided" => IN_VAIN),
            (Command::AdjustStock(_), _) => fault!("adjust.decided" => IN_VAIN),
            (Command::Sweep, _) => fault!("sweep.decided" => IN_VAIN),
            (
                Command::SetStock(_) | Command::AddUnits(_) | Command::RetireUnit(_) | Command::SetSale(_),
                _,
            ) => fault!("operator.decided" => IN_VAIN),
        }
        decided
    }
}
