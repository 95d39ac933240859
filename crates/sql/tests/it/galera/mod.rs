//! MariaDB with Galera: three nodes, and stores on different nodes. What every dialect is tested with runs here too. What is about a lock
//! that somebody holds runs with all stores on one node, because a node does not know of the locks of another.

#[path = "../../support/galera.rs"]
pub(crate) mod support;

mod causes;
mod nodes;

use crate::audit::Shop;
use crate::mysql::bench::{Bench as Single, audit};
use crate::mysql::support::Session;
use crate::mysql::wire::MysqlWire;
use crate::shared::proxy::Proxy;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use stockhold_conformance::START;
use stockhold_domain::{Instant, ReservationId};
use stockhold_sql::Options;
use stockhold_sql::mysql;
use stockhold_store::Store;
use support::{Cluster, NODES};

/// A database of a cluster, with a clock for stores to read. If `SPREAD` is set, each store goes to another node than the one before.
pub(crate) struct Bench<const SPREAD: bool> {
    cluster: Arc<Cluster>,
    name: String,
    /// A session at the first node.
    session: Session,
    /// Stores that were opened.
    stores: AtomicUsize,
}

impl<const SPREAD: bool> Bench<SPREAD> {
    fn new() -> Self {
        Self::on(&Cluster::shared())
    }

    fn on(cluster: &Arc<Cluster>) -> Self {
        let name = cluster.database();
        let mut session = cluster.session(0, &name);
        session.run("CREATE TABLE test_clock (micros BIGINT NOT NULL PRIMARY KEY)");
        session.run(&format!("INSERT INTO test_clock VALUES ({})", START.micros()));
        Self { cluster: Arc::clone(cluster), name, session, stores: AtomicUsize::new(0) }
    }

    /// How stores reach the database at a node.
    fn url_at(&self, node: usize) -> String {
        self.cluster.node(node).url("stockhold", &self.name)
    }

    /// A store at a node.
    fn store_at(&self, node: usize, options: Options) -> Box<dyn Store> {
        Box::new(mysql::open(&self.url_at(node), options).expect("the store connects"))
    }

    /// A session at a node that sees what was committed at the others.
    fn session_at(&self, node: usize) -> Session {
        let mut session = self.cluster.session(node, &self.name);
        session.run("SET SESSION wsrep_sync_wait = 7");
        session
    }
}

impl<const SPREAD: bool> Drop for Bench<SPREAD> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = self.session.try_run(&format!("DROP DATABASE {}", self.name));
        }
    }
}

impl<const SPREAD: bool> Shop for Bench<SPREAD> {
    const TABLES: &'static str = "stockhold_";

    fn url(&self) -> String {
        let number = self.stores.fetch_add(1, Ordering::Relaxed);
        self.url_at(if SPREAD { number % NODES } else { 0 })
    }

    fn options(&self) -> Options {
        Single::options()
    }

    fn store(&self) -> Box<dyn Store> {
        Box::new(mysql::open(&self.url(), self.options()).expect("the store connects"))
    }

    fn set_clock(&mut self, now: Instant) {
        self.session.run(&format!("UPDATE test_clock SET micros = {}", now.micros()));
    }

    fn sql(&mut self, statements: &str) {
        self.session.run(&statements.replace("{t}", Self::TABLES));
    }

    fn refuses(&mut self, statements: &str) -> bool {
        self.session.try_run(&statements.replace("{t}", Self::TABLES)).is_err()
    }

    fn somebody(&self) -> Box<dyn FnMut(&str)> {
        let mut session = self.session_at(0);
        Box::new(move |statements| session.run(&statements.replace("{t}", Self::TABLES)))
    }

    const RECONNECTS: bool = true;

    fn proxy(&self) -> Proxy {
        Proxy::new::<MysqlWire>(self.cluster.node(0).socket(), &self.name)
    }

    fn kill_stores(&mut self) {
        for node in 0..NODES {
            self.session_at(node).kill_stores();
        }
    }

    fn cutter(&self) -> Box<dyn FnMut() + Send> {
        let mut sessions: Vec<Session> = (0..NODES).map(|node| self.session_at(node)).collect();
        Box::new(move || sessions.iter_mut().for_each(Session::kill_stores))
    }

    fn misplace(&mut self, id: ReservationId) {
        self.session.run(&format!(
            "UPDATE stockhold_active_lines SET expires_at = expires_at - 1000, due = due - 1000 WHERE id = x'{:032x}'",
            id.as_u128()
        ));
    }

    fn wait_until_locked_out(&mut self, sessions: usize) {
        self.session.wait_until("sessions wait for locks", |session| session.locked_out(false) >= sessions);
    }

    fn numbering_waits(&mut self) -> bool {
        self.session.locked_out(true) >= 1
    }

    fn another() -> Self {
        Self::new()
    }

    fn alone() -> Self {
        Self::on(&Arc::new(Cluster::alone()))
    }

    // As for one MariaDB.
    const CHANCE_DEADLOCKS: u64 = Single::CHANCE_DEADLOCKS;

    /// Of the nodes for themselves. What the cluster aborts is not counted as one.
    fn deadlocks(&mut self) -> u64 {
        let counted = |node| self.session_at(node).status("Innodb_deadlocks").parse::<u64>().unwrap();
        (0..NODES).map(counted).sum()
    }

    /// At each node.
    fn audit(&mut self) {
        for node in 0..NODES {
            audit(&mut self.session_at(node));
        }
        let verdict = stockhold_sql::verify(&self.url(), &self.options(), |_| ()).unwrap();
        assert_eq!((verdict.drift, &verdict.findings), (0, &Vec::new()));
    }
}

/// Tests that every dialect has.
macro_rules! on_galera {
    ($name:ident, $spread:literal: $($of:ident::$module:ident: $($test:ident)*;)*) => {
        mod $name {
            $(mod $module { $(#[test] fn $test() {
                crate::$of::$module::$test(&mut crate::galera::Bench::<$spread>::new());
            })* })*
        }
    };
}

on_galera! { spread, true:
    shared::conformance:
        every_case_of_the_suite
        random_histories_agree_with_the_model
        random_histories_with_units_agree_with_the_model
        histories_under_a_clock_that_steps_stay_sound;
    shared::faults:
        a_fresh_id_that_is_in_use_is_internal_for_its_command_only;
    shared::instances:
        a_thousand_buyers_at_two_and_four_instances_get_a_hundred_units
        one_key_used_at_several_instances_at_once_has_one_effect
        baskets_in_opposite_orders_at_several_instances_do_not_deadlock
        whatever_callers_do_at_several_instances_the_books_balance
        two_instances_that_create_the_same_items_create_each_once
        confirm_release_and_expiry_at_two_instances_agree_on_one_end
        positions_are_dense_and_follow_each_items_sequence
        two_instances_that_sweep_at_once_expire_each_hold_once
        of_two_instances_that_change_the_same_record_one_succeeds;
    shared::limits:
        a_customer_gets_as_many_at_several_instances_as_the_limit_allows
        a_shared_limit_is_counted_once_over_several_instances
        counters_of_ended_generations_are_deleted
        the_sweeper_expires_counted_holds
        of_a_thousand_buyers_nobody_gets_three_units_and_nobody_less_than_was_left
        a_limit_that_changes_under_load_counts_what_its_reservations_have;
    shared::pools:
        a_presale_that_ends_in_the_millisecond_of_a_reserve_promises_no_unit_twice
        the_sweeper_releases_pools_on_time_and_each_once
        a_sweep_that_somebody_submits_releases_what_others_have_not;
    shared::sweeper:
        a_crowd_that_falls_due_at_once_is_expired_each_once_and_none_before_its_time
        a_hold_that_cannot_be_expired_is_counted_and_keeps_nobody_waiting
        a_sweep_that_somebody_submits_and_the_stores_own_do_not_meet
        a_crowd_is_reclaimed_while_others_reserve_the_same_items;
    shared::traffic:
        half_an_hour_at_two_instances
        half_an_hour_at_four_instances;
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
        a_key_that_outlived_its_reservation_is_no_alarm
        instances_go_on_while_it_leaves;
    audit::transfer:
        what_is_taken_over_adds_up_and_is_served
        what_was_cut_off_is_nobodys_store;
}

on_galera! { one_node, false:
    shared::late_arrivals:
        who_comes_while_the_lock_is_waited_for_goes_along
        who_goes_along_and_repeats_a_key_is_told_of_the_first
        who_goes_along_and_uses_a_key_for_something_else_is_refused
        who_goes_along_and_would_be_refused_is_judged_with_his_key;
    shared::cuts:
        cut_before_commit_reaches_the_server_the_outcome_is_unknown_and_nothing_was_done
        cut_when_the_server_has_committed_the_outcome_is_unknown_and_the_retry_finds_it
        cut_when_the_answer_has_come_nothing_is_lost
        a_network_that_is_gone_for_a_while_is_unavailable_and_the_same_store_serves_again;
    shared::faults:
        a_confirm_stalled_behind_a_lock_past_the_deadline_is_refused
        what_another_instance_committed_under_the_awaited_lock_is_seen
        a_lock_that_is_never_given_is_overloaded_and_nothing_is_done;
    shared::instances:
        a_key_that_another_instance_is_committing_is_waited_for
        an_item_that_another_instance_is_creating_is_waited_for
        a_position_that_another_instance_is_giving_is_waited_for
        what_is_committed_while_events_are_numbered_keeps_its_order
        a_pause_waits_for_what_was_decided_before_it_and_stops_what_comes_after
        a_record_that_another_instance_is_creating_is_waited_for;
    shared::limits:
        a_limit_waits_for_what_was_decided_before_it_and_stops_what_comes_after
        a_counter_that_another_instance_is_creating_is_waited_for
        a_counter_that_somebody_has_locked_keeps_no_other_hold_from_being_expired;
    shared::pools:
        an_item_that_somebody_has_locked_keeps_no_other_pool_from_its_release;
    shared::sweeper:
        an_item_that_somebody_has_locked_stops_neither_the_others_nor_half_of_a_basket
        a_lock_that_is_never_released_delays_no_other_reservation;
}
