//! What a server says about payments.

use std::fmt;
use std::time::Duration;

/// What a server says about payments.
#[derive(Clone, Debug)]
pub struct CheckoutOptions {
    /// The first pause before a request is tried again that was not answered.
    pub retry_base: Duration,
    /// The longest pause.
    pub retry_max: Duration,
    /// Stripe, if it is used.
    pub stripe: Option<StripeOptions>,
    /// The test provider, if it is used.
    pub test: Option<TestProviderOptions>,
}

impl Default for CheckoutOptions {
    fn default() -> Self {
        Self {
            retry_base: Duration::from_secs(1),
            retry_max: Duration::from_hours(1),
            stripe: None,
            test: None,
        }
    }
}

/// How Stripe is reached.
#[derive(Clone)]
pub struct StripeOptions {
    /// The secret key of the account: `sk_…` or `rk_…`.
    pub secret_key: String,
    /// The secret that signs webhooks: `whsec_…`. Without it, no webhook is taken.
    pub webhook_secret: Option<String>,
    /// The address of the API.
    pub api_base: String,
    /// The longest wait for an answer.
    pub timeout: Duration,
}

/// Shows no secret.
impl fmt::Debug for StripeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StripeOptions").field("api_base", &self.api_base).finish_non_exhaustive()
    }
}

/// How the test provider is reached.
#[derive(Clone, Debug)]
pub struct TestProviderOptions {
    /// Its address.
    pub url: String,
    /// The longest wait for an answer.
    pub timeout: Duration,
}
