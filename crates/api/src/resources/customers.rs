//! Customers: their personal data. An error about personal data never repeats it.

use crate::cursor;
use crate::decode::{Invalid, PAGE_LIMIT};
use crate::field::{Text, entry, list, text};
use crate::openapi::lists::{limit as page_limit, starting_after};
use crate::openapi::operation::{Operation, in_path};
use crate::openapi::reservations::{example, example_at};
use crate::openapi::samples::{label as made_label, to_value};
use crate::openapi::schema::label;
use crate::problem::Reason;
use crate::routes::row::{self, ETAG, NO_STORE, empty, required};
use crate::routes::table::PLAIN;
use crate::routes::{Access, Preconditions, RequiredScope, Response, RouteId, RouteSpec, Tag};
use serde_json::{Value, json};
use stockhold_api_macros::shape;
use stockhold_customers::{EMAIL_BYTES, LOCALE_BYTES, PUSH_TOKEN_BYTES, Profile, ProviderMethod};
use stockhold_domain::{Label, ProviderRef};
use stockhold_service::Scope;

/// Personal data of a customer.
#[shape(request, private)]
pub struct CustomerRequest {
    /// Payment methods, by the providers that keep them.
    #[is(default)]
    pub provider_refs: ProviderRefs,
    /// One email address.
    #[is(EMAIL)]
    pub email: Option<String>,
    /// The token of the customer's device at a push service.
    #[is(PUSH_TOKEN)]
    pub push_token: Option<String>,
    /// The language of messages: a tag like `de-CH` (BCP 47).
    #[is(LOCALE)]
    pub locale: Option<String>,
}

/// Personal data of a customer.
#[shape(answer, private)]
pub struct Customer {
    /// The customer's id.
    pub customer_id: Label,
    /// What is stored.
    #[is(flat)]
    pub data: CustomerRequest,
    /// Another one after each change; the `ETag`. It is a random number.
    pub version: u64,
}

/// A payment method that a provider keeps.
#[shape(request, private)]
pub struct CustomerMethod {
    /// The payment method, such as `pm_…`.
    pub method_ref: ProviderRef,
    /// The customer, such as `cus_…`, if the method is stored with one.
    pub customer_ref: Option<ProviderRef>,
}

/// Payment methods, by the providers that keep them.
#[shape(request, private)]
#[derive(Default)]
pub struct ProviderRefs {
    /// Of Stripe.
    pub stripe: Option<CustomerMethod>,
    /// Of the test provider.
    pub test: Option<CustomerMethod>,
}

/// What was wrapped with the first configured key.
#[shape(answer)]
pub struct RewrapPage {
    /// Customers of the page.
    pub customers: u64,
    /// Those of them whose key was wrapped by another key before, and on the first page the records of webhooks and signing keys that
    /// were.
    pub rewrapped: u64,
    /// Those of them that can't be read: the key is not configured, or the data is damaged. Configure the key, or erase the customer.
    #[is(list(1..=PAGE_LIMIT).each("The id of a customer."))]
    pub unreadable: Option<Vec<Label>>,
    /// Whether there may be more customers.
    pub has_more: bool,
    /// The `starting_after` of the next page.
    pub next_cursor: Option<String>,
}

// The profile is checked as a whole, by `Profile::check`.
const EMAIL: Text = text(3..=EMAIL_BYTES).format("email").pattern("^[^@\\s]+@[^@\\s]+$");
const PUSH_TOKEN: Text = text(1..=PUSH_TOKEN_BYTES).ascii().pattern("^[!-~]+$");
const LOCALE: Text = text(2..=LOCALE_BYTES)
    .ascii()
    .format("language-tag")
    .pattern("^[A-Za-z]{2,8}((-[A-Za-z0-9]{1,8})*-[A-Za-z0-9]{2,8})?$");

impl CustomerRequest {
    /// What is stored.
    pub(crate) fn profile(self) -> Result<Profile, Invalid> {
        let ProviderRefs { stripe, test } = self.provider_refs;
        let refs = [("stripe", stripe), ("test", test)].into_iter();
        let profile = Profile {
            provider_refs: refs
                .filter_map(|(provider, method)| Some((provider.to_owned(), method?.into())))
                .collect(),
            email: self.email,
            push_token: self.push_token,
            locale: self.locale,
        };
        profile.check().map_err(|error| Invalid::new(error.pointer, error.detail))?;
        Ok(profile)
    }
}

impl From<CustomerMethod> for ProviderMethod {
    fn from(method: CustomerMethod) -> Self {
        Self { customer_ref: method.customer_ref, method_ref: method.method_ref }
    }
}

impl From<&ProviderMethod> for CustomerMethod {
    fn from(method: &ProviderMethod) -> Self {
        Self { method_ref: method.method_ref.clone(), customer_ref: method.customer_ref.clone() }
    }
}

impl Customer {
    /// A stored customer.
    pub fn of(customer_id: Label, version: u64, profile: &Profile) -> Self {
        let method = |provider| profile.provider_refs.get(provider).map(CustomerMethod::from);
        let provider_refs = ProviderRefs { stripe: method("stripe"), test: method("test") };
        let Profile { email, push_token, locale, .. } = profile.clone();
        Self { customer_id, data: CustomerRequest { provider_refs, email, push_token, locale }, version }
    }
}

impl From<stockhold_customers::RewrapPage> for RewrapPage {
    fn from(page: stockhold_customers::RewrapPage) -> Self {
        Self {
            customers: page.seen,
            rewrapped: page.rewrapped,
            unreadable: Some(page.unreadable).filter(|unreadable| !unreadable.is_empty()),
            has_more: page.next.is_some(),
            next_cursor: page.next.as_ref().map(cursor::of_label),
        }
    }
}

const CUSTOMERS: RouteSpec = RouteSpec { tag: Tag::Customers, ..PLAIN };

pub(crate) const PUT_CUSTOMER: RouteSpec = RouteSpec {
    metric: "put_customer",
    summary: "Create or replace a customer",
    description: "Stores personal data of a customer: references of payment methods, and how messages reach the customer. It is \
        encrypted with a key of the customer. It is in no event and in no list. The body replaces the whole customer. Members that are left \
        out are erased.",
    body: required("CustomerRequest"),
    preconditions: Preconditions::IfMatchOrAbsent,
    access: Access::Write,
    scope: RequiredScope::One(Scope::CustomersWrite),
    responses: &[customer(201, "The new customer."), customer(200, "The customer, which existed before.")],
    own_reasons: &[Reason::EncryptionKeyMissing],
    ..CUSTOMERS
};

pub(crate) const GET_CUSTOMER: RouteSpec = RouteSpec {
    metric: "customer",
    summary: "Read a customer",
    description: "The personal data of a customer.",
    access: Access::Read,
    scope: RequiredScope::One(Scope::CustomersRead),
    responses: &[customer(200, "The customer.")],
    own_reasons: &[Reason::UnknownCustomer, Reason::EncryptionKeyMissing],
    ..CUSTOMERS
};

pub(crate) const DELETE_CUSTOMER: RouteSpec = RouteSpec {
    metric: "delete_customer",
    summary: "Erase a customer",
    description: "Deletes the personal data of a customer, and the key that it was encrypted with. So what is left of it elsewhere, such \
        as in a reservation, can't be read any more. Reservations and orders keep the `customer_id`. Payments that are captured can \
        still be refunded. A payment that is under way has to end first.",
    preconditions: Preconditions::IfMatch,
    access: Access::Write,
    scope: RequiredScope::One(Scope::CustomersWrite),
    responses: &[empty(204, "The customer is erased.")],
    own_reasons: &[Reason::UnknownCustomer, Reason::EncryptionKeyMissing, Reason::PaymentInProgress],
    ..CUSTOMERS
};

pub(crate) const REWRAP_CUSTOMERS: RouteSpec = RouteSpec {
    metric: "rewrap_customers",
    summary: "Wrap the keys of customers with the first configured key",
    description: "After a new key was put in front of `customers.encryption_keys`: wraps the keys of a page of customers with it. Repeat it \
        with `starting_after` until `has_more` is false. The first page also encrypts the secrets \
        of webhooks and the signing key of hold tokens with it. Then nothing needs the other keys any more. It may be repeated, and may \
        end at any point.",
    access: Access::Write,
    scope: RequiredScope::One(Scope::CustomersWrite),
    responses: &[row::json(200, "What was done, and where to go on.", "RewrapPage")],
    own_reasons: &[Reason::EncryptionKeyMissing],
    ..CUSTOMERS
};

const fn customer(status: u16, description: &'static str) -> Response {
    Response { headers: &[ETAG, NO_STORE], ..row::json(status, description, "Customer") }
}

/// The operations of the document.
pub(crate) fn operations() -> Vec<Operation> {
    vec![put(), get(), on(RouteId::DeleteCustomer, BEN), rewrap()]
}

/// The schemas of the document, by name.
pub(crate) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        entry::<CustomerRequest>(),
        entry::<Customer>(),
        entry::<CustomerMethod>(),
        entry::<ProviderRefs>(),
        entry::<RewrapPage>(),
    ]
}

/// The id of a customer that examples create and delete.
const BEN: &str = "ben";

fn sample() -> Value {
    let name = ProviderRef::new;
    let Some(method_ref) = name("pm_card_visa") else { unreachable!("a name of a provider") };
    let method = ProviderMethod { customer_ref: name("cus_4711"), method_ref };
    let profile = Profile {
        provider_refs: [("stripe".to_owned(), method)].into(),
        email: Some("anna@example.com".to_owned()),
        push_token: None,
        locale: Some("de-CH".to_owned()),
    };
    to_value(&Customer::of(made_label("anna"), 4_398_046_511_104, &profile))
}

fn on(route: RouteId, id: &'static str) -> Operation {
    Operation::of(route).parameter(in_path("customer_id", label("The customer's id."), id))
}

fn put() -> Operation {
    on(RouteId::PutCustomer, "anna")
        .requests(json!({
            "stripe": example("A payment method and an email address", json!({
                "provider_refs": { "stripe": { "method_ref": "pm_card_visa", "customer_ref": "cus_4711" } },
                "email": "anna@example.com", "locale": "de-CH",
            })),
            "test": example_at("A payment method of the test provider", json!({ "customer_id": BEN }), json!({
                "provider_refs": { "test": { "method_ref": "approve" } },
            })),
        }))
        .responds(json!({ "customer": example("The customer", sample()) }))
}

fn get() -> Operation {
    on(RouteId::GetCustomer, "anna").responds(json!({ "customer": example("A customer", sample()) }))
}

fn rewrap() -> Operation {
    let page = stockhold_customers::RewrapPage {
        seen: 50,
        rewrapped: 48,
        unreadable: Vec::new(),
        next: Some(made_label("anna")),
    };
    Operation::of(RouteId::RewrapCustomers)
        .parameter(page_limit())
        .parameter(starting_after())
        .responds(json!({ "page": example("A page", to_value(&RewrapPage::from(page))) }))
}
