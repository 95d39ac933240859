//! An item whose row others hold, whatever the dialect.

mod boarding;

use crate::books::for_every_dialect;

for_every_dialect! { shared:
    boarding:
        who_comes_while_the_lock_is_waited_for_goes_along
        who_goes_along_and_repeats_a_key_is_told_of_the_first
        who_goes_along_and_would_be_refused_is_judged_with_his_key;
}
