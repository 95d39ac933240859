//! The document: it is what was reviewed, it is OpenAPI, its parts fit together, its examples are what they say.

mod edges;
mod pages;
mod rules;
mod snapshot;

use serde_json::{Value, json};
use stockhold_api::openapi::document;

/// An operation and where it stands.
pub(crate) struct Operation {
    pub(crate) path: &'static str,
    pub(crate) value: &'static Value,
}

impl Operation {
    pub(crate) fn id(&self) -> &'static str {
        self.value["operationId"].as_str().unwrap()
    }

    /// Its parameters, references followed.
    pub(crate) fn parameters(&self) -> Vec<&'static Value> {
        let all = self.value["parameters"].as_array().into_iter().flatten();
        all.map(resolved).collect()
    }
}

pub(crate) fn operations() -> Vec<Operation> {
    let mut all = Vec::new();
    for (path, item) in document()["paths"].as_object().unwrap() {
        for (_, value) in item.as_object().unwrap().iter().filter(|(name, _)| *name != "servers") {
            all.push(Operation { path, value });
        }
    }
    assert!(all.len() > 20);
    all
}

/// What a reference leads to, or the value itself.
pub(crate) fn resolved(value: &'static Value) -> &'static Value {
    match value["$ref"].as_str() {
        Some(path) => document()
            .pointer(path.strip_prefix('#').unwrap())
            .unwrap_or_else(|| panic!("{path} leads nowhere")),
        None => value,
    }
}

/// Asserts that a value is what a schema of the document says. Members that the schema does not have are refused too,
/// though readers would pass over them: nothing may be written that is not in the document.
#[track_caller]
pub(crate) fn assert_valid(value: &Value, schema: &Value, what: &str) {
    let mut components = document()["components"].clone();
    for schema in components["schemas"].as_object_mut().unwrap().values_mut() {
        if schema["properties"].is_object() {
            schema["additionalProperties"] = false.into();
        }
    }
    let root = json!({ "components": components, "allOf": [schema] });
    let validator = jsonschema::options().should_validate_formats(true).build(&root).unwrap();
    let errors: Vec<_> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{what}: {errors:#?}\n{value:#}");
}
