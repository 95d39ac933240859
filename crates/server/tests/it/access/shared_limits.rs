//! Rate limits that instances share in Redis, with a Redis that comes and goes.

use super::redis::Redis;
use super::{ROOT, ask, key, server};
use crate::api::wire::Call;
use crate::clock_fixture::MovedClock;
use crate::support::{Server, stockhold, text, wait_for};
use crate::tls_support::Authority;
use redis::{Client, Script};
use serde_json::json;
use std::time::{Duration, Instant};
use stockhold_service::{RateLimit, RateLimiter};
use tempfile::TempDir;

/// Requests at once of the limits of these tests: more than a second's worth of a slow machine's requests.
const BURST: u32 = 30;
/// How long a check waits for Redis. It is longer than by default, because the processes of these tests may have to wait for a
/// processor.
const TIMEOUT_MS: u64 = 500;
const SCRIPT: &str = include_str!("../../../src/access/rate_limit.lua");

fn settings(redis: &str) -> String {
    let rate = format!("{{ per_second = 1, burst = {BURST} }}");
    format!(
        "trusted_proxies = [\"127.0.0.0/8\"]\n[rate_limits]\nprincipal = {rate}\naddress = {rate}\nredis = \"{redis}\"\nredis_timeout_ms = {TIMEOUT_MS}\n"
    )
}

/// An instance, and the directory of its data.
fn instance(redis: &str) -> (Server, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (server(&dir, &settings(redis)), dir)
}

#[track_caller]
fn wait_until_shared(server: &Server, is_shared: bool) {
    let line = format!("stockhold_rate_limits_shared {}", u8::from(is_shared));
    wait_for(&line, || server.metrics().lines().any(|one| one == line).then_some(()));
}

/// Sends requests until one has another status: how many had this one.
fn count(status: u16, mut send: impl FnMut() -> u16) -> u32 {
    let mut count = 0;
    while send() == status {
        count += 1;
        assert!(count < 100 * BURST, "there is no limit");
    }
    count
}

/// Sends requests until one is refused: how many were allowed.
fn allowed(server: &Server, key: &str) -> u32 {
    count(200, || ask(server, Some(key), Call::get("/v1/inventory")).status)
}

/// What a caller may have been allowed since `begun`.
fn at_most(bursts: u32, begun: Instant) -> u32 {
    bursts * BURST + u32::try_from(begun.elapsed().as_secs()).unwrap() + 1
}

#[test]
fn instances_share_limits_and_count_alone_while_redis_is_away() {
    let mut redis = Redis::plain();
    let instances = [instance(&redis.url()), instance(&redis.url())];
    let servers = instances.each_ref().map(|(server, _)| server);
    let wait_for_both = |is_shared| servers.iter().for_each(|server| wait_until_shared(server, is_shared));
    let keys = |principal: &str| {
        servers.map(|server| key(server, principal, &json!({ "scopes": ["inventory:read"] })))
    };
    let both = |principal: &str| {
        let keys = keys(principal);
        let begun = Instant::now();
        ([0, 1].map(|n| allowed(servers[n], &keys[n])), begun)
    };
    let assert_shared = |principal: &str| {
        let ([one, other], begun) = both(principal);
        let sum = one + other;
        assert!(sum >= BURST && sum <= at_most(1, begun), "{one} and {other} of {BURST}");
    };
    wait_for_both(true);
    assert_shared("first");
    // The headers show what is left at all instances together.
    let [one, other] = keys("shown");
    ask(servers[0], Some(&one), Call::get("/v1/inventory"));
    let second = ask(servers[1], Some(&other), Call::get("/v1/inventory"));
    assert_eq!(second.header("ratelimit").unwrap()[..16], *"\"principal\";r=28", "{second:?}");

    redis.kill();
    let ([one, other], begun) = both("second");
    assert!(one >= BURST && other >= BURST && one + other <= at_most(2, begun), "{one} and {other}");
    wait_for_both(false);

    redis.restart();
    wait_for_both(true);
    assert_shared("third");
    for server in servers {
        let shared = "rate limits are shared in Redis";
        let log =
            wait_for("the second line", || Some(server.log()).filter(|log| log.matches(shared).count() >= 2));
        let lines = |words: &str| log.lines().filter(|line| line.contains(words)).count();
        assert_eq!(lines(shared), 2, "{log}");
        assert_eq!(lines("Redis is away"), 1, "one line for each change: {log}");
    }
}

#[test]
fn a_redis_that_hangs_stops_no_request_and_a_lost_script_is_loaded_again() {
    let redis = Redis::plain();
    let (server, _dir) = instance(&redis.url());
    wait_until_shared(&server, true);
    assert_eq!(redis.command("SCRIPT FLUSH"), "+OK\r\n");
    let first = key(&server, "first", &json!({ "scopes": ["inventory:read"] }));
    assert!(allowed(&server, &first) >= BURST);
    assert!(redis.command("EXISTS stockhold:rate:principal:key:first").starts_with(":1"));
    assert!(server.metrics().contains("stockhold_rate_limit_failures_total 0\n"), "{}", server.metrics());

    redis.signal("-STOP");
    let second = key(&server, "second", &json!({ "scopes": ["inventory:read"] }));
    assert!(allowed(&server, &second) >= BURST);
    wait_until_shared(&server, false);
    server.log_with(&[&format!("no answer within {TIMEOUT_MS} ms")]);
    redis.signal("-CONT");
    wait_until_shared(&server, true);
}

#[test]
fn refusals_of_an_address_are_shared_too() {
    let redis = Redis::plain();
    let instances = [instance(&redis.url()), instance(&redis.url())];
    let begun = Instant::now();
    let refused = instances.each_ref().map(|(server, _)| {
        wait_until_shared(server, true);
        let wrong = Call::get("/v1/inventory").header("X-Forwarded-For", "192.0.2.7");
        count(401, || ask(server, Some("wrong"), wrong.clone()).status)
    });
    let sum = refused[0] + refused[1];
    assert!(sum >= BURST && sum <= at_most(1, begun), "{refused:?}");
    assert!(redis.command("EXISTS stockhold:rate:address:192.0.2.7").starts_with(":1"));
}

#[test]
fn the_password_of_redis_is_shown_nowhere() {
    let redis = Redis::start(&["--port", "PORT", "--requirepass", "hunter2-right"]);
    for (password, is_right) in [("hunter2-right", true), ("hunter2-wrong", false)] {
        let url = format!("redis://:{password}@127.0.0.1:{}", redis.port());
        let (server, dir) = instance(&url);
        if is_right {
            wait_until_shared(&server, true);
        } else {
            wait_for("the log line", || server.log().contains("Redis is away").then_some(()));
            wait_until_shared(&server, false);
        }
        let key = key(&server, "shop", &json!({ "scopes": ["inventory:read"] }));
        assert!(allowed(&server, &key) >= BURST, "limits count in any case");
        let run = |arguments: &[&str]| {
            let output = stockhold(dir.path()).args(arguments).output().unwrap();
            [text(&output.stdout), text(&output.stderr)].concat()
        };
        let config = run(&["config"]);
        assert!(config.contains("(hidden)"), "{config}");
        let shown = [
            config,
            run(&["config", "--json"]),
            run(&["doctor", "--no-disk", "--data-dir", "data"]),
            server.log(),
            server.metrics(),
            ask(&server, Some(ROOT), Call::get("/v1/events")).text(),
        ];
        for text in shown {
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
}

#[test]
fn redis_over_tls_with_the_certificates_of_the_system() {
    let (authority, files) = (Authority::new(), tempfile::tempdir().unwrap());
    let pair = authority.issue();
    let put = |name: &str, text: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (ca, cert, tls_key) =
        (put("ca.pem", &authority.pem), put("cert.pem", &pair.cert), put("key.pem", &pair.key));
    let redis = Redis::start(&[
        "--port",
        "0",
        "--tls-port",
        "PORT",
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &tls_key,
        "--tls-ca-cert-file",
        &ca,
        "--tls-auth-clients",
        "no",
    ]);
    let url = format!("rediss://127.0.0.1:{}", redis.port());
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("stockhold.toml"), settings(&url)).unwrap();
    let with_trust = |trusted: &str| {
        let variables = [("STOCKHOLD_ROOT_KEY", ROOT), ("SSL_CERT_FILE", trusted)];
        Server::with_variables(dir.path(), "data", &variables)
    };
    let mut trusting = with_trust(&ca);
    wait_until_shared(&trusting, true);
    trusting.terminate();
    let other = put("other.pem", &Authority::new().pem);
    let distrusting = with_trust(&other);
    wait_for("the log line", || distrusting.log().contains("Redis is away").then_some(()));
    wait_until_shared(&distrusting, false);
}

/// The script and the table in memory give the same answers at the same times.
#[test]
fn the_script_does_the_arithmetic_of_the_table_in_memory() {
    let redis = Redis::plain();
    let mut connection = Client::open(redis.url()).unwrap().get_connection().unwrap();
    let replace = |text: &str, from: &str, to: &str| {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        text.replace(from, to)
    };
    // The test brings its own times, which have nothing to do with those at which Redis forgets.
    let script = replace(SCRIPT, "redis.call('TIME')", "{ ARGV[3], ARGV[4] }");
    let script = Script::new(&replace(&script, ", 'PX', math.max(1, math.ceil(used / 1e6)))", ")"));
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let limits = [(1, 1), (1, 1_000_000), (3, 7), (700_000, 5), (1_000_000, 1_000_000), (10, 20)];
    for (n, (per_second, burst)) in limits.into_iter().enumerate() {
        let (limiter, limit) = (RateLimiter::default(), RateLimit::new(per_second, burst).unwrap());
        let mut now = Duration::from_hours(500_000);
        let mut refusals = 0;
        for _ in 0..2_000 {
            let steady = 1_000_000 / u64::from(per_second);
            now += Duration::from_micros(random(2 * steady + 2));
            let tokens = u32::try_from(random(u64::from(burst.min(4)) + 1)).unwrap();
            let expected = limiter.take(n, limit, tokens, now);
            let mut call = script.key(n);
            call.arg(limit.cost(tokens)).arg(limit.tolerance()).arg(now.as_secs()).arg(now.subsec_micros());
            let (allowed, used) = call.invoke::<(bool, u64)>(&mut connection).unwrap();
            assert_eq!(limit.status(allowed, used, limit.cost(tokens)), expected, "{limit:?} at {now:?}");
            refusals += u32::from(!allowed);
        }
        assert!(burst == 1_000_000 || refusals > 10, "{limit:?} was refused {refusals} times");
    }
}

#[test]
fn a_caller_owes_a_burst_at_most_after_the_clock_of_redis_was_set_back() {
    let clock = MovedClock::new();
    let redis = Redis::with_clock(&clock);
    let mut connection = Client::open(redis.url()).unwrap().get_connection().unwrap();
    let script = Script::new(SCRIPT);
    // The whole burst takes so long that the steps of this test take no part of it that counts.
    let limit = RateLimit::new(1, 3_600).unwrap();
    let hour = 3_600_000_000_000;
    let mut take = |tokens: u32| {
        let mut call = script.key("caller");
        let call = call.arg(limit.cost(tokens)).arg(limit.tolerance());
        let (allowed, used) = call.invoke::<(bool, u64)>(&mut connection).unwrap();
        // In tenths of an hour.
        (allowed, (used + hour / 20) / (hour / 10))
    };
    assert_eq!(take(3_600), (true, 10));
    clock.set(-86_400);
    assert_eq!(take(600), (false, 10), "and not 250");
    // The refusal has brought the record to the new time. So time passes for the caller.
    clock.set(-86_400 + 1_800);
    assert_eq!(take(3_600), (false, 5));
    assert_eq!(take(1_800), (true, 10));
    // A request that is allowed brings it there too.
    clock.set(-86_400);
    assert_eq!(take(0), (true, 10));
    clock.set(-86_400 + 3_660);
    assert_eq!(take(3_600), (true, 10));
}

#[test]
fn redis_forgets_a_caller_that_has_its_whole_burst_again() {
    let redis = Redis::plain();
    let mut connection = Client::open(redis.url()).unwrap().get_connection().unwrap();
    let script = Script::new(SCRIPT);
    let limit = RateLimit::new(100, 10).unwrap();
    let mut take = |tokens: u32| {
        let mut call = script.key("caller");
        call.arg(limit.cost(tokens)).arg(limit.tolerance()).invoke::<(bool, u64)>(&mut connection).unwrap()
    };
    assert_eq!(take(0), (true, 0));
    assert_eq!(redis.command("EXISTS caller"), ":0\r\n", "a question alone leaves nothing");
    assert!(take(10).0);
    wait_for("the end of the record", || (redis.command("EXISTS caller") == ":0\r\n").then_some(()));
    assert_eq!(take(0), (true, 0));
}
