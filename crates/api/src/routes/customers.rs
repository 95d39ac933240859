//! The rows of the routes of customers, without their paths.

use super::row::{ETAG, NO_STORE, empty, json, required};
use super::table::PLAIN;
use super::{Access, Preconditions, RequiredScope, Response, RouteSpec, Tag};
use crate::problem::Reason;
use stockhold_service::Scope;

const CUSTOMERS: RouteSpec = RouteSpec { tag: Tag::Customers, ..PLAIN };

pub(super) const PUT_CUSTOMER: RouteSpec = RouteSpec {
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

pub(super) const GET_CUSTOMER: RouteSpec = RouteSpec {
    metric: "customer",
    summary: "Read a customer",
    description: "The personal data of a customer.",
    access: Access::Read,
    scope: RequiredScope::One(Scope::CustomersRead),
    responses: &[customer(200, "The customer.")],
    own_reasons: &[Reason::UnknownCustomer, Reason::EncryptionKeyMissing],
    ..CUSTOMERS
};

pub(super) const DELETE_CUSTOMER: RouteSpec = RouteSpec {
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

pub(super) const REWRAP_CUSTOMERS: RouteSpec = RouteSpec {
    metric: "rewrap_customers",
    summary: "Wrap the keys of customers with the first configured key",
    description: "After a new key was put in front of `customers.encryption_keys`: wraps the keys of a page of customers with it. Repeat it \
        with `starting_after` until `has_more` is false. The first page also encrypts the secrets \
        of webhooks and the signing key of hold tokens with it. Then nothing needs the other keys any more. It may be repeated, and may \
        end at any point.",
    access: Access::Write,
    scope: RequiredScope::One(Scope::CustomersWrite),
    responses: &[json(200, "What was done, and where to go on.", "RewrapPage")],
    own_reasons: &[Reason::EncryptionKeyMissing],
    ..CUSTOMERS
};

const fn customer(status: u16, description: &'static str) -> Response {
    Response { headers: &[ETAG, NO_STORE], ..json(status, description, "Customer") }
}
