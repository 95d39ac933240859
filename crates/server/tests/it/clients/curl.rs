//! The scenarios of all clients with curl alone (`clients/curl`).

use super::python::python;
use super::repository;
use crate::support::{Server, said};

#[test]
fn its_scenarios_end_with_the_same_counters_through_a_proxy_that_loses_answers() {
    let server = Server::start();
    let output = python().arg(repository("clients/curl/run.py")).arg(server.url()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("14 scenarios passed"), "{}", said(&output));
}
