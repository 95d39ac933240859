//! Backpressure from the index. If the index is far behind the log, the next batch waits for it, so that callers are
//! answered at about the speed of the index. A batch waits longer the farther the index is behind, and only while the
//! index makes progress. Without this wait, requests would be refused once the index reaches its limit.

use crate::limits::BACKPRESSURE_WEIGHT;
use std::time::{Duration, Instant as Monotonic};

/// The longest wait of a batch at the threshold. It grows with the lack of the index, up to fourfold.
const MAX_WAIT: Duration = Duration::from_millis(500);
/// The time without progress after which the index counts as stalled, for example on a full disk. No batch waits for a
/// stalled index.
const STALLED_AFTER: Duration = Duration::from_secs(2);
/// How often the committer checks the index while a batch waits.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Decides whether a batch waits for the index.
#[derive(Debug, Default)]
pub(crate) struct Backpressure {
    /// The batch up to which the index was complete at the last check, and the time of its last progress.
    index: Option<(u64, Monotonic)>,
}

impl Backpressure {
    /// Whether a batch that is due has to wait. It has waited since `since`. `unindexed` is the weight that the index
    /// lacks, and `indexed` is the batch up to which it is complete.
    pub(crate) fn should_wait(
        &mut self,
        unindexed: u64,
        indexed: u64,
        since: Monotonic,
        now: Monotonic,
    ) -> bool {
        if unindexed <= BACKPRESSURE_WEIGHT {
            self.index = None;
            return false;
        }
        let last_progress =
            self.index.filter(|(last, _)| *last == indexed).map_or(now, |(_, last_progress)| last_progress);
        self.index = Some((indexed, last_progress));
        let far = u32::try_from(unindexed / BACKPRESSURE_WEIGHT).unwrap_or(u32::MAX);
        now.duration_since(since) < MAX_WAIT.saturating_mul(far)
            && now.duration_since(last_progress) < STALLED_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_waits_for_an_index_that_is_far_behind_and_goes_on() {
        let (mut pressure, began) = (Backpressure::default(), Monotonic::now());
        let mut holds = |more, indexed, since, now| {
            let [since, now] = [since, now].map(|millis| began + Duration::from_millis(millis));
            pressure.should_wait(BACKPRESSURE_WEIGHT + more, indexed, since, now)
        };
        assert!(!holds(0, 7, 0, 0));
        assert!(holds(9, 7, 0, 0) && holds(9, 7, 0, 499));
        assert!(!holds(9, 7, 0, 500), "it has waited long enough");
        // The next batch arrives, with more events than the index has added in between.
        assert!(holds(200_009, 8, 501, 501) && holds(200_009, 8, 501, 1_000));
        assert!(!holds(200_009, 8, 501, 1_001));
        let twice = BACKPRESSURE_WEIGHT;
        assert!(
            holds(twice, 8, 1_002, 1_002) && holds(twice, 8, 1_002, 2_001),
            "twice as far, twice as long"
        );
        assert!(!holds(twice, 8, 1_002, 2_002));
        assert!(holds(twice, 8, 2_003, 2_003) && !holds(twice, 8, 2_003, 2_501), "the index is stuck");
        assert!(!holds(twice + 9, 8, 9_000, 9_000), "and nobody waits for it");
        assert!(holds(twice + 99, 9, 9_001, 9_001), "it goes on, however far behind it is by now");
        assert!(!holds(0, 9, 9_002, 9_002));
        assert!(holds(1, 9, 20_000, 20_000), "what was before it kept up is forgotten");
    }
}
