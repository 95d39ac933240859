//! An item that two instances move, whatever the dialect.

mod boarding;

use crate::books::for_every_dialect;

for_every_dialect! { shared:
    boarding:
        who_comes_while_the_lock_is_waited_for_goes_along;
}
