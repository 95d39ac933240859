//! When a provider is asked again.

use std::time::Duration;
use stockhold_domain::{Charge, ChargeState, ProviderReport};

/// When a payment is looked at that waits for its buyer or its provider, after it was looked at so many times.
const LOOKS: [Duration; 4] =
    [Duration::from_secs(2), Duration::from_secs(5), Duration::from_secs(10), Duration::from_secs(30)];
/// When it is looked at after that.
const LATER_LOOKS: Duration = Duration::from_mins(1);
/// The least and the greatest factor of a pause, in hundredths, so that payments that failed together are not asked for together.
const JITTER: (u64, u64) = (80, 120);
/// Doublings of the first pause. More are longer than any pause.
const MOST_DOUBLINGS: u32 = 20;

/// The pause before the provider is asked again, in milliseconds. `random` is any number.
pub(crate) fn wait_ms(
    charge: &Charge,
    report: &ProviderReport,
    (base, longest): (Duration, Duration),
    random: u64,
) -> u64 {
    let pause = match report {
        ProviderReport::RequiresAction { .. } | ProviderReport::Processing { .. } => {
            let is_new = !matches!(charge.state, ChargeState::RequiresAction | ChargeState::Processing);
            let looks = if is_new { 0 } else { charge.tries.saturating_add(1) };
            let look = usize::try_from(looks).ok().and_then(|looks| LOOKS.get(looks).copied());
            return millis(look.unwrap_or(LATER_LOOKS));
        }
        _ => base.saturating_mul(1 << charge.tries.min(MOST_DOUBLINGS)).min(longest),
    };
    let (least, most) = JITTER;
    millis(pause).saturating_mul(least + random % (most - least + 1)) / 100
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
