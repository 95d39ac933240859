//! The methods: each has the route that it is a twin of.

use crate::descriptors::POOL;
use crate::shape::MessageShape;
use prost_reflect::MessageDescriptor;
use std::collections::HashMap;
use std::sync::LazyLock;
use stockhold_api::routes::RouteId;

/// The services, by their full names.
pub const SERVICES: [&str; 3] =
    ["stockhold.v1.Reservations", "stockhold.v1.Inventory", "stockhold.v1.Events"];

static METHODS: LazyLock<HashMap<String, Method>> = LazyLock::new(|| {
    let services = POOL.services().filter(|service| SERVICES.contains(&service.full_name()));
    let methods = services.flat_map(|service| {
        let name = service.full_name().to_owned();
        service.methods().collect::<Vec<_>>().into_iter().map(move |method| {
            let route = route(method.name());
            let kind = match (method.is_client_streaming(), method.is_server_streaming()) {
                (true, _) => Kind::Commands,
                (false, true) => Kind::Events,
                (false, false) => Kind::Unary,
            };
            #[expect(clippy::expect_used, reason = "every message of a method is one of the pool")]
            let shape = MessageShape::of(&method.input()).expect("a message of the contract");
            let known = Method {
                route,
                kind,
                shape,
                #[cfg(test)]
                input: method.input(),
                output: method.output(),
            };
            (format!("/{name}/{}", method.name()), known)
        })
    });
    methods.collect()
});

/// How many messages a method has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request and an answer.
    Unary,
    /// `Commands`: a stream of commands and a stream of results.
    Commands,
    /// `WatchEvents`: a request and a stream of events.
    Events,
}

/// A method of a service.
#[derive(Clone, Debug)]
pub struct Method {
    /// The route that it is a twin of.
    pub route: RouteId,
    /// How many messages it has.
    pub kind: Kind,
    pub(crate) shape: &'static MessageShape,
    #[cfg(test)]
    pub(crate) input: MessageDescriptor,
    pub(crate) output: MessageDescriptor,
}

impl Method {
    /// The method of a path, such as `/stockhold.v1.Reservations/Confirm`.
    pub fn find(path: &str) -> Option<&'static Self> {
        METHODS.get(path)
    }

    /// All methods, by their paths.
    pub fn all() -> impl Iterator<Item = (&'static str, &'static Self)> {
        METHODS.iter().map(|(path, method)| (path.as_str(), method))
    }
}

/// The route of a method: that whose operation has the same name in snake case.
fn route(method: &str) -> RouteId {
    let operation = match method {
        "Reserve" => "reserve_basket".to_owned(),
        "Commands" => "run_commands".to_owned(),
        "WatchEvents" => "stream_events".to_owned(),
        _ => snake_case(method),
    };
    let found = RouteId::ALL.iter().find(|id| id.spec().operation == operation);
    #[expect(clippy::panic, reason = "the methods are compiled in, and a test finds all of them")]
    *found.unwrap_or_else(|| panic!("the method {method} has no route"))
}

fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
