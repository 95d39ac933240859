//! The page at `/docs`: every call under "Try it", pasted into a shell in the page's order, works on a fresh server. The calls that
//! manage API keys work on a fresh server with a root key: without one, the first key would lock everybody out.

use super::server::Server;
use super::wire::Call;
use std::process::Command;

/// Where the page says that the listeners are.
const BASE: &str = "http://127.0.0.1:8101";
const ADMIN_BASE: &str = "http://127.0.0.1:8102";

/// The calls of the page, in its order, each with the id of its operation.
fn calls(page: &str) -> Vec<(String, String)> {
    let mut calls = Vec::new();
    for article in page.split("<article id=\"").skip(1) {
        let operation = article.split('"').next().unwrap();
        let tried =
            article.split("<h4>Try it</h4>").nth(1).and_then(|rest| rest.split("<h4>").next()).unwrap();
        for sample in tried.split("<pre><code>").skip(1) {
            let html = sample.split("</code></pre>").next().unwrap();
            calls.push((operation.to_owned(), text_of(html)));
        }
    }
    calls
}

/// The text that a browser copies.
fn text_of(html: &str) -> String {
    let mut text = String::new();
    for (number, part) in html.split('<').enumerate() {
        text.push_str(if number == 0 { part } else { part.split_once('>').unwrap().1 });
    }
    text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// The operations whose calls are made with the root key.
const WITH_ROOT_KEY: [&str; 5] = ["create_key", "list_keys", "get_key", "roll_key", "revoke_key"];
/// The path of the webhook that examples name.
const WEBHOOK: &str = "/v1/webhooks/01a212ce-ea56-7d81-82da-d02f932e6add";
/// The operations on a sink.
const SINK_OPERATIONS: [&str; 4] = ["skip_event", "replay_sink", "init_sink", "forget_sink"];
/// What a server without a payment provider and without an encryption key answers.
const WITHOUT_PROVIDER: [(&str, &str); 10] = [
    ("start_checkout", "/payment_method/provider"),
    ("start_checkout", "/customer_id"),
    ("put_customer", "encryption_key_missing"),
    ("get_customer", "encryption_key_missing"),
    ("delete_customer", "encryption_key_missing"),
    ("rewrap_customers", "encryption_key_missing"),
    ("refund", "reservation_not_confirmed"),
    ("retry_refund", "payment_not_captured"),
    ("get_order", "unknown_order"),
    ("provider_webhook", "unknown_route"),
];
const ROOT_KEY: &str = "a-root-key-of-forty-characters-in-a-test";

#[test]
fn every_call_of_the_page_works_in_order_on_a_fresh_server() {
    let server = Server::start();
    let page = server.ask(&Call::get("/docs")).text();
    let calls = calls(&page);
    assert!(calls.len() > 40, "{}", calls.len());
    let (with_root_key, plain): (Vec<_>, Vec<_>) =
        calls.into_iter().partition(|(operation, _)| WITH_ROOT_KEY.contains(&operation.as_str()));
    assert!(with_root_key.len() >= WITH_ROOT_KEY.len());
    run(&server, plain);
    run(&Server::with_root_key(ROOT_KEY), with_root_key);
}

fn run(server: &Server, calls: Vec<(String, String)>) {
    for (operation, call) in calls {
        let call = call
            .replace(ADMIN_BASE, &format!("http://{}", server.admin_address()))
            .replace(BASE, &format!("http://{}", server.address()));
        let output =
            Command::new("bash").env("STOCKHOLD_ROOT_KEY", ROOT_KEY).arg("-c").arg(&call).output().unwrap();
        let answer = String::from_utf8_lossy(&output.stdout);
        let good =
            ["HTTP/1.1 200", "HTTP/1.1 201", "HTTP/1.1 204"].iter().any(|line| answer.starts_with(line));
        // The server of this test has no gate to reload, no sinks, no stock masters, and no webhook of this id.
        let good = good || (operation == "reload_gate" && answer.contains("gate_not_configured"));
        let good = good || (operation == "archive_events" && answer.contains("archive.dir"));
        let good = good || (operation == "reconcile" && answer.contains("is no stock master"));
        let good = good || (SINK_OPERATIONS.contains(&operation.as_str()) && answer.contains("unknown_sink"));
        let good =
            good || WITHOUT_PROVIDER.iter().any(|(of, reason)| operation == *of && answer.contains(reason));
        let good = good || (call.contains(WEBHOOK) && answer.contains("unknown_webhook"));
        assert!(good, "{operation}\n{call}\n{answer}{}", String::from_utf8_lossy(&output.stderr));
        // Of several commands each has a status of its own.
        for status in answer.split("\"status\":").skip(1).filter(|_| operation == "run_commands") {
            assert!(status.starts_with('2') || status.starts_with('"'), "{call}\n{answer}");
        }
    }
}
