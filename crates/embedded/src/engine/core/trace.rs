//! The decisions of a core in order, for the simulator.

use stockhold_domain::{DecideError, Envelope, EventId, Instant, Outcome};

/// A command that was decided.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The id of the command's own event, if it made one. No other decision has the same id.
    pub by: EventId,
    /// The time of the decision.
    pub now: Instant,
    /// The outcome. It may be [`Outcome::Later`].
    pub outcome: Outcome,
    /// The number of events that the command made.
    pub events: usize,
}

/// Records the decisions of a core. It is off unless it was made by [`DecisionTrace::recording`].
#[derive(Debug, Default)]
pub(crate) struct DecisionTrace(Option<Vec<Decision>>);

impl DecisionTrace {
    pub(crate) fn recording() -> Self {
        Self(Some(Vec::new()))
    }

    pub(crate) fn record(
        &mut self,
        envelope: &Envelope,
        now: Instant,
        decided: &Result<Outcome, DecideError>,
        events: usize,
    ) {
        if let (Some(all), Ok(outcome)) = (&mut self.0, decided) {
            all.push(Decision { by: envelope.fresh.event, now, outcome: outcome.clone(), events });
        }
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Decision> {
        self.0.as_mut().map(std::mem::take).unwrap_or_default().into_iter()
    }
}
