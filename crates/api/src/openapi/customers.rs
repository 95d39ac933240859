//! The operations on customers, and what requests and answers of them look like.

use super::checkouts::provider_name;
use super::lists::{limit as page_limit, starting_after};
use super::operation::{Operation, in_path};
use super::reservations::{example, example_at};
use super::samples::{label as made_label, written};
use super::schema::{Member, always, array, closed, counter, flag, label, maybe, named, object, text};
use crate::decode::PAGE_LIMIT;
use crate::encode;
use crate::routes::RouteId;
use serde_json::{Value, json};
use stockhold_customers::{EMAIL_BYTES, LOCALE_BYTES, PUSH_TOKEN_BYTES, Profile, ProviderMethod, RewrapPage};
use stockhold_domain::ProviderRef;

/// The id of a customer that examples create and delete.
const BEN: &str = "ben";

/// All of them.
pub(super) fn operations() -> Vec<Operation> {
    vec![put(), get(), on(RouteId::DeleteCustomer, BEN), rewrap()]
}

/// Their schemas, by name.
pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let mut shown = vec![always("customer_id", label("The customer's id."))];
    shown.extend(members(always));
    shown.push(always(
        "version",
        counter("Another one after each change; the `ETag`. It is a random number."),
    ));
    vec![
        ("CustomerRequest", closed("Personal data of a customer.", members(maybe))),
        ("Customer", object("Personal data of a customer.", shown)),
        (
            "CustomerMethod",
            closed(
                "A payment method that a provider keeps.",
                vec![
                    always("method_ref", provider_name("The payment method, such as `pm_…`.")),
                    maybe(
                        "customer_ref",
                        provider_name("The customer, such as `cus_…`, if the method is stored with one."),
                    ),
                ],
            ),
        ),
        (
            "ProviderRefs",
            closed(
                "Payment methods, by the providers that keep them.",
                vec![maybe("stripe", named("CustomerMethod")), maybe("test", named("CustomerMethod"))],
            ),
        ),
        (
            "RewrapPage",
            object(
                "What was wrapped with the first configured key.",
                vec![
                    always("customers", counter("Customers of the page.")),
                    always(
                        "rewrapped",
                        counter(
                            "Those of them whose key was wrapped by another key before, and on the first page the records of webhooks and \
                             signing keys that were.",
                        ),
                    ),
                    maybe(
                        "unreadable",
                        array(
                            label("The id of a customer."),
                            1,
                            PAGE_LIMIT,
                            "Those of them that can't be read: the key is not configured, or the data is damaged. Configure the key, or \
                             erase the customer.",
                        ),
                    ),
                    always("has_more", flag("Whether there may be more customers.")),
                    maybe("next_cursor", text("The `starting_after` of the next page.")),
                ],
            ),
        ),
    ]
}

/// What is stored about a customer. `own` makes the member that every answer has.
fn members(own: impl Fn(&'static str, Value) -> Member) -> Vec<Member> {
    vec![
        own("provider_refs", named("ProviderRefs")),
        maybe(
            "email",
            json!({
                "type": "string", "format": "email", "minLength": 3, "maxLength": EMAIL_BYTES, "x-max-bytes": EMAIL_BYTES,
                "pattern": "^[^@\\s]+@[^@\\s]+$", "description": "One email address.",
            }),
        ),
        maybe(
            "push_token",
            json!({
                "type": "string", "minLength": 1, "maxLength": PUSH_TOKEN_BYTES, "pattern": "^[!-~]+$",
                "description": "The token of the customer's device at a push service.",
            }),
        ),
        maybe(
            "locale",
            json!({
                "type": "string", "format": "language-tag", "minLength": 2, "maxLength": LOCALE_BYTES,
                "pattern": "^[A-Za-z]{2,8}((-[A-Za-z0-9]{1,8})*-[A-Za-z0-9]{2,8})?$",
                "description": "The language of messages: a tag like `de-CH` (BCP 47).",
            }),
        ),
    ]
}

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
    written(|out| encode::customer(out, &made_label("anna"), 4_398_046_511_104, &profile))
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
    let page = RewrapPage { seen: 50, rewrapped: 48, unreadable: Vec::new(), next: Some(made_label("anna")) };
    Operation::of(RouteId::RewrapCustomers)
        .parameter(page_limit())
        .parameter(starting_after())
        .responds(json!({ "page": example("A page", written(|out| encode::rewrap_page(out, &page))) }))
}
