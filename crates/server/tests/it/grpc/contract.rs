//! The `.proto` files stay compatible, and have what the OpenAPI document has.

use crate::clients::repository;
use prost_reflect::{DescriptorPool, MessageDescriptor};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use stockhold_api::openapi;
use stockhold_api::routes::RouteId;
use stockhold_grpc::{DESCRIPTORS, Method};

const SNAPSHOT: &str = "proto/stockhold/v1";

fn pool() -> DescriptorPool {
    DescriptorPool::decode(DESCRIPTORS).unwrap()
}

/// One line for each field and method.
fn listed() -> String {
    let pool = pool();
    let mut lines = Vec::new();
    for message in pool.all_messages().filter(|message| message.package_name() == "stockhold.v1") {
        for field in message.fields() {
            let label = if field.is_list() {
                "repeated "
            } else if field.field_descriptor_proto().proto3_optional() {
                "optional "
            } else {
                ""
            };
            lines.push(format!(
                "{} {} = {} {label}{:?}",
                message.name(),
                field.name(),
                field.number(),
                field.kind()
            ));
        }
    }
    for service in pool.services() {
        for method in service.methods() {
            let stream = |yes: bool| if yes { "stream " } else { "" };
            let (from, to) = (stream(method.is_client_streaming()), stream(method.is_server_streaming()));
            let (input, output) = (method.input(), method.output());
            lines.push(format!(
                "{}/{}({from}{}) {to}{}",
                service.name(),
                method.name(),
                input.name(),
                output.name()
            ));
        }
    }
    lines.sort();
    lines.into_iter().fold(String::new(), |mut out, line| {
        let _ = writeln!(out, "{line}");
        out
    })
}

#[test]
fn fields_and_methods_that_were_published_stay_as_they_are() {
    let file = repository(SNAPSHOT).join("fields.txt");
    let now = listed();
    if std::env::var_os("UPDATE_PROTO_FIELDS").is_some() {
        fs::write(&file, &now).unwrap();
    }
    let then = fs::read_to_string(&file).unwrap();
    let gone: Vec<_> = then.lines().filter(|line| !now.lines().any(|found| found == *line)).collect();
    let new: Vec<_> = now.lines().filter(|line| !then.lines().any(|found| found == *line)).collect();
    assert!(
        gone.is_empty() && new.is_empty(),
        "The messages differ from {}.\nChanged or removed, which breaks clients: {gone:#?}\nNew: {new:#?}\nA number is never used \
         again: a field that goes is `reserved`, with its number and its name. If that is so, run this test with \
         UPDATE_PROTO_FIELDS=1.",
        file.display()
    );
    let mut numbers: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for line in then.lines().filter(|line| line.contains(" = ")) {
        let mut words = line.split(' ');
        let (message, _, _, number) =
            (words.next().unwrap(), words.next(), words.next(), words.next().unwrap());
        assert_eq!(numbers.insert((message, number), line), None);
    }
}

/// The names of the members of a schema, those of its alternatives too.
fn members(document: &Value, schema: &Value, out: &mut Vec<String>) {
    let schema = match schema["$ref"].as_str() {
        Some(reference) => document.pointer(&reference[1..]).unwrap(),
        None => schema,
    };
    out.extend(schema["properties"].as_object().into_iter().flat_map(|members| members.keys().cloned()));
    for kind in ["oneOf", "anyOf", "allOf"] {
        schema[kind].as_array().into_iter().flatten().for_each(|one| members(document, one, out));
    }
}

fn assert_has(message: &MessageDescriptor, names: &[String]) {
    for name in names {
        assert!(message.get_field_by_name(name).is_some(), "{} has no field {name}", message.name());
    }
}

#[test]
fn requests_and_answers_have_what_the_openapi_document_has() {
    let (document, pool) = (openapi::document(), pool());
    let mut compared = 0;
    for service in pool.services() {
        for method in service.methods() {
            let path = format!("/{}/{}", service.full_name(), method.name());
            let spec = Method::find(&path).unwrap().route.spec();
            if matches!(spec.id, RouteId::RunCommands | RouteId::StreamEvents) {
                continue;
            }
            let operation = &document["paths"][spec.path][spec.method.name().to_ascii_lowercase()];
            let mut names = Vec::new();
            members(document, &operation["requestBody"]["content"]["application/json"]["schema"], &mut names);
            names.extend(
                operation["parameters"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|one| one["name"].as_str())
                    .map(str::to_owned),
            );
            assert_has(&method.input(), &names);
            let mut names = Vec::new();
            for (status, response) in operation["responses"].as_object().unwrap() {
                if status.starts_with('2') {
                    members(document, &response["content"]["application/json"]["schema"], &mut names);
                }
            }
            assert_has(&method.output(), &names);
            compared += 1;
        }
    }
    // Everything that is named like a message has its members.
    let inputs: Vec<_> =
        Method::all().map(|(path, _)| format!("{}Request", path.rsplit('/').next().unwrap())).collect();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        if inputs.contains(name) {
            continue;
        }
        let Some(message) = pool.get_message_by_name(&format!("stockhold.v1.{name}")) else { continue };
        let mut names = Vec::new();
        members(document, schema, &mut names);
        assert_has(&message, &names);
        compared += 1;
    }
    assert!(compared > 100, "{compared}");
    let problem = pool.get_message_by_name("stockhold.v1.Problem").unwrap();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        if name.ends_with("Problem") {
            let mut names = Vec::new();
            members(document, schema, &mut names);
            assert_has(&problem, &names);
        }
    }
}

#[test]
fn every_route_of_reservations_inventory_and_events_has_a_method() {
    let methods: Vec<_> = Method::all().map(|(_, method)| method.route).collect();
    // A reserve of one line is a reserve, a webhook of a provider comes over HTTP, and the rest is for operators.
    let excused = ["reserve", "provider_webhook", "get_gate", "reload_gate"];
    for id in RouteId::ALL {
        let spec = id.spec();
        let first = spec.path.split('/').nth(2).unwrap_or_default();
        let is_for_callers = spec.profile.is_none()
            && matches!(
                first,
                "inventory"
                    | "reservations"
                    | "availability"
                    | "prices"
                    | "commands"
                    | "sale"
                    | "limits"
                    | "orders"
                    | "events"
            );
        assert_eq!(
            is_for_callers && !excused.contains(&spec.operation),
            methods.contains(id),
            "{}",
            spec.operation
        );
    }
}
