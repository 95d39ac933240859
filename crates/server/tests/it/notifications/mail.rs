//! Mail.

use super::{MailServer, buy, mail_settings, put, shop, sink, wait_for_all};
use crate::checkout::{call, reservation, wait_for_state};
use crate::customers::{FIRST_KEY, VARIABLE};
use crate::support::{Server, said, stockhold, wait_for};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;

#[test]
fn buyers_are_told_in_their_language_what_becomes_of_their_orders() {
    let dir = tempfile::tempdir().unwrap();
    let mut mail = MailServer::new(dir.path());
    mail.start();
    let (server, _provider) = shop(dir.path(), &mail_settings(mail.port));
    put(&server, "anna", &json!({ "email": "anna@example.com", "locale": "de-AT" }));
    put(&server, "ben", &json!({ "email": "ben@example.com" }));
    put(&server, "cleo", &json!({ "locale": "en" }));

    let id = buy(&server, "anna", "approve", &json!({ "order_id": "order-7" }));
    let sent = mail.wait_for("anna@example.com");
    assert_eq!(sent["subject"], "Ihre Bestellung order-7");
    assert_eq!(sent["from"], "Tea Shop <orders@shop.example>");
    assert_eq!(sent["auto-submitted"], "auto-generated");
    let text = sent["text"].as_str().unwrap();
    assert!(text.contains("2 x tea  20.00 EUR") && text.contains("Summe: 20.00 EUR"), "{text}");
    // The id is that of the event, so a repetition has the same one.
    let events = call(&server.url(), "GET", "/v1/events?after=0", None, &[]).1;
    let confirmed =
        events["data"].as_array().unwrap().iter().find(|one| one["type"] == "reservation.confirmed");
    let event_id = confirmed.unwrap()["id"].as_str().unwrap();
    assert_eq!(sent["message-id"], format!("<{event_id}@shop.example>"));

    let refund = json!({ "reason": "late", "amount": 500 });
    call(&server.url(), "POST", &format!("/v1/reservations/{id}/refund"), Some(&refund), &[]);
    wait_for("the refund's mail", || {
        let told = mail.mails();
        let last = told.iter().find(|one| one["subject"] == "Erstattung zu Ihrer Bestellung order-7")?;
        last["text"].as_str().unwrap().contains("5.00 EUR").then_some(())
    });

    let rest = json!({ "reason": "late" });
    call(&server.url(), "POST", &format!("/v1/reservations/{id}/refund"), Some(&rest), &[]);
    wait_for("the mail of the rest", || {
        let of_all = |one: &&serde_json::Value| one["text"].as_str().unwrap().contains("20.00 EUR erstattet");
        mail.mails().iter().find(of_all).map(|_| ())
    });
    // The money can't be taken after the confirm.
    buy(&server, "ben", "capture_fails", &json!({ "order_id": "order-6" }));
    wait_for("the mail of the cancelled order", || {
        mail.mails().iter().any(|one| one["subject"] == "Your order order-6 was cancelled").then_some(())
    });

    buy(&server, "ben", "decline", &json!({ "order_id": "order-8" }));
    wait_for("the mail of the decline", || {
        mail.mails().iter().any(|one| one["subject"] == "Your payment was declined").then_some(())
    });
    // Of the same events, a checkout that does not ask for it, a customer without an address and an unknown one tell nobody.
    buy(&server, "anna", "approve", &json!({ "notify": false, "order_id": "silent" }));
    buy(&server, "cleo", "approve", &json!({}));
    buy(&server, "dora", "approve", &json!({}));
    let id = buy(
        &server,
        "ben",
        "require_action",
        &json!({ "order_id": "order-9", "return_url": "https://shop.example/" }),
    );
    wait_for("the mail of the action", || {
        mail.mails().iter().any(|one| one["subject"] == "Please confirm your payment").then_some(())
    });
    call(&server.url(), "POST", &format!("/v1/reservations/{id}/checkout/cancel"), None, &[]);
    wait_for_state(&server, &id, "voided");
    wait_for("the mail of the cancel", || {
        mail.mails().iter().any(|one| one["subject"] == "Your reservation was cancelled").then_some(())
    });
    wait_for_all(&server);
    let told: Vec<_> =
        mail.mails().into_iter().map(|one| one["subject"].as_str().unwrap().to_owned()).collect();
    // And the order that was confirmed before it was cancelled.
    assert_eq!(told.len(), 8, "{told:?}");
    assert_eq!(sink(&server)["state"], "running");

    // Nobody's address is anywhere but in the mails.
    let events = call(&server.url(), "GET", "/v1/events?after=0", None, &[]).1.to_string();
    for address in ["anna@example.com", "ben@example.com"] {
        assert!(!server.log().contains(address) && !events.contains(address));
    }
    assert!(server.metrics().contains(r#"stockhold_notifications_total{channel="mail",result="sent"} 8"#));
}

#[test]
fn no_mail_is_lost_while_the_mail_server_is_away_and_the_server_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut mail = MailServer::new(dir.path());
    let (mut server, _provider) = shop(dir.path(), &mail_settings(mail.port));
    let buyers: Vec<String> = (0..20).map(|number| format!("buyer-{number}")).collect();
    for buyer in &buyers {
        put(&server, buyer, &json!({ "email": format!("{buyer}@example.com") }));
        // A checkout does not wait for its mail.
        let id = buy(&server, buyer, "approve", &json!({}));
        assert_eq!(reservation(&server, &id)["order"]["status"], "paid");
    }
    let failed =
        wait_for("the sink to retry", || Some(sink(&server)).filter(|sink| sink["state"] == "retrying"));
    assert_eq!(failed["last_error"]["message"], "mail: the SMTP server can't be reached", "{failed}");
    server.kill();
    server.restart();
    mail.start();
    mail.set_busy(true);
    let failed =
        wait_for("the sink to retry", || Some(sink(&server)).filter(|sink| sink["state"] == "retrying"));
    assert!(
        failed["last_error"]["message"].as_str().unwrap().starts_with("mail: the SMTP server"),
        "{failed}"
    );
    mail.set_busy(false);
    let told = || -> BTreeSet<String> {
        mail.mails().iter().map(|one| one["to"].as_str().unwrap().to_owned()).collect()
    };
    wait_for("some mails", || (told().len() > 2).then_some(()));
    server.kill();
    server.restart();
    wait_for("all mails", || (told().len() == buyers.len()).then_some(()));
    wait_for_all(&server);
    let ids: BTreeSet<_> =
        mail.mails().iter().map(|one| one["message-id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), buyers.len(), "a mail that comes again has the same id");
}

#[test]
fn a_recipient_that_is_refused_holds_nobody_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut mail = MailServer::new(dir.path());
    mail.start();
    let (server, _provider) = shop(dir.path(), &mail_settings(mail.port));
    put(&server, "gone", &json!({ "email": "refused@example.com" }));
    put(&server, "zoe", &json!({ "email": "zoë@example.com" }));
    put(&server, "anna", &json!({ "email": "anna@example.com" }));
    for buyer in ["gone", "zoe", "anna"] {
        buy(&server, buyer, "approve", &json!({}));
    }
    mail.wait_for("anna@example.com");
    wait_for_all(&server);
    assert_eq!(mail.mails().len(), 1);
    assert!(server.metrics().contains(r#"stockhold_notifications_total{channel="mail",result="refused"} 2"#));
    let log = server.log_with(&["the SMTP server answered 550", "takes addresses in ASCII only"]);
    assert!(!log.contains("refused@") && !log.contains("zoë@"));
}

/// The sink once it is blocked, or not any more.
fn wait_for_block(server: &Server, is_blocked: bool) -> serde_json::Value {
    wait_for("the state of the sink", || {
        Some(sink(server)).filter(|sink| (sink["state"] == "blocked") == is_blocked)
    })
}

#[test]
fn a_sender_that_is_refused_blocks_in_the_words_of_the_server_and_loses_no_mail() {
    let dir = tempfile::tempdir().unwrap();
    let mut mail = MailServer::new(dir.path());
    mail.start();
    mail.set_policy(Some("mail 550 5.7.1 you may not send as this sender"));
    let settings = format!("{}ehlo_name = \"shop.example\"\n", mail_settings(mail.port));
    let (server, _provider) = shop(dir.path(), &settings);
    put(&server, "anna", &json!({ "email": "anna@example.com" }));
    buy(&server, "anna", "approve", &json!({}));
    let blocked = wait_for_block(&server, true);
    let error = &blocked["last_error"];
    let message = error["message"].as_str().unwrap();
    assert_eq!(message, "mail: the SMTP server answered 550 5.7.1 you may not send as this sender");
    assert!(error["action"].as_str().unwrap().contains("notifications.smtp.from"), "{blocked}");
    assert!(error["next_attempt_at"].is_string(), "{blocked}");
    mail.set_policy(None);
    let sent = mail.wait_for("anna@example.com");
    assert_eq!(sent["ehlo"], "shop.example");
    wait_for_block(&server, false);
    wait_for_all(&server);
    assert_eq!(sink(&server)["state"], "running");
}

#[test]
fn what_may_be_about_one_recipient_is_put_aside_and_three_in_a_row_block() {
    let dir = tempfile::tempdir().unwrap();
    let mut mail = MailServer::new(dir.path());
    mail.start();
    mail.set_policy(Some("rcpt 550 5.7.1 <ADDRESS>: blocked by our policy"));
    let (mut server, _provider) = shop(dir.path(), &mail_settings(mail.port));
    for buyer in ["bad-one", "anna", "bad-two", "bad-three", "bad-four"] {
        put(&server, buyer, &json!({ "email": format!("{buyer}@example.com") }));
    }
    buy(&server, "bad-one", "approve", &json!({}));
    buy(&server, "anna", "approve", &json!({}));
    mail.wait_for("anna@example.com");
    wait_for_all(&server);
    let shown = wait_for("what is put aside", || Some(sink(&server)).filter(|sink| sink["put_aside"] == 1));
    assert_eq!((&shown["state"], &shown["lag_events"]), (&json!("running"), &json!(0)), "{shown}");
    // It stays aside over a restart.
    server.kill();
    server.restart();
    assert_eq!(sink(&server)["put_aside"], 1);
    for buyer in ["bad-two", "bad-three", "bad-four"] {
        buy(&server, buyer, "approve", &json!({}));
    }
    let blocked = wait_for_block(&server, true);
    let message = blocked["last_error"]["message"].as_str().unwrap();
    assert_eq!(message, "mail: the SMTP server answered 550 5.7.1 (address) blocked by our policy");
    assert!(blocked["last_error"]["action"].as_str().unwrap().contains("put aside"), "{blocked}");
    mail.set_policy(None);
    for buyer in ["bad-one", "bad-two", "bad-three", "bad-four"] {
        mail.wait_for(&format!("{buyer}@example.com"));
    }
    wait_for_all(&server);
    wait_for("nothing to be aside", || sink(&server)["put_aside"].is_null().then_some(()));
    assert_eq!(mail.mails().len(), 5, "{:?}", mail.mails());
    assert!(!server.log().contains("bad-one@"), "{}", server.log());
}

#[test]
fn an_expiry_is_told_only_if_the_configuration_says_so() {
    for expiry in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut mail = MailServer::new(dir.path());
        mail.start();
        let lines = format!("[notifications]\nexpiry = {expiry}\n{}", mail_settings(mail.port));
        let (server, _provider) = shop(dir.path(), &lines);
        put(&server, "anna", &json!({ "email": "anna@example.com" }));
        let more = json!({ "window_seconds": 1, "return_url": "https://shop.example/" });
        let body = json!({ "owner_id": "cart", "customer_id": "anna", "ttl_seconds": 1 });
        let held = call(&server.url(), "POST", "/v1/inventory/tea/reserve", Some(&body), &[]).1;
        let id = held["reservation_id"].as_str().unwrap();
        let mut body = json!({ "payment_method": { "provider": "test", "method_ref": "require_action" }, "notify": true });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call(&server.url(), "POST", &format!("/v1/reservations/{id}/checkout"), Some(&body), &[]);
        wait_for("the expiry", || (reservation(&server, id)["status"] == "expired").then_some(()));
        buy(&server, "anna", "approve", &json!({ "order_id": "last" }));
        wait_for("the last mail", || {
            mail.mails().iter().any(|one| one["subject"] == "Your order last").then_some(())
        });
        // Several mails are sent at once, so the last one may come first.
        wait_for_all(&server);
        let is_told = mail.mails().iter().any(|one| one["subject"] == "Your reservation has expired");
        assert_eq!(is_told, expiry, "{:?}", mail.mails());
    }
}

#[test]
fn what_is_wrong_with_the_settings_is_said_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let templates = dir.path().join("templates/en");
    fs::create_dir_all(&templates).unwrap();
    fs::write(templates.join("order_confirmed.txt"), "Subject: a\n\n{{ ordre_id }}\n").unwrap();
    let from = "from = \"orders@shop.example\"\n";
    let smtp = |lines: &str| format!("[notifications.smtp]\n{lines}");
    for (text, wrong) in [
        (smtp(from), "notifications.smtp: needs url, or STOCKHOLD_NOTIFICATIONS_SMTP_URL"),
        (smtp("url = \"smtp://localhost\"\n"), "notifications.smtp: needs from"),
        (
            smtp(&format!("url = \"http://u:secret@localhost\"\n{from}")),
            "notifications.smtp.url: must be smtp://",
        ),
        (
            smtp("url = \"smtp://localhost\"\nfrom = \"nobody\"\n"),
            "notifications.smtp.from: \"nobody\" is no address",
        ),
        (
            smtp(&format!("url = \"smtp://localhost\"\nehlo_name = \"a b\"\n{from}")),
            "must be the name of a host",
        ),
        (smtp("host = \"localhost\"\n"), "stockhold.toml:2: notifications.smtp: "),
        ("[notifications]\nsmtp = 1\n".to_owned(), "notifications.smtp: must be a table"),
        ("[notifications.push]\n".to_owned(), "notifications.push: needs service_account_file"),
        (
            "[notifications.push]\nservice_account_file = \"missing.json\"\n".to_owned(),
            "notifications.push.service_account_file: missing.json: ",
        ),
        (
            format!(
                "[notifications]\ntemplate_dir = \"templates\"\n{}",
                smtp(&format!("url = \"smtp://localhost\"\n{from}"))
            ),
            "notifications.template_dir: templates/en/order_confirmed.txt: line 3: undefined value",
        ),
        (
            format!(
                "[sinks.notifications]\nkind = \"file\"\npath = \"out\"\n{}",
                smtp(&format!("url = \"smtp://localhost\"\n{from}"))
            ),
            "sinks.notifications: [notifications] has a sink of this name",
        ),
    ] {
        fs::write(dir.path().join("stockhold.toml"), &text).unwrap();
        let output = stockhold(dir.path())
            .env(VARIABLE, FIRST_KEY)
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
            .output()
            .unwrap();
        let said = said(&output);
        assert!(said.contains(wrong) && !said.contains("secret"), "{text}: {said}");
        assert_eq!(output.status.code(), Some(2), "{text}: {said}");
    }
}

#[test]
fn notifications_need_the_key_of_customers() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("stockhold.toml"), mail_settings(25)).unwrap();
    let output = stockhold(dir.path()).args(["config"]).output().unwrap();
    assert!(said(&output).contains("notifications: needs customers.encryption_keys"), "{}", said(&output));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn notifications_can_be_seen_before_anybody_gets_them() {
    let dir = tempfile::tempdir().unwrap();
    let preview = |arguments: &[&str]| {
        stockhold(dir.path()).args(["ctl", "notify", "preview"]).args(arguments).output().unwrap()
    };
    let all = said(&preview(&[]));
    assert_eq!(all.matches("\nSubject: ").count(), 7, "{all}");
    let one = said(&preview(&["order_confirmed", "--locale", "de"]));
    assert!(one.contains("Subject: Ihre Bestellung order-1002\n\nVielen Dank"), "{one}");
    let unknown = preview(&["order_made"]);
    assert!(said(&unknown).contains("the kinds are order_confirmed, "), "{}", said(&unknown));
    let missing = preview(&["--template-dir", "nowhere"]);
    assert_eq!((missing.status.code(), said(&missing).contains("nowhere")), (Some(2), true));
}
