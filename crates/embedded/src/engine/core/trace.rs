//! The decisions of a core in order, for the simulator.

use stockhold_domain::{DecideError, Envelope, EventId, Instant, Outcome};

/// A command that was decided.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The id of the command's own event, if it made one: what tells it from all others.
    pub by: EventId,
    /// The instant that it was decided at.
    pub now: Instant,
    /// What became of it; [`Outcome::Later`] too.
    pub outcome: Outcome,
    /// How many events it made.
    pub events: usize,
}

/// Records what a core decides once it is told to.
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
