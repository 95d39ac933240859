//! Secrets appear nowhere, and addresses and origins can't be forged.

use super::{ROOT, ask, key, reason, server, stock};
use crate::api::wire::Call;
use serde_json::json;

/// Every file below a directory.
fn files(dir: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

#[test]
fn no_secret_is_in_the_data_or_in_what_the_server_shows() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = server(&dir, "");
    stock(&server, "tea", "default");
    let every = json!({ "scopes": ["inventory:read", "reservations:write", "events:read", "keys:admin"] });
    let key = key(&server, "shop", &every);
    let body = json!({ "owner_id": "cart", "lines": [{ "sku": "tea" }], "hold_token": true });
    let made = ask(&server, Some(&key), Call::post("/v1/reservations").json(&body)).json();
    let token = made["hold_token"].as_str().unwrap().to_owned();
    let mut shown = server.metrics();
    for path in ["/v1/events", "/v1/keys", "/v1/inventory", "/v1/inventory/nothing"] {
        shown.push_str(&ask(&server, Some(&key), Call::get(path)).text());
    }
    let wrong = format!("{key}x");
    shown.push_str(&ask(&server, Some(&wrong), Call::get("/v1/events")).text());
    server.terminate();
    let secrets = [ROOT, &key, &key["sh_live_".len()..], &token["sh_hold_".len()..]];
    for secret in secrets {
        assert!(!shown.contains(secret), "{secret} is shown");
    }
    let mut paths = Vec::new();
    files(&dir.path().join("data"), &mut paths);
    assert!(!paths.is_empty());
    for path in paths {
        let bytes = std::fs::read(&path).unwrap();
        for secret in secrets {
            let found = memchr::memmem::find(&bytes, secret.as_bytes()).is_some();
            assert!(!found, "{secret} is in {}", path.display());
        }
    }
}

#[test]
fn only_a_trusted_proxy_tells_the_address_of_a_caller() {
    let cidrs = json!({ "scopes": ["inventory:read"], "allowed_cidrs": ["192.0.2.0/24"] });
    let with = |settings: &str, forwarded: &str| {
        let dir = tempfile::tempdir().unwrap();
        let server = server(&dir, settings);
        let key = key(&server, "shop", &cidrs);
        let call = Call::get("/v1/inventory").header("X-Forwarded-For", forwarded);
        ask(&server, Some(&key), call).status
    };
    let trusted = "trusted_proxies = [\"127.0.0.0/8\"]\n";
    assert_eq!(with("", "192.0.2.7"), 401, "nobody is trusted");
    assert_eq!(with(trusted, "192.0.2.7"), 200);
    assert_eq!(with(trusted, "192.0.2.7, 203.0.113.9"), 401, "the rightmost counts");
    assert_eq!(with(trusted, "203.0.113.9, 192.0.2.7"), 200);
    assert_eq!(with(trusted, "192.0.2.7, 127.0.0.1"), 200, "a trusted proxy is passed by");
    let other = "trusted_proxies = [\"127.0.0.0/8\"]\nforwarded_header = \"forwarded\"\n";
    assert_eq!(with(other, "192.0.2.7"), 401, "only the configured header is read");
}

#[test]
fn refused_credentials_are_limited_by_address_and_good_ones_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "trusted_proxies = [\"127.0.0.0/8\"]\n");
    let from = |address: &str, credential: &str| {
        let call = Call::get("/v1/inventory").header("X-Forwarded-For", address);
        ask(&server, Some(credential), call)
    };
    let refused: Vec<_> = (0..60).map(|_| from("192.0.2.7", "wrong").status).collect();
    assert_eq!(refused[0], 401);
    assert!(refused.contains(&429), "{refused:?}");
    assert_eq!(from("192.0.2.8", "wrong").status, 401, "another address");
    assert_eq!(from("192.0.2.7", ROOT).status, 200);
    let limited = (0..60).map(|_| from("192.0.2.7", "wrong")).find(|answer| answer.status == 429).unwrap();
    assert_eq!(reason(&limited), (429, "rate_limited".to_owned()));
    assert!(limited.header("retry-after").is_some_and(|seconds| seconds.parse::<u64>().unwrap() > 0));
    assert!(limited.header("ratelimit").unwrap().starts_with("\"address\";r=0;t="), "{limited:?}");
    assert_eq!(limited.header("ratelimit-policy"), Some("\"address\";q=20;w=2"));
}

#[test]
fn a_principal_has_its_rate_limit() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "[rate_limits]\nprincipal = { per_second = 1, burst = 3 }\n");
    let key = key(&server, "shop", &json!({ "scopes": ["inventory:read", "inventory:write"] }));
    let statuses: Vec<_> =
        (0..5).map(|_| ask(&server, Some(&key), Call::get("/v1/inventory")).status).collect();
    assert_eq!(statuses[..3], [200; 3]);
    assert!(statuses.contains(&429), "{statuses:?}");
    // A batch takes a token for each command, one that is refused takes one too.
    let other = super::key(&server, "other", &json!({ "scopes": ["inventory:write"] }));
    let batch = || {
        let set = json!({ "op": "set_stock", "sku": "tea", "total_units": 5 });
        let body = json!({ "commands": [set.clone(), set.clone(), set] });
        ask(&server, Some(&other), Call::post("/v1/commands").json(&body)).status
    };
    assert_eq!((batch(), batch()), (200, 429));
    let third = super::key(&server, "third", &json!({ "scopes": ["inventory:write"] }));
    let wrong = || {
        let call = Call::post("/v1/commands").key("\"k\"").json(&json!({ "commands": [] }));
        ask(&server, Some(&third), call).status
    };
    let refused: Vec<_> = (0..5).map(|_| wrong()).collect();
    assert!(refused[0] == 400 && refused.contains(&429), "{refused:?}");
    // The root key has no limit.
    assert!((0..10).all(|_| ask(&server, Some(ROOT), Call::get("/v1/inventory")).status == 200));
}

#[test]
fn pages_of_allowed_origins_may_call_the_api() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "allowed_origins = [\"https://shop.example\"]\n");
    let preflight = |origin: &str| {
        let call = Call::new("OPTIONS", "/v1/reservations")
            .header("Origin", origin)
            .header("Access-Control-Request-Method", "POST");
        ask(&server, None, call)
    };
    let allowed = preflight("https://shop.example");
    assert_eq!(
        (allowed.status, allowed.header("access-control-allow-origin")),
        (204, Some("https://shop.example"))
    );
    assert_eq!(preflight("https://evil.example").header("access-control-allow-origin"), None);
    let missing = ask(&server, None, Call::get("/v1/inventory").header("Origin", "https://shop.example"));
    assert_eq!(missing.status, 401);
    assert_eq!(missing.header("access-control-allow-origin"), Some("https://shop.example"), "on errors too");
    assert_eq!(missing.header("vary"), Some("Origin"));
    let put = |origin: &str| {
        let call = Call::put("/v1/inventory/tea").header("Origin", origin).json(&json!({ "total_units": 1 }));
        ask(&server, Some(ROOT), call).status
    };
    assert_eq!((put("https://evil.example"), put("https://shop.example")), (403, 201));
}
