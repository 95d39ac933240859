//! What credentials cost: reserves on a server with a rate limit for every caller, by a caller with an API key, by one with a token
//! that the server has seen, and by one with a token that it has not.

use super::counter_audit::{CounterAudit, HOT};
use super::lab::{DataSet, Lab, TTL_SECONDS};
use crate::clock::wall_millis;
use crate::http::{Connection, Request};
use crate::load::credentials::WithCredentials;
use crate::load::http::Reserves;
use crate::load::{LOAD_CPU, Plan, Run, SERVER_CPU, closed, pin};
use crate::rng::Rng;
use crate::spawn::workspace;
use crate::{Outcome, fail};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use std::path::Path;
use std::sync::OnceLock;

const CONNECTIONS: usize = 64;
const ROOT_KEY: &str = "a-root-key-for-measurements-that-is-long";
/// Of the tokens.
const ISSUER: &str = "https://id.example";
const AUDIENCE: &str = "stockhold";
/// What the load and its audit need.
const SCOPES: [&str; 2] = ["reservations:write", "inventory:read"];
/// The key pair of the tests: tokens are measured with the usual 2,048 bits.
const KEY_FILES: &str = "crates/service/tests/it";
/// Tokens that take turns: more than the 65,536 that a server remembers, and it forgets the one that was used longest ago. So each is
/// new to it.
const TOKENS: usize = 66_000;
/// Longer than a whole run.
const TOKEN_SECONDS: u64 = 12 * 3_600;

/// What callers send.
#[derive(Clone, Copy, Debug)]
pub(super) enum Credential {
    ApiKey,
    KnownToken,
    NewTokens,
}

/// Reserves of the hot SKU with such credentials, audited.
pub(super) fn measure(lab: &Lab, credential: Credential, plan: Plan, seed: u64) -> Outcome<Run> {
    let settings = lab.folder.join("access.toml");
    std::fs::write(&settings, settings_text())?;
    let env = [("STOCKHOLD_ROOT_KEY", ROOT_KEY), ("STOCKHOLD_CONFIG", &settings.to_string_lossy())];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let running = lab.serve_with(DataSet::Usual, env.to_vec())?;
    let address = running.server.address;
    let key = [api_key(&mut Connection::open(address)?)?];
    let books = CounterAudit::open_as(address, HOT, 1, &key)?;
    let credentials = match credential {
        Credential::ApiKey => &key,
        Credential::KnownToken => &tokens()?[..1],
        Credential::NewTokens => tokens()?,
    };
    let reserves = Reserves::new(HOT, 1, TTL_SECONDS, Rng::new(seed));
    let mut traffic = WithCredentials::new(reserves, credentials);
    let run = closed(address, CONNECTIONS, plan, Some(running.server.process.pid()), &mut traffic)?;
    books.audit(run.answered, 0)?;
    running.stop()?;
    Ok(run)
}

/// A limit that is counted for every request and refuses none.
fn settings_text() -> String {
    let public_key = workspace().join(KEY_FILES).join("rsa_public.pem");
    format!(
        "[rate_limits]\nprincipal = {{ per_second = 1000000, burst = 1000000 }}\n[[issuers]]\nissuer = \"{ISSUER}\"\n\
         audience = \"{AUDIENCE}\"\nalgorithms = [\"RS256\"]\npublic_key_file = \"{}\"\n",
        public_key.display()
    )
}

fn api_key(server: &mut Connection) -> Outcome<String> {
    let body = serde_json::json!({ "name": "Load", "principal": "load", "scopes": SCOPES });
    let request = Request {
        method: "POST",
        path: "/v1/keys".to_owned(),
        key: None,
        if_match: None,
        body: Some(body.to_string()),
    };
    let answer = server.call_as(&request, ROOT_KEY)?;
    match answer.json()["key"].as_str() {
        Some(key) => Ok(key.to_owned()),
        None => fail(format!("no API key: {}", answer.brief())),
    }
}

/// Signed tokens, all different. They are made once a run, on both cores, since a signature takes half a millisecond.
fn tokens() -> Outcome<&'static [String]> {
    static SIGNED: OnceLock<Vec<String>> = OnceLock::new();
    if let Some(tokens) = SIGNED.get() {
        return Ok(tokens);
    }
    let key = private_key(&workspace().join(KEY_FILES).join("rsa_private.pem"))?;
    let now = wall_millis() / 1_000;
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            pin(SERVER_CPU).map_err(|error| error.to_string())?;
            sign_all(&key, now, TOKENS / 2..TOKENS)
        });
        let own = sign_all(&key, now, 0..TOKENS / 2);
        (own, other.join().unwrap_or_else(|_| Err("the signing thread panicked".to_owned())))
    });
    pin(LOAD_CPU)?;
    let mut tokens = first?;
    tokens.extend(second?);
    Ok(SIGNED.get_or_init(|| tokens))
}

fn sign_all(key: &RsaKeyPair, now: u64, numbers: std::ops::Range<usize>) -> Result<Vec<String>, String> {
    let random = SystemRandom::new();
    let mut signature = vec![0; key.public().modulus_len()];
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"RS256","typ":"at+jwt"}"#);
    numbers
        .map(|number| {
            let claims = serde_json::json!({
                "iss": ISSUER, "aud": AUDIENCE, "sub": "load", "scope": SCOPES.join(" "), "iat": now, "exp": now + TOKEN_SECONDS,
                "jti": number,
            });
            let message = format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
            key.sign(&RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut signature)
                .map_err(|_| "a token could not be signed".to_owned())?;
            Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(&signature)))
        })
        .collect()
}

fn private_key(file: &Path) -> Outcome<RsaKeyPair> {
    let text = std::fs::read_to_string(file)?;
    let base64: String = text.lines().filter(|line| !line.starts_with("-----")).collect();
    let der = STANDARD.decode(base64)?;
    RsaKeyPair::from_pkcs8(&der).map_err(|error| format!("{}: {error}", file.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_signed_and_differ() {
        let key = private_key(&workspace().join(KEY_FILES).join("rsa_private.pem")).unwrap();
        let tokens = sign_all(&key, 1_800_000_000, 7..9).unwrap();
        assert_ne!(tokens[0], tokens[1]);
        assert_eq!(tokens[0].split('.').count(), 3);
        assert!(settings_text().contains("rsa_public.pem"));
    }
}
