//! Push messages.

use super::push_service::PushService;
use super::{MailServer, buy, mail_settings, put, shop, sink, wait_for_all};
use crate::support::wait_for;
use serde_json::{Value, json};

#[test]
fn buyers_get_push_messages_and_mail_each_once() {
    let dir = tempfile::tempdir().unwrap();
    let service = PushService::start(&dir.path().join("account.json"));
    let mut mail = MailServer::new(dir.path());
    mail.start();
    let lines = format!(
        "{}[notifications.push]\napi_base = \"{}\"\nservice_account_file = \"account.json\"\n",
        mail_settings(mail.port),
        service.url
    );
    let (server, _provider) = shop(dir.path(), &lines);
    put(&server, "anna", &json!({ "email": "anna@example.com", "push_token": "device-anna" }));
    put(&server, "ben", &json!({ "push_token": "device-ben" }));
    put(&server, "gone", &json!({ "push_token": "device-gone" }));

    // A service that can't do it now is asked again. The mail went out at the first attempt, and is not repeated.
    service.state.lock().unwrap().answers = vec![(500, "INTERNAL"), (429, "QUOTA_EXCEEDED")];
    buy(&server, "anna", "approve", &json!({ "order_id": "order-7" }));
    let messages = || service.state.lock().unwrap().messages.clone();
    let sent = wait_for("the message", || messages().pop());
    assert_eq!(sent["token"], "device-anna");
    assert_eq!(sent["notification"]["title"], "Your order order-7");
    assert_eq!(sent["data"]["kind"], "order_confirmed");
    let told = mail.wait_for("anna@example.com");
    let id = sent["data"]["id"].as_str().unwrap();
    assert_eq!(told["message-id"], format!("<{id}@shop.example>"));
    wait_for_all(&server);
    assert_eq!(mail.mails().len(), 1, "{:?}", mail.mails());

    // An app that was removed, or that belongs to another project, is refused for good, and holds nobody back.
    service.state.lock().unwrap().answers = vec![(404, "UNREGISTERED"), (403, "SENDER_ID_MISMATCH")];
    buy(&server, "gone", "approve", &json!({}));
    buy(&server, "gone", "approve", &json!({}));
    wait_for("the refusals", || service.state.lock().unwrap().answers.is_empty().then_some(()));
    // A token that ended early is renewed.
    service.state.lock().unwrap().answers = vec![(401, "")];
    buy(&server, "ben", "approve", &json!({}));
    wait_for("the other message", || {
        messages().iter().any(|one: &Value| one["token"] == "device-ben").then_some(())
    });
    assert_eq!(service.state.lock().unwrap().tokens, 2);
    let log = server.log_with(&["the push service answered 404", "SENDER_ID_MISMATCH"]);
    for secret in ["device-", "access-1", "PRIVATE KEY"] {
        assert!(!log.contains(secret), "{secret}");
    }
}

#[test]
fn an_account_that_is_not_known_blocks_in_the_words_of_the_service() {
    let dir = tempfile::tempdir().unwrap();
    let service = PushService::start(&dir.path().join("account.json"));
    service.state.lock().unwrap().knows_nobody = true;
    let lines = format!(
        "[notifications.push]\napi_base = \"{}\"\nservice_account_file = \"account.json\"\n",
        service.url
    );
    let (server, _provider) = shop(dir.path(), &lines);
    put(&server, "ben", &json!({ "push_token": "device-ben" }));
    buy(&server, "ben", "approve", &json!({}));
    let blocked = wait_for("the refusal", || Some(sink(&server)).filter(|sink| sink["state"] == "blocked"));
    let error = &blocked["last_error"];
    assert!(error["message"].as_str().unwrap().contains("account not found"), "{blocked}");
    assert!(error["action"].as_str().unwrap().contains("service_account_file"), "{blocked}");
    service.state.lock().unwrap().knows_nobody = false;
    wait_for("the message", || service.state.lock().unwrap().messages.pop());
    wait_for_all(&server);
}
