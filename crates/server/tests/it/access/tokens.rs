//! Tokens of an issuer (JWT) and hold tokens, as callers send them. Attacks on the text of tokens are tests of the crate
//! `service`.

use super::{ROOT, ask, id, reason, server, stock};
use crate::api::wire::Call;
use crate::clock_fixture::MovedClock;
use crate::support::{Server, wait_for};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use stockhold_store::clock::{Clock, WallClock};

const ISSUER: &str = "https://id.example";

struct Signer(Ed25519KeyPair);

impl Signer {
    fn new() -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())
    }

    fn key_set(&self) -> String {
        let x = URL_SAFE_NO_PAD.encode(self.0.public_key().as_ref());
        json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": "k1", "x": x }] }).to_string()
    }

    fn token(&self, header: &Value, claims: &Value) -> String {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", encode(header), encode(claims));
        let signature = URL_SAFE_NO_PAD.encode(self.0.sign(message.as_bytes()).as_ref());
        format!("{message}.{signature}")
    }
}

fn settings(locations_claim: &str) -> String {
    format!(
        "[[issuers]]\nissuer = \"{ISSUER}\"\naudience = \"stockhold\"\nalgorithms = [\"EdDSA\"]\njwks_file = \"keys.json\"\n{locations_claim}"
    )
}

fn claims() -> Value {
    let now = WallClock.now().millis() / 1_000;
    json!({ "iss": ISSUER, "aud": "stockhold", "sub": "shop", "exp": now + 600, "scope": "inventory:read events:read" })
}

fn header() -> Value {
    json!({ "alg": "EdDSA", "kid": "k1", "typ": "at+jwt" })
}

#[test]
fn tokens_of_an_issuer() {
    let dir = tempfile::tempdir().unwrap();
    let signer = Signer::new();
    std::fs::write(dir.path().join("keys.json"), signer.key_set()).unwrap();
    let server = server(&dir, &settings(""));
    stock(&server, "tea", "hub-1");
    let with = |header: &Value, claims: &Value| {
        let token = signer.token(header, claims);
        ask(&server, Some(&token), Call::get("/v1/inventory"))
    };
    assert_eq!(with(&header(), &claims()).status, 200);
    let put = Call::put("/v1/inventory/tea?location=hub-1").json(&json!({ "total_units": 7 }));
    let token = signer.token(&header(), &claims());
    assert_eq!(
        ask(&server, Some(&token), put.clone()).json()["missing"],
        json!({ "scope": "inventory:write" })
    );
    let changed = |name: &str, value: Value| {
        let mut claims = claims();
        claims[name] = value;
        with(&header(), &claims)
    };
    let mut writer = claims();
    writer["scope"] = json!("inventory:write");
    assert_eq!(ask(&server, Some(&signer.token(&header(), &writer)), put).status, 200);
    let events = ask(&server, Some(ROOT), Call::get("/v1/events?tail=1"));
    assert!(events.text().contains("\"actor\":\"jwt:https://id.example#shop\""), "{events:?}");
    for (answer, credential) in [
        (changed("exp", json!(1)), "expired"),
        (changed("exp", json!("9999999999")), "malformed"),
        (changed("aud", json!("others")), "malformed"),
        (changed("iss", json!("https://other.example")), "unknown"),
        (changed("nbf", json!(9_999_999_999_u64)), "malformed"),
        (with(&json!({ "alg": "none" }), &claims()), "malformed"),
        (with(&json!({ "alg": "HS256", "kid": "k1" }), &claims()), "malformed"),
        (with(&json!({ "alg": "EdDSA", "kid": "../../etc/passwd" }), &claims()), "unknown"),
        (with(&json!({ "alg": "EdDSA", "kid": "k1", "crit": ["x"] }), &claims()), "malformed"),
    ] {
        assert_eq!(answer.status, 401, "{answer:?}");
        assert_eq!(answer.json()["credential"], credential, "{answer:?}");
    }
    let mut cut = token.clone();
    cut.pop();
    assert_eq!(ask(&server, Some(&cut), Call::get("/v1/inventory")).status, 401);
    assert_eq!(ask(&server, Some(&token), Call::get("/v1/inventory")).status, 200);
}

#[test]
fn a_token_ends_by_the_wall_clock_also_after_that_was_corrected() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), MovedClock::new());
    let signer = Signer::new();
    std::fs::write(dir.path().join("keys.json"), signer.key_set()).unwrap();
    std::fs::write(dir.path().join("stockhold.toml"), settings("")).unwrap();
    let own = clock.variables();
    let variables: Vec<_> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let server = Server::with_variables(dir.path(), "data", &variables);
    let token = signer.token(&header(), &claims());
    let look = || ask(&server, Some(&token), Call::get("/v1/inventory"));
    assert_eq!(look().status, 200);
    clock.set(7_200);
    assert_eq!((look().status, &look().json()["credential"]), (401, &json!("expired")));
    clock.set(-7_200);
    assert_eq!(look().status, 200);
}

#[test]
fn a_token_without_the_claim_of_locations_sees_no_location() {
    let dir = tempfile::tempdir().unwrap();
    let signer = Signer::new();
    std::fs::write(dir.path().join("keys.json"), signer.key_set()).unwrap();
    let server = server(&dir, &settings("locations_claim = \"hubs\"\n"));
    stock(&server, "tea", "hub-1");
    let see = |hubs: Value| {
        let mut claims = claims();
        claims["hubs"] = hubs;
        let token = signer.token(&header(), &claims);
        let items = ask(&server, Some(&token), Call::get("/v1/inventory")).json();
        items["data"].as_array().unwrap().len()
    };
    assert_eq!(see(json!(["hub-1"])), 1);
    assert_eq!(see(json!([])), 0);
    assert_eq!(see(Value::Null), 0);
}

/// Serves this JSON to everybody who connects, as long as the test runs.
fn serve_json(listener: TcpListener, json: String) {
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4_096];
            let _ = stream.read(&mut request).unwrap();
            respond(&mut stream, &json);
        }
    });
}

/// Answers with JSON. A caller that has gone away gets nothing.
fn respond(stream: &mut impl Write, json: &str) {
    let length = json.len();
    let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{json}");
}

#[test]
fn keys_are_fetched_from_their_address() {
    let dir = tempfile::tempdir().unwrap();
    let signer = Signer::new();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    serve_json(listener, signer.key_set());
    let server =
        server(&dir, &settings("").replace("jwks_file = \"keys.json\"", &format!("jwks_url = \"{url}\"")));
    let token = signer.token(&header(), &claims());
    wait_for("the keys of the issuer", || {
        let answer = ask(&server, Some(&token), Call::get("/v1/inventory"));
        assert!(matches!(answer.status, 200 | 503), "{answer:?}");
        (answer.status == 200).then_some(())
    });
}

/// The first issuer answers only after the second one was asked.
#[test]
fn an_issuer_that_does_not_answer_holds_up_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let signer = Signer::new();
    let (slow, quick) = (
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(),
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(),
    );
    let table = |issuer: &str, listener: &TcpListener| {
        let url = format!("jwks_url = \"http://{}/keys\"", listener.local_addr().unwrap());
        settings("").replace("jwks_file = \"keys.json\"", &url).replace(ISSUER, issuer)
    };
    let settings = table("https://slow.example", &slow) + &table(ISSUER, &quick);
    let (set, slow_set) = (signer.key_set(), signer.key_set());
    let (asked, is_asked) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = quick.accept().unwrap();
        let _ = stream.read(&mut [0; 4_096]).unwrap();
        asked.send(()).unwrap();
        respond(&mut stream, &set);
    });
    let answered = std::thread::spawn(move || {
        let (mut stream, _) = slow.accept().unwrap();
        let _ = stream.read(&mut [0; 4_096]).unwrap();
        is_asked.recv().unwrap();
        // The server has given up when the other issuer was asked too late.
        respond(&mut stream, &slow_set);
    });
    let server = server(&dir, &settings);
    for issuer in ["https://slow.example", ISSUER] {
        let mut claims = claims();
        claims["iss"] = json!(issuer);
        let token = signer.token(&header(), &claims);
        wait_for("the keys of the issuers", || {
            let answer = ask(&server, Some(&token), Call::get("/v1/inventory"));
            assert!(matches!(answer.status, 200 | 503), "{answer:?}");
            (answer.status == 200).then_some(())
        });
    }
    answered.join().unwrap();
}

/// A token that was seen before is never turned away for its address.
#[test]
fn signatures_are_not_checked_for_an_address_without_an_allowance() {
    let dir = tempfile::tempdir().unwrap();
    let signer = Signer::new();
    std::fs::write(dir.path().join("keys.json"), signer.key_set()).unwrap();
    let limits =
        "trusted_proxies = [\"127.0.0.0/8\"]\n[rate_limits]\naddress = { per_second = 1, burst = 3 }\n";
    let server = server(&dir, &format!("{limits}{}", settings("")));
    let from = |token: &str| {
        ask(&server, Some(token), Call::get("/v1/inventory").header("X-Forwarded-For", "203.0.113.7"))
    };
    let seen = signer.token(&header(), &claims());
    assert_eq!(from(&seen).status, 200);
    let forged = format!("{seen}x");
    let limited = (0..50).find(|_| from(&forged).status == 429);
    assert!(limited.is_some(), "the address has no allowance left");
    assert_eq!(from(&seen).status, 200);
    let mut other = claims();
    other["sub"] = json!("another");
    let unseen = signer.token(&header(), &other);
    let turned_away = (0..50).find(|_| {
        let answer = from(&forged);
        answer.status == 429 && from(&unseen).status == 429
    });
    assert!(turned_away.is_some(), "a token that was not seen before waits for the allowance");
    assert_eq!(ask(&server, Some(&unseen), Call::get("/v1/inventory")).status, 200, "another address");
}

#[test]
fn a_server_starts_without_the_keys_of_an_issuer() {
    let dir = tempfile::tempdir().unwrap();
    let signer = Signer::new();
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let url = format!("jwks_url = \"http://{nobody}/keys\"");
    let server = server(&dir, &settings("").replace("jwks_file = \"keys.json\"", &url));
    let answer = ask(&server, Some(&signer.token(&header(), &claims())), Call::get("/v1/inventory"));
    assert_eq!(reason(&answer), (503, "unavailable".to_owned()));
    assert_eq!(ask(&server, Some(ROOT), Call::get("/v1/inventory")).status, 200);
}

#[test]
fn a_hold_token_is_for_its_reservation_until_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = server(&dir, "");
    stock(&server, "tea", "default");
    let reserve = |server: &crate::support::Server, key: &str| {
        let body = json!({ "owner_id": "cart", "lines": [{ "sku": "tea" }], "hold_token": true });
        let answer = ask(server, Some(ROOT), Call::post("/v1/reservations").key(key).json(&body));
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()
    };
    let (made, other) = (reserve(&server, "\"k1\""), reserve(&server, "\"k2\""));
    let token = made["hold_token"].as_str().unwrap().to_owned();
    assert_eq!(reserve(&server, "\"k1\"")["hold_token"], token, "a replay shows it again");
    // It has no part in the fingerprint.
    let body = json!({ "owner_id": "cart", "lines": [{ "sku": "tea" }] });
    let again = ask(&server, Some(ROOT), Call::post("/v1/reservations").key("\"k1\"").json(&body));
    assert_eq!((again.status, again.json()["hold_token"].is_null()), (201, true), "{again:?}");
    server.kill();
    server.restart();
    let own = format!("/v1/reservations/{}", id(&made));
    let with = |call: Call| ask(&server, Some(&token), call);
    assert_eq!(with(Call::get(own.clone())).status, 200);
    let extend = Call::post(format!("{own}/extend")).json(&json!({ "ttl_seconds": 900 }));
    assert_eq!(with(extend).status, 200);
    for refused in [
        Call::post(format!("{own}/confirm")),
        Call::get(format!("/v1/reservations/{}", id(&other))),
        Call::delete(format!("/v1/reservations/{}", id(&other))),
        Call::get("/v1/reservations"),
        Call::get("/v1/inventory"),
        Call::get("/v1/events"),
        Call::get("/v1/keys"),
    ] {
        assert_eq!(reason(&with(refused)), (403, "forbidden".to_owned()));
    }
    assert_eq!(with(Call::delete(own.clone())).status, 204);
    assert_eq!(with(Call::delete(own.clone())).status, 204);
    let ended = with(Call::get(own.clone()));
    assert_eq!((ended.status, &ended.json()["credential"]), (401, &json!("expired")));
    let forged = format!("{}A", &token[..token.len() - 1]);
    if forged != token {
        assert_eq!(ask(&server, Some(&forged), Call::get(own)).json()["credential"], "malformed");
    }
}

#[test]
fn a_hold_token_may_only_shrink_its_reservation_and_ends_with_a_transfer() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "");
    stock(&server, "tea", "default");
    stock(&server, "cup", "default");
    let body = json!({ "owner_id": "cart", "lines": [{ "sku": "tea", "quantity": 5 }], "hold_token": true });
    let made = ask(&server, Some(ROOT), Call::post("/v1/reservations").json(&body)).json();
    let token = made["hold_token"].as_str().unwrap().to_owned();
    let own = format!("/v1/reservations/{}", id(&made));
    let amend = |body: &Value| ask(&server, Some(&token), Call::new("PATCH", own.clone()).json(body));
    for more in [
        json!({ "lines": [{ "sku": "tea", "quantity": 6 }] }),
        json!({ "lines": [{ "sku": "tea", "quantity": 4 }, { "sku": "cup" }] }),
        json!({ "metadata": { "note": "x" } }),
    ] {
        assert_eq!(reason(&amend(&more)), (403, "forbidden".to_owned()), "{more}");
    }
    let less = amend(&json!({ "lines": [{ "sku": "tea", "quantity": 4 }], "idempotency_key": "k" }));
    assert_eq!((less.status, &less.json()["quantity"]), (200, &json!(4)), "{less:?}");
    let again = amend(&json!({ "lines": [{ "sku": "tea", "quantity": 4 }], "idempotency_key": "k" }));
    assert_eq!(again.header("idempotent-replayed"), Some("true"), "{again:?}");
    assert_eq!(amend(&json!({ "ttl_seconds": 900 })).status, 200);
    for tail in ["transfer", "split", "merge", "payment", "fulfil", "return"] {
        let call = Call::post(format!("{own}/{tail}")).json(&json!({ "owner_id": "o" }));
        assert_eq!(reason(&ask(&server, Some(&token), call)), (403, "forbidden".to_owned()), "{tail}");
    }
    let call = Call::post(format!("{own}/transfer")).json(&json!({ "owner_id": "other" }));
    assert_eq!(ask(&server, Some(ROOT), call).status, 200);
    let ended = ask(&server, Some(&token), Call::get(own.clone()));
    assert_eq!((ended.status, &ended.json()["credential"]), (401, &json!("expired")));
    assert_eq!(ask(&server, Some(&token), Call::delete(own)).status, 401);
}
