//! What the API is about, one file a resource: the shapes of requests and answers, how they become values of the rules and come from
//! them, the rows of the routes, and the examples of the document.

pub mod archive;
pub mod customers;
pub mod deliveries;
pub mod gate;
pub mod keys;
pub mod limits;
pub mod reconciliation;
pub mod sinks;
pub mod webhooks;

use stockhold_domain::Label;

fn texts(labels: &[Label]) -> Vec<String> {
    labels.iter().map(Label::to_string).collect()
}
