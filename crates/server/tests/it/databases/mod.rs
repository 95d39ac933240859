//! The binary over databases, as its users have it: PostgreSQL and MariaDB of the tests' own, by their ports, with passwords.

#[path = "../../../../sql/tests/support/mysql.rs"]
#[allow(dead_code, reason = "shared with the tests of the stores, which use more of it")]
mod mariadb;
#[path = "../../../../sql/tests/support/mod.rs"]
#[allow(dead_code, reason = "likewise")]
mod postgresql;

mod archived;
mod at_the_start;
mod changed;
mod citus;
mod database_errors;
mod gated;
mod halls;
mod keys;
mod moved;
mod orders;
mod sinks;
mod stock_masters;
mod used;

use crate::support::free_port;
use std::sync::Arc;

/// In no answer, no log and no message.
const PASSWORD: &str = "correct-Horse-7";

/// A database server of a test's own, with one database and one user who has it.
trait Database {
    /// What `serve` says of its store.
    const KIND: &'static str;
    /// The schema that this program knows.
    const SCHEMA: i32;
    /// A clock that shows what it was two days ago.
    const TWO_DAYS_AGO: &'static str;

    fn start() -> Self;
    /// The address as a user of this name and password has it.
    fn url_as(&self, user: &str, password: &str) -> String;
    fn port(&self) -> u16;
    /// As somebody who may do everything there.
    fn sql(&mut self, statements: &str);
    /// As a crash does it.
    fn kill(&mut self);
    fn run(&mut self);
    /// Ends what servers have open.
    fn cut_connections(&mut self);
    fn read_only(&mut self, is: bool);
    /// A user who may look and nothing else, with the same password.
    fn guest(&mut self) -> String;
    /// Lets the guest use the schema that somebody else has made.
    fn let_guest_in(&mut self);
    /// Takes from its user the right to insert, or gives it back.
    fn may_insert(&mut self, may: bool);
    /// Lets nobody in any more, or all.
    fn lets_in(&mut self, does: bool);
    fn newer_schema(&mut self);
    /// Ends the lease of an archive that was killed.
    fn end_archive_lease(&mut self);

    fn url(&self) -> String {
        self.url_as("shop", PASSWORD)
    }
}

struct Postgres {
    server: Arc<postgresql::Server>,
    database: postgresql::Database,
}

impl Postgres {
    fn session(&self) -> postgresql::Session {
        postgresql::Session::open(&self.database.url)
    }
}

impl Database for Postgres {
    const KIND: &'static str = "postgresql";
    const SCHEMA: i32 = stockhold_sql::postgres::SCHEMA_VERSION;
    const TWO_DAYS_AGO: &'static str =
        "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 172800000000";

    fn start() -> Self {
        let server = Arc::new(postgresql::Server::listening(free_port(), |_| String::new()));
        let database = server.database();
        let mut made = Self { server, database };
        let name = made.database.name().to_owned();
        made.sql(&format!(
            "CREATE ROLE shop LOGIN PASSWORD '{PASSWORD}'; ALTER DATABASE {name} OWNER TO shop"
        ));
        made
    }

    fn url_as(&self, user: &str, password: &str) -> String {
        format!("postgres://{user}:{password}@127.0.0.1:{}/{}", self.port(), self.database.name())
    }

    fn port(&self) -> u16 {
        self.server.port()
    }

    fn sql(&mut self, statements: &str) {
        self.session().run(statements);
    }

    fn kill(&mut self) {
        self.server.stop();
    }

    fn run(&mut self) {
        self.server.run();
    }

    fn cut_connections(&mut self) {
        self.session().run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'stockhold'",
        );
    }

    fn read_only(&mut self, is: bool) {
        let name = self.database.name().to_owned();
        let how =
            if is { "SET default_transaction_read_only = on" } else { "RESET default_transaction_read_only" };
        // Set for whoever may do everything too, who sets it back by what is no write.
        let mut session = self.session();
        session.run("SET default_transaction_read_only = off");
        session.run(&format!("ALTER DATABASE {name} {how}"));
        self.cut_connections();
    }

    fn guest(&mut self) -> String {
        let name = self.database.name().to_owned();
        self.sql(&format!(
            "CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'; REVOKE CREATE ON DATABASE {name} FROM PUBLIC"
        ));
        self.url_as("guest", PASSWORD)
    }

    fn let_guest_in(&mut self) {
        self.sql(
            "GRANT USAGE ON SCHEMA stockhold TO guest;
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA stockhold TO guest;
             GRANT USAGE ON ALL SEQUENCES IN SCHEMA stockhold TO guest",
        );
    }

    fn may_insert(&mut self, may: bool) {
        let owner = if may { "shop" } else { "stockhold" };
        self.sql(&format!(
            "ALTER TABLE stockhold.holds OWNER TO {owner}; GRANT SELECT, UPDATE ON stockhold.holds TO shop"
        ));
    }

    fn lets_in(&mut self, does: bool) {
        let most = if does { -1 } else { 0 };
        self.sql(&format!("ALTER ROLE shop CONNECTION LIMIT {most}"));
        if !does {
            self.cut_connections();
        }
    }

    fn newer_schema(&mut self) {
        self.sql("UPDATE stockhold.schema_version SET version = version + 1");
    }

    fn end_archive_lease(&mut self) {
        self.sql("UPDATE stockhold.archived SET lease_until = 0");
    }
}

struct Mariadb {
    server: Arc<mariadb::Server>,
    database: mariadb::Database,
}

impl Database for Mariadb {
    const KIND: &'static str = "mysql";
    const SCHEMA: i32 = stockhold_sql::mysql::SCHEMA_VERSION;
    const TWO_DAYS_AGO: &'static str =
        "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) - 172800000000";

    fn start() -> Self {
        let server = Arc::new(mariadb::Server::listening(free_port(), |_| Vec::new()));
        let database = server.database();
        let mut made = Self { server, database };
        let name = made.database.name().to_owned();
        made.sql(&format!("CREATE USER shop IDENTIFIED BY '{PASSWORD}'; GRANT ALL ON {name}.* TO shop"));
        made
    }

    fn url_as(&self, user: &str, password: &str) -> String {
        format!("mysql://{user}:{password}@127.0.0.1:{}/{}", self.port(), self.database.name())
    }

    fn port(&self) -> u16 {
        self.server.port()
    }

    fn sql(&mut self, statements: &str) {
        self.database.session().run(statements);
    }

    fn kill(&mut self) {
        self.server.kill();
    }

    fn run(&mut self) {
        self.server.run();
    }

    fn cut_connections(&mut self) {
        self.sql("KILL USER shop");
    }

    fn read_only(&mut self, is: bool) {
        self.sql(&format!("SET GLOBAL read_only = {}", u8::from(is)));
    }

    fn guest(&mut self) -> String {
        let name = self.database.name().to_owned();
        self.sql(&format!("CREATE USER guest IDENTIFIED BY '{PASSWORD}'; GRANT SELECT ON {name}.* TO guest"));
        self.url_as("guest", PASSWORD)
    }

    fn let_guest_in(&mut self) {
        let name = self.database.name().to_owned();
        self.sql(&format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {name}.* TO guest"));
    }

    fn may_insert(&mut self, may: bool) {
        let name = self.database.name().to_owned();
        let rights = if may { "ALL" } else { "SELECT, UPDATE, DELETE" };
        self.sql(&format!("REVOKE ALL ON {name}.* FROM shop; GRANT {rights} ON {name}.* TO shop"));
        // Rights to a database are looked up when it is chosen.
        self.cut_connections();
    }

    fn lets_in(&mut self, does: bool) {
        self.sql(if does { "ALTER USER shop ACCOUNT UNLOCK" } else { "ALTER USER shop ACCOUNT LOCK" });
        if !does {
            self.cut_connections();
        }
    }

    fn newer_schema(&mut self) {
        self.sql("UPDATE stockhold_schema_version SET version = version + 1");
    }

    fn end_archive_lease(&mut self) {
        self.sql("UPDATE stockhold_archived SET lease_until = 0");
    }
}

/// Every test, once for each database.
macro_rules! for_every_database {
    ($($module:ident: $($name:ident)*;)*) => {
        mod postgres {
            $(mod $module { $(#[test] fn $name() {
                crate::databases::$module::$name(&mut <crate::databases::Postgres as crate::databases::Database>::start());
            })* })*
        }
        mod mysql {
            $(mod $module { $(#[test] fn $name() {
                crate::databases::$module::$name(&mut <crate::databases::Mariadb as crate::databases::Database>::start());
            })* })*
        }
    };
}

for_every_database! {
    changed:
        two_instances_change_the_same_holds
        holds_that_want_each_others_units;
    keys: what_one_instance_makes_and_revokes_counts_at_the_other;
    orders:
        two_instances_make_one_hold_of_one_order
        payments_of_two_instances_are_made_once
        customers_of_two_instances;
    sinks: every_event_is_delivered_over_kills;
    stock_masters: every_sale_is_booked_once_over_kills;
    gated:
        a_drop_sells_exactly_what_there_is
        what_an_operator_sees_of_a_gate
        a_server_without_a_gate_says_so;
    halls: seats_over_a_database_from_the_import_to_the_recount;
    used: a_sale_over_a_database_from_the_first_item_to_the_recount;
    at_the_start:
        who_may_not_come_in_is_told_why
        who_may_not_make_the_schema_is_told_what_to_do
        a_read_only_server_is_no_store
        nobody_there_is_said_with_the_place
        a_newer_schema_is_left_alone
        a_start_that_waits_for_the_database_says_so
        a_start_that_waits_for_the_database_ends_when_it_is_told;
    database_errors:
        a_server_that_restarts_under_load_loses_nothing_that_was_answered
        a_server_that_becomes_read_only_is_waited_for
        rights_that_are_taken_away_and_given_back
        a_server_that_lets_nobody_in_is_waited_for;
    archived:
        what_is_old_leaves_by_command_and_readers_are_told
        an_archive_that_is_killed_anywhere_loses_nothing
        old_events_leave_by_themselves_at_one_of_the_servers;
}
