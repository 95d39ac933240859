//! Several callers, several instances, whatever the dialect.

mod boarding;
mod traffic;

use crate::books::for_every_dialect;

for_every_dialect! { shared:
    boarding:
        who_comes_while_the_lock_is_waited_for_goes_along
        who_goes_along_and_repeats_a_key_is_told_of_the_first
        who_goes_along_and_would_be_refused_is_judged_with_his_key;
    traffic:
        half_an_hour_at_two_instances
        half_an_hour_at_four_instances;
}
