//! OpenAPI's own rules, and ours.

use super::{assert_valid, operations, resolved};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use stockhold_api::openapi::{document, text};
use stockhold_api::problem::Reason;

/// Walks over every value of the document, with its place.
fn walk(value: &'static Value, at: &str, visit: &mut impl FnMut(&str, &'static Value)) {
    visit(at, value);
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                walk(member, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), visit);
            }
        }
        Value::Array(entries) => {
            for (n, entry) in entries.iter().enumerate() {
                walk(entry, &format!("{at}/{n}"), visit);
            }
        }
        _ => {}
    }
}

/// Everything in the document but the values of its examples, whose words are not the document's.
fn walk_all(mut visit: impl FnMut(&str, &'static Value)) {
    walk(document(), "", &mut |at, value| {
        let in_value = at.split_once("/examples/").is_some_and(|(_, rest)| rest.contains("/value"));
        if !in_value && !at.ends_with("/example") {
            visit(at, value);
        }
    });
}

fn members(value: &'static Value) -> impl Iterator<Item = (&'static String, &'static Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

#[test]
fn a_reader_of_openapi_3_1_reads_it() {
    let read = oas3::from_json(text()).unwrap();
    assert!(read.openapi.starts_with("3.1."), "{}", read.openapi);
    assert_eq!(read.operations().count(), operations().len());
}

#[test]
fn every_schema_is_a_json_schema() {
    let mut count = 0;
    walk_all(|at, value| {
        let in_components = at.strip_prefix("/components/schemas/").is_some_and(|name| !name.contains('/'));
        if in_components || at.ends_with("/schema") {
            count += 1;
            if let Err(error) = jsonschema::draft202012::meta::validate(value) {
                panic!("{at}: {error}");
            }
        }
    });
    assert!(count > 100, "{count}");
}

#[test]
fn references_lead_somewhere_and_every_component_is_referred_to() {
    let mut used = BTreeSet::new();
    walk_all(|at, value| {
        let Some(path) = value["$ref"].as_str() else { return };
        resolved(value);
        // A schema that only refers to itself is not in use.
        if !format!("{at}/").starts_with(&format!("{}/", path.trim_start_matches('#'))) {
            used.insert(path);
        }
    });
    let mut schemes = BTreeSet::new();
    for operation in operations() {
        for requirement in operation.value["security"].as_array().into_iter().flatten() {
            schemes.extend(members(requirement).map(|(name, _)| name.as_str()));
        }
    }
    for (kind, all) in members(&document()["components"]) {
        for (name, _) in members(all) {
            // Operations name a security scheme without a reference.
            let is_scheme = kind == "securitySchemes" && schemes.contains(name.as_str());
            assert!(
                is_scheme || used.contains(&*format!("#/components/{kind}/{name}")),
                "{kind}/{name} is not in use"
            );
        }
    }
}

#[test]
fn operations_are_named_once_and_their_parameters_are_those_of_their_paths() {
    let mut ids = BTreeSet::new();
    for operation in operations() {
        let id = operation.id();
        assert!(ids.insert(id), "{id} is there twice");
        for name in ["summary", "description"] {
            assert!(
                operation.value[name].as_str().is_some_and(|text| !text.is_empty()),
                "{id} has no {name}"
            );
        }
        let in_template: BTreeSet<_> =
            operation.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
        let mut seen = BTreeSet::new();
        for parameter in operation.parameters() {
            let place = (parameter["in"].as_str().unwrap(), parameter["name"].as_str().unwrap());
            assert!(seen.insert(place), "{id}: {place:?} is there twice");
            assert_eq!(parameter["required"] == true, place.0 == "path", "{id}: {place:?}");
        }
        let declared: BTreeSet<_> =
            seen.iter().filter(|place| place.0 == "path").map(|place| place.1).collect();
        assert_eq!(declared, in_template, "{id}");
    }
}

#[test]
fn links_name_operations_and_parameters_that_there_are() {
    let all: BTreeMap<_, _> = operations().into_iter().map(|operation| (operation.id(), operation)).collect();
    let mut count = 0;
    for operation in all.values() {
        for (_, response) in members(&operation.value["responses"]) {
            for (name, link) in members(&resolved(response)["links"]) {
                count += 1;
                let target = &all[link["operationId"].as_str().unwrap()];
                for (parameter, _) in members(&link["parameters"]) {
                    let known = target.parameters().iter().any(|known| known["name"] == **parameter);
                    assert!(known, "{} → {name}: {parameter}", operation.id());
                }
                // openapi-generator refuses a document with a body here that is no text.
                assert!(link["requestBody"].is_null(), "{name}");
            }
        }
    }
    assert!(count >= 20, "{count}");
}

#[test]
fn every_example_is_what_its_schema_says() {
    let mut count = 0;
    walk(document(), "", &mut |at, value| {
        let schema = &value["schema"];
        if !schema.is_object() || at.contains("/examples/") {
            return;
        }
        for (name, example) in members(&value["examples"]) {
            count += 1;
            let example = resolved(example);
            assert_valid(&example["value"], schema, &format!("{at}: {name}"));
            assert!(example["summary"].as_str().is_some_and(|text| !text.is_empty()), "{at}: {name}");
        }
        if !value["example"].is_null() {
            count += 1;
            assert_valid(&value["example"], schema, at);
        }
    });
    assert!(count > 80, "{count}");
}

#[test]
fn every_body_and_every_answer_has_an_example() {
    for operation in operations() {
        let body = &operation.value["requestBody"];
        assert!(body.is_null() || body["content"]["application/json"]["examples"].is_object());
        for (status, response) in members(&operation.value["responses"]) {
            for (kind, media) in members(&resolved(response)["content"]) {
                let json = kind.ends_with("json") && operation.path != "/openapi.json";
                assert!(!json || media["examples"].is_object(), "{} {status}", operation.id());
            }
        }
    }
}

#[test]
fn every_reason_is_there_with_its_status_and_its_schema() {
    let mut seen = BTreeSet::new();
    let mut check = |status: &str, response: &'static Value, what: &str| {
        for (name, example) in members(&response["content"]["application/problem+json"]["examples"]) {
            let reason = Reason::from_name(name).unwrap();
            assert_eq!(reason.status().to_string(), status, "{what}: {name}");
            assert_eq!(resolved(example)["value"]["reason"], **name, "{what}");
            assert_eq!(
                reason.retry_after().is_some() || reason == Reason::RateLimited,
                !response["headers"]["Retry-After"].is_null(),
                "{what}: {name}"
            );
            seen.insert(name.as_str());
        }
    };
    for operation in operations() {
        let responses = members(&operation.value["responses"]).filter(|(status, _)| *status != "default");
        for (status, response) in responses {
            check(status, resolved(response), operation.id());
        }
    }
    let all: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
    assert_eq!(seen, all);
    let named = &document()["components"]["schemas"]["Problem"]["properties"]["reason"]["enum"];
    assert_eq!(named.as_array().unwrap().len(), all.len());
}
