//! Where a server listens, and which secrets it accepts.

use super::ROOT;
use crate::support::stockhold;
use std::path::Path;
use std::process::Output;

/// The end of a server that does not start.
fn refused(dir: &Path, settings: &str, variables: &[(&str, &str)]) -> String {
    std::fs::write(dir.join("stockhold.toml"), settings).unwrap();
    let mut command = stockhold(dir);
    command
        .args(["serve", "--admin-listen", "127.0.0.1:0", "--data-dir", "data"])
        .envs(variables.iter().copied());
    let Output { status, stderr, .. } = command.output().unwrap();
    let text = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(status.code(), Some(2), "{text}");
    assert!(!text.contains(ROOT) && !text.contains("too-short-secret"), "{text}");
    text
}

#[test]
fn an_address_that_others_reach_needs_credentials_and_tls() {
    let dir = tempfile::tempdir().unwrap();
    let everywhere = "listen = \"0.0.0.0:0\"\n";
    let text = refused(dir.path(), everywhere, &[]);
    assert!(text.contains("tls_cert") && text.contains("plain_http"), "{text}");
    let text = refused(dir.path(), &format!("{everywhere}plain_http = true\n"), &[]);
    assert!(text.contains("without credentials") && text.contains("STOCKHOLD_ROOT_KEY"), "{text}");
    let grpc = "grpc_listen = \"0.0.0.0:0\"\n";
    let text = refused(dir.path(), grpc, &[("STOCKHOLD_ROOT_KEY", ROOT)]);
    assert!(text.contains("grpc_listen") && text.contains("tls_cert"), "{text}");
    let text = refused(dir.path(), &format!("{grpc}plain_http = true\n"), &[]);
    assert!(text.contains("grpc_listen") && text.contains("without credentials"), "{text}");
    let text = refused(dir.path(), everywhere, &[("STOCKHOLD_ROOT_KEY", ROOT)]);
    assert!(text.contains("tls_cert"), "{text}");
}

#[test]
fn secrets_that_are_none_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let root = |value: &str| refused(dir.path(), "", &[("STOCKHOLD_ROOT_KEY", value)]);
    assert!(root("").contains("empty"));
    assert!(root("too-short-secret").contains("32"));
    let file = dir.path().join("root");
    std::fs::write(&file, "\n").unwrap();
    let settings = "root_key_file = \"root\"\n";
    assert!(refused(dir.path(), settings, &[]).contains("root_key_file"));
    std::fs::remove_file(&file).unwrap();
    assert!(refused(dir.path(), settings, &[]).contains("root_key_file"));
    assert!(refused(dir.path(), settings, &[("STOCKHOLD_ROOT_KEY", ROOT)]).contains("both set"));
    let redis = [("STOCKHOLD_RATE_LIMITS_REDIS", "redis:/:too-short-secret@cache")];
    assert!(
        refused(dir.path(), "", &redis)
            .contains("STOCKHOLD_RATE_LIMITS_REDIS in the environment: rate_limits.redis")
    );
    for (settings, what) in [
        ("allowed_origins = [\"shop.example\"]\n", "is no origin"),
        ("allowed_origins = \"https://shop.example\"\n", "must be a list"),
        ("trusted_proxies = [\"10.0.0.0/33\"]\n", "is no network"),
        ("forwarded_header = \"x-real-ip\"\n", "must be x-forwarded-for or forwarded"),
        ("[rate_limits]\nprincipal = { per_second = 0, burst = 1 }\n", "per_second"),
        (
            "[rate_limits]\nredis = \"http://:too-short-secret@cache\"\n",
            "rate_limits.redis: must be like redis://",
        ),
        (
            "[rate_limits]\nredis = \"redis://:too-short-secret@cache:port\"\n",
            "rate_limits.redis: must be like",
        ),
        (
            "[rate_limits]\nredis = [\"redis://:too-short-secret@cache\"]\n",
            "must be a text in quotation marks",
        ),
        (
            "[[issuers]]\nissuer = \"i\"\naudience = \"a\"\nalgorithms = [\"HS256\"]\njwks_file = \"k\"\n",
            "HS256",
        ),
        ("[[issuers]]\nissuer = \"i\"\naudience = \"a\"\nalgorithms = [\"RS256\"]\n", "exactly one of"),
        (
            "[[issuers]]\nissuer = \"i\"\naudience = \"a\"\nalgorithms = [\"RS256\"]\njwks_url = \"http://id.example/k\"\n",
            "https://",
        ),
        (
            "[[issuers]]\nissuer = \"i\"\naudience = \"a\"\nalgorithms = [\"RS256\"]\njwks_url = \"https://u:too-short-secret@id.example/k\"\n",
            "must have no user and no password",
        ),
        (
            "[[issuers]]\nissuer = \"i\"\naudience = \"a\"\nalgorithms = [\"RS256\"]\njwks_url = \"ftp://id.example/?key=too-short-secret\"\n",
            "must begin with https://",
        ),
        ("allowed_hosts = [\"https://stock.example\"]\n", "is no name of a host"),
        (
            "[[issuers]]\nissuer = \"i\"\naudience = \"a\"\nalgorithms = [\"RS256\"]\njwks_file = \"missing.json\"\n",
            "missing.json",
        ),
    ] {
        let text = refused(dir.path(), settings, &[]);
        assert!(text.contains(what), "{settings}: {text}");
    }
}
