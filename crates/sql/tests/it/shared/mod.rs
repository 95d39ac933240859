//! What stores do alike over every database, whatever its dialect.

pub(crate) mod proxy;

pub(crate) mod conformance;
pub(crate) mod cuts;
pub(crate) mod faults;
pub(crate) mod instances;
pub(crate) mod late_arrivals;
pub(crate) mod limits;
pub(crate) mod pools;
pub(crate) mod sweeper;
pub(crate) mod traffic;

use crate::audit::{Shop, for_every_dialect};
use std::sync::Arc;
use stockhold_conformance::START;
use stockhold_domain::{Instant, ItemKey};
use stockhold_sql::Options;
use stockhold_store::Store;

for_every_dialect! { shared:
    late_arrivals:
        who_comes_while_the_lock_is_waited_for_goes_along
        who_goes_along_and_repeats_a_key_is_told_of_the_first
        who_goes_along_and_uses_a_key_for_something_else_is_refused
        who_goes_along_and_would_be_refused_is_judged_with_his_key;
    conformance:
        every_case_of_the_suite
        every_case_of_archives
        random_histories_agree_with_the_model
        random_histories_with_units_agree_with_the_model
        histories_under_a_clock_that_steps_stay_sound;
    cuts:
        cut_before_commit_reaches_the_server_the_outcome_is_unknown_and_nothing_was_done
        cut_when_the_server_has_committed_the_outcome_is_unknown_and_the_retry_finds_it
        cut_when_the_answer_has_come_nothing_is_lost
        a_server_that_freezes_in_the_middle_of_a_batch_does_not_keep_its_items_locked
        a_network_that_is_gone_for_a_while_is_unavailable_and_the_same_store_serves_again;
    faults:
        a_confirm_stalled_behind_a_lock_past_the_deadline_is_refused
        what_another_instance_committed_under_the_awaited_lock_is_seen
        a_lock_that_is_never_given_is_overloaded_and_nothing_is_done
        a_fresh_id_that_is_in_use_is_internal_for_its_command_only
        an_assertion_that_fires_is_internal_for_its_command_only
        a_damaged_row_is_never_served;
    instances:
        a_thousand_buyers_at_two_and_four_instances_get_a_hundred_units
        one_key_used_at_several_instances_at_once_has_one_effect
        baskets_in_opposite_orders_at_several_instances_do_not_deadlock
        whatever_callers_do_at_several_instances_the_books_balance
        a_key_that_another_instance_is_committing_is_waited_for
        an_item_that_another_instance_is_creating_is_waited_for
        a_position_that_another_instance_is_giving_is_waited_for
        what_is_committed_while_events_are_numbered_keeps_its_order
        two_instances_that_create_the_same_items_create_each_once
        confirm_release_and_expiry_at_two_instances_agree_on_one_end
        positions_are_dense_and_follow_each_items_sequence
        two_instances_that_sweep_at_once_expire_each_hold_once
        a_pause_waits_for_what_was_decided_before_it_and_stops_what_comes_after
        a_record_that_another_instance_is_creating_is_waited_for
        of_two_instances_that_change_the_same_record_one_succeeds;
    limits:
        a_limit_waits_for_what_was_decided_before_it_and_stops_what_comes_after
        a_customer_gets_as_many_at_several_instances_as_the_limit_allows
        a_shared_limit_is_counted_once_over_several_instances
        a_counter_that_another_instance_is_creating_is_waited_for
        counters_of_ended_generations_are_deleted
        the_sweeper_expires_counted_holds
        a_counter_that_somebody_has_locked_keeps_no_other_hold_from_being_expired
        of_a_thousand_buyers_nobody_gets_three_units_and_nobody_less_than_was_left
        a_limit_that_changes_under_load_counts_what_its_reservations_have;
    pools:
        a_presale_that_ends_in_the_millisecond_of_a_reserve_promises_no_unit_twice
        the_sweeper_releases_pools_on_time_and_each_once
        an_item_that_somebody_has_locked_keeps_no_other_pool_from_its_release
        a_sweep_that_somebody_submits_releases_what_others_have_not;
    sweeper:
        a_crowd_that_falls_due_at_once_is_expired_each_once_and_none_before_its_time
        an_item_that_somebody_has_locked_stops_neither_the_others_nor_half_of_a_basket
        a_lock_that_is_never_released_delays_no_other_reservation
        a_hold_that_cannot_be_read_keeps_no_other_from_being_expired
        a_hold_that_cannot_be_expired_is_counted_and_keeps_nobody_waiting
        a_sweep_that_somebody_submits_and_the_stores_own_do_not_meet
        a_crowd_is_reclaimed_while_others_reserve_the_same_items;
    traffic:
        half_an_hour_at_two_instances
        half_an_hour_at_four_instances;
}

pub(crate) fn later(seconds: i64) -> Instant {
    Instant::from_micros(START.micros() + seconds * 1_000_000)
}

/// A store with options of its own.
pub(crate) fn open<S: Shop>(shop: &S, options: Options) -> Arc<dyn Store> {
    stockhold_sql::open(&shop.url(), options).unwrap()
}

/// Somebody who holds an item's row, as another instance does while it commits, until they commit.
fn lock<S: Shop>(shop: &S, item: &ItemKey) -> Box<dyn FnMut(&str)> {
    let mut holder = shop.somebody();
    let (place, location, sku) = (S::place_of(item), item.location(), item.sku());
    holder(&format!(
        "BEGIN; SELECT 1 FROM {{t}}items WHERE {place}location = '{location}' AND sku = '{sku}' FOR UPDATE"
    ));
    holder
}
