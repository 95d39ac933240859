//! When a delivery that failed is tried again.

use std::time::Duration;

/// Pauses after the attempts. After one attempt more, a delivery is given up.
const PAUSES: [Duration; 9] = [
    Duration::from_secs(5),
    Duration::from_mins(5),
    Duration::from_mins(30),
    Duration::from_hours(2),
    Duration::from_hours(5),
    Duration::from_hours(10),
    Duration::from_hours(14),
    Duration::from_hours(20),
    Duration::from_hours(24),
];
/// The least and the greatest factor of a pause, in thousandths, so that deliveries that failed together are not tried again together.
const JITTER: (u64, u64) = (900, 1_200);
/// Longest pause that an endpoint may ask for.
const LONGEST_RETRY_AFTER: Duration = Duration::from_hours(24);
/// Longest pause before the oldest delivery is tried again while no new event is sent.
pub(crate) const PROBE_INTERVAL: Duration = Duration::from_mins(5);

/// The pause after an attempt that failed. `None`: the delivery is given up. `random` is any number.
pub(crate) fn pause_after(attempts: u32, retry_after: Option<Duration>, random: u64) -> Option<Duration> {
    let pause = PAUSES.get(usize::try_from(attempts.checked_sub(1)?).ok()?)?;
    let (least, most) = JITTER;
    let factor = least + random % (most - least + 1);
    let jittered = Duration::from_micros(u64::try_from(pause.as_micros()).ok()? / 1_000 * factor);
    let asked = retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER);
    Some(jittered.max(asked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_api::webhook_record::Failing;

    #[test]
    fn a_delivery_is_tried_ten_times() {
        let pauses: Vec<_> = (1..=9).map(|attempts| pause_after(attempts, None, 100).unwrap()).collect();
        assert_eq!(pauses, PAUSES, "100 thousandths above the least factor");
        assert_eq!(pause_after(10, None, 0), None);
        assert_eq!(pause_after(10, Some(Duration::from_secs(1)), 0), None);
    }

    #[test]
    fn a_pause_varies_within_bounds() {
        for random in 0..1_000 {
            let pause = pause_after(1, None, random).unwrap();
            assert!((4_500..=6_000).contains(&pause.as_millis()), "{pause:?}");
        }
    }

    #[test]
    fn every_pause_counts_as_time_in_which_an_endpoint_fails() {
        for attempts in 1..=9 {
            for random in 0..1_000 {
                let pause = pause_after(attempts, Some(LONGEST_RETRY_AFTER), random).unwrap();
                assert!(
                    pause.as_micros() < u128::from(Failing::LONGEST_PAUSE_MICROS.unsigned_abs()),
                    "{pause:?}"
                );
            }
        }
    }

    #[test]
    fn an_endpoint_can_ask_for_a_longer_pause_of_a_day_at_most() {
        let pause = |seconds| pause_after(1, Some(Duration::from_secs(seconds)), 100).unwrap();
        assert_eq!(pause(1), Duration::from_secs(5));
        assert_eq!(pause(90), Duration::from_secs(90));
        assert_eq!(pause(1_000_000), Duration::from_hours(24));
    }
}
