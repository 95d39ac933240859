//! PostgreSQL with Citus: a coordinator and two workers, the tables spread over the workers. What every dialect is tested with runs
//! here too, except what is about one server.

mod disturbed;
mod keys;
mod nodes;
mod recount;
mod start;

use crate::audit::Shop;
use crate::fixture::Bench as Single;
use crate::shared::proxy::Proxy;
use crate::support::Session;
use crate::support::citus::{Cluster, SHARDS};
use crate::wire::PostgresWire;
use std::sync::Arc;
use stockhold_conformance::START;
use stockhold_domain::{Instant, ItemKey, ReservationId, bucket_of};
use stockhold_sql::Options;
use stockhold_sql::postgres;
use stockhold_store::Store;

/// A database of a cluster, with a clock for stores to read.
pub(crate) struct Bench {
    cluster: Arc<Cluster>,
    name: String,
    session: Session,
}

impl Bench {
    /// `None` where there is no Citus: the test does not run.
    fn new() -> Option<Self> {
        Some(Self::on(&Cluster::shared()?))
    }

    fn on(cluster: &Arc<Cluster>) -> Self {
        Self::in_database(cluster, cluster.database())
    }

    fn in_database(cluster: &Arc<Cluster>, name: String) -> Self {
        let url = cluster.coordinator().url(&name);
        let mut session = Session::open(&url);
        session.run("CREATE TABLE public.test_clock (micros bigint)");
        session.run(&format!("INSERT INTO public.test_clock VALUES ({})", START.micros()));
        let spread = postgres::distribute(&url, Single::options(), SHARDS).expect("the tables are spread");
        assert!(spread.is_new);
        Self { cluster: Arc::clone(cluster), name, session }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.cluster.remove(&self.name);
        }
    }
}

impl Shop for Bench {
    const TABLES: &'static str = "stockhold.";

    fn url(&self) -> String {
        self.cluster.coordinator().url(&self.name)
    }

    fn options(&self) -> Options {
        Single::options()
    }

    fn store(&self) -> Box<dyn Store> {
        Box::new(postgres::open(&self.url(), self.options()).expect("the store connects"))
    }

    fn set_clock(&mut self, now: Instant) {
        self.session.run(&format!("UPDATE public.test_clock SET micros = {}", now.micros()));
    }

    fn sql(&mut self, statements: &str) {
        self.session.run(&statements.replace("{t}", Self::TABLES));
    }

    fn refuses(&mut self, statements: &str) -> bool {
        self.session.try_run(&statements.replace("{t}", Self::TABLES)).is_err()
    }

    fn somebody(&self) -> Box<dyn FnMut(&str)> {
        let mut session = Session::open(&self.url());
        Box::new(move |statements| session.run(&statements.replace("{t}", Self::TABLES)))
    }

    const RECONNECTS: bool = false;

    fn proxy(&self) -> Proxy {
        Proxy::new::<PostgresWire>(self.cluster.coordinator().socket(), &self.name)
    }

    fn kill_stores(&mut self) {
        self.session.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'stockhold'",
        );
    }

    fn cutter(&self) -> Box<dyn FnMut() + Send> {
        let mut session = Session::open(&self.url());
        Box::new(move || {
            session.run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE datname = current_database() AND application_name = 'stockhold'",
            );
        })
    }

    fn misplace(&mut self, id: ReservationId) {
        self.session.run(&format!(
            "UPDATE stockhold.active_lines SET expires_at = expires_at - 1000 WHERE id = '{id}'"
        ));
    }

    /// A session waits at the coordinator, or its statement waits at a worker.
    fn wait_until_locked_out(&mut self, sessions: usize) {
        self.session.wait_for(&format!(
            "SELECT (SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event_type = 'Lock' AND query NOT LIKE '%stockhold.sequencer%')
             + (SELECT count(DISTINCT waiting_gpid) FROM citus_lock_waits) >= {sessions}"
        ));
    }

    fn numbering_waits(&mut self) -> bool {
        self.session.texts(&crate::fixture::Bench::waits_for_locks("LIKE", 1)) == ["t"]
    }

    fn another() -> Self {
        Self::new().expect("a cluster, since there is one already")
    }

    fn alone() -> Self {
        Self::another()
    }

    fn deadlocks(&mut self) -> u64 {
        let counted =
            "SELECT coalesce(sum(deadlocks), 0) FROM pg_stat_database WHERE datname = current_database()";
        self.session.text(counted).parse().unwrap()
    }

    /// Citus locks rows of one bucket only.
    fn place_of(item: &ItemKey) -> String {
        format!("bucket = {} AND ", bucket_of(item))
    }

    /// Figures of items against the rows that they sum up.
    fn audit(&mut self) {
        let wrong = self.session.texts(
            "SELECT format('%s holds %s, its lines %s', sku, held, coalesce(lines, 0))
             FROM stockhold.items LEFT JOIN (
                 SELECT bucket, location, sku, sum(quantity) AS lines, count(*) AS holds
                 FROM stockhold.active_lines GROUP BY bucket, location, sku
             ) AS lines USING (bucket, location, sku)
             WHERE mode = 0 AND (held <> coalesce(lines, 0) OR active <> coalesce(holds, 0))",
        );
        assert!(wrong.is_empty(), "{wrong:?}");
        let verdict = stockhold_sql::verify(&self.url(), &self.options(), |_| ()).unwrap();
        assert_eq!((verdict.drift, &verdict.findings), (0, &Vec::new()));
    }
}

/// Tests that every dialect has.
macro_rules! on_citus {
    ($($of:ident::$module:ident: $($name:ident)*;)*) => {
        $(mod $module { $(#[test] fn $name() {
            if let Some(mut bench) = super::Bench::new() {
                crate::$of::$module::$name(&mut bench);
            }
        })* })*
    };
}

on_citus! {
    shared::late_arrivals:
        who_comes_while_the_lock_is_waited_for_goes_along
        who_goes_along_and_repeats_a_key_is_told_of_the_first
        who_goes_along_and_uses_a_key_for_something_else_is_refused
        who_goes_along_and_would_be_refused_is_judged_with_his_key;
    shared::conformance:
        every_case_of_the_suite
        every_case_of_archives
        random_histories_agree_with_the_model
        random_histories_with_units_agree_with_the_model
        histories_under_a_clock_that_steps_stay_sound;
    shared::cuts:
        cut_before_commit_reaches_the_server_the_outcome_is_unknown_and_nothing_was_done
        cut_when_the_server_has_committed_the_outcome_is_unknown_and_the_retry_finds_it
        cut_when_the_answer_has_come_nothing_is_lost
        a_network_that_is_gone_for_a_while_is_unavailable_and_the_same_store_serves_again;
    shared::faults:
        a_confirm_stalled_behind_a_lock_past_the_deadline_is_refused
        what_another_instance_committed_under_the_awaited_lock_is_seen
        a_lock_that_is_never_given_is_overloaded_and_nothing_is_done
        a_fresh_id_that_is_in_use_is_internal_for_its_command_only;
    shared::instances:
        a_thousand_buyers_at_two_and_four_instances_get_a_hundred_units
        one_key_used_at_several_instances_at_once_has_one_effect
        baskets_in_opposite_orders_at_several_instances_do_not_deadlock
        whatever_callers_do_at_several_instances_the_books_balance
        a_key_that_another_instance_is_committing_is_waited_for
        an_item_that_another_instance_is_creating_is_waited_for
        two_instances_that_create_the_same_items_create_each_once
        confirm_release_and_expiry_at_two_instances_agree_on_one_end
        positions_are_dense_and_follow_each_items_sequence
        two_instances_that_sweep_at_once_expire_each_hold_once
        a_pause_waits_for_what_was_decided_before_it_and_stops_what_comes_after
        a_record_that_another_instance_is_creating_is_waited_for
        of_two_instances_that_change_the_same_record_one_succeeds;
    shared::limits:
        a_limit_waits_for_what_was_decided_before_it_and_stops_what_comes_after
        a_customer_gets_as_many_at_several_instances_as_the_limit_allows
        a_shared_limit_is_counted_once_over_several_instances
        a_counter_that_another_instance_is_creating_is_waited_for
        counters_of_ended_generations_are_deleted
        the_sweeper_expires_counted_holds
        a_counter_that_somebody_has_locked_keeps_no_other_hold_from_being_expired
        of_a_thousand_buyers_nobody_gets_three_units_and_nobody_less_than_was_left
        a_limit_that_changes_under_load_counts_what_its_reservations_have;
    shared::pools:
        a_presale_that_ends_in_the_millisecond_of_a_reserve_promises_no_unit_twice
        the_sweeper_releases_pools_on_time_and_each_once
        an_item_that_somebody_has_locked_keeps_no_other_pool_from_its_release
        a_sweep_that_somebody_submits_releases_what_others_have_not;
    shared::sweeper:
        a_crowd_that_falls_due_at_once_is_expired_each_once_and_none_before_its_time
        an_item_that_somebody_has_locked_stops_neither_the_others_nor_half_of_a_basket
        a_lock_that_is_never_released_delays_no_other_reservation
        a_hold_that_cannot_be_expired_is_counted_and_keeps_nobody_waiting
        a_sweep_that_somebody_submits_and_the_stores_own_do_not_meet
        a_crowd_is_reclaimed_while_others_reserve_the_same_items;
    shared::traffic:
        half_an_hour_at_two_instances;
    unit_items::races:
        two_units_and_a_thousand_buyers
        overlapping_names_in_opposite_orders
        who_loses_the_best_finds_the_next_best
        any_and_the_best_at_once
        units_that_fall_due_in_the_middle
        baskets_of_both_kinds_in_opposite_orders
        safety_stock_is_kept_at_two_instances
        whatever_callers_do_adds_up;
    unit_items::audit:
        sold_units_outlive_the_archive
        a_hall_is_taken_over;
    unit_items::histories:
        a_history_takes_no_more_room_than_it_shows
        events_that_were_archived_are_left_out;
    audit::verify:
        whatever_callers_did_adds_up;
    audit::archive:
        what_is_old_and_over_leaves_and_the_rest_adds_up
        a_long_history_stays_out_of_its_row_and_leaves_with_it
        an_archive_that_is_cut_between_the_events_of_a_file_goes_on
        a_file_of_which_a_part_has_left_is_needed
        one_archive_is_at_work_at_a_time
        what_left_the_database_wrongly_is_found_with_the_archive
        keys_are_kept_as_long_as_any_server_promises
        a_key_that_outlived_its_reservation_is_no_alarm;
    audit::transfer:
        what_is_taken_over_adds_up_and_is_served
        what_was_cut_off_is_nobodys_store;
}
