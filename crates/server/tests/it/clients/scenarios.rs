//! The scenarios that all clients share (`clients/scenarios.yaml` says what is in them), without input and output.

use super::repository;
use serde_json::{Map, Value, json};
use std::fs;
use stockhold_store::ids::IdSource;

/// What came of a step: the answer, or the status and the problem of a refusal.
pub(super) type Outcome = Result<Value, Value>;

/// One run of all scenarios.
pub(super) struct Run {
    scenarios: Vec<Value>,
    known: Map<String, Value>,
}

impl Run {
    pub(super) fn new() -> Self {
        let text = fs::read_to_string(repository("clients").join("scenarios.yaml")).unwrap();
        let mut file: Value = serde_saphyr::from_str(&text).unwrap();
        let run = format!("run-{:032x}", IdSource::from_system().unwrap().random());
        let known = Map::from_iter([("run".to_owned(), json!(run))]);
        Self { scenarios: serde_json::from_value(file["scenarios"].take()).unwrap(), known }
    }

    /// Performs every step and checks what came of it. Returns the number of scenarios.
    pub(super) async fn perform(&self, act: impl AsyncFn(&Value) -> Outcome) -> usize {
        for scenario in &self.scenarios {
            let mut known = self.known.clone();
            for (number, step) in scenario["steps"].as_array().unwrap().iter().enumerate() {
                let step = filled(step, &known);
                let place = format!("{}, step {}", scenario["name"], number + 1);
                match (act(&step).await, step.get("refused")) {
                    (Ok(answer), None) => {
                        compare(&place, step.get("expect").unwrap_or(&json!({})), &answer);
                        for (name, member) in
                            step.get("save").and_then(Value::as_object).into_iter().flatten()
                        {
                            known.insert(name.clone(), answer[member.as_str().unwrap()].clone());
                        }
                    }
                    (Err(problem), Some(expected)) => compare(&place, expected, &problem),
                    (outcome, _) => panic!("{place}: {step} came to {outcome:?}"),
                }
            }
        }
        self.scenarios.len()
    }

    /// Compares the items as they must be in the end with those that `read` finds. Returns their number.
    pub(super) async fn compare_counters(&self, read: impl AsyncFn(&Value) -> Value) -> usize {
        let all = self.scenarios.iter().flat_map(|scenario| scenario["counters"].as_array().unwrap());
        let items: Vec<_> = all.map(|item| filled(item, &self.known)).collect();
        for item in &items {
            compare("the counters", item, &read(item).await);
        }
        items.len()
    }
}

/// A value with what is known in place of each `${name}`.
fn filled(value: &Value, known: &Map<String, Value>) -> Value {
    match value {
        Value::Object(members) => {
            members.iter().map(|(name, member)| (name.clone(), filled(member, known))).collect()
        }
        Value::Array(elements) => elements.iter().map(|element| filled(element, known)).collect(),
        Value::String(text) => filled_text(text, known),
        _ => value.clone(),
    }
}

fn filled_text(text: &str, known: &Map<String, Value>) -> Value {
    let mut result = text.to_owned();
    for (name, value) in known {
        let place = format!("${{{name}}}");
        if text == place {
            return value.clone();
        }
        result = result.replace(&place, value.as_str().unwrap_or_default());
    }
    assert!(!result.contains("${"), "{text:?} names what no step has saved");
    Value::String(result)
}

/// Panics if what was found has not what is expected. It may have more members.
fn compare(place: &str, expected: &Value, found: &Value) {
    match (expected, found) {
        (Value::Object(expected), Value::Object(_)) => {
            for (name, member) in expected {
                compare(&format!("{place}, {name}"), member, found.get(name).unwrap_or(&Value::Null));
            }
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            for (number, (expected, found)) in expected.iter().zip(found).enumerate() {
                compare(&format!("{place}, {number}"), expected, found);
            }
        }
        _ => assert_eq!(expected, found, "{place}"),
    }
}
