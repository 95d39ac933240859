//! The route table: method, path, operation, body, responses and documentation of every route, each in one place.
//!
//! The server's route matching, the names of routes in metrics and the OpenAPI document come from this table. It must
//! never hold anything that is also written somewhere else.

mod checkouts;
mod profiles;
mod reservations;
pub(crate) mod row;
pub(crate) mod table;
mod units;

pub(crate) use row::EVENT_STREAM;
pub use table::RouteId;

use crate::problem::Reason;
use crate::profiles::Profile;
use stockhold_service::Scope;

/// A route of the API's listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteSpec {
    /// Which route.
    pub id: RouteId,
    /// The HTTP method. A `GET` route also answers `HEAD`.
    pub method: Method,
    /// The path. A parameter is a whole segment in braces.
    pub path: &'static str,
    /// The operation's id in the OpenAPI document.
    pub operation: &'static str,
    /// The value of the label `route` in metrics. Routes may share one.
    pub metric: &'static str,
    /// The profile that the route belongs to. Its errors have the profile's shape instead of a problem's.
    pub profile: Option<Profile>,
    /// The section of the documentation.
    pub tag: Tag,
    /// What the route does, in a few words.
    pub summary: &'static str,
    /// What the route does, in Markdown.
    pub description: &'static str,
    /// The request's body.
    pub body: Body,
    /// Whether the route reads the header `Idempotency-Key`.
    pub idempotency_key: bool,
    /// The preconditions that the route honours.
    pub preconditions: Preconditions,
    /// What the route does to the store.
    pub access: Access,
    /// The scope that a caller needs.
    pub scope: RequiredScope,
    /// What becomes of a caller that is restricted to locations, channels or its own reservations.
    pub restriction: Restriction,
    /// Whether the route also accepts the hold token of the reservation that its path names.
    pub hold_token: bool,
    /// The responses of a request that succeeds.
    pub responses: &'static [Response],
    /// The reasons of this route's own refusals. [`RouteSpec::reasons`] adds those that follow from the other fields.
    pub(crate) own_reasons: &'static [Reason],
}

/// The HTTP method of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `GET`, and `HEAD` with it.
    Get,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `PATCH`
    Patch,
    /// `DELETE`
    Delete,
}

impl Method {
    /// As a request line has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// A section of the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// Items and their stock.
    Inventory,
    /// Reservations.
    Reservations,
    /// Checkouts, refunds and orders.
    Checkout,
    /// Personal data of customers.
    Customers,
    /// Pausing and resuming the sale.
    Sale,
    /// Events.
    Events,
    /// The profile of quick-commerce hubs.
    Hub,
    /// The profile of storefronts.
    Storefront,
    /// Who may use the API.
    Access,
    /// Documents about the server.
    About,
}

impl Tag {
    /// All sections, in the order of the documentation.
    pub const ALL: [Self; 10] = [
        Self::Inventory,
        Self::Reservations,
        Self::Checkout,
        Self::Customers,
        Self::Sale,
        Self::Events,
        Self::Hub,
        Self::Storefront,
        Self::Access,
        Self::About,
    ];

    /// The section's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inventory => "Inventory",
            Self::Reservations => "Reservations",
            Self::Checkout => "Checkout",
            Self::Customers => "Customers",
            Self::Sale => "Sale",
            Self::Events => "Events",
            Self::Hub => "Hub",
            Self::Storefront => "Storefront",
            Self::Access => "Access",
            Self::About => "About",
        }
    }

    /// What the section is about.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Inventory => "Items: their stock, their units and what is available.",
            Self::Reservations => "Hold units for a limited time, then confirm or release them.",
            Self::Checkout => {
                "Checkouts: the payment of a reservation, its refunds, and the order that it became."
            }
            Self::Customers => "Customers: personal data, encrypted and erasable.",
            Self::Sale => "Pause and resume new reservations.",
            Self::Events => "Every change, in order.",
            Self::Hub => {
                "For clients of a quick-commerce stock service: short holds per hub, in the shape that they know. Members that are \
                 not listed, and queries, are ignored. Errors are `{error, detail, field?}`."
            }
            Self::Storefront => {
                "For clients of a storefront's reservation service, in the shape that they know. Members that are not listed, and \
                 queries, are ignored. Errors are `{error}`, with `detail` where the request is wrong."
            }
            Self::Access => {
                "API keys. The calls use the root key of a server that was started with `STOCKHOLD_ROOT_KEY`."
            }
            Self::About => "The API's documents and the page of each reason.",
        }
    }
}

/// The body that a route reads. Every body is JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// No body. A body that is sent is refused.
    None,
    /// A body, or none, which means `{}`.
    Optional {
        /// The body's schema in the OpenAPI document.
        schema: &'static str,
        /// The most bytes that it may have.
        limit: usize,
    },
    /// A body.
    Required {
        /// The body's schema in the OpenAPI document.
        schema: &'static str,
        /// The most bytes that it may have.
        limit: usize,
    },
}

impl Body {
    /// The most bytes that are read. A route without a body reads a short one to refuse it.
    pub const fn limit(self) -> usize {
        match self {
            Self::None => crate::decode::BODY_BYTES,
            Self::Optional { limit, .. } | Self::Required { limit, .. } => limit,
        }
    }

    /// Whether the route reads a body.
    pub const fn is_read(self) -> bool {
        !matches!(self, Self::None)
    }
}

/// The preconditions that a route honours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preconditions {
    /// None. A precondition on a change is refused, because it would have no effect.
    None,
    /// `If-Match` with the `ETag` of the item or the reservation.
    IfMatch,
    /// `If-Match` with the item's `ETag`, or `If-None-Match: *` to create only.
    IfMatchOrAbsent,
    /// `If-None-Match` with the `ETag` of the copy that the caller has.
    Cached,
}

/// What a route does to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing: it serves a document.
    None,
    /// It reads the store.
    Read,
    /// It changes the store.
    Write,
}

/// The scope that a caller of a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredScope {
    /// None: the route is open, also to callers without a credential.
    Open,
    /// This one.
    One(Scope),
    /// That of each command of the body, each judged on its own.
    EachCommand,
}

/// What becomes of a restricted caller of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restriction {
    /// It is refused: the route concerns everything.
    Refused,
    /// The items or locations that the request names are judged.
    ByItem,
    /// The reservations that the request names are judged.
    ByReservation,
    /// The answer has only what the caller may see.
    Filtered,
    /// The API keys that the request names, makes or lists are judged.
    ByKey,
    /// Each command of the body is judged.
    PerCommand,
}

/// A response of a request that succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// What the response says.
    pub description: &'static str,
    /// The response's body.
    pub content: Content,
    /// Headers of its own: the header's name, and its component in the OpenAPI document.
    pub headers: &'static [(&'static str, &'static str)],
}

/// The body of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// No body.
    None,
    /// JSON of this schema in the OpenAPI document.
    Json(&'static str),
    /// JSON of no schema: the OpenAPI document.
    OpenApi,
    /// Text of this media type.
    Text(&'static str),
}

/// Reasons that any route can answer with.
const ANY_ROUTE: [Reason; 9] = [
    Reason::InvalidRequest,
    Reason::MisdirectedRequest,
    Reason::RequestTimeout,
    Reason::TooLarge,
    Reason::HeadersTooLarge,
    Reason::UnsupportedMediaType,
    Reason::RateLimited,
    Reason::Internal,
    Reason::Overloaded,
];

impl RouteSpec {
    /// Every reason that the route can answer with, in the order of [`Reason::ALL`].
    pub fn reasons(&self) -> Vec<Reason> {
        Reason::ALL.iter().copied().filter(|reason| self.may_answer(*reason)).collect()
    }

    fn may_answer(&self, reason: Reason) -> bool {
        let follows = match reason {
            Reason::Forbidden => self.method != Method::Get || self.scope != RequiredScope::Open,
            Reason::Unauthenticated => self.scope != RequiredScope::Open,
            Reason::IdempotencyMismatch => self.idempotency_key,
            Reason::PreconditionFailed => {
                matches!(self.preconditions, Preconditions::IfMatch | Preconditions::IfMatchOrAbsent)
            }
            Reason::Unavailable => self.access != Access::None,
            Reason::OutcomeUnknown => self.access == Access::Write,
            _ => false,
        };
        follows || ANY_ROUTE.contains(&reason) || self.own_reasons.contains(&reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The signature of a provider's webhook is its credential.
    #[test]
    fn only_documents_and_the_webhooks_of_providers_are_open() {
        let open = RouteId::ALL.iter().map(|id| id.spec()).filter(|spec| spec.scope == RequiredScope::Open);
        let paths: Vec<_> = open.map(|spec| spec.path).collect();
        let expected =
            ["/v1/providers/{provider}/webhook", "/openapi.json", "/docs", "/problems/{reason}", "/"];
        assert_eq!(paths, expected);
    }
    use std::collections::BTreeSet;

    #[test]
    fn routes_are_numbered_in_order_and_differ() {
        let mut places = BTreeSet::new();
        let mut operations = BTreeSet::new();
        for (number, id) in RouteId::ALL.iter().enumerate() {
            let route = id.spec();
            assert_eq!((*id as usize, route.id), (number, *id));
            assert!(places.insert((route.method.name(), route.path)), "{}", route.path);
            assert!(operations.insert(route.operation), "{}", route.operation);
        }
    }

    #[test]
    fn responses_fit_the_rest() {
        for id in RouteId::ALL {
            let route = id.spec();
            assert!(!route.responses.is_empty() && !route.summary.is_empty(), "{id:?}");
            let replayed =
                |response: &Response| response.headers.contains(&("Idempotent-Replayed", "Replayed"));
            assert!(route.responses.iter().all(|one| replayed(one) == route.idempotency_key), "{id:?}");
        }
    }
    #[test]
    fn the_document_has_every_route() {
        let document = crate::openapi::document();
        for id in RouteId::ALL {
            let route = id.spec();
            let method = route.method.name().to_ascii_lowercase();
            let operation = &document["paths"][route.path][method];
            assert_eq!(operation["operationId"], route.operation);
        }
        let operations = document["paths"].as_object().unwrap().values();
        let ours = operations.filter(|item| item["servers"].is_null());
        let count: usize = ours.map(|item| item.as_object().unwrap().len()).sum();
        assert_eq!(count, RouteId::ALL.len());
    }
}
