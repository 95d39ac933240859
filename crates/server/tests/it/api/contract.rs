//! Holds answers against the document: every answer that a test of this suite gets has a status, headers and a body that
//! `/openapi.json` has for that very operation, down to the members of a problem's reason.

use super::wire::{Answer, Call};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};
use stockhold_api::openapi::document;
use stockhold_api::profiles::Profile;

/// Headers that HTTP itself brings.
const OF_HTTP: [&str; 5] = ["content-type", "content-length", "date", "connection", "transfer-encoding"];

/// An operation of the document.
#[derive(Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) path: &'static str,
    pub(crate) method: &'static str,
    pub(crate) value: &'static Value,
}

/// All operations of the API's listener.
pub(crate) fn operations() -> Vec<Operation> {
    let paths = document()["paths"].as_object().unwrap().iter();
    let ours = paths.filter(|(_, item)| item["servers"].is_null());
    let all = ours.flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().iter();
        methods.map(move |(method, value)| Operation { path, method, value })
    });
    all.collect()
}

/// What a reference leads to, or the value itself.
pub(crate) fn resolved(value: &'static Value) -> &'static Value {
    let Some(path) = value["$ref"].as_str() else { return value };
    document().pointer(path.strip_prefix('#').unwrap()).unwrap_or_else(|| panic!("{path} leads nowhere"))
}

/// Asserts that an answer is one that the document has.
#[track_caller]
pub(crate) fn check(call: &Call, answer: &Answer) {
    let path = call.target().split('?').next().unwrap();
    let at_path: Vec<_> =
        operations().into_iter().filter(|operation| matches(operation.path, path)).collect();
    if at_path.is_empty() {
        return;
    }
    // A path of fixed words stands before one with parameters.
    let literal = at_path.iter().any(|operation| operation.path == path);
    let method = call.method().to_lowercase();
    // Preflights of browsers belong to no route.
    if method == "options" && call.has_header("Access-Control-Request-Method") {
        return;
    }
    let is_head = method == "head";
    let wanted = if is_head { "get" } else { &*method };
    let found =
        at_path.iter().find(|operation| operation.method == wanted && (operation.path == path || !literal));
    let response = match found {
        Some(operation) => &operation.value["responses"][answer.status.to_string()],
        None => {
            assert_eq!(answer.status, 405, "{call:?} is not in the document: {answer:?}");
            if let Some(profile) = Profile::of_path(path) {
                let schema = match profile {
                    Profile::Hub => "HubError",
                    Profile::Storefront => "StorefrontError",
                };
                return assert_valid(&answer.json(), &document()["components"]["schemas"][schema], path);
            }
            &document()["components"]["responses"]["MethodNotAllowed"]
        }
    };
    assert!(!response.is_null(), "the document has no {} for {call:?}: {answer:?}", answer.status);
    let response = resolved(response);
    check_headers(call, answer, response);
    let content = response["content"].as_object();
    let kind = answer.header("content-type");
    assert_eq!(
        kind,
        content.and_then(|content| content.keys().next()).map(String::as_str),
        "{call:?}: {answer:?}"
    );
    if kind.is_some_and(|kind| kind.ends_with("json")) && !is_head && path != "/openapi.json" {
        let schema = &content.unwrap()[kind.unwrap()]["schema"];
        assert_valid(&answer.json(), schema, &format!("{call:?}"));
    }
}

/// Headers of pages and documents.
const OF_PAGES: [&str; 4] =
    ["content-security-policy", "referrer-policy", "x-content-type-options", "x-frame-options"];

#[track_caller]
fn check_headers(call: &Call, answer: &Answer, response: &'static Value) {
    let declared = response["headers"].as_object();
    for (name, value) in &answer.headers {
        // What browsers need for other origins and for pages is no part of an operation.
        if name.starts_with("access-control-")
            || (name == "vary" && value == "Origin")
            || OF_PAGES.contains(&name.as_str())
        {
            continue;
        }
        let known = OF_HTTP.contains(&name.as_str())
            || declared.is_some_and(|declared| declared.keys().any(|known| known.eq_ignore_ascii_case(name)));
        assert!(known, "the document does not have the header {name} for {call:?}: {answer:?}");
    }
    for (name, header) in declared.into_iter().flatten() {
        let header = resolved(header);
        let Some(value) = answer.header(&name.to_lowercase()) else {
            assert_ne!(header["required"], true, "{name} is missing for {call:?}: {answer:?}");
            continue;
        };
        let schema = &header["schema"];
        let value = match schema["type"].as_str() {
            Some("integer") => json!(value.parse::<u64>().unwrap()),
            _ => json!(value),
        };
        assert_valid(&value, schema, name);
    }
}

/// Asserts that an event of a stream is as the document says.
#[track_caller]
pub(crate) fn check_event(event: &Value) {
    assert_valid(event, &document()["components"]["schemas"]["Event"], "an event");
}

/// Whether a path is of a template.
fn matches(template: &str, path: &str) -> bool {
    let (mut ours, mut theirs) = (template.split('/'), path.split('/'));
    loop {
        match (ours.next(), theirs.next()) {
            (None, None) => return true,
            (Some(word), Some(segment))
                if word == segment || (word.starts_with('{') && !segment.is_empty()) => {}
            _ => return false,
        }
    }
}

/// Asserts that a value is what a schema of the document says, and has no member that the document does not have.
#[track_caller]
pub(crate) fn assert_valid(value: &Value, schema: &'static Value, what: &str) {
    static STRICT: LazyLock<Value> = LazyLock::new(|| {
        let mut schemas = document()["components"]["schemas"].clone();
        for schema in schemas.as_object_mut().unwrap().values_mut() {
            if schema["properties"].is_object() {
                schema["additionalProperties"] = false.into();
            }
        }
        json!({ "schemas": schemas })
    });
    static MADE: LazyLock<Mutex<HashMap<String, Arc<jsonschema::Validator>>>> = LazyLock::new(Mutex::default);
    let made = MADE.lock().unwrap().get(&schema.to_string()).cloned();
    let validator = made.unwrap_or_else(|| {
        let root = json!({ "components": *STRICT, "allOf": [schema] });
        let validator = jsonschema::options().should_validate_formats(true).build(&root).unwrap();
        let validator = Arc::new(validator);
        MADE.lock().unwrap().insert(schema.to_string(), Arc::clone(&validator));
        validator
    });
    let errors: Vec<_> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{what} is not answered as the document says: {errors:#?}\n{value:#}");
}
