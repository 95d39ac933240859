//! Settings: where each comes from, which source goes before which, and what is said of one that is not understood.

use crate::support::{said, stockhold, text};
use serde_json::{Value, json};
use std::process::Output;
use tempfile::TempDir;

const KEYS: [&str; 47] = [
    "listen",
    "admin_listen",
    "grpc_listen",
    "grpc_reflection",
    "max_connection_age",
    "hub_listen",
    "storefront_listen",
    "tls_cert",
    "tls_key",
    "tls_client_ca",
    "plain_http",
    "providers",
    "checkout",
    "customers",
    "archive",
    "notifications",
    "store",
    "replica",
    "gate",
    "gate_timeout_ms",
    "gate_reconcile_seconds",
    "store_batch",
    "data_dir",
    "threads",
    "default_ttl_seconds",
    "max_hold_seconds",
    "max_payment_seconds",
    "key_retention_hours",
    "free_space_floor_mib",
    "log_level",
    "log_format",
    "root_key",
    "root_key_file",
    "allowed_origins",
    "allowed_hosts",
    "trusted_proxies",
    "forwarded_header",
    "issuers",
    "rate_limits",
    "hub_principal",
    "storefront_principal",
    "source",
    "sinks",
    "stock_masters",
    "webhook_allowed_networks",
    "webhook_ca_file",
    "locations",
];

/// Runs the binary in a directory whose `stockhold.toml` has this content.
fn run(file: &str, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let dir = TempDir::new().unwrap();
    if !file.is_empty() {
        std::fs::write(dir.path().join("stockhold.toml"), file).unwrap();
    }
    stockhold(dir.path()).envs(variables.iter().copied()).args(arguments).output().unwrap()
}

/// The settings that `config` prints.
#[track_caller]
fn settings(file: &str, variables: &[(&str, &str)], flags: &[&str]) -> Value {
    let output = run(file, variables, &[&["config", "--json"], flags].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let settings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut names = settings.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>();
    let mut keys = KEYS;
    names.sort_unstable();
    keys.sort_unstable();
    assert_eq!(names, keys);
    settings
}

#[test]
fn the_address_of_a_store_is_shown_without_its_password() {
    assert_eq!(settings("", &[], &[])["store"]["value"], "embedded");
    let without = "postgres://shop:***@127.0.0.1:1/stock";
    for (password, expected) in [
        ("secret", without),
        ("sec/ret", without),
        ("sec:ret", without),
        ("sec@ret", without),
        // It could be a password among options as well.
        ("sec?ret#", "postgres://***"),
    ] {
        let url = format!("postgres://shop:{password}@127.0.0.1:1/stock");
        let shown = settings("", &[("STOCKHOLD_STORE", &url)], &[]);
        assert_eq!(shown["store"]["value"], expected);
        let served = run("", &[("STOCKHOLD_STORE", &url)], &["serve"]);
        assert!(!served.status.success());
        let told = [text(&served.stdout), text(&served.stderr)].concat();
        assert!(!told.contains(password), "{told}");
    }
    let unknown = run("", &[], &["serve", "--store", "ftp://somewhere"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(said(&unknown).contains("must be embedded, or begin with postgres://"), "{}", said(&unknown));
}

#[test]
fn a_replica_goes_with_a_database_and_its_password_is_not_shown() {
    let primary = ("STOCKHOLD_STORE", "postgres://shop:secret@127.0.0.1:1/stock");
    let variables = [primary, ("STOCKHOLD_REPLICA", "postgres://shop:sec:ret@127.0.0.1:2/stock")];
    assert_eq!(settings("", &[], &[])["replica"]["value"], Value::Null);
    assert_eq!(settings("", &variables, &[])["replica"]["value"], "postgres://shop:***@127.0.0.1:2/stock");
    for (variables, flags, what) in [
        (
            &[] as &[_],
            ["serve", "--replica", "postgres://127.0.0.1:2/stock"],
            "only a database has a replica",
        ),
        (&[primary], ["serve", "--replica", "embedded"], "only a database has a replica"),
        (&[primary], ["serve", "--replica", "ftp://somewhere"], "replica ftp://somewhere: must be"),
    ] {
        let refused = run("", variables, &flags);
        assert_eq!(refused.status.code(), Some(2));
        assert!(said(&refused).contains(what), "{}", said(&refused));
    }
}

#[test]
fn the_nearest_source_wins() {
    let defaults = settings("", &[], &[]);
    assert_eq!(defaults["listen"], json!({ "value": "127.0.0.1:8101", "from": "default" }));
    assert_eq!(defaults["admin_listen"], json!({ "value": "127.0.0.1:8102", "from": "default" }));
    assert_eq!(defaults["data_dir"], json!({ "value": "./stockhold-data", "from": "default" }));
    for key in KEYS {
        assert_eq!(defaults[key]["from"], "default", "{key}");
    }

    let file =
        "log_level = 'info'\nthreads = 2\ndefault_ttl_seconds = 20\n[locations.hub]\nmax_hold_seconds = 30\n";
    let variables = [("STOCKHOLD_THREADS", "3"), ("STOCKHOLD_DEFAULT_TTL_SECONDS", "21")];
    let flags = ["--default-ttl-seconds", "22"];
    let all = settings(file, &variables, &flags);
    let check = |key: &str, value: Value, from: &str| {
        assert_eq!(all[key]["value"], value, "{key}");
        assert!(all[key]["from"].as_str().unwrap().contains(from), "{key}: {}", all[key]);
    };
    check("default_ttl_seconds", json!(22), "command line");
    check("threads", json!(3), "environment");
    check("log_level", json!("info"), "stockhold.toml");
    check("locations", json!({ "hub": { "max_hold_seconds": 30 } }), "stockhold.toml");
    check("max_hold_seconds", json!(1_800), "default");

    let output = run(file, &variables, &[&["config"], &flags[..]].concat());
    let lines = text(&output.stdout);
    assert_eq!(lines.lines().count(), KEYS.len(), "{lines}");
    for (key, value, from) in [
        ("default_ttl_seconds", "22", "command line"),
        ("threads", "3", "environment"),
        ("log_level", "info", "stockhold.toml"),
        ("key_retention_hours", "24", "default"),
    ] {
        let line = lines.lines().find(|line| line.starts_with(key)).unwrap();
        let words = line.split_whitespace().collect::<Vec<_>>();
        assert!(words[1] == value && line.contains(from), "{line}");
    }
}

#[test]
fn values_as_they_come_in_variables() {
    for (variable, key, value) in [
        ("STOCKHOLD_DATA_DIR", "data_dir", "/srv/stock"),
        ("STOCKHOLD_DATA_DIR", "data_dir", "2026"),
        ("STOCKHOLD_DATA_DIR", "data_dir", "true"),
        ("STOCKHOLD_LISTEN", "listen", "127.0.0.1:9000"),
        ("STOCKHOLD_LISTEN", "listen", "[::1]:9000"),
        ("STOCKHOLD_DATA_DIR", "data_dir", "./stockhold-data"),
        ("STOCKHOLD_LOG_LEVEL", "log_level", "debug"),
        ("STOCKHOLD_LOG_LEVEL", "log_level", "hyper=warn,info"),
        ("STOCKHOLD_LOG_FORMAT", "log_format", "json"),
    ] {
        assert_eq!(settings("", &[(variable, value)], &[])[key]["value"], value, "{variable}={value}");
    }
}

#[test]
fn localhost_is_an_address() {
    assert_eq!(settings("listen = 'localhost:9000'", &[], &[])["listen"]["value"], "127.0.0.1:9000");
    assert_eq!(settings("", &[], &["--listen", "localhost:9000"])["listen"]["value"], "127.0.0.1:9000");
    let name = run("", &[], &["config", "--listen", "shop:9000"]);
    assert_eq!(name.status.code(), Some(2));
    assert!(text(&name.stderr).contains("must be an IP address and a port like"), "{}", said(&name));
}

#[test]
fn a_variable_sets_the_redis_of_rate_limits_beside_the_table_of_the_file() {
    let variable = [("STOCKHOLD_RATE_LIMITS_REDIS", "redis://:secret@127.0.0.1:1")];
    let alone = &settings("", &variable, &[])["rate_limits"];
    assert_eq!(alone["from"], "STOCKHOLD_RATE_LIMITS_REDIS in the environment");
    assert_eq!(alone["value"]["redis"], "(hidden)");
    let file =
        "[rate_limits]\nprincipal = { per_second = 1, burst = 2 }\nredis = 'redis://:secret@127.0.0.1:2'\n";
    let both = &settings(file, &variable, &[])["rate_limits"];
    let from = both["from"].as_str().unwrap();
    assert!(from.contains("stockhold.toml:1 and STOCKHOLD_RATE_LIMITS_REDIS in the environment"), "{from}");
    assert_eq!(both["value"]["principal"], json!({ "per_second": 1, "burst": 2 }));
    assert!(!both.to_string().contains("secret"), "{both}");
}

/// Other programs set variables with our prefix: Kubernetes does for a Service named `stockhold`.
#[test]
fn variables_that_are_no_settings_are_ignored_with_a_warning() {
    let of_kubernetes = [
        ("STOCKHOLD_PORT", "tcp://10.0.0.1:8101"),
        ("STOCKHOLD_SERVICE_HOST", "10.0.0.1"),
        ("STOCKHOLD_SERVICE_PORT", "8101"),
        ("STOCKHOLD_PORT_8101_TCP", "tcp://10.0.0.1:8101"),
    ];
    let output = run("", &of_kubernetes, &["config"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("STOCKHOLD_PORT_8101_TCP") && stderr.contains("Kubernetes"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let output = run("", &[("STOCKHOLD_LISTE", "127.0.0.1:1"), ("STOCKHOLD_THREADS", "")], &["config"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("STOCKHOLD_LISTE") && stderr.contains("did you mean STOCKHOLD_LISTEN?"),
        "{stderr}"
    );
}

#[test]
fn another_file() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("other.toml");
    std::fs::write(&path, "threads = 5\n").unwrap();
    let path = path.to_str().unwrap();
    for found in [
        settings("threads = 4", &[], &["--config", path]),
        settings("threads = 4", &[("STOCKHOLD_CONFIG", path)], &[]),
    ] {
        assert_eq!(found["threads"]["value"], 5);
        assert!(found["threads"]["from"].as_str().unwrap().contains("other.toml"), "{}", found["threads"]);
    }
    let missing = run("", &[], &["config", "--config", "none.toml"]);
    assert_eq!(missing.status.code(), Some(2), "{}", said(&missing));
    assert!(text(&missing.stderr).contains("none.toml"), "{}", said(&missing));
}

#[test]
fn what_is_not_understood() {
    let check = |file: &str, variables: &[(&str, &str)], flags: &[&str], words: &[&str]| {
        for command in ["config", "serve"] {
            let output = run(file, variables, &[&[command], flags].concat());
            assert_eq!(output.status.code(), Some(2), "{}", said(&output));
            assert!(output.stdout.is_empty(), "{}", said(&output));
            let stderr = text(&output.stderr);
            for word in words {
                assert!(stderr.contains(word), "{word:?} is not said: {stderr}");
            }
        }
    };
    check(
        "liste = '127.0.0.1:1'",
        &[],
        &[],
        &["stockhold.toml:1: liste is not a setting; did you mean listen?"],
    );
    check("[locations.hub]\nttl = 1", &[], &[], &["ttl", "stockhold.toml"]);
    check("", &[], &["--liste", "127.0.0.1:1"], &["--liste"]);
    check("\nthreads = 'many'", &[], &[], &["stockhold.toml:2: threads: must be a whole number"]);
    check("threads = -1", &[], &[], &["threads", "stockhold.toml"]);
    check("threads = 65", &[], &[], &["threads", "65", "64"]);
    check("listen = 8101", &[], &[], &["listen", "stockhold.toml"]);
    check("listen = ", &[], &[], &["stockhold.toml:1: "]);
    check("liste = 1\nthread = 2", &[], &[], &["did you mean listen?", "did you mean threads?"]);
    check("", &[("STOCKHOLD_THREADS", "many")], &[], &["threads", "environment"]);
    check("", &[], &["--threads", "many"], &["--threads", "many"]);
    check("", &[], &["--default-ttl-seconds", "0"], &["default_ttl_seconds", "0"]);
    check("max_hold_seconds = 2592001", &[], &[], &["max_hold_seconds", "2592001"]);
    check("max_payment_seconds = 604801", &[], &[], &["max_payment_seconds", "604801"]);
    check("[locations.hub]\nmax_payment_seconds = 604801", &[], &[], &["locations.hub.max_payment_seconds"]);
    for wrong in ["0", "257"] {
        check("", &[("STOCKHOLD_STORE_BATCH", wrong)], &[], &["store_batch", wrong, "1 to 256"]);
    }
    check(
        "",
        &[("STOCKHOLD_LOCATIONS", "hub")],
        &[],
        &["locations", "only be set in the configuration file"],
    );
    check("key_retention_hours = 23", &[], &[], &["key_retention_hours", "24"]);
    check("[locations.hub]\nmax_hold_seconds = 0", &[], &[], &["locations.hub.max_hold_seconds"]);
    check("[locations.'']\nmax_hold_seconds = 1", &[], &[], &["locations"]);
    check("log_format = 'xml'", &[], &[], &["log_format", "xml", "stockhold.toml"]);
    // A word that is no level would be a target's name, and silence all others.
    check("", &[], &["--log-level", "inof"], &["log_level", "\"inof\" is no level"]);
    check("log_level = 'hyper=warn,inof'", &[], &[], &["\"inof\" is no level"]);
    let both = ["--listen", "127.0.0.1:9000", "--admin-listen", "127.0.0.1:9000"];
    check("", &[], &both, &["listen and admin_listen are both 127.0.0.1:9000", "its own port"]);
    for outside in ["0.0.0.0:9000", "[::]:9000", "192.0.2.1:9000"] {
        check("", &[], &["--listen", outside], &["listen ", outside, "loopback only"]);
    }
    let level = run("log_level = 'x=y=z'", &[], &["serve"]);
    assert_eq!(level.status.code(), Some(2), "{}", said(&level));
}

/// It shows only health and metrics, which probes and Prometheus read from other machines.
#[test]
fn the_admin_listener_may_have_any_address() {
    for outside in ["0.0.0.0:9000", "[::]:9000", "192.0.2.1:9000"] {
        assert_eq!(settings("", &[], &["--admin-listen", outside])["admin_listen"]["value"], outside);
    }
}

#[test]
fn what_is_hardly_meant_is_said() {
    let file = "default_ttl_seconds = 900\nmax_hold_seconds = 600\n";
    let output = run(file, &[], &["config"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("default_ttl_seconds 900 is above max_hold_seconds 600"), "{stderr}");
    // A location with a shorter longest hold is what locations are for.
    let output = run("[locations.hub]\nmax_hold_seconds = 30\n", &[], &["config"]);
    assert!(output.stderr.is_empty(), "{}", said(&output));
}

#[test]
fn every_command_explains_itself() {
    for command in ["serve", "verify", "replay", "demo", "config"] {
        let output = run("", &[], &[command, "--help"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let help = text(&output.stdout);
        assert!(help.contains(&format!("Usage: stockhold {command}")), "{help}");
        assert!(help.lines().count() > 8, "{command} teaches nothing: {help}");
        assert!(output.stderr.is_empty());
        let short = run("", &[], &["help", command]);
        assert_eq!((short.status.code(), text(&short.stdout)), (Some(0), help));
    }
    let all = run("", &[], &["--help"]);
    assert_eq!(all.status.code(), Some(0));
    for command in ["serve", "verify", "replay", "demo", "config"] {
        assert!(text(&all.stdout).contains(command));
    }
    let version = run("", &[], &["--version"]);
    assert_eq!(text(&version.stdout), format!("stockhold {}\n", env!("CARGO_PKG_VERSION")));
    for arguments in [&[][..], &["sell"], &["serve", "now"]] {
        let output = run("", &[], arguments);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(text(&output.stderr).contains("Usage: stockhold"), "{}", said(&output));
    }
}
