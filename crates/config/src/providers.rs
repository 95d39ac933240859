//! Payment providers, and when they are asked again: the tables `[providers.NAME]` and `[checkout]`.

use crate::secret::SecretText;
use crate::values::Value;
use serde::Serialize;
use std::time::Duration;
use stockhold_checkout::{CheckoutOptions, StripeOptions, TestProviderOptions};

/// The providers.
pub(crate) const PROVIDERS: [&str; 2] = ["stripe", "test"];
/// The members of `[providers.stripe]`.
pub(crate) const STRIPE_KEYS: [&str; 4] = ["secret_key", "webhook_secret", "api_base", "timeout_seconds"];
/// The members of `[providers.test]`.
pub(crate) const TEST_KEYS: [&str; 2] = ["url", "timeout_seconds"];
/// The members of `[checkout]`.
pub(crate) const CHECKOUT_KEYS: [&str; 2] = ["retry_base_ms", "retry_max_ms"];
/// The variables that set secrets of Stripe, and the members that they set.
pub(crate) const STRIPE_VARIABLES: [(&str, &str); 2] =
    [("STRIPE_SECRET_KEY", "secret_key"), ("STRIPE_WEBHOOK_SECRET", "webhook_secret")];
/// The address of Stripe's API.
const STRIPE_API: &str = "https://api.stripe.com";
/// How long a provider may take to answer, in seconds.
const TIMEOUT_SECONDS: u64 = 10;
/// The longest time that it may be given.
const TIMEOUT_CEILING_SECONDS: u64 = 120;
/// The longest pause between two requests, in milliseconds: a day.
const RETRY_CEILING_MS: u64 = 86_400_000;

/// The providers of a configuration.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ProviderSettings {
    /// Stripe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stripe: Option<StripeSettings>,
    /// The test provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<TestSettings>,
}

/// How Stripe is reached.
#[derive(Clone, Debug, Serialize)]
pub struct StripeSettings {
    /// The secret key of the account.
    pub secret_key: SecretText,
    /// The secret that signs webhooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_secret: Option<SecretText>,
    /// The address of the API.
    pub api_base: String,
    /// The longest wait for an answer.
    pub timeout_seconds: u64,
}

impl Default for StripeSettings {
    fn default() -> Self {
        Self {
            secret_key: SecretText::new(String::new()),
            webhook_secret: None,
            api_base: STRIPE_API.to_owned(),
            timeout_seconds: TIMEOUT_SECONDS,
        }
    }
}

/// How the test provider is reached.
#[derive(Clone, Debug, Serialize)]
pub struct TestSettings {
    /// Its address.
    pub url: String,
    /// The longest wait for an answer.
    pub timeout_seconds: u64,
}

/// When a provider is asked again.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CheckoutSettings {
    /// The first pause after a request that was not answered, in milliseconds.
    pub retry_base_ms: u64,
    /// The longest pause, in milliseconds.
    pub retry_max_ms: u64,
}

impl Default for CheckoutSettings {
    fn default() -> Self {
        Self { retry_base_ms: 1_000, retry_max_ms: 3_600_000 }
    }
}

impl ProviderSettings {
    /// Sets a member of Stripe.
    pub(crate) fn set_stripe(&mut self, member: &str, value: &Value, from_file: bool) -> Result<(), String> {
        let stripe = self.stripe.get_or_insert_default();
        match member {
            "secret_key" => stripe.secret_key = SecretText::new(value.secret()?),
            "webhook_secret" => stripe.webhook_secret = Some(SecretText::new(value.secret()?)),
            "api_base" => stripe.api_base = value.text()?,
            _ => stripe.timeout_seconds = value.number(from_file)?,
        }
        Ok(())
    }

    /// Sets a member of the test provider.
    pub(crate) fn set_test(&mut self, member: &str, value: &Value, from_file: bool) -> Result<(), String> {
        let usual = || TestSettings { url: String::new(), timeout_seconds: TIMEOUT_SECONDS };
        let test = self.test.get_or_insert_with(usual);
        match member {
            "url" => test.url = value.text()?,
            _ => test.timeout_seconds = value.number(from_file)?,
        }
        Ok(())
    }

    /// What the server does with them.
    pub(crate) fn options(&self, checkout: CheckoutSettings) -> Result<CheckoutOptions, String> {
        let stripe = self.stripe.as_ref().map(|stripe| {
            if stripe.secret_key.expose().is_empty() {
                return Err("providers.stripe: needs secret_key, or STOCKHOLD_STRIPE_SECRET_KEY".to_owned());
            }
            Ok(StripeOptions {
                secret_key: stripe.secret_key.expose().to_owned(),
                webhook_secret: stripe.webhook_secret.as_ref().map(|secret| secret.expose().to_owned()),
                api_base: address("providers.stripe.api_base", &stripe.api_base)?,
                timeout: timeout("providers.stripe.timeout_seconds", stripe.timeout_seconds)?,
            })
        });
        let test = self.test.as_ref().map(|test| {
            Ok::<_, String>(TestProviderOptions {
                url: address("providers.test.url", &test.url)?,
                timeout: timeout("providers.test.timeout_seconds", test.timeout_seconds)?,
            })
        });
        Ok(CheckoutOptions {
            retry_base: pause("checkout.retry_base_ms", checkout.retry_base_ms)?,
            retry_max: pause("checkout.retry_max_ms", checkout.retry_max_ms)?,
            stripe: stripe.transpose()?,
            test: test.transpose()?,
        })
    }
}

fn address(key: &str, url: &str) -> Result<String, String> {
    let is_http = ["https://", "http://"].iter().any(|scheme| url.starts_with(scheme));
    if !is_http || url.contains(char::is_whitespace) || url.contains('@') {
        return Err(format!("{key}: must be an address like http://127.0.0.1:8090, without a user name"));
    }
    Ok(url.to_owned())
}

fn timeout(key: &str, seconds: u64) -> Result<Duration, String> {
    if (1..=TIMEOUT_CEILING_SECONDS).contains(&seconds) {
        Ok(Duration::from_secs(seconds))
    } else {
        Err(format!("{key} {seconds}: must be 1 to {TIMEOUT_CEILING_SECONDS}"))
    }
}

fn pause(key: &str, millis: u64) -> Result<Duration, String> {
    if (1..=RETRY_CEILING_MS).contains(&millis) {
        Ok(Duration::from_millis(millis))
    } else {
        Err(format!("{key} {millis}: must be 1 to {RETRY_CEILING_MS}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripe(members: &[(&str, &str)]) -> Result<CheckoutOptions, String> {
        let mut settings = ProviderSettings::default();
        for (member, text) in members {
            settings.set_stripe(member, &Value::Text((*text).to_owned()), false)?;
        }
        settings.options(CheckoutSettings::default())
    }

    #[test]
    fn stripe_needs_a_key_and_an_address() {
        let options = stripe(&[("secret_key", "sk_test_1")]).unwrap().stripe.unwrap();
        assert_eq!((&*options.api_base, options.timeout), (STRIPE_API, Duration::from_secs(10)));
        assert!(!format!("{options:?}").contains("sk_test_1"), "a secret is shown");
        assert!(stripe(&[("webhook_secret", "whsec_1")]).unwrap_err().contains("needs secret_key"));
        let wrong = stripe(&[("secret_key", "sk"), ("api_base", "api.stripe.com")]).unwrap_err();
        assert!(wrong.contains("must be an address"), "{wrong}");
        let wrong = stripe(&[("secret_key", "sk"), ("timeout_seconds", "0")]).unwrap_err();
        assert!(wrong.contains("must be 1 to 120"), "{wrong}");
    }

    #[test]
    fn pauses_have_bounds() {
        let checkout = CheckoutSettings { retry_base_ms: 0, ..CheckoutSettings::default() };
        let wrong = ProviderSettings::default().options(checkout).unwrap_err();
        assert!(wrong.contains("checkout.retry_base_ms 0"), "{wrong}");
    }
}
