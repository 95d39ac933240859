//! The server of the test provider.

use super::WEBHOOK_SECRET;
use super::ledger::{Ledger, LedgerAnswer, LedgerPayment, LedgerState, refused};
use super::method::Method as PaymentMethod;
use crate::signature;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stockhold_store::clock::{Clock, WallClock};
use tokio::net::TcpListener;

/// Longest body of a request.
const BODY_BYTES: usize = 64 * 1024;
/// How long a request is kept that gets no answer. Callers give up earlier.
const NEVER: Duration = Duration::from_mins(5);
/// Tries of a webhook, and the pause between them.
const WEBHOOK_TRIES: u32 = 5;
const WEBHOOK_PAUSE: Duration = Duration::from_secs(1);

/// How the test provider runs.
pub struct TestProviderServer<'a> {
    /// The file of its ledger.
    pub ledger: &'a Path,
    /// Where its webhooks are sent to.
    pub webhook: Option<String>,
    /// How long every answer takes.
    pub delay: Duration,
}

struct Shared {
    ledger: Mutex<Ledger>,
    /// Keys whose first request got no answer.
    unanswered: Mutex<HashSet<String>>,
    webhook: Option<String>,
    delay: Duration,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// Serves until the process ends.
pub async fn serve(listener: TcpListener, options: TestProviderServer<'_>) -> io::Result<Infallible> {
    let address: SocketAddr = listener.local_addr()?;
    let ledger = Ledger::open(options.ledger, format!("http://{address}"))?;
    let shared = Arc::new(Shared {
        ledger: Mutex::new(ledger),
        unanswered: Mutex::default(),
        webhook: options.webhook,
        delay: options.delay,
        client: Client::builder(TokioExecutor::new()).build(HttpConnector::new()),
    });
    loop {
        let (stream, _) = listener.accept().await?;
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let service = service_fn(move |request| respond(Arc::clone(&shared), request));
            if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!(%error, "a connection of the test provider ended");
            }
        });
    }
}

async fn respond(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    tokio::time::sleep(shared.delay).await;
    let LedgerAnswer { status, body } = shared.answer(request).await;
    let mut response = Response::new(Full::new(Bytes::from(format!("{body}\n"))));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
    Ok(response)
}

impl Shared {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(self: &Arc<Self>, request: Request<Incoming>) -> LedgerAnswer {
        let (head, body) = request.into_parts();
        let Ok(body) = Limited::new(body, BODY_BYTES).collect().await else {
            return refused(413, "body_too_long");
        };
        let body = body.to_bytes();
        let body: Value = match serde_json::from_slice(&body) {
            Ok(body) => body,
            Err(_) if body.is_empty() => json!({}),
            Err(_) => return refused(400, "body_not_json"),
        };
        let key = head.headers.get("idempotency-key").and_then(|key| key.to_str().ok());
        let path: Vec<&str> = head.uri.path().split('/').skip(1).collect();
        let amount = body["amount"].as_u64().unwrap_or(0);
        match (&head.method, &*path) {
            (&Method::GET, ["payments"]) => {
                let filter = head.uri.query().and_then(filter);
                let filter = filter.as_ref().map(|(id, attempt)| (id.as_str(), *attempt));
                LedgerAnswer { status: 200, body: self.ledger().list(filter) }
            }
            (&Method::POST, ["payments"]) => self.create(&body, key.unwrap_or_default()).await,
            (&Method::GET, ["payments", of]) => self.ledger().payment(of).unwrap_or_else(unknown),
            (&Method::POST, ["payments", of, "complete"]) => {
                let outcome = body["outcome"].as_str().unwrap_or_default();
                let answer = self.ledger().complete(of, outcome).unwrap_or_else(unknown);
                if answer.status == 200 {
                    self.send_webhooks(of);
                }
                answer
            }
            (&Method::POST, ["payments", of, "capture"]) => {
                self.once(key, |ledger| ledger.capture(of, amount).unwrap_or_else(unknown))
            }
            (&Method::POST, ["payments", of, "void"]) => {
                self.once(key, |ledger| ledger.void(of).unwrap_or_else(unknown))
            }
            (&Method::POST, ["payments", of, "refunds"]) => {
                let attempt = body["attempt"].as_u64().unwrap_or(0);
                self.once(key, |ledger| ledger.refund(of, amount, attempt).unwrap_or_else(unknown))
            }
            (&Method::GET, ["action", of]) => {
                let what =
                    format!("POST /payments/{of}/complete with {{\"outcome\": \"approve\"}} or \"decline\"");
                LedgerAnswer { status: 200, body: json!({ "next": what }) }
            }
            _ => refused(404, "unknown_path"),
        }
    }

    /// Does something once for each key.
    fn once(&self, key: Option<&str>, work: impl FnOnce(&mut Ledger) -> LedgerAnswer) -> LedgerAnswer {
        let mut ledger = self.ledger();
        let Some(key) = key else { return refused(400, "key_missing") };
        if let Some(known) = ledger.answer_to(key) {
            return known;
        }
        let answer = work(&mut ledger);
        ledger.remember(key, &answer);
        answer
    }

    async fn create(self: &Arc<Self>, body: &Value, key: &str) -> LedgerAnswer {
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let Some(method) = PaymentMethod::from_name(&text("method")) else {
            return refused(400, "unknown_method");
        };
        let payment = LedgerPayment {
            provider_ref: String::new(),
            reservation_id: text("reservation_id"),
            payment_id: text("payment_id"),
            attempt: body["attempt"].as_u64().unwrap_or(0),
            amount: body["amount"].as_u64().unwrap_or(0),
            currency: text("currency"),
            method: method.name().to_owned(),
            capture: body["capture"] == true,
            // Until the method says what becomes of it.
            state: LedgerState::Declined,
            captured_amount: 0,
            refunded_amount: 0,
            refund_attempts: Vec::new(),
            refused_refunds: 0,
        };
        let is_first_try = {
            let mut unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
            unanswered.insert(key.to_owned())
        };
        let is_first_attempt = payment.attempt == 1;
        match method {
            PaymentMethod::TimeoutBefore if is_first_try && is_first_attempt => {
                tokio::time::sleep(NEVER).await;
                return refused(408, "too_late");
            }
            PaymentMethod::ErrorRemembered if is_first_attempt => {
                return refused(500, "provider_error");
            }
            _ => {}
        }
        let answer = self.once(Some(key), |ledger| ledger.create(payment, method));
        if method == PaymentMethod::TimeoutAfter && is_first_try {
            tokio::time::sleep(NEVER).await;
        }
        if let Some(provider_ref) = answer.body["provider_ref"].as_str() {
            self.send_webhooks(provider_ref);
        }
        answer
    }

    /// Sends the webhook of a payment that has changed, in the background.
    fn send_webhooks(self: &Arc<Self>, provider_ref: &str) {
        let subject = self.ledger().subject(provider_ref);
        let (Some(url), Some((reservation_id, method))) = (self.webhook.clone(), subject) else { return };
        let times = if method == Some(PaymentMethod::AnswerTwice) { 2 } else { 1 };
        for _ in 0..times {
            let (shared, url, body) =
                (Arc::clone(self), url.clone(), json!({ "reservation_id": reservation_id }).to_string());
            tokio::spawn(async move { shared.send_webhook(&url, body).await });
        }
    }

    async fn send_webhook(&self, url: &str, body: String) {
        for _ in 0..WEBHOOK_TRIES {
            let seconds = WallClock.now().millis() / 1_000;
            let request = Request::post(url)
                .header("content-type", "application/json")
                .header("stripe-signature", signature::sign(WEBHOOK_SECRET, body.as_bytes(), seconds))
                .body(Full::new(Bytes::from(body.clone())));
            let Ok(request) = request else {
                tracing::error!("the address of the webhook is not valid");
                return;
            };
            match self.client.request(request).await {
                Ok(answer) if answer.status().is_success() => return,
                Ok(answer) => tracing::debug!(status = %answer.status(), "a webhook was refused"),
                Err(error) => tracing::debug!(%error, "a webhook was not taken"),
            }
            tokio::time::sleep(WEBHOOK_PAUSE).await;
        }
    }
}

/// The payment id and the attempt that a list is asked for.
fn filter(query: &str) -> Option<(String, u64)> {
    let members: Vec<(&str, &str)> = query.split('&').filter_map(|member| member.split_once('=')).collect();
    let member = |name: &str| members.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let id = percent_encoding::percent_decode_str(member("payment_id")?).decode_utf8().ok()?;
    Some((id.into_owned(), member("attempt")?.parse().ok()?))
}

fn unknown() -> LedgerAnswer {
    refused(404, "unknown_payment")
}
