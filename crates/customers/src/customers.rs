//! Reads and writes customers in a store, and seals payment methods.

use crate::encryption::{DataKey, Purpose, random};
use crate::keyring::{Keyring, UnwrapError};
use crate::profile::{Profile, ProviderMethod};
use crate::row::{RowParts, row_value};
use std::fmt;
use std::sync::Arc;
use stockhold_domain::{Label, Precondition};
use stockhold_store::{CustomerRequest, CustomerResult, CustomerRow, Failure, Query, QueryResult, Store};

/// Tries of a write without a condition, when others write the same customer at the same time.
const TRIES: usize = 8;
/// Bits of a version: what every JSON reader takes as an exact number.
const VERSION_BITS: u32 = 53;

/// Customers of a store.
#[derive(Clone)]
pub struct Customers {
    store: Arc<dyn Store>,
    keyring: Arc<Keyring>,
}

/// A customer as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Customer {
    /// The version. Each write has another one, and none has an order.
    pub version: u64,
    /// The personal data.
    pub profile: Profile,
}

/// How messages reach a customer.
#[derive(Clone, PartialEq, Eq)]
pub struct Contact {
    /// The email address.
    pub email: Option<String>,
    /// The token of a device at a push service.
    pub push_token: Option<String>,
    /// The language of messages.
    pub locale: Option<String>,
}

/// A payment method that was encrypted with the data key of its customer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedMethod {
    /// The provider.
    pub provider: Label,
    /// The encrypted references.
    pub bytes: Vec<u8>,
}

/// What became of a sealed payment method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MethodLookup {
    /// The references.
    Found(ProviderMethod),
    /// The customer was deleted, and nobody can read them any more.
    Erased,
}

/// The result of [`Customers::rewrap_page`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewrapPage {
    /// Customers that were looked at.
    pub seen: u64,
    /// Data keys of them that were wrapped by another key before.
    pub rewrapped: u64,
    /// Those of them whose data key can't be read: the key that wrapped it is not configured, or the row is damaged.
    pub unreadable: Vec<Label>,
    /// The id of the last customer, if there may be more.
    pub next: Option<Label>,
}

/// Why nothing was read or written. It has no personal data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CustomerError {
    /// No key is configured.
    NoKey,
    /// The data key is wrapped by a key with this id, which is not configured.
    UnknownKey(String),
    /// The customer has this version, and not the expected one. `None` if there is no such customer.
    Changed(Option<u64>),
    /// The stored bytes are not what was written, or the configured key is another one with the same id.
    Damaged,
    /// The system has no random numbers.
    NoRandomNumbers,
    /// The store failed.
    Store(Failure),
}

impl fmt::Display for CustomerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKey => f.write_str("customers.encryption_keys has no key"),
            Self::UnknownKey(id) => {
                write!(f, "the data was encrypted with key {id}, which customers.encryption_keys does not have")
            }
            Self::Changed(_) => f.write_str("the customer was changed meanwhile"),
            Self::Damaged => f.write_str(
                "the data of a customer is damaged, or customers.encryption_keys has another key with the same id",
            ),
            Self::NoRandomNumbers => f.write_str("the system has no random numbers"),
            Self::Store(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for CustomerError {}

/// Shows no personal data.
impl fmt::Debug for Customer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Customer(version {})", self.version)
    }
}

/// Shows no personal data.
impl fmt::Debug for Contact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Contact(hidden)")
    }
}

impl fmt::Debug for Customers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Customers").field(&self.keyring).finish()
    }
}

impl Customers {
    /// The customers of a store.
    pub fn new(store: Arc<dyn Store>, keyring: Arc<Keyring>) -> Self {
        Self { store, keyring }
    }

    /// The keys of the configuration.
    pub fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// Refuses if no key is configured.
    pub fn check_key(&self) -> Result<(), CustomerError> {
        if self.keyring.is_empty() { Err(CustomerError::NoKey) } else { Ok(()) }
    }

    /// A customer. `None` if there is none.
    pub async fn get(&self, id: &Label) -> Result<Option<Customer>, CustomerError> {
        self.check_key()?;
        let Some(row) = self.row(id).await? else { return Ok(None) };
        let (_, profile) = self.open_row(&row)?;
        Ok(Some(Customer { version: row.version, profile }))
    }

    /// How messages reach a customer. `None` if there is no such customer.
    pub async fn contact(&self, id: &Label) -> Result<Option<Contact>, CustomerError> {
        let found = self.get(id).await?;
        Ok(found.map(|Customer { profile: Profile { email, push_token, locale, .. }, .. }| Contact {
            email,
            push_token,
            locale,
        }))
    }

    /// Writes a customer as a whole. The profile must have passed [`Profile::check`]. Returns the new version, and whether the customer
    /// is new.
    pub async fn put(
        &self,
        id: &Label,
        profile: &Profile,
        condition: Option<&Precondition>,
    ) -> Result<(u64, bool), CustomerError> {
        self.check_key()?;
        let mut found = None;
        for _ in 0..TRIES {
            let before = self.row(id).await?;
            found = before.as_ref().map(|row| row.version);
            if condition.is_some_and(|condition| !condition.is_met(found)) {
                break;
            }
            // A customer keeps its data key, because payments have been sealed with it.
            let data_key = match &before {
                Some(row) => self.data_key(row)?,
                None => DataKey::generate().ok_or(CustomerError::NoRandomNumbers)?,
            };
            let value =
                row_value(&self.keyring, id, &data_key, profile).ok_or(CustomerError::NoRandomNumbers)?;
            let version = new_version()?;
            if self.has_written(CustomerRow { id: id.clone(), version, value: value.into() }, found).await? {
                return Ok((version, before.is_none()));
            }
        }
        Err(CustomerError::Changed(found))
    }

    /// Deletes a customer with its data key. Returns false if there was none. It needs no key.
    pub async fn delete(&self, id: &Label, condition: Option<&Precondition>) -> Result<bool, CustomerError> {
        let expected = match condition {
            None => None,
            Some(condition) => {
                let found = self.version(id).await?;
                if !condition.is_met(found) {
                    return Err(CustomerError::Changed(found));
                }
                found
            }
        };
        match self.ask(CustomerRequest::Delete { id: id.clone(), expected }).await? {
            CustomerResult::Done => Ok(true),
            CustomerResult::Changed(None) if expected.is_none() => Ok(false),
            CustomerResult::Changed(found) => Err(CustomerError::Changed(found)),
            CustomerResult::Row(_) | CustomerResult::Page(_) => Err(wrong_answer()),
        }
    }

    /// The version of a customer. It needs no key.
    pub async fn version(&self, id: &Label) -> Result<Option<u64>, CustomerError> {
        Ok(self.row(id).await?.map(|row| row.version))
    }

    /// Encrypts the payment method that a customer has at the first of these providers. `None` if there is no such customer, or
    /// it has no method at any of them.
    pub async fn seal(
        &self,
        id: &Label,
        providers: impl IntoIterator<Item = &str>,
    ) -> Result<Option<SealedMethod>, CustomerError> {
        self.check_key()?;
        let Some(row) = self.row(id).await? else { return Ok(None) };
        let (data_key, profile) = self.open_row(&row)?;
        let known = |provider: &str| Some((Label::new(provider).ok()?, profile.provider_refs.get(provider)?));
        let Some((provider, method)) = providers.into_iter().find_map(known) else { return Ok(None) };
        let bytes = data_key.encrypt(Purpose::PaymentMethod, id, &method.to_bytes());
        Ok(Some(SealedMethod { provider, bytes: bytes.ok_or(CustomerError::NoRandomNumbers)? }))
    }

    /// Decrypts a payment method. A customer that was deleted and made again has another data key, so what was sealed before stays
    /// erased.
    pub async fn open(&self, id: &Label, sealed: &[u8]) -> Result<MethodLookup, CustomerError> {
        let Some(row) = self.row(id).await? else { return Ok(MethodLookup::Erased) };
        self.check_key()?;
        let data_key = self.data_key(&row)?;
        let Some(plain) = data_key.decrypt(Purpose::PaymentMethod, id, sealed) else {
            return Ok(MethodLookup::Erased);
        };
        ProviderMethod::from_bytes(&plain).map(MethodLookup::Found).ok_or(CustomerError::Damaged)
    }

    /// Wraps data keys with the first configured key, of at most `limit` customers. It may be repeated, and may end at any point. A
    /// customer that changes meanwhile is done already: each write wraps with the first key.
    pub async fn rewrap_page(&self, after: Option<Label>, limit: usize) -> Result<RewrapPage, CustomerError> {
        self.check_key()?;
        let rows = match self.ask(CustomerRequest::Page { after, limit }).await? {
            CustomerResult::Page(rows) => rows,
            CustomerResult::Row(_) | CustomerResult::Done | CustomerResult::Changed(_) => {
                return Err(wrong_answer());
            }
        };
        let mut page =
            RewrapPage { seen: rows.len() as u64, rewrapped: 0, unreadable: Vec::new(), next: None };
        if rows.len() == limit {
            page.next = rows.last().map(|row| row.id.clone());
        }
        for row in rows {
            let parts = RowParts::of(&row.value);
            if parts.is_some_and(|parts| Some(parts.key_id) == self.keyring.first_id()) {
                continue;
            }
            // One customer that can't be read must not keep the others from being done.
            let (Some(parts), Ok(data_key)) = (parts, self.data_key(&row)) else {
                page.unreadable.push(row.id);
                continue;
            };
            let value = parts.rewrapped(&self.keyring, &row.id, &data_key);
            let value = value.ok_or(CustomerError::NoRandomNumbers)?.into();
            // The personal data stays the same, so the version does too.
            let new = CustomerRow { id: row.id.clone(), version: row.version, value };
            match self.ask(CustomerRequest::Put { row: new, expected: Some(row.version) }).await? {
                CustomerResult::Done => page.rewrapped += 1,
                CustomerResult::Changed(_) => {}
                CustomerResult::Row(_) | CustomerResult::Page(_) => return Err(wrong_answer()),
            }
        }
        Ok(page)
    }

    /// Writes a row if it has the expected version. Returns false if it has another one.
    async fn has_written(&self, row: CustomerRow, expected: Option<u64>) -> Result<bool, CustomerError> {
        let version = row.version;
        match self.ask(CustomerRequest::Put { row, expected }).await? {
            CustomerResult::Done => Ok(true),
            // A connection that was lost behind the write has repeated it: no other write has this version.
            CustomerResult::Changed(found) => Ok(found == Some(version)),
            CustomerResult::Row(_) | CustomerResult::Page(_) => Err(wrong_answer()),
        }
    }

    async fn row(&self, id: &Label) -> Result<Option<CustomerRow>, CustomerError> {
        match self.ask(CustomerRequest::Get(id.clone())).await? {
            CustomerResult::Row(row) => Ok(row),
            CustomerResult::Done | CustomerResult::Changed(_) | CustomerResult::Page(_) => {
                Err(wrong_answer())
            }
        }
    }

    fn data_key(&self, row: &CustomerRow) -> Result<DataKey, CustomerError> {
        let parts = RowParts::of(&row.value).ok_or(CustomerError::Damaged)?;
        parts.data_key(&self.keyring, &row.id).map_err(|error| match error {
            UnwrapError::UnknownKey => CustomerError::UnknownKey(parts.key_id.to_owned()),
            UnwrapError::Damaged => CustomerError::Damaged,
        })
    }

    fn open_row(&self, row: &CustomerRow) -> Result<(DataKey, Profile), CustomerError> {
        let data_key = self.data_key(row)?;
        let parts = RowParts::of(&row.value).ok_or(CustomerError::Damaged)?;
        let profile = parts.profile(&data_key, &row.id).ok_or(CustomerError::Damaged)?;
        Ok((data_key, profile))
    }

    async fn ask(&self, request: CustomerRequest) -> Result<CustomerResult, CustomerError> {
        match stockhold_store::query(&*self.store, Query::Customer(request)).await {
            Ok(QueryResult::Customer(result)) => Ok(result),
            Ok(_) => Err(wrong_answer()),
            Err(failure) => Err(CustomerError::Store(failure)),
        }
    }
}

fn wrong_answer() -> CustomerError {
    CustomerError::Store(Failure::Internal("the store answered another question".to_owned()))
}

/// A version that no other write has. It is random: a counter would begin again with a customer that was deleted and made again, and
/// nothing may be left of that one.
fn new_version() -> Result<u64, CustomerError> {
    let bytes = random().ok_or(CustomerError::NoRandomNumbers)?;
    Ok((u64::from_le_bytes(bytes) >> (u64::BITS - VERSION_BITS)).max(1))
}
