//! Notifications of buyers: mail to a real SMTP server, push messages to a stand-in that speaks the HTTP v1 form of FCM.

mod mail;
mod push;
mod push_service;

use crate::checkout::{Provider, call, priced_item};
use crate::clients::{installed, repository};
use crate::customers::{FIRST_KEY, VARIABLE};
use crate::support::{Running, Server, free_port, json_lines, wait_for};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mail server, and the mails that it has taken.
struct MailServer {
    dir: PathBuf,
    port: u16,
    process: Option<Running>,
}

impl MailServer {
    /// One that is not started yet.
    fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), port: free_port(), process: None }
    }

    fn start(&mut self) {
        let mut command = Command::new(installed("smtp/bin/python"));
        command.arg(repository("crates/server/tests/it/notifications/smtp_server.py"));
        command.arg(self.port.to_string()).args([self.dir.join("mails"), self.dir.join("busy")]);
        let mut process = Running::start(&mut command);
        assert_eq!(process.line(), "listening\n");
        self.process = Some(process);
    }

    /// Answers "later" from now on, or no more.
    fn set_busy(&self, is_busy: bool) {
        let file = self.dir.join("busy");
        if is_busy { fs::write(file, "").unwrap() } else { fs::remove_file(file).unwrap() }
    }

    /// Answers a step in its own way from now on, or no more.
    fn set_policy(&self, policy: Option<&str>) {
        let file = self.dir.join("policy");
        match policy {
            Some(policy) => fs::write(file, policy).unwrap(),
            None => fs::remove_file(file).unwrap(),
        }
    }

    fn mails(&self) -> Vec<Value> {
        json_lines(&self.dir.join("mails"))
    }

    /// Waits for a mail to this address.
    fn wait_for(&self, to: &str) -> Value {
        wait_for("a mail", || self.mails().into_iter().rev().find(|mail| mail["to"] == to))
    }
}

/// A shop whose configuration has these lines besides.
fn shop(dir: &Path, lines: &str) -> (Server, Provider) {
    let port = free_port();
    let text = format!(
        "[providers.test]\nurl = \"http://127.0.0.1:{port}\"\n[checkout]\nretry_base_ms = 50\nretry_max_ms = 500\n{lines}"
    );
    fs::write(dir.join("stockhold.toml"), text).unwrap();
    let server = Server::with_variables(dir, "data", &[(VARIABLE, FIRST_KEY)]);
    let webhook = format!("{}/v1/providers/test/webhook", server.url());
    let provider = Provider::start(dir, port, Some(&webhook));
    priced_item(&server, "tea", 1_000);
    (server, provider)
}

fn mail_settings(port: u16) -> String {
    format!(
        "[notifications.smtp]\nurl = \"smtp://127.0.0.1:{port}\"\nfrom = \"Tea Shop <orders@shop.example>\"\n"
    )
}

/// Stores a customer.
fn put(server: &Server, id: &str, profile: &Value) {
    let (status, answer) = call(&server.url(), "PUT", &format!("/v1/customers/{id}"), Some(profile), &[]);
    assert!(status == 200 || status == 201, "{answer}");
}

/// Buys two units for a customer. Returns the reservation's id.
fn buy(server: &Server, customer: &str, method: &str, more: &Value) -> String {
    let body = json!({ "owner_id": "cart", "customer_id": customer, "quantity": 2, "ttl_seconds": 60 });
    let (status, held) = call(&server.url(), "POST", "/v1/inventory/tea/reserve", Some(&body), &[]);
    assert_eq!(status, 200, "{held}");
    let id = held["reservation_id"].as_str().unwrap().to_owned();
    let mut body = json!({ "payment_method": { "provider": "test", "method_ref": method }, "notify": true });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let path = format!("/v1/reservations/{id}/checkout");
    let (status, paid) = call(&server.url(), "POST", &path, Some(&body), &[]);
    assert!([200, 202, 402].contains(&status), "{paid}");
    id
}

/// The sink of notifications as the API shows it.
fn sink(server: &Server) -> Value {
    let sinks = call(&server.url(), "GET", "/v1/sinks", None, &[]).1;
    let found = sinks["data"].as_array().unwrap().iter().find(|sink| sink["name"] == "notifications");
    found.cloned().unwrap_or_else(|| panic!("{sinks}"))
}

/// Waits until the sink of notifications has done with every event.
fn wait_for_all(server: &Server) {
    wait_for("the sink to be done", || (sink(server)["lag_events"] == 0).then_some(()));
}
