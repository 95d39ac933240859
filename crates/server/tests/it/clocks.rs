//! A server whose wall clock is corrected: while it runs, and between two starts.

use crate::access::{ROOT, ask, connect, key, reserve, stock};
use crate::api::wire::Call;
use crate::clock_fixture::MovedClock;
use crate::keys::soon;
use crate::support::{Server, said, stockhold, text, wait_for};
use crate::web_application::{Answer, Application};
use serde_json::{Value, json};
use std::time::UNIX_EPOCH;
use stockhold_store::clock::{Clock, WallClock};

const HOUR: i64 = 3_600;

struct World {
    clock: MovedClock,
    server: Server,
    dir: tempfile::TempDir,
}

/// A server on new data with a clock that is ahead by so many seconds.
fn world(ahead: i64) -> World {
    let (clock, dir) = (MovedClock::new(), tempfile::tempdir().unwrap());
    clock.set(ahead);
    let own = clock.variables();
    let mut variables =
        vec![("STOCKHOLD_ROOT_KEY", ROOT), ("STOCKHOLD_WEBHOOK_ALLOWED_NETWORKS", "127.0.0.1/32")];
    variables.extend(own.iter().map(|(name, value)| (*name, value.as_str())));
    let server = Server::with_variables(dir.path(), "data", &variables);
    World { clock, server, dir }
}

impl World {
    fn wait_until_readyz(&self, words: &str) -> String {
        wait_for(words, || {
            let (status, text) = self.server.admin("/readyz")?;
            assert_eq!(status, 200, "{text}");
            text.contains(words).then_some(text)
        })
    }

    /// The metric, in seconds.
    fn difference(&self) -> f64 {
        let metrics = self.server.metrics();
        let line = metrics.lines().find_map(|line| line.strip_prefix("stockhold_clock_difference_seconds "));
        line.expect("the metric").parse().unwrap()
    }

    /// Waits until the log says this, and returns how often it does.
    fn count_in_log(&self, words: &str) -> usize {
        wait_for(words, || {
            let count = self.server.log().lines().filter(|line| line.contains(words)).count();
            (count > 0).then_some(count)
        })
    }

    /// The finding of `stockhold doctor`.
    fn doctor(&self, check: &str) -> Value {
        let [api, admin] = self.server.ports();
        let mut command = stockhold(self.dir.path());
        command.args(["doctor", "--json", "--no-disk", "--data-dir", "data"]);
        command.arg(format!("--listen=127.0.0.1:{api}")).arg(format!("--admin-listen=127.0.0.1:{admin}"));
        let output = command.envs(self.clock.variables()).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = report["findings"].as_array().unwrap();
        findings
            .iter()
            .find(|finding| finding["check"] == check)
            .unwrap_or_else(|| panic!("{report:#}"))
            .clone()
    }
}

/// How far an instant of an answer is ahead of the right time, in seconds.
fn ahead(instant: &Value) -> i64 {
    let instant: jiff::Timestamp = instant.as_str().unwrap().parse().unwrap();
    instant.as_second() - now()
}

/// The right time, in seconds since 1970.
fn now() -> i64 {
    WallClock.now().millis() / 1_000
}

#[track_caller]
fn assert_about(found: i64, expected: i64) {
    assert!((found - expected).abs() < HOUR / 4, "{found} s and not {expected} s");
}

#[test]
fn credentials_dates_and_webhooks_follow_the_wall_clock() {
    let World { clock, server, dir: _dir } = world(0);
    stock(&server, "tea", "hub-1");
    let application = Application::start(Answer::Status(200));
    let webhook = json!({ "url": application.url, "types": ["reservation.created"] });
    assert_eq!(ask(&server, Some(ROOT), Call::post("/v1/webhooks").json(&webhook)).status, 201);
    let key = key(&server, "shop", &json!({ "scopes": ["inventory:read"], "expires_at": soon(HOUR) }));
    let look = || ask(&server, Some(&key), Call::get("/v1/inventory"));
    let assert_date = |date: &str, expected: i64| {
        let since = httpdate::parse_http_date(date).unwrap().duration_since(UNIX_EPOCH).unwrap();
        assert_about(i64::try_from(since.as_secs()).unwrap() - now(), expected);
    };
    // A chunked body takes the connection to hyper.
    let by_hyper = Call::post("/v1/reservations").chunked(100);
    let dates = |expected: i64| {
        assert_date(look().header("date").unwrap(), expected);
        let mut wire = connect(&server);
        wire.send(&by_hyper);
        assert_date(wire.answer().header("date").unwrap(), expected);
    };
    assert_eq!(look().status, 200);
    dates(0);

    clock.set(2 * HOUR);
    assert_eq!((look().status, &look().json()["credential"]), (401, &json!("expired")));
    reserve(&server, ROOT, "tea", "hub-1");
    let sent = application.wait_for_kind("stockhold.reservation.created");
    assert_about(sent.header("webhook-timestamp").parse::<i64>().unwrap() - now(), 2 * HOUR);
    dates(2 * HOUR);

    clock.set(-2 * HOUR);
    assert_eq!(look().status, 200, "the table of keys is not old");
    dates(-2 * HOUR);
}

#[test]
fn time_moves_forward_when_no_hold_is_open() {
    let world = world(0);
    let server = &world.server;
    stock(server, "tea", "hub-1");
    let hold = reserve(server, ROOT, "tea", "hub-1");
    assert_eq!(server.admin("/readyz"), Some((200, "ready\n".to_owned())));
    assert!(world.difference().abs() < 1.0);

    world.clock.set(2 * HOUR + 210);
    world.wait_until_readyz("ready, but the wall clock is 2 h 3 min ahead of the store's time");
    assert!((world.difference() - 7_410.0).abs() < 1.0);
    let ready = world.doctor("ready");
    assert!(ready["grade"] == "look" && ready["says"].as_str().unwrap().contains("2 h 3 min"), "{ready}");
    let path = format!("/v1/reservations/{}", hold["reservation_id"].as_str().unwrap());
    let open = ask(server, Some(ROOT), Call::get(&path)).json();
    assert_eq!((&open["status"], &open["expires_at"]), (&json!("active"), &hold["expires_at"]));
    assert_eq!(world.count_in_log("ahead of the store's time"), 1);

    let released = ask(server, Some(ROOT), Call::delete(&path));
    assert_eq!(released.status, 204, "{released:?}");
    world.wait_until_readyz("ready\n");
    assert_eq!(world.count_in_log("was moved forward by 2 h 3 min"), 1);
    assert!(world.difference().abs() < 1.0);
    assert_about(ahead(&reserve(server, ROOT, "tea", "hub-1")["created_at"]), 2 * HOUR);

    // Time never falls.
    world.clock.set(0);
    let text = world.wait_until_readyz("2 h 3 min behind the store's time");
    assert!(text.contains("never falls"), "{text}");
    assert_about(ahead(&reserve(server, ROOT, "tea", "hub-1")["created_at"]), 2 * HOUR);
}

#[test]
fn a_clock_that_was_ahead_at_the_last_start() {
    let mut world = world(2 * HOUR);
    stock(&world.server, "tea", "hub-1");
    let first = reserve(&world.server, ROOT, "tea", "hub-1");
    assert!(world.server.terminate().success());

    world.clock.set(0);
    let stopped = world.doctor("clock");
    assert!(stopped["says"].as_str().unwrap().contains("stands still for 1 h 5"), "{stopped}");
    world.server.restart();
    let told = "the store's time stands still for 1 h 5";
    world.wait_until_readyz(told);
    assert_eq!(world.count_in_log(told), 1);
    assert!((world.difference() + 7_200.0).abs() < 900.0);
    let (one, other) =
        (reserve(&world.server, ROOT, "tea", "hub-1"), reserve(&world.server, ROOT, "tea", "hub-1"));
    assert_eq!(one["created_at"], other["created_at"]);
    assert!(ahead(&first["created_at"]) <= ahead(&one["created_at"]));
    assert!(world.server.terminate().success());

    world.server.restart_with(&["--accept-clock-step"]);
    world.wait_until_readyz("behind the store's time");
    assert_eq!(world.count_in_log("--accept-clock-step: the store's time begins"), 1);
    let body =
        json!({ "owner_id": "cart", "ttl_seconds": 1, "lines": [{ "sku": "tea", "location": "hub-1" }] });
    let short = ask(&world.server, Some(ROOT), Call::post("/v1/reservations").json(&body)).json();
    assert_about(ahead(&short["created_at"]), 2 * HOUR);
    let path = format!("/v1/reservations/{}", short["reservation_id"].as_str().unwrap());
    wait_for("the end of the hold", || {
        let now = ask(&world.server, Some(ROOT), Call::get(&path)).json();
        (now["status"] == "expired").then_some(())
    });
    // What was left of the holds that were open is left.
    let path = format!("/v1/reservations/{}", first["reservation_id"].as_str().unwrap());
    let open = ask(&world.server, Some(ROOT), Call::get(&path)).json();
    assert_eq!((&open["status"], &open["expires_at"]), (&json!("active"), &first["expires_at"]));
    assert!(world.server.terminate().success());
    let verified = stockhold(world.dir.path()).args(["verify", "--data-dir", "data"]).output().unwrap();
    assert!(verified.status.success(), "{}", said(&verified));

    // The flag is for one start.
    world.server.restart();
    world.wait_until_readyz("stands still for 1 h 5");
}

#[test]
fn a_database_has_a_clock_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = stockhold(dir.path());
    command.args(["serve", "--accept-clock-step", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"]);
    let output = command.env("STOCKHOLD_STORE", "postgres://shop@127.0.0.1:1/shop").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(
        text(&output.stderr).contains("--accept-clock-step: the store is a database"),
        "{}",
        said(&output)
    );
}
