//! Takes payments: asks payment providers, and moves the payments of reservations on.
//!
//! A payment is part of its reservation, and only the rules move it (`stockhold_domain`, `AdvancePayment`). This crate finds the
//! payments that are due in the store (`runner`), asks the provider what comes next (`step`), and reports what it said. It keeps
//! nothing: after a crash the store says again what is due. Several instances may work on one payment, because a report is written only
//! on the version of the reservation that it was made for, and the provider gets the same key.
//!
//! Read in this order: `provider`, `step`, `runner`, `stripe`, `test_provider`.

mod http_client;
mod options;
mod provider;
mod runner;
mod schedule;
mod signature;
mod step;
mod stripe;
pub mod test_provider;

pub use options::{CheckoutOptions, StripeOptions, TestProviderOptions};
pub use provider::WebhookHeaders;
pub use runner::CheckoutRunner;
