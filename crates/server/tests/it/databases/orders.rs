//! Orders of hubs over a database that two instances share.

use super::Database;
use crate::profiles::orders::one_hold_at_a_time;
use crate::support::Server;

pub(super) fn two_instances_make_one_hold_of_one_order<D: Database>(database: &mut D) {
    let servers = [Server::over(&database.url()), Server::over(&database.url())];
    one_hold_at_a_time(&servers.each_ref());
}

pub(super) fn customers_of_two_instances<D: Database>(database: &mut D) {
    crate::customers::two_instances_share_customers(&database.url());
}

pub(super) fn payments_of_two_instances_are_made_once<D: Database>(database: &mut D) {
    crate::checkout::two_instances_pay_each_payment_once(&database.url());
}
