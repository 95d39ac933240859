//! Personal data of customers. Each customer has a data key, and everything about the customer is encrypted with it. The data key is
//! stored wrapped by a key of the configuration, outside of events, log and archive. So deleting the row erases the data wherever
//! ciphertext of it is left, such as in a reservation.
//!
//! ```text
//! key of the configuration ─wraps─▶ data key of a customer ─encrypts─▶ profile                       (the row of the customer)
//!                                                          ─seals────▶ references of one provider    (a reservation)
//! ```
//!
//! The same keys of the configuration seal the secrets of the service itself ([`SecretKind`]).
//!
//! What must never happen in this crate: personal data or a key in an error or in the output of `Debug`; a nonce that is used twice.
//!
//! Reading order: [`Profile`], `encryption`, [`Keyring`], `row`, [`Customers`].

mod customers;
mod encryption;
mod keyring;
mod locale;
mod profile;
mod row;
mod sealed_secret;

pub use customers::{Contact, Customer, CustomerError, Customers, MethodLookup, RewrapPage, SealedMethod};
pub use keyring::{Keyring, KeyringError, MAX_KEYS};
pub use profile::{
    EMAIL_BYTES, LOCALE_BYTES, PROVIDER_NAME_BYTES, PROVIDERS, PUSH_TOKEN_BYTES, Profile, ProfileError,
    ProviderMethod,
};
pub use sealed_secret::{SealError, SecretKind, is_sealed};
