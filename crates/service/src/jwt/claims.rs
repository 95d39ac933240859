//! The claims of a token, read strictly: a claim that is there twice could mean one thing here and another to a proxy.

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// All claims of a token.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims(Map<String, Value>);

impl<'de> Deserialize<'de> for Claims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Claims;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Claims, A::Error> {
                let mut claims = Map::new();
                while let Some((name, value)) = members.next_entry::<String, Value>()? {
                    if claims.insert(name, value).is_some() {
                        return Err(A::Error::custom("a claim is there twice"));
                    }
                }
                Ok(Claims(claims))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// A claim that should be a number and is none.
#[derive(Debug)]
pub(super) struct NotANumber;

impl Claims {
    /// A claim that is text. Of another type it counts as absent.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// An instant in whole seconds since 1970, rounded down; `None` when the claim is absent. An error when it is no number: text
    /// is refused, because some libraries read it and others do not.
    pub(super) fn seconds(&self, name: &str) -> Result<Option<u64>, NotANumber> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        let whole = value.as_u64();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float's cast stops at the type's ends"
        )]
        let fraction = || value.as_f64().map(|seconds| seconds as u64);
        whole.or_else(fraction).map(Some).ok_or(NotANumber)
    }

    /// Whether a claim is this text, or a list with it.
    pub(super) fn has(&self, name: &str, wanted: &str) -> bool {
        match self.0.get(name) {
            Some(Value::String(text)) => text == wanted,
            Some(Value::Array(list)) => list.iter().any(|one| one.as_str() == Some(wanted)),
            _ => false,
        }
    }

    /// The words of a claim: a text with spaces between them, or a list of texts. A dot in the name leads into an object, as in
    /// `realm_access.roles`.
    pub(super) fn words(&self, name: &str) -> Option<Vec<&str>> {
        let value = match self.0.get(name) {
            Some(value) => value,
            None => {
                let (outer, inner) = name.split_once('.')?;
                self.0.get(outer)?.get(inner)?
            }
        };
        match value {
            Value::String(text) => Some(text.split_ascii_whitespace().collect()),
            Value::Array(list) => Some(list.iter().filter_map(Value::as_str).collect()),
            _ => None,
        }
    }
}

/// The issuer that a token claims to be from. Nothing of it is checked: it only selects the keys that check it.
pub fn unverified_issuer(token: &str) -> Option<String> {
    let claims: Claims = jsonwebtoken::dangerous::insecure_decode_claims(token).ok()?;
    claims.text("iss").map(str::to_owned)
}
