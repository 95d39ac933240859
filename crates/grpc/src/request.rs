//! Requests: a message becomes the parts of an HTTP request.

use crate::fault::Fault;
use crate::members::Members;
use crate::method::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::fmt::Write;
use stockhold_api::routes::RouteId;

/// Everything in a path or a query except what needs no escape (RFC 3986, 2.3).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const VERSION: &str = "expected_version";
const CREATE_ONLY: &str = "create_only";
const KEY: &str = "idempotency_key";

/// The parts of the HTTP request that a message stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpRequest {
    /// The path, percent-encoded.
    pub path: String,
    /// The parameters of the path in its order, percent-encoded. One that the path does not have is empty.
    pub parameters: [String; 2],
    /// The query, percent-encoded.
    pub query: Option<String>,
    /// The value of `If-Match`.
    pub if_match: Option<String>,
    /// Whether `If-None-Match` is `*`.
    pub create_only: bool,
    /// The idempotency key of a request without a body.
    pub idempotency_key: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

/// The HTTP request of a message.
pub fn request(method: &Method, message: &[u8]) -> Result<HttpRequest, Fault> {
    let mut members = Members::read(method.shape, message)?;
    let spec = method.route.spec();
    let (path, parameters) = path(spec.path, &mut members)?;
    let mut request = HttpRequest { path, parameters, ..HttpRequest::default() };
    request.if_match = members.take_text(VERSION)?.map(|version| format!("\"{version}\""));
    request.create_only = members.take_flag(CREATE_ONLY)?;
    if spec.body.is_read() {
        // The location of an item is a parameter of the query, and all else is in the body.
        let names_one_place = spec.path.contains("{sku}") || spec.path.starts_with("/v1/sale/");
        let location = if names_one_place { members.take_text("location")? } else { None };
        request.query = query(location.map(|location| ("location", location)).into_iter());
        request.body.reserve(2 * message.len() + BODY_ROOM);
        request.body.push(b'{');
        members.write_members(&mut request.body, true)?;
        request.body.push(b'}');
    } else {
        request.idempotency_key = members.take_text(KEY)?;
        request.query = query(members.into_texts()?.into_iter());
    }
    Ok(request)
}

/// Capacity for a body beyond twice the length of its message, in bytes: the names of its members.
const BODY_ROOM: usize = 128;

/// The path of a route, with members in place of its parameters. A parameter without a value is an empty label, which is refused as
/// one.
fn path(template: &str, members: &mut Members<'_>) -> Result<(String, [String; 2]), Fault> {
    let mut out = String::with_capacity(2 * template.len());
    let (mut parameters, mut place) = ([String::new(), String::new()], 0);
    for segment in template.split('/').skip(1) {
        out.push('/');
        match segment.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            Some(name) => {
                let value = members.take_text(name)?.unwrap_or_default();
                let value = utf8_percent_encode(&value, ESCAPED).to_string();
                out.push_str(&value);
                if let Some(parameter) = parameters.get_mut(place) {
                    *parameter = value;
                }
                place += 1;
            }
            None => out.push_str(segment),
        }
    }
    Ok((out, parameters))
}

fn query<'a>(members: impl Iterator<Item = (&'a str, String)>) -> Option<String> {
    let mut out = String::new();
    for (name, text) in members {
        let separator = if out.is_empty() { "" } else { "&" };
        // Writing to a String does not fail.
        let _ = write!(out, "{separator}{name}={}", utf8_percent_encode(&text, ESCAPED));
    }
    (!out.is_empty()).then_some(out)
}

/// Commands of a stream that are executed together: the body of `POST /v1/commands`.
#[derive(Debug, Default)]
pub struct Commands {
    body: Vec<u8>,
    count: usize,
}

impl Commands {
    /// The number of commands.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The length of the body so far, in bytes.
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Adds a command.
    pub fn add(&mut self, method: &Method, message: &[u8]) -> Result<(), Fault> {
        let Some((op, mut members)) = Members::read(method.shape, message)?.only_message()? else {
            return Err(Fault::new("/command", "is required".to_owned()));
        };
        let version = members.take_text(VERSION)?;
        if members.take_flag(CREATE_ONLY)? {
            let detail = "is read by the method SetStock only".to_owned();
            return Err(Fault::new(format!("/{op}/{CREATE_ONLY}"), detail));
        }
        let length = self.body.len();
        self.body.extend_from_slice(if self.count == 0 { b"{\"commands\":[" } else { b"," });
        self.body.extend_from_slice(b"{\"op\":\"");
        self.body.extend_from_slice(op.as_bytes());
        self.body.push(b'"');
        if let Some(version) = version {
            self.body.extend_from_slice(b",\"if_version\":");
            self.body.extend_from_slice(version.as_bytes());
        }
        if let Err(fault) = members.write_members(&mut self.body, false) {
            self.body.truncate(length);
            return Err(fault);
        }
        self.body.push(b'}');
        self.count += 1;
        Ok(())
    }

    /// The body of the HTTP request.
    pub fn into_body(mut self) -> Vec<u8> {
        self.body.extend_from_slice(b"]}");
        self.body
    }
}

/// The route of streams of commands.
const _: () =
    assert!(matches!(RouteId::RunCommands.spec().body, stockhold_api::routes::Body::Required { .. }));

#[cfg(test)]
mod tests {
    use super::*;
    use prost_reflect::DynamicMessage;
    use serde_json::{Value, json};

    fn of(method: &str, message: Value) -> Result<HttpRequest, Fault> {
        let (_, method) = Method::all().find(|(path, _)| path.ends_with(&format!("/{method}"))).unwrap();
        let message = DynamicMessage::deserialize(method.input.clone(), message).unwrap();
        request(method, &prost::Message::encode_to_vec(&message))
    }

    #[test]
    fn parameters_are_escaped_and_ids_are_not() {
        let id = "018bcfe5-6800-7fff-bfff-ffffffffffff";
        let release =
            of("Release", json!({ "reservation_id": id, "reason": "a & b", "idempotency_key": "k" }));
        let release = release.unwrap();
        assert_eq!(release.path, format!("/v1/reservations/{id}"));
        assert_eq!(release.query.as_deref(), Some("reason=a%20%26%20b"));
        assert_eq!((release.idempotency_key.as_deref(), release.body.len()), (Some("k"), 0));
        let unit =
            of("GetUnit", json!({ "sku": "a/../b?", "unit_id": "\u{e9}", "location": "x=1" })).unwrap();
        assert_eq!(unit.path, "/v1/inventory/a%2F..%2Fb%3F/units/%C3%A9");
        assert_eq!(unit.parameters, ["a%2F..%2Fb%3F", "%C3%A9"]);
        assert_eq!(unit.query.as_deref(), Some("location=x%3D1"));
        let events = of("ListEvents", json!({ "type": ["stock.set", "pool.set"], "after": 0 })).unwrap();
        assert_eq!(events.query.as_deref(), Some("after=0&type=stock.set%2Cpool.set"));
    }

    #[test]
    fn bodies_have_what_was_given() {
        let set = json!({
            "sku": "tea", "location": "l", "total_units": 0, "clear": ["price"], "expected_version": 7, "create_only": true,
            "sale_starts_at": "2027-01-31T12:00:00Z", "metadata": { "n": 1, "x": 0.5 },
        });
        let set = of("SetStock", set).unwrap();
        let body: Value = serde_json::from_slice(&set.body).unwrap();
        assert_eq!(
            body,
            json!({
                "total_units": 0, "sale_starts_at": "2027-01-31T12:00:00Z", "metadata": { "n": 1, "x": 0.5 }, "price": null,
            })
        );
        assert_eq!((set.if_match.as_deref(), set.create_only), (Some("\"7\""), true));
        let both = json!({ "sku": "tea", "low_stock": 1, "clear": ["low_stock"] });
        assert_eq!(of("SetStock", both).unwrap_err().pointer, "/clear/0");
        assert_eq!(
            of("SetStock", json!({ "sku": "tea", "clear": ["what"] })).unwrap_err().pointer,
            "/clear/0"
        );
        let limit =
            of("SetLimit", json!({ "limit_id": "l", "items": [{ "sku": "s" }], "limit": 0 })).unwrap();
        let body: Value = serde_json::from_slice(&limit.body).unwrap();
        assert_eq!(body, json!({ "items": [{ "sku": "s" }], "limit": 0 }));
    }

    #[test]
    fn what_the_server_does_not_know_is_refused() {
        let (_, method) = Method::all().find(|(path, _)| path.ends_with("/GetItem")).unwrap();
        // Field 100 with the number 1.
        let fault = request(method, &[0xa0, 0x06, 0x01]).unwrap_err();
        assert!(fault.detail.contains("number 100"), "{fault:?}");
        assert!(request(method, &[0xff]).is_err());
    }

    /// For any bytes: a message is read or refused, and never more.
    #[test]
    fn bytes_that_are_nearly_right() {
        let (_, method) = Method::all().find(|(path, _)| path.ends_with("/Commands")).unwrap();
        let reserve = json!({ "reserve": {
            "owner_id": "o", "lines": [{ "sku": "s", "attributes": { "a": 1 } }], "metadata": { "d": [null, true] },
        } });
        let message = DynamicMessage::deserialize(method.input.clone(), reserve).unwrap();
        let bytes = prost::Message::encode_to_vec(&message);
        for place in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[place] ^= 1 << bit;
                let mut commands = Commands::default();
                if commands.add(method, &changed).is_ok() {
                    serde_json::from_slice::<Value>(&commands.into_body()).unwrap();
                }
            }
        }
    }
}
