//! Payments of two instances over one database, of which one is killed.

use super::kills::buy;
use super::{Provider, compare, configure, priced_item};
use crate::support::{Server, free_port};
use std::sync::Mutex;
use std::time::Duration;

const BUYERS: u64 = 36;

/// Each of two instances moves all payments on. One of them is killed and does not come back.
pub(crate) fn two_instances_pay_each_payment_once(store: &str) {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    configure(dir.path(), port);
    let file = dir.path().join("stockhold.toml").display().to_string();
    let variables = [("STOCKHOLD_CONFIG", file.as_str())];
    let (mut first, second) = (Server::over_with(store, &variables), Server::over_with(store, &variables));
    let webhook = format!("{}/v1/providers/test/webhook", second.url());
    let provider = Provider::start(dir.path(), port, Some(&webhook));
    priced_item(&first, "tea", 10_000);
    let ids = Mutex::new(Vec::new());
    let bases = [first.url(), second.url()];
    std::thread::scope(|scope| {
        for buyer in 0..BUYERS {
            let (base, ids) = (&bases[usize::from(buyer % 2 == 1)], &ids);
            scope.spawn(move || buy(base, ids, buyer));
        }
        std::thread::sleep(Duration::from_millis(300));
        first.kill();
    });
    compare(&second, &provider, &ids.into_inner().unwrap());
}
