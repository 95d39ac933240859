//! A stock master over a database that two instances share: one serves it, and the other one takes it when the first is killed.

use super::Database;
use crate::ctl::json;
use crate::stock_masters::master::Master;
use crate::stock_masters::{
    check_totals, count, owned, reconcile, sell, shown, variables, wait_until_served,
};
use crate::support::{Server, wait_for};

/// How often an instance is killed.
const KILLS: i64 = 2;

pub(super) fn every_sale_is_booked_once_over_kills<D: Database>(database: &mut D) {
    let (url, master) = (database.url(), Master::start(&[("tee", 1_000)]));
    let variables = variables(&master.url, "json");
    let mut servers = [Server::over_with(&url, &variables), Server::over_with(&url, &variables)];
    wait_until_served(&servers[0]);
    owned(&servers[0], "tee", 1_000);
    let mut sold = 0;
    for _ in 0..KILLS {
        for _ in 0..10 {
            sell(&servers[usize::from(sold % 2 == 0)], "tee", &format!("o{sold}"));
            sold += 1;
        }
        servers[0].kill();
        master.receive("tee", 5);
        sell(&servers[1], "tee", &format!("o{sold}"));
        sold += 1;
        master.wait_for_units("tee", 1_000 + 5 * (sold / 11) - sold);
        servers[0].restart();
        servers[0].wait_until_ready();
        servers.swap(0, 1);
    }
    wait_for("all batches to be booked", || shown(&servers[0]).get("batch").is_none().then_some(()));
    // The instance that is asked need not be the one that serves the stock master.
    for server in &servers {
        let report = reconcile(server);
        assert_eq!(report.get("incomplete"), None, "{report}");
        check_totals(server, &master, &["tee"]);
    }
    assert_eq!(shown(&servers[0]), shown(&servers[1]), "every instance shows the same");
    let dry = json(&servers[1], &["reconcile", "erp", "--dry-run"]);
    assert_eq!(count(&dry, "total_corrected"), 0, "{dry}");
    let item = servers[0].item("tee").unwrap();
    assert_eq!((item.total_units, item.confirmed_sold), (1_010, 22));
}
