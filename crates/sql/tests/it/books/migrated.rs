//! A database that an older program has filled.

use super::{Shop, adds_up, done, every_command, newest};
use crate::fixture::hold;
use crate::workload::mixed;
use stockhold_sql::MigrationResult;
use stockhold_store::conformance::{Maker, maker};

/// What the first version keeps.
const TABLES: [&str; 12] = [
    "items",
    "holds",
    "hold_skus",
    "active_lines",
    "keys",
    "pauses",
    "records",
    "events",
    "sequencer",
    "archived",
    "archived_items",
    "archived_pauses",
];

/// Puts what there is into tables as the first version made them.
fn make_old<S: Shop>(shop: &mut S) {
    shop.set_aside();
    shop.sql(S::FIRST.trim_end());
    for table in TABLES {
        shop.sql(&format!("DELETE FROM {{t}}{table}"));
        shop.sql(&format!("INSERT INTO {{t}}{table} SELECT * FROM {}{table}", S::ASIDE));
    }
    shop.sql(S::SERIALS);
    shop.sql("UPDATE {t}schema_version SET version = 1");
}

pub(super) fn a_filled_database_of_the_first_version_goes_on<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(64, "filled-");
    mixed(&[&*store], 63, 40);
    let traces = every_command(&*store, &mut maker, "before");
    newest(&*store);
    let (before, kept) = (adds_up(shop), hold(&*store, traces.active).unwrap());
    drop(store);
    make_old(shop);
    let migrated = stockhold_sql::migrate(&shop.url(), shop.options());
    assert_eq!(migrated, Ok(MigrationResult { from: 1, to: S::VERSION }));
    assert_eq!(adds_up(shop), before);
    let store = shop.store();
    assert_eq!(hold(&*store, traces.active).unwrap(), kept);
    done(&*store, maker.wrap(maker::confirm(traces.active)));
    every_command(&*store, &mut maker, "after");
    newest(&*store);
    assert!(adds_up(shop).events > before.events);
}
