//! Limits. `#two.1(ann)=2` behind a line: the counter of customer or owner `ann` in generation 1 of the limit `two` counts two of its
//! units. `two(ann)=1+2>2` in a refusal: one is used, two are requested, and two is the most.

use crate::table::check;

#[test]
fn a_customer_gets_so_many_over_all_items_of_a_limit() {
    check(
        "
        0 stock a 9                      -> created total=9 available=9 v=1
        0 stock b 9                      -> created total=9 available=9 v=1
        0 stock c 9                      -> created total=9 available=9 v=1
        0 limit two 2 a,b per=customer   -> created most=2 v=1 g=1
        0 reserve r a=1 customer=ann     -> active until 600000 a=1 #two.1(ann)=1
        0 reserve s b=2 customer=ann     -> limit_exceeded two(ann)=1+2>2
        0 reserve s b=1,c=5 customer=ann -> active until 600000 b=1 #two.1(ann)=1 c=5
        0 reserve t a=1 customer=ann     -> limit_exceeded two(ann)=2+1>2
        0 reserve t a=1                  -> customer_required two
        0 reserve t c=1                  -> active until 600000 c=1
        0 reserve u a=1,b=1 customer=bob -> active until 600000 a=1 #two.1(bob)=1 b=1 #two.1(bob)=1
        1 confirm r                      -> confirmed at 1 a=1 #two.1(ann)=1
        1 reserve v a=1 customer=ann     -> limit_exceeded two(ann)=2+1>2
        1 release s                      -> cancelled at 1 b=1 #two.1(ann)=1 c=5
        1 amend u a=2                    -> active until 600000 a=2 #two.1(bob)=2
        1 amend u a=3                    -> limit_exceeded two(bob)=2+1>2
        1 return r all                   -> confirmed at 1 a=1-1
        1 reserve w a=2 customer=ann     -> active until 600001 a=2 #two.1(ann)=2
        1 reserve x ghost=1,a=1          -> unknown_item ghost
        ",
    );
}

#[test]
fn a_quota_is_shared_by_all_of_a_channel() {
    check(
        "
        0 stock a 9                       -> created total=9 available=9 v=1
        0 stock hub/a 9                   -> created total=9 available=9 v=1
        0 limit web 3 @hub,default/a channels=web -> created most=3 v=1 g=1
        0 reserve r a=2 channel=web       -> active until 600000 a=2 #web.1=2
        0 reserve s hub/a=2 channel=web   -> limit_exceeded web=2+2>3
        0 reserve s hub/a=2 channel=app   -> active until 600000 hub/a=2
        0 reserve t hub/a=2,a=2 channel=web partial -> active until 600000 hub/a=1/2 #web.1=1
        0 reserve u hub/a=2 channel=web partial -> limit_exceeded web=3+2>3
        0 reserve u a=1 channel=web override -> active until 600000 a=1 #web.1=1
        0 limit web 1 @hub,default/a channels=web -> limit most=1 v=2 g=1
        0 reserve v a=1 channel=web       -> limit_exceeded web=4+1>1
        0 amend r a=1                     -> active until 600000 a=1 #web.1=1
        0 limit web 9 @hub channels=web   -> limit most=9 v=3 g=3
        0 release r                       -> cancelled at 0 a=1 #web.1=1
        0 reserve v hub/a=6 channel=web   -> active until 600000 hub/a=6 #web.3=6
        0 unlimit web version=2           -> precondition_failed v=3
        0 unlimit web                     -> no limit v=4
        0 unlimit web                     -> no limit v=4
        0 unlimit ghost                   -> unknown_limit ghost
        0 reserve w a=6 channel=web       -> active until 600000 a=6
        0 limit web 0 a                   -> created most=0 v=5 g=5
        0 reserve x a=1                   -> limit_exceeded web=0+1>0
        ",
    );
}

#[test]
fn due_holds_that_count_for_a_limit_end_first() {
    check(
        "
        0 stock a 9                       -> created total=9 available=9 v=1
        0 stock b 9                       -> created total=9 available=9 v=1
        0 limit hoard 2 a,b per=owner held -> created most=2 v=1 g=1
        0 reserve r a=1 ttl=1             -> active until 1000 a=1 #hoard.1(owner)=1
        0 reserve s a=1 ttl=2             -> active until 2000 a=1 #hoard.1(owner)=1
        999 reserve t b=1                 -> limit_exceeded hoard(owner)=2+1>2
        1000 reserve t b=1                -> active until 601000 b=1 #hoard.1(owner)=1
        1000 confirm t                    -> confirmed at 1000 b=1 #hoard.1(owner)=1
        1000 reserve u b=1                -> active until 601000 b=1 #hoard.1(owner)=1
        1000 reserve v b=1 owner=other    -> active until 601000 b=1 #hoard.1(other)=1
        ",
    );
}

#[test]
fn units_that_change_hands_count_for_the_new_one() {
    check(
        "
        0 stock a 99                      -> created total=99 available=99 v=1
        0 limit two 2 a per=customer      -> created most=2 v=1 g=1
        0 reserve r a=2 customer=ann      -> active until 600000 a=2 #two.1(ann)=2
        0 reserve s a=1 customer=bob      -> active until 600000 a=1 #two.1(bob)=1
        0 transfer r customer=bob         -> limit_exceeded two(bob)=1+2>2
        0 transfer r customer=-           -> customer_required two
        0 transfer s customer=ann         -> limit_exceeded two(ann)=2+1>2
        0 transfer r owner=other          -> active until 600000 a=2 #two.1(ann)=2
        0 split r a=1 into=t              -> active until 600000 a=1 #two.1(ann)=1
        0 merge r s                       -> limit_exceeded two(ann)=2+1>2
        0 release t                       -> cancelled at 0 a=1 #two.1(ann)=1
        0 merge r s                       -> active until 600000 a=2 #two.1(ann)=2
        0 reserve u a=2 customer=bob      -> active until 600000 a=2 #two.1(bob)=2
        0 transfer r customer=eve         -> active until 600000 a=2 #two.1(eve)=2
        0 reserve v a=2 customer=ann ttl=1 -> active until 1000 a=2 #two.1(ann)=2
        2000 reserve w a=1 customer=ann   -> active until 602000 a=1 #two.1(ann)=1
        2000 confirm v reacquire into=x   -> not_reacquired v: limit_exceeded two(ann)=1+2>2
        2000 release w                    -> cancelled at 2000 a=1 #two.1(ann)=1
        2000 confirm v reacquire into=x   -> confirmed at 2000 a=2 #two.1(ann)=2
        ",
    );
}

#[test]
fn a_new_limit_knows_nothing_older() {
    check(
        "
        0 stock a 9                       -> created total=9 available=9 v=1
        0 reserve r a=2 customer=ann      -> active until 600000 a=2
        0 limit two 2 a per=customer      -> created most=2 v=1 g=1
        0 amend r a=4                     -> active until 600000 a=4 #two.1(ann)=2
        0 amend r a=3                     -> active until 600000 a=3 #two.1(ann)=1
        0 amend r a=1                     -> active until 600000 a=1
        0 reserve s a=2 customer=ann      -> active until 600000 a=2 #two.1(ann)=2
        0 limit two 2 a,a                 -> invalid_request /items/1
        0 limit two 2 a channels=b+b      -> invalid_request /channels/1
        0 limit two 1000000000001 a       -> invalid_request /limit
        ",
    );
}
