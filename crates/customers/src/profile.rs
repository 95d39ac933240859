//! What is stored about a customer, and its limits.

use crate::locale::{TAG_BYTES, is_language_tag};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use stockhold_domain::ProviderRef;

/// Maximum number of providers that a customer has a payment method at.
pub const PROVIDERS: usize = 4;
/// Longest name of a provider, in bytes.
pub const PROVIDER_NAME_BYTES: usize = 32;
/// Longest email address, in bytes (RFC 5321, 4.5.3.1.3).
pub const EMAIL_BYTES: usize = 254;
/// Longest token of a push service, in bytes.
pub const PUSH_TOKEN_BYTES: usize = 4_096;
/// Longest locale, in bytes.
pub const LOCALE_BYTES: usize = TAG_BYTES;
/// Longest part of an email address before its `@`, in bytes (RFC 5321, 4.5.3.1.1).
const EMAIL_LOCAL_BYTES: usize = 64;

/// A payment method that a provider keeps, by the names that the provider gave.
#[derive(Clone, PartialEq, Eq)]
pub struct ProviderMethod {
    /// The customer.
    pub customer_ref: Option<ProviderRef>,
    /// The payment method.
    pub method_ref: ProviderRef,
}

/// What is stored about a customer. Every member is valid: see [`Profile::check`].
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Payment methods by the name of their provider, at most [`PROVIDERS`].
    pub provider_refs: BTreeMap<String, ProviderMethod>,
    /// An email address, at most [`EMAIL_BYTES`].
    pub email: Option<String>,
    /// The token of a device at a push service: at most [`PUSH_TOKEN_BYTES`] of visible ASCII.
    pub push_token: Option<String>,
    /// The language of messages: a tag of BCP 47 of at most [`LOCALE_BYTES`].
    pub locale: Option<String>,
}

/// What is wrong with a profile. It never shows the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileError {
    /// The place of the wrong value, as a JSON pointer.
    pub pointer: &'static str,
    /// What is wrong with it.
    pub detail: String,
}

impl Profile {
    /// Checks the limits of every member.
    pub fn check(&self) -> Result<(), ProfileError> {
        let wrong = |pointer, detail: String| Err(ProfileError { pointer, detail });
        if self.provider_refs.len() > PROVIDERS {
            let detail =
                format!("must name at most {PROVIDERS} providers, and names {}", self.provider_refs.len());
            return wrong("/provider_refs", detail);
        }
        let is_name = |name: &str| {
            (1..=PROVIDER_NAME_BYTES).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        };
        if !self.provider_refs.keys().all(|name| is_name(name)) {
            let detail = format!(
                "must have names of providers as keys, such as stripe: 1 to {PROVIDER_NAME_BYTES} small letters, digits \
                 and _"
            );
            return wrong("/provider_refs", detail);
        }
        if self.email.as_deref().is_some_and(|email| !is_email(email)) {
            let detail = format!(
                "must be one email address like name@example.com, of at most {EMAIL_BYTES} bytes without spaces and \
                 control characters"
            );
            return wrong("/email", detail);
        }
        let is_token = |token: &str| {
            (1..=PUSH_TOKEN_BYTES).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if self.push_token.as_deref().is_some_and(|token| !is_token(token)) {
            let detail = format!("must be 1 to {PUSH_TOKEN_BYTES} bytes of visible ASCII");
            return wrong("/push_token", detail);
        }
        if self.locale.as_deref().is_some_and(|locale| !is_language_tag(locale)) {
            let detail =
                format!("must be a language tag (BCP 47) like en or de-CH, of at most {LOCALE_BYTES} bytes");
            return wrong("/locale", detail);
        }
        Ok(())
    }

    /// The bytes that are encrypted.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let stored = StoredProfile {
            provider_refs: self
                .provider_refs
                .iter()
                .map(|(name, method)| (name.clone(), method.into()))
                .collect(),
            email: self.email.clone(),
            push_token: self.push_token.clone(),
            locale: self.locale.clone(),
        };
        serde_json::to_vec(&stored).unwrap_or_else(|_| unreachable!("texts are JSON"))
    }

    /// Reads them. `None` if they are of another form.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let stored: StoredProfile = serde_json::from_slice(bytes).ok()?;
        let method = |(name, stored): (String, StoredMethod)| {
            let customer_ref = match stored.customer_ref {
                Some(text) => Some(ProviderRef::new(&text)?),
                None => None,
            };
            Some((name, ProviderMethod { customer_ref, method_ref: ProviderRef::new(&stored.method_ref)? }))
        };
        Some(Self {
            provider_refs: stored.provider_refs.into_iter().map(method).collect::<Option<_>>()?,
            email: stored.email,
            push_token: stored.push_token,
            locale: stored.locale,
        })
    }
}

/// Shows no personal data.
impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Profile(hidden)")
    }
}

/// Shows no personal data.
impl fmt::Debug for ProviderMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProviderMethod(hidden)")
    }
}

impl ProviderMethod {
    /// The bytes that are sealed: the length of the first name in one byte, and the names one after the other.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let customer = self.customer_ref.as_ref().map_or("", ProviderRef::as_str);
        let length = u8::try_from(customer.len()).unwrap_or_else(|_| unreachable!("at most 255 bytes"));
        [&[length], customer.as_bytes(), self.method_ref.as_str().as_bytes()].concat()
    }

    /// Reads them. `None` if they are of another form.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (length, names) = bytes.split_first()?;
        let (customer, method) = names.split_at_checked(usize::from(*length))?;
        let read = |bytes| ProviderRef::new(str::from_utf8(bytes).ok()?);
        let customer_ref = if customer.is_empty() { None } else { Some(read(customer)?) };
        Some(Self { customer_ref, method_ref: read(method)? })
    }
}

/// A profile as JSON, for storage.
#[derive(Serialize, Deserialize)]
struct StoredProfile {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    provider_refs: BTreeMap<String, StoredMethod>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    push_token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    locale: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct StoredMethod {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    customer_ref: Option<String>,
    method_ref: String,
}

impl From<&ProviderMethod> for StoredMethod {
    fn from(method: &ProviderMethod) -> Self {
        Self {
            customer_ref: method.customer_ref.as_ref().map(|text| text.as_str().to_owned()),
            method_ref: method.method_ref.as_str().to_owned(),
        }
    }
}

/// Whether a text can be one email address. The mail server knows the rest.
fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let is_plain =
        |c: char| !c.is_control() && !c.is_whitespace() && !matches!(c, '<' | '>' | ',' | ';' | '"');
    text.len() <= EMAIL_BYTES
        && (1..=EMAIL_LOCAL_BYTES).contains(&local.len())
        && !local.contains('@')
        && !domain.is_empty()
        && !domain.starts_with('.')
        && !domain.ends_with('.')
        && text.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ProviderRef {
        ProviderRef::new(text).unwrap()
    }

    #[test]
    fn a_profile_and_a_method_are_read_as_they_were_written() {
        let longest = "\"".repeat(255);
        let methods = [
            ProviderMethod { customer_ref: None, method_ref: name("pm_1") },
            ProviderMethod { customer_ref: Some(name("cus_1")), method_ref: name("pm_1") },
            ProviderMethod { customer_ref: Some(name(&longest)), method_ref: name(&longest) },
        ];
        for method in &methods {
            assert_eq!(ProviderMethod::from_bytes(&method.to_bytes()).as_ref(), Some(method));
        }
        let profile = Profile {
            provider_refs: methods.into_iter().zip(["a", "b", "c"]).map(|(m, n)| (n.to_owned(), m)).collect(),
            email: Some("a@example.com".to_owned()),
            push_token: Some("\\".repeat(PUSH_TOKEN_BYTES)),
            locale: Some("en".to_owned()),
        };
        assert_eq!(profile.check(), Ok(()));
        assert_eq!(Profile::from_bytes(&profile.to_bytes()), Some(profile));
        assert_eq!(Profile::from_bytes(&Profile::default().to_bytes()), Some(Profile::default()));
        for bytes in [&b""[..], b"\x05cus", b"\x00", b"{}"] {
            assert_eq!(ProviderMethod::from_bytes(bytes), None, "{bytes:?}");
        }
        assert_eq!(Profile::from_bytes(b"{"), None);
    }

    #[test]
    fn an_email_address_is_one_address() {
        let longest = format!("{}@{}.example", "a".repeat(64), "b".repeat(181));
        assert_eq!(longest.len(), EMAIL_BYTES);
        for good in ["a@b", "a.b+c@example.com", "\u{e9}@example.com", &longest] {
            assert!(is_email(good), "{good}");
        }
        for bad in [
            "",
            "a",
            "@b",
            "a@",
            "a@@b",
            "a@b@c",
            "a b@c",
            "a@b\r\nBcc: x@y",
            "a@b,c@d",
            "<a@b>",
            "a@.b",
            "a@b.",
            &format!("b{longest}"),
        ] {
            assert!(!is_email(bad), "{bad:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_without_the_value() {
        let method = ProviderMethod { customer_ref: None, method_ref: name("secret") };
        let many = (0..=PROVIDERS).map(|n| (format!("p{n}"), method.clone())).collect();
        let wrong = [
            (Profile { provider_refs: many, ..Profile::default() }, "/provider_refs"),
            (
                Profile {
                    provider_refs: [("Not secret".to_owned(), method.clone())].into(),
                    ..Profile::default()
                },
                "/provider_refs",
            ),
            (Profile { email: Some("secret".to_owned()), ..Profile::default() }, "/email"),
            (Profile { push_token: Some("secret \n".to_owned()), ..Profile::default() }, "/push_token"),
            (Profile { locale: Some("secret!".to_owned()), ..Profile::default() }, "/locale"),
        ];
        for (profile, pointer) in wrong {
            let error = profile.check().unwrap_err();
            assert_eq!(error.pointer, pointer);
            assert!(!error.detail.contains("secret"), "{}", error.detail);
            assert!(!format!("{profile:?} {method:?}").contains("secret"));
        }
    }
}
