//! Tokens: good ones, and every attack that a stranger can make with text.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::{Value, json};
use stockhold_service::{
    Issuer, IssuerConfig, IssuerError, JwtError, KeySetError, Scope, VerifiedTokens, unverified_issuer,
};

const ISSUER: &str = "https://id.example";
const AUDIENCE: &str = "stockhold";
const NOW: u64 = 1_800_000_000;
const RSA_PRIVATE: &str = include_str!("rsa_private.pem");
const RSA_PUBLIC: &str = include_str!("rsa_public.pem");

fn config(algorithms: &[&str]) -> IssuerConfig {
    IssuerConfig {
        issuer: ISSUER.to_owned(),
        audience: AUDIENCE.to_owned(),
        algorithms: algorithms.iter().map(|name| (*name).to_owned()).collect(),
        scopes_claim: "scope".to_owned(),
        principal_claim: "sub".to_owned(),
        locations_claim: None,
    }
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A token of these texts, signed.
fn token(header: &str, claims: &str, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", encode(header), encode(claims));
    let signature = encode(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

fn claims() -> Value {
    json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "shop", "exp": NOW + 60, "scope": "openid reservations:write inventory:read",
    })
}

/// An issuer with one Ed25519 key, and the key.
struct Ed {
    issuer: Issuer,
    pair: Ed25519KeyPair,
}

impl Ed {
    fn new(change: impl FnOnce(&mut IssuerConfig)) -> Self {
        let mut config = config(&["EdDSA"]);
        change(&mut config);
        let issuer = Issuer::new(config).unwrap();
        let pair = ed_pair();
        issuer.set_jwks(&ed_set(&pair, "k1")).unwrap();
        Self { issuer, pair }
    }

    fn token(&self, header: &str, claims: &str) -> String {
        token(header, claims, |message| self.pair.sign(message).as_ref().to_vec())
    }

    fn verify(&self, claims: &Value) -> Result<stockhold_service::VerifiedToken, JwtError> {
        self.issuer.verify(&self.token(HEADER, &claims.to_string()), NOW)
    }

    fn with(&self, name: &str, value: Value) -> Result<stockhold_service::VerifiedToken, JwtError> {
        let mut claims = claims();
        claims[name] = value;
        self.verify(&claims)
    }
}

const HEADER: &str = r#"{"alg":"EdDSA","kid":"k1","typ":"at+jwt"}"#;

fn ed_pair() -> Ed25519KeyPair {
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap()
}

fn ed_set(pair: &Ed25519KeyPair, kid: &str) -> Vec<u8> {
    let x = encode(pair.public_key());
    json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": kid, "use": "sig", "alg": "EdDSA", "x": x }] })
        .to_string()
        .into_bytes()
}

#[test]
fn a_good_token() {
    let ed = Ed::new(|_| {});
    let verified = ed.verify(&claims()).unwrap();
    assert_eq!(verified.principal.actor.as_str(), "jwt:https://id.example#shop");
    assert_eq!(
        verified.principal.scopes.iter().collect::<Vec<_>>(),
        [Scope::ReservationsWrite, Scope::InventoryRead]
    );
    assert_eq!(verified.expires_at, NOW + 60);
    assert!(verified.principal.restrictions.is_none());
    // Lists are as good as texts, and so are other audiences beside ours.
    assert_eq!(
        ed.with("scope", json!(["events:read"])).unwrap().principal.scopes.iter().collect::<Vec<_>>(),
        [Scope::EventsRead]
    );
    assert!(ed.with("aud", json!(["other", AUDIENCE])).is_ok());
    assert!(ed.with("exp", json!(1_800_000_000.5)).is_err());
    assert!(ed.with("exp", json!(1_800_000_001.5)).is_ok());
    assert_eq!(unverified_issuer(&ed.token(HEADER, &claims().to_string())), Some(ISSUER.to_owned()));
    for typ in [r#","typ":"JWT""#, r#","typ":"application/at+JWT""#, ""] {
        let header = format!(r#"{{"alg":"EdDSA","kid":"k1"{typ}}}"#);
        assert!(ed.issuer.verify(&ed.token(&header, &claims().to_string()), NOW).is_ok(), "{typ}");
    }
}

#[test]
fn claims_that_are_refused() {
    let ed = Ed::new(|_| {});
    let malformed = |name: &str, value: Value| {
        let refused = ed.with(name, value.clone());
        assert!(matches!(refused, Err(JwtError::Malformed(_))), "{name} {value}: {refused:?}");
    };
    malformed("exp", json!("1800000060"));
    malformed("exp", Value::Null);
    malformed("nbf", json!("soon"));
    malformed("sub", json!(7));
    malformed("sub", json!(""));
    malformed("sub", json!("x".repeat(128)));
    malformed("sub", json!("a\nb"));
    assert_eq!(ed.with("exp", json!(NOW)), Err(JwtError::Expired));
    assert_eq!(ed.with("exp", json!(-5)), Err(JwtError::Expired));
    assert_eq!(ed.with("nbf", json!(NOW + 31)), Err(JwtError::NotYetValid));
    assert!(ed.with("nbf", json!(NOW + 30)).is_ok());
    assert_eq!(ed.with("aud", json!("other")), Err(JwtError::Audience));
    assert_eq!(ed.with("aud", json!([])), Err(JwtError::Audience));
    assert_eq!(ed.with("iss", json!("https://id.example/")), Err(JwtError::UnknownIssuer));
    assert_eq!(ed.with("iss", json!([ISSUER])), Err(JwtError::UnknownIssuer));
    for missing in ["iss", "aud", "sub", "exp"] {
        let mut less = claims();
        less.as_object_mut().unwrap().remove(missing);
        assert!(ed.verify(&less).is_err(), "{missing}");
    }
    let twice = r#"{"iss":"https://id.example","aud":"stockhold","sub":"shop","exp":1,"exp":1900000000}"#;
    assert!(matches!(ed.issuer.verify(&ed.token(HEADER, twice), NOW), Err(JwtError::Malformed(_))));
    let long = claims().to_string().replace("shop", &"x".repeat(8_200));
    assert!(matches!(ed.issuer.verify(&ed.token(HEADER, &long), NOW), Err(JwtError::Malformed(_))));
}

#[test]
fn headers_that_are_refused() {
    let ed = Ed::new(|_| {});
    let check = |header: &str| ed.issuer.verify(&ed.token(header, &claims().to_string()), NOW);
    for header in [
        r#"{"alg":"none","kid":"k1"}"#,
        r#"{"alg":"HS256","kid":"k1"}"#,
        r#"{"alg":"RS256","kid":"k1"}"#,
        r#"{"alg":"EdDSA","kid":"k1","typ":"id+jwt"}"#,
        r#"{"alg":"EdDSA","kid":"k1","crit":["exp"],"exp":1}"#,
        r#"{"alg":"EdDSA","alg":"EdDSA","kid":"k1"}"#,
        r#"{"kid":"k1"}"#,
        "junk",
    ] {
        let refused = check(header);
        assert!(matches!(refused, Err(JwtError::Malformed(_))), "{header}: {refused:?}");
    }
    for header in [
        r#"{"alg":"EdDSA","kid":"k2"}"#,
        r#"{"alg":"EdDSA","kid":"../../etc/passwd"}"#,
        r#"{"alg":"EdDSA","kid":""}"#,
    ] {
        assert_eq!(check(header), Err(JwtError::UnknownKey), "{header}");
    }
    // Where a token says its keys are to be found, nobody looks.
    assert!(
        check(r#"{"alg":"EdDSA","kid":"k1","jku":"https://evil.example/jwks","x5u":"https://evil.example"}"#)
            .is_ok()
    );
    // The only key of a set needs no id.
    assert!(check(r#"{"alg":"EdDSA"}"#).is_ok());
    for text in ["", "a", "a.b", "a.b.c", "..", "a.b.c.d"] {
        assert!(matches!(ed.issuer.verify(text, NOW), Err(JwtError::Malformed(_))), "{text}");
        assert_eq!(unverified_issuer(text), None);
    }
}

#[test]
fn other_signatures_are_refused() {
    let ed = Ed::new(|_| {});
    let good = ed.token(HEADER, &claims().to_string());
    let other = token(HEADER, &claims().to_string(), |message| ed_pair().sign(message).as_ref().to_vec());
    assert_eq!(ed.issuer.verify(&other, NOW), Err(JwtError::Signature));
    let cut = good.rsplit_once('.').unwrap().0;
    assert_eq!(ed.issuer.verify(&format!("{cut}."), NOW), Err(JwtError::Signature));
    let parts: Vec<&str> = good.split('.').collect();
    let mut more = claims();
    more["scope"] = json!("keys:admin");
    let forged = format!("{}.{}.{}", parts[0], encode(more.to_string()), parts[2]);
    assert_eq!(ed.issuer.verify(&forged, NOW), Err(JwtError::Signature));
}

#[test]
fn elliptic_curves() {
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
    let pair =
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &SystemRandom::new())
            .unwrap();
    let point = pair.public_key().as_ref();
    let set = json!({ "keys": [
        { "kty": "EC", "crv": "P-256", "kid": "old", "use": "enc", "x": encode(&point[1..33]), "y": encode(&point[33..]) },
        { "kty": "EC", "crv": "P-256", "kid": "e1", "x": encode(&point[1..33]), "y": encode(&point[33..]) },
        { "kty": "what", "kid": "later" },
    ] });
    let issuer = Issuer::new(config(&["ES256"])).unwrap();
    let sign = |message: &[u8]| pair.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec();
    let good = token(r#"{"alg":"ES256","kid":"e1"}"#, &claims().to_string(), sign);
    assert_eq!(issuer.verify(&good, NOW), Err(JwtError::KeysUnavailable));
    issuer.set_jwks(set.to_string().as_bytes()).unwrap();
    assert!(issuer.verify(&good, NOW).is_ok());
    let encryption = token(r#"{"alg":"ES256","kid":"old"}"#, &claims().to_string(), sign);
    assert_eq!(issuer.verify(&encryption, NOW), Err(JwtError::UnknownKey));
}

#[test]
fn rsa_and_the_confusion_of_keys() {
    let pair = RsaKeyPair::from_pkcs8(pem::parse(RSA_PRIVATE).unwrap().contents()).unwrap();
    let sign = |message: &[u8]| {
        let mut signature = vec![0; pair.public().modulus_len()];
        pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).unwrap();
        signature
    };
    let issuer = Issuer::new(config(&["RS256", "PS256"])).unwrap();
    issuer.set_public_key(RSA_PUBLIC.as_bytes()).unwrap();
    let claims = claims().to_string();
    assert!(issuer.verify(&token(r#"{"alg":"RS256","kid":"any"}"#, &claims, sign), NOW).is_ok());
    assert_eq!(issuer.verify(&token(r#"{"alg":"PS256"}"#, &claims, sign), NOW), Err(JwtError::Signature));
    // The public key as the secret of an HMAC: what libraries fell for that let the token choose the algorithm.
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, RSA_PUBLIC.as_bytes());
    let confused =
        token(r#"{"alg":"HS256"}"#, &claims, |message| ring::hmac::sign(&secret, message).as_ref().to_vec());
    assert!(matches!(issuer.verify(&confused, NOW), Err(JwtError::Malformed(_))));
    let none = token(r#"{"alg":"none"}"#, &claims, |_| Vec::new());
    assert!(matches!(issuer.verify(&none, NOW), Err(JwtError::Malformed(_))));
}

#[test]
fn locations() {
    let ed = Ed::new(|config| {
        config.locations_claim = Some("stores".to_owned());
        config.scopes_claim = "realm_access.roles".to_owned();
    });
    let seen = |claims: &Value| ed.verify(claims).unwrap().principal;
    let mut some = claims();
    some["stores"] = json!(["hub-2", "hub-1"]);
    some["realm_access"] = json!({ "roles": ["inventory:read", "offline_access"] });
    let principal = seen(&some);
    assert!(
        principal.restrictions.allows_location("hub-1") && !principal.restrictions.allows_location("hub-3")
    );
    assert!(principal.may(Scope::InventoryRead) && !principal.may(Scope::InventoryWrite));
    // A token without the claim, or with an empty list, sees no location.
    assert!(!seen(&claims()).restrictions.allows_location("default"));
    some["stores"] = json!([]);
    assert!(!seen(&some).restrictions.allows_location("default"));
}

#[test]
fn keys_that_change_end_what_was_remembered() {
    let ed = Ed::new(|_| {});
    let tokens = VerifiedTokens::default();
    let text = ed.token(HEADER, &claims().to_string());
    let version = ed.issuer.keys_version();
    assert_eq!(tokens.find(&text, NOW, |_| Some(version)), None);
    let verified = ed.issuer.verify(&text, NOW).unwrap();
    tokens.insert(&text, verified.clone());
    assert_eq!(
        tokens.find(&text, NOW, |name| (name == ISSUER).then_some(version)).as_deref(),
        Some(&verified)
    );
    assert_eq!(tokens.find(&text, NOW + 60, |_| Some(version)), None);
    tokens.insert(&text, verified.clone());
    assert_eq!(tokens.find(&text, NOW, |_| None), None, "an issuer that is gone");
    tokens.insert(&text, verified);
    // The same set once more is no change. Another one is, and a token whose key left it is refused.
    assert_eq!(ed.issuer.set_jwks(&ed_set(&ed.pair, "k1")), Ok(false));
    assert_eq!(ed.issuer.set_jwks(&ed_set(&ed_pair(), "k9")), Ok(true));
    assert_eq!(tokens.find(&text, NOW, |_| Some(ed.issuer.keys_version())), None);
    assert_eq!(ed.issuer.verify(&text, NOW), Err(JwtError::UnknownKey));
    // A set that can't be read leaves the last one.
    assert_eq!(ed.issuer.set_jwks(b"<html>"), Err(KeySetError::NotASet));
    assert_eq!(ed.issuer.set_jwks(br#"{"keys":[{"kty":"oct","k":"AAAA"}]}"#), Err(KeySetError::NoKey));
    assert_eq!(ed.issuer.verify(&text, NOW), Err(JwtError::UnknownKey));
    ed.issuer.drop_keys();
    assert_eq!(ed.issuer.verify(&text, NOW), Err(JwtError::KeysUnavailable));
}

#[test]
fn settings_that_are_refused() {
    let refused = |config: IssuerConfig| Issuer::new(config).unwrap_err();
    assert_eq!(refused(config(&[])), IssuerError::NoAlgorithm);
    assert_eq!(refused(config(&["RS256", "ES256"])), IssuerError::MixedFamilies);
    for name in ["HS256", "none", "rs256"] {
        assert_eq!(refused(config(&[name])), IssuerError::Algorithm(name.to_owned()));
    }
    assert_eq!(
        refused(IssuerConfig { audience: String::new(), ..config(&["ES256"]) }),
        IssuerError::Empty("audience")
    );
    let issuer = Issuer::new(config(&["ES256"])).unwrap();
    assert_eq!(issuer.set_public_key(RSA_PUBLIC.as_bytes()), Err(KeySetError::NotAKey));
}
