//! What answers have to look like: JSON against a pattern, and the parts that all problems have in common.

use super::wire::{Answer, Call, Wire};
use serde_json::Value;

/// Any UUID, in a pattern.
pub(crate) const UUID: &str = "@uuid";
/// Any instant, in a pattern.
pub(crate) const TIME: &str = "@time";

/// Members that every problem has.
const COMMON: [&str; 7] = ["type", "title", "status", "detail", "reason", "retryable", "request_id"];
/// Reasons whose request may succeed unchanged.
const RETRYABLE: [&str; 5] = ["request_timeout", "internal", "overloaded", "unavailable", "outcome_unknown"];

/// Asserts that a value is what the pattern says: the same members, no more, no fewer; [`UUID`] and [`TIME`] stand for
/// any.
#[track_caller]
pub(crate) fn assert_like(found: &Value, like: &Value) {
    if let Err(why) = alike(found, like, "") {
        panic!("{why}\nfound    {found}\nexpected {like}");
    }
}

fn alike(found: &Value, like: &Value, at: &str) -> Result<(), String> {
    match (found, like) {
        (Value::Object(found), Value::Object(like)) => {
            if let Some(name) = found.keys().find(|name| !like.contains_key(*name)) {
                return Err(format!("{at}/{name} is there and should not be"));
            }
            for (name, like) in like {
                let at = format!("{at}/{name}");
                let found = found.get(name).ok_or_else(|| format!("{at} is missing"))?;
                alike(found, like, &at)?;
            }
            Ok(())
        }
        (Value::Array(found), Value::Array(like)) if found.len() == like.len() => found
            .iter()
            .zip(like)
            .enumerate()
            .try_for_each(|(n, (found, like))| alike(found, like, &format!("{at}/{n}"))),
        (Value::String(found), Value::String(like)) if like == UUID && is_uuid(found) => Ok(()),
        (Value::String(found), Value::String(like)) if like == TIME && is_time(found) => Ok(()),
        _ if found == like => Ok(()),
        _ => Err(format!("{at} is {found}, not {like}")),
    }
}

/// Whether a text is a UUID in lower case.
pub(crate) fn is_uuid(text: &str) -> bool {
    is_in_form(text, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")
}

fn is_time(text: &str) -> bool {
    is_in_form(text, "dddd-dd-ddTdd:dd:dd.dddZ") && text.parse::<jiff::Timestamp>().is_ok()
}

fn is_in_form(text: &str, form: &str) -> bool {
    text.len() == form.len()
        && text.chars().zip(form.chars()).all(|(c, form)| match form {
            'x' => c.is_ascii_digit() || ('a'..='f').contains(&c),
            'd' => c.is_ascii_digit(),
            form => c == form,
        })
}

/// Asserts that an answer is a problem with all that problems have, and that its `type` leads to a page; answers with
/// the reason's own members.
#[track_caller]
pub(crate) fn assert_problem(wire: &mut Wire, answer: &Answer, status: u16, reason: &str) -> Value {
    let text = answer.text();
    assert_eq!(answer.status, status, "{text}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{text}");
    let mut problem = answer.json();
    let members = problem.as_object_mut().unwrap();
    let common = COMMON.map(|name| members.remove(name).unwrap_or_else(|| panic!("no {name} in {text}")));
    let [kind, title, said, detail, named, retryable, request_id] = common;
    assert_eq!(named, reason, "{text}");
    assert_eq!(said, status, "{text}");
    assert_eq!(retryable, RETRYABLE.contains(&reason), "{text}");
    assert!(!title.as_str().unwrap().is_empty() && detail.as_str().unwrap().ends_with('.'), "{text}");
    assert_eq!(request_id.as_str(), answer.header("x-request-id"), "{text}");
    assert_eq!(kind, format!("/problems/{reason}"));

    let page = wire.ask(&Call::get(kind.as_str().unwrap()));
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.text().contains(title.as_str().unwrap()));
    problem
}
