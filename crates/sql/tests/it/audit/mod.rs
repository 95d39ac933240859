//! The books of a database, whatever its dialect: recounted, and made shorter.

pub(crate) mod archive;
pub(crate) mod pools;
pub(crate) mod transfer;
pub(crate) mod verify;

use crate::fixture::{Desk, run, stock, wait_until};
use crate::shared::proxy::Proxy;
use crate::wire::PostgresWire;
use stockhold_conformance::{Maker, START, maker};
use stockhold_domain::{
    Envelope, Instant, ItemKey, LimitTerms, Outcome, RecordKind, ReservationId, Scope, SubjectKind,
};
use stockhold_sql::{Options, VerifyReport};
use stockhold_store::{Failure, Query, QueryResult, Store};

/// A database with a clock in the test's hands.
pub(crate) trait Shop {
    fn url(&self) -> String;
    fn options(&self) -> Options;
    fn store(&self) -> Box<dyn Store>;
    fn set_clock(&mut self, now: Instant);
    /// What the database's tables begin with.
    const TABLES: &'static str;
    /// Runs statements; `{t}` stands for what tables begin with.
    fn sql(&mut self, statements: &str);
    /// Whether the database refuses statements.
    fn refuses(&mut self, statements: &str) -> bool;
    /// Somebody else who runs statements, in a session that ends with it.
    fn somebody(&self) -> Box<dyn FnMut(&str)>;
    /// Whether stores open another connection in place of one that was cut, before they answer that nothing was done.
    const RECONNECTS: bool;
    /// Somebody between stores and the server.
    fn proxy(&self) -> Proxy;
    /// Ends the stores' connections.
    fn kill_stores(&mut self);
    /// Ends the connections of stores and audits, from any thread.
    fn cutter(&self) -> Box<dyn FnMut() + Send>;
    /// Puts the lines of a reservation where a store won't find them by its deadline.
    fn misplace(&mut self, id: ReservationId);
    /// Waits until so many of the stores' sessions wait for a lock.
    fn wait_until_locked_out(&mut self, sessions: usize);
    /// Whether a store that numbers events waits for a lock.
    fn numbering_waits(&mut self) -> bool;
    /// Waits until a store waits for another to number events.
    fn wait_until_numbering_waits(&mut self) {
        wait_until(|| self.numbering_waits());
    }
    /// Another database.
    fn another() -> Self;
    /// A database whose deadlocks can be distinguished from those of other tests.
    fn alone() -> Self;
    /// How many deadlocks were found, once no store is left.
    fn deadlocks(&mut self) -> u64;
    /// Deadlocks that claims of any units and of named units may have by chance, of some hundred.
    const CHANCE_DEADLOCKS: u64 = 0;
    /// A condition that says where the row of an item is, with `AND` behind it, if a lock of the row needs one.
    fn place_of(_: &ItemKey) -> String {
        String::new()
    }
    /// Rows that contradict each other.
    fn audit(&mut self);
}

impl Shop for crate::fixture::Bench {
    const TABLES: &'static str = "stockhold.";

    fn url(&self) -> String {
        self.database.url.clone()
    }

    fn options(&self) -> Options {
        Self::options()
    }

    fn store(&self) -> Box<dyn Store> {
        Box::new(self.connect())
    }

    fn set_clock(&mut self, now: Instant) {
        self.set_clock(now);
    }

    fn sql(&mut self, statements: &str) {
        self.session.run(&statements.replace("{t}", Self::TABLES));
    }

    fn refuses(&mut self, statements: &str) -> bool {
        self.session.try_run(&statements.replace("{t}", Self::TABLES)).is_err()
    }

    fn somebody(&self) -> Box<dyn FnMut(&str)> {
        let mut session = self.another_session();
        Box::new(move |statements| session.run(&statements.replace("{t}", Self::TABLES)))
    }

    const RECONNECTS: bool = false;

    fn proxy(&self) -> Proxy {
        Proxy::new::<PostgresWire>(self.database.server().socket(), self.database.name())
    }

    fn kill_stores(&mut self) {
        self.kill_stores();
    }

    fn cutter(&self) -> Box<dyn FnMut() + Send> {
        let mut session = self.another_session();
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

    fn wait_until_locked_out(&mut self, sessions: usize) {
        self.wait_until_locked_out(sessions);
    }

    fn numbering_waits(&mut self) -> bool {
        self.session.texts(&Self::waits_for_locks("LIKE", 1)) == ["t"]
    }

    fn another() -> Self {
        Self::new()
    }

    fn alone() -> Self {
        Self::new()
    }

    fn deadlocks(&mut self) -> u64 {
        // A session adds what it has counted when it ends.
        self.session.wait_for(
            "SELECT count(*) = 0 FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'",
        );
        let counted = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
        self.session.text(counted).parse().unwrap()
    }

    fn audit(&mut self) {
        self.audit();
    }
}

/// Every test, once for each dialect.
macro_rules! for_every_dialect {
    ($of:ident: $($module:ident: $($name:ident)*;)*) => {
        mod postgres {
            $(mod $module { $(#[test] fn $name() {
                crate::$of::$module::$name(&mut crate::fixture::Bench::new());
            })* })*
        }
        mod mysql {
            $(mod $module { $(#[test] fn $name() {
                crate::$of::$module::$name(&mut crate::mysql::Bench::new());
            })* })*
        }
    };
}
pub(crate) use for_every_dialect;

for_every_dialect! { audit:
    verify:
        a_database_without_a_schema_is_left_alone
        whatever_callers_did_adds_up
        it_sees_one_moment_while_instances_go_on
        every_kind_of_drift_is_found;
    archive:
        what_is_old_and_over_leaves_and_the_rest_adds_up
        a_long_history_stays_out_of_its_row_and_leaves_with_it
        nothing_leaves_books_that_do_not_add_up
        an_archive_that_is_cut_between_the_events_of_a_file_goes_on
        a_file_of_which_a_part_has_left_is_needed
        one_archive_is_at_work_at_a_time
        what_left_the_database_wrongly_is_found_with_the_archive
        keys_are_kept_as_long_as_any_server_promises
        a_key_that_outlived_its_reservation_is_no_alarm
        instances_go_on_while_it_leaves;
    pools:
        pools_that_were_damaged_are_found
        what_archived_reservations_drew_counts;
    transfer:
        what_is_taken_over_adds_up_and_is_served
        what_was_cut_off_is_nobodys_store
        a_server_that_ran_before_does_not_go_on
        what_does_not_add_up_is_nobodys_store;
}

pub(crate) fn verdict<S: Shop>(shop: &S) -> VerifyReport {
    stockhold_sql::verify(&shop.url(), &shop.options(), |_| ()).unwrap()
}

pub(crate) fn adds_up<S: Shop>(shop: &S) -> VerifyReport {
    let verdict = verdict(shop);
    assert_eq!((verdict.drift, &verdict.findings), (0, &Vec::new()));
    verdict
}

fn days(days: i64) -> Instant {
    Instant::from_micros(START.micros() + days * 86_400_000_000)
}

fn newest(store: &dyn Store) -> u64 {
    // Asking for events numbers them.
    let _ = Desk::new().find(store, Query::Events { after: 0, limit: 1 });
    store.newest()
}

fn events_after(store: &dyn Store, after: u64) -> Result<QueryResult, Failure> {
    Desk::new().find(store, Query::Events { after, limit: 10_000 })
}

/// What every kind of command leaves behind.
pub(crate) struct Traces {
    items: Vec<ItemKey>,
    active: ReservationId,
    confirmed: ReservationId,
    returned: ReservationId,
    cancelled: ReservationId,
}

fn done(store: &dyn Store, envelope: Envelope) -> ReservationId {
    let outcome = run(store, envelope);
    match &outcome {
        Ok(Outcome::Done(stockhold_domain::Reply::Reservation(hold))) => hold.id,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn every_command(store: &dyn Store, maker: &mut Maker, name: &str) -> Traces {
    let items: Vec<ItemKey> =
        ["a", "b", "c"].iter().map(|n| stock(store, maker, &format!("{name}{n}"), 50)).collect();
    let [a, b, c] = [&items[0], &items[1], &items[2]];
    // One counts for each owner, one for all together. One is of another generation by the end, and one is deleted.
    let owner = LimitTerms { per: Some(SubjectKind::Owner), ..maker::per_customer(&[a, b], 1_000) };
    let shared = LimitTerms { per: None, ..maker::per_customer(&[b, c], 1_000) };
    let limits = ["owner", "shared", "changed", "deleted"].map(|n| maker.limit(&format!("{name}{n}")));
    for (id, terms) in limits.iter().zip([&owner, &shared, &owner, &shared]) {
        run(store, maker.wrap(maker::set_limit(id, terms.clone()))).unwrap();
    }
    let mut reserve = |key: &str, wants: &[(&ItemKey, u64)]| {
        done(store, maker.keyed(&format!("{name}{key}"), maker::reserve_for(60, wants)))
    };
    let active = reserve("active", &[(a, 3), (b, 1)]);
    let confirmed = reserve("confirmed", &[(a, 2), (c, 5)]);
    let returned = reserve("returned", &[(b, 4)]);
    let cancelled = reserve("cancelled", &[(c, 1)]);
    done(store, maker.wrap(maker::extend(active, 120)));
    done(store, maker.keyed(&format!("{name}confirm"), maker::confirm_as(confirmed, "order-1")));
    run(store, maker.wrap(maker::set_limit(&limits[2], shared))).unwrap();
    run(store, maker.wrap(maker::delete_limit(&limits[3]))).unwrap();
    done(store, maker.wrap(maker::confirm(returned)));
    done(store, maker.wrap(maker::return_all(returned)));
    done(store, maker.wrap(maker::release(cancelled)));
    run(store, maker.wrap(maker::adjust(a, 7))).unwrap();
    run(store, maker.wrap(maker::pause(&Scope::Item(c.clone())))).unwrap();
    let place = Scope::Location(maker.location("elsewhere"));
    run(store, maker.wrap(maker::pause(&place))).unwrap();
    // One item is deleted for good, and one is made again; one that had a unit with an id goes as well.
    let hall = maker.item(&format!("{name}hall"));
    let [gone, again] = ["gone", "again"].map(|n| stock(store, maker, &format!("{name}{n}"), 9));
    for command in [
        maker::create_unit_item(&hall),
        maker::add_units(&hall, maker::row("stalls", "A", &["a"])),
        maker::retire(&hall, "a"),
        maker::delete(&hall),
        maker::delete(&gone),
        maker::delete(&again),
        maker::set_stock(&again, 4),
    ] {
        let told = run(store, maker.wrap(command));
        assert!(matches!(told, Ok(Outcome::Done(_))), "{told:?}");
    }
    let records = ["kept", "deleted"].map(|n| maker.record(RecordKind::SigningKey, &format!("{name}{n}")));
    for record in &records {
        run(store, maker.keyed(&format!("{name}{}", record.id), maker::put_record(record, 0, b"one")))
            .unwrap();
    }
    run(store, maker.wrap(maker::put_record(&records[0], 1, b"two"))).unwrap();
    run(store, maker.wrap(maker::delete_record(&records[1], 1))).unwrap();
    Traces { items, active, confirmed, returned, cancelled }
}

/// A reservation of which a part of the history is in a row of its own.
fn often_amended(store: &dyn Store, maker: &mut Maker) -> ReservationId {
    const AMENDS: u64 = 100;
    let item = stock(store, maker, "often", 9);
    let id = done(store, maker.wrap(maker::reserve_for(60, &[(&item, 1)])));
    for number in 0..AMENDS {
        done(store, maker.wrap(maker::amend(id, &[(&item, 2 + number % 2)])));
    }
    id
}
