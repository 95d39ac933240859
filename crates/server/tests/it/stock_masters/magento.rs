//! Magento as the stock master: figures are read, and nothing is sent. A stand-in of its REST API.

use super::master::Master;
use super::{count, owned, reconcile, sell, variables, wait_until_served};
use crate::support::Server;

#[test]
fn magento_s_quantities_count_the_shelf() {
    let (dir, master) = (tempfile::tempdir().unwrap(), Master::start(&[("cap", 3), ("tee", 12)]));
    let server = Server::with_variables(dir.path(), "data", &variables(&master.url, "magento"));
    wait_until_served(&server);
    owned(&server, "cap", 3);
    owned(&server, "tee", 10);
    let sold = sell(&server, "tee", "000000001");
    let report = reconcile(&server);
    assert_eq!((count(&report, "total_corrected"), report.get("incomplete")), (1, None), "{report}");
    let item = server.item("tee").unwrap();
    assert_eq!(
        (item.total_units, item.on_hand, item.available),
        (12, 12, 11),
        "a sale leaves Magento's quantity as it is"
    );
    // Magento subtracts the unit at the shipment, and the module tells of it afterwards.
    master.receive("tee", -1);
    crate::ctl::done(&server, &["fulfil", &sold.to_string()]);
    let report = reconcile(&server);
    assert_eq!(count(&report, "total_corrected"), 0, "{report}");
    let item = server.item("tee").unwrap();
    assert_eq!((item.total_units, item.on_hand, item.available), (12, 11, 11));
    assert!(master.books().wrong.is_empty(), "{:?}", master.books().wrong);
}
