//! Has batches wait for an index that is far behind, for as long as that gets on: more that is decided at once than the
//! index takes would come to the bound at which work is turned away.

use crate::core::UNINDEXED;
use std::time::{Duration, Instant as Monotonic};

/// Events and lines that wait for the index when batches wait for it too: twice as far as has it written beside the requests,
/// and far from the bound.
const FAR_BEHIND: u64 = UNINDEXED / 4;
/// How long the index is waited for that does not get on. What waits for it then grows to the bound: a full disk is waited for
/// there and not by every batch.
const STUCK: Duration = Duration::from_secs(1);
/// How often it is looked how far it is.
pub(crate) const LOOK: Duration = Duration::from_millis(2);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Pacing {
    /// How far behind it was when it was last looked at, and since when it did not get on.
    last: Option<(u64, Monotonic)>,
}

impl Pacing {
    /// Whether a batch waits when so much waits for the index.
    pub(crate) fn waits(&mut self, unindexed: u64, now: Monotonic) -> bool {
        if unindexed <= FAR_BEHIND {
            self.last = None;
            return false;
        }
        let since = self.last.filter(|(last, _)| unindexed >= *last).map_or(now, |(_, since)| since);
        self.last = Some((unindexed, since));
        now.duration_since(since) < STUCK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_waits_for_an_index_that_is_far_behind_and_gets_on() {
        let (mut pacing, began) = (Pacing::default(), Monotonic::now());
        let mut waits = |unindexed, millis| pacing.waits(unindexed, began + Duration::from_millis(millis));
        assert!(!waits(FAR_BEHIND, 0));
        assert!(waits(FAR_BEHIND + 9, 0));
        assert!(waits(FAR_BEHIND + 9, 999));
        assert!(waits(FAR_BEHIND + 5, 1_000), "it got on");
        assert!(!waits(FAR_BEHIND + 5, 2_000), "it is stuck");
        assert!(!waits(FAR_BEHIND + 800, 2_001), "batches that do not wait are no news of it");
        assert!(waits(FAR_BEHIND + 799, 9_000), "it gets on again, however far it is by now");
        assert!(!waits(FAR_BEHIND, 9_001));
        assert!(waits(FAR_BEHIND + 1, 20_000), "what was before it kept up is forgotten");
    }
}
