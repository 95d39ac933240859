//! The test provider: a payment provider that does what the payment method says. It is a process of its own (`stockhold test-provider`),
//! so that its ledger survives whatever happens to the server.

mod ledger;
mod method;
mod server;

pub use server::{TestProviderServer, serve};

use crate::http_client::{HttpAnswer, HttpClient, HttpRequest};
use crate::options::TestProviderOptions;
use crate::provider::{
    PaymentProvider, PaymentRequest, ProviderError, ProviderFuture, ProviderPayment, ProviderState,
    RefundRequest, WebhookHeaders, reservation_id,
};
use crate::signature;
use hyper::{Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use stockhold_api::encode::BuyerAction;
use stockhold_customers::ProviderMethod;
use stockhold_domain::{CaptureMethod, Instant, ProviderRef, ReservationId};

/// The secret that signs the webhooks of the test provider. Everybody knows it: a webhook is only a hint.
pub(crate) const WEBHOOK_SECRET: &str = "whsec_test";

/// The test provider, as a server uses it.
pub(crate) struct TestProvider(HttpClient);

impl TestProvider {
    pub(crate) fn new(options: &TestProviderOptions) -> Result<Self, String> {
        HttpClient::new(&options.url, None, options.timeout).map(Self)
    }

    async fn send(
        &self,
        method: Method,
        path: String,
        body: Option<Value>,
        key: Option<&str>,
    ) -> Result<HttpAnswer, ProviderError> {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let content_type = "application/json";
        self.0.send(HttpRequest { method, path, content_type, body, key, headers: Vec::new() }).await
    }
}

fn payment(answer: &HttpAnswer) -> Result<ProviderPayment, ProviderError> {
    let json = &answer.json;
    let code = || json["error"].as_str().unwrap_or("declined").to_owned();
    match answer.status {
        StatusCode::PAYMENT_REQUIRED => return Err(ProviderError::Declined(code())),
        status if !status.is_success() => return Err(ProviderError::Refused(code())),
        _ => {}
    }
    shown(json).ok_or_else(|| ProviderError::NoAnswer("answer_not_understood".to_owned()))
}

fn shown(json: &Value) -> Option<ProviderPayment> {
    let provider_ref = ProviderRef::new(json["provider_ref"].as_str()?)?;
    let state = match json["state"].as_str()? {
        "requires_action" => ProviderState::RequiresAction(BuyerAction::Redirect {
            url: json["action_url"].as_str()?.to_owned(),
        }),
        "authorized" => ProviderState::Authorized,
        "captured" => ProviderState::Captured(json["captured_amount"].as_u64()?),
        "declined" => ProviderState::Declined(json["error"].as_str().unwrap_or("declined").to_owned()),
        "voided" => ProviderState::Cancelled,
        _ => return None,
    };
    Some(ProviderPayment { provider_ref, state })
}

impl PaymentProvider for TestProvider {
    fn authorize<'a>(
        &'a self,
        request: &'a PaymentRequest<'a>,
        method: &'a ProviderMethod,
    ) -> ProviderFuture<'a, ProviderPayment> {
        Box::pin(async move {
            let PaymentRequest { reservation_id, payment_id, charge, attempt, key, method: _, sent_after: _ } =
                *request;
            let body = json!({
                "reservation_id": reservation_id.to_string(),
                "payment_id": payment_id,
                "attempt": attempt,
                "amount": charge.amount,
                "currency": charge.currency.as_str(),
                "method": method.method_ref.as_str(),
                "capture": charge.terms.capture == CaptureMethod::ChargeThenConfirm,
            });
            payment(&self.send(Method::POST, "/payments".to_owned(), Some(body), Some(key)).await?)
        })
    }

    fn retrieve<'a>(&'a self, provider_ref: &'a ProviderRef) -> ProviderFuture<'a, ProviderPayment> {
        Box::pin(async move {
            let path = format!("/payments/{}", provider_ref.as_str());
            payment(&self.send(Method::GET, path, None, None).await?)
        })
    }

    fn find<'a>(&'a self, request: &'a PaymentRequest<'a>) -> ProviderFuture<'a, Option<ProviderPayment>> {
        Box::pin(async move {
            let id = utf8_percent_encode(request.payment_id, NON_ALPHANUMERIC);
            let path = format!("/payments?payment_id={id}&attempt={}", request.attempt);
            let answer = self.send(Method::GET, path, None, None).await?;
            let data = answer.json["data"].as_array();
            let data = data.ok_or_else(|| ProviderError::NoAnswer("answer_not_understood".to_owned()))?;
            Ok(data.first().and_then(shown))
        })
    }

    fn capture<'a>(
        &'a self,
        provider_ref: &'a ProviderRef,
        amount: u64,
        key: &'a str,
    ) -> ProviderFuture<'a, ProviderPayment> {
        Box::pin(async move {
            let path = format!("/payments/{}/capture", provider_ref.as_str());
            payment(&self.send(Method::POST, path, Some(json!({ "amount": amount })), Some(key)).await?)
        })
    }

    fn void<'a>(
        &'a self,
        provider_ref: &'a ProviderRef,
        key: &'a str,
    ) -> ProviderFuture<'a, ProviderPayment> {
        Box::pin(async move {
            let path = format!("/payments/{}/void", provider_ref.as_str());
            payment(&self.send(Method::POST, path, None, Some(key)).await?)
        })
    }

    fn refund<'a>(&'a self, request: &'a RefundRequest<'a>) -> ProviderFuture<'a, ()> {
        Box::pin(async move {
            let path = format!("/payments/{}/refunds", request.provider_ref.as_str());
            let body = json!({ "amount": request.amount, "attempt": request.attempt });
            payment(&self.send(Method::POST, path, Some(body), Some(request.key)).await?).map(|_| ())
        })
    }

    fn has_refunded<'a>(&'a self, request: &'a RefundRequest<'a>) -> ProviderFuture<'a, bool> {
        Box::pin(async move {
            let path = format!("/payments/{}", request.provider_ref.as_str());
            let answer = self.send(Method::GET, path, None, None).await?;
            let attempts = answer.json["refund_attempts"].as_array();
            Ok(attempts.is_some_and(|attempts| attempts.iter().any(|one| *one == request.attempt)))
        })
    }

    fn read_webhook(
        &self,
        headers: WebhookHeaders<'_>,
        body: &[u8],
        now: Instant,
    ) -> Result<Option<ReservationId>, String> {
        signature::check(headers.stripe_signature, WEBHOOK_SECRET, body, now)?;
        let body: Value = serde_json::from_slice(body).map_err(|_| "its body is not JSON".to_owned())?;
        Ok(body["reservation_id"].as_str().and_then(reservation_id))
    }
}
