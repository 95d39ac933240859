//! The module for Magento 2 (`integrations/magento2`): its unit tests, and its observers and plugins against a server.

use crate::clients::repository;
use crate::support::{Server, said};
use std::process::Command;

#[test]
fn it_sells_each_unit_once_whatever_becomes_of_carts_orders_and_answers() {
    let server = Server::start();
    let output = Command::new("phpunit")
        .current_dir(repository("integrations/magento2"))
        .env("STOCKHOLD_SERVER", server.url())
        .output()
        .expect("phpunit is not installed: run scripts/servers");
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("OK (72 tests, "), "{}", said(&output));
}
