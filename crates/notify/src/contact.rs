//! Where a buyer can be reached.

use std::future::Future;
use std::pin::Pin;
use stockhold_domain::Label;

/// How a buyer can be reached. It is never logged.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Contact {
    /// A mail address.
    pub email: Option<String>,
    /// The token of an app on the buyer's device.
    pub push_token: Option<String>,
    /// The buyer's language, as a BCP 47 tag such as `de-AT`.
    pub locale: Option<String>,
}

/// What [`Contacts::contact`] returns.
pub type ContactsFuture<'a> = Pin<Box<dyn Future<Output = Result<Option<Contact>, String>> + Send + 'a>>;

/// Knows how customers can be reached.
pub trait Contacts: Send + Sync {
    /// The contact of a customer, or `None` if nothing is known of the customer. An error is asked about again.
    fn contact<'a>(&'a self, customer_id: &'a Label) -> ContactsFuture<'a>;
}
