//! The contract as a document: OpenAPI 3.1, and a page for browsers that is made from it.
//!
//! Bounds come from the constants that the server checks, reasons from [`Reason`], and examples of answers from the
//! code that answers. Tests send every example of a request to a server and validate every answer against its schema.
//! So nothing here may repeat what is defined elsewhere.

#![expect(
    clippy::needless_pass_by_value,
    reason = "schemas are made where they are passed, and json! only reads them"
)]

pub(crate) mod operation;
mod problems;
pub(crate) mod samples;
pub(crate) mod schema;
mod stock_requests;

mod answers;
pub(crate) mod lists;
mod requests;

mod batches;
pub(crate) mod checkouts;
mod cloud_events;
mod events;
mod inventory;
mod pages;
mod pools;
mod prices;
mod profiles;
pub(crate) mod reservations;
mod units;

mod docs;

pub use docs::docs_html;
pub use docs::html::SCRIPT as PAGE_SCRIPT;
pub(crate) use docs::{answered_by, html};

use crate::problem::Reason;
use crate::resources;
use crate::routes::Tag;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// The media type that the document is served with.
pub const CONTENT_TYPE: &str = "application/json";

const DESCRIPTION: &str = include_str!("description.md");

/// The document.
pub fn document() -> &'static Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(made);
    &DOCUMENT
}

/// The document's text, one member a line: what `GET /openapi.json` answers.
pub fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| format!("{:#}\n", document()));
    &TEXT
}

fn made() -> Value {
    let operations = [
        reservations::operations(),
        batches::of_reservations(),
        inventory::operations(),
        batches::of_items(),
        units::operations(),
        pools::operations(),
        prices::operations(),
        checkouts::operations(),
        inventory::sales(),
        events::operations(),
        resources::limits::operations(),
        resources::customers::operations(),
        resources::gate::operations(),
        resources::reconciliation::operations(),
        resources::sinks::operations(),
        resources::webhooks::operations(),
        resources::deliveries::operations(),
        resources::archive::operations(),
        profiles::operations(),
        resources::keys::operations(),
        pages::operations(),
    ];
    let mut operations: Vec<_> = operations.into_iter().flatten().collect();
    operations.sort_by_key(|operation| operation.route.id as usize);
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations {
        let (path, method) = (operation.route.path, operation.route.method.name().to_ascii_lowercase());
        paths.entry(path).or_insert_with(|| json!({}))[method] = operation.document();
    }
    for (path, item) in pages::admin() {
        paths.insert(path.to_owned(), item);
    }
    let mut tags: Vec<_> =
        Tag::ALL.iter().map(|tag| json!({ "name": tag.name(), "description": tag.description() })).collect();
    tags.push(json!({ "name": pages::ADMIN, "description": "Health and metrics, on the admin listener." }));
    json!({
        "openapi": "3.1.1",
        "info": {
            "title": "Stockhold",
            "summary": "Time-bounded holds on stock. Never promises a unit twice.",
            "description": DESCRIPTION,
            "version": env!("CARGO_PKG_VERSION"),
            "contact": { "name": "The operator of this server" },
            "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" },
        },
        "security": [],
        "servers": [{ "url": "/", "description": "This server." }],
        "tags": tags,
        "paths": paths,
        "webhooks": cloud_events::webhooks(),
        "components": {
            "schemas": schemas(),
            "parameters": operation::parameters(),
            "headers": operation::headers(),
            "examples": problems::examples(),
            "responses": operation::responses(),
            "securitySchemes": operation::security_schemes(),
        },
    })
}

fn schemas() -> Map<String, Value> {
    let bodies = [
        requests::schemas(),
        stock_requests::schemas(),
        batches::schemas(),
        answers::schemas(),
        lists::schemas(),
        events::schemas(),
        resources::limits::schemas(),
        resources::customers::schemas(),
        resources::gate::schemas(),
        resources::reconciliation::schemas(),
        resources::sinks::schemas(),
        resources::webhooks::schemas(),
        resources::deliveries::schemas(),
        resources::archive::schemas(),
        cloud_events::schemas(),
        pools::schemas(),
        prices::schemas(),
        checkouts::schemas(),
        profiles::schemas(),
        resources::keys::schemas(),
    ];
    let mut schemas: Map<_, _> =
        bodies.into_iter().flatten().map(|(name, schema)| (name.to_owned(), schema)).collect();
    schemas.insert("Problem".to_owned(), problems::any());
    for reason in Reason::ALL {
        schemas.insert(problems::schema_name(*reason), problems::schema(*reason));
    }
    schemas
}
