//! Stripe over its HTTP API: `PaymentIntents` and refunds. <https://docs.stripe.com/api/payment_intents>

use crate::http_client::{HttpAnswer, HttpClient, HttpRequest};
use crate::options::StripeOptions;
use crate::provider::{
    PaymentProvider, PaymentRequest, ProviderError, ProviderFuture, ProviderPayment, ProviderState,
    RefundRequest, WebhookHeaders, reservation_id,
};
use crate::signature;
use hyper::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use stockhold_api::encode::BuyerAction;
use stockhold_customers::ProviderMethod;
use stockhold_domain::{CaptureMethod, Instant, ProviderRef, ReservationId};

/// The version of the API that every request asks for.
const API_VERSION: &str = "2024-06-20";
/// Objects of a page of a list, the most that Stripe gives.
const PAGE: usize = 100;
/// Pages that are read to find one payment.
const PAGES: usize = 10;
/// How much earlier than the first request a payment may have been made by Stripe's clock.
const CLOCK_MARGIN_SECONDS: i64 = 300;

/// The characters that are encoded in paths and forms.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-').remove(b'.');

/// Stripe.
pub(crate) struct StripeProvider {
    http: HttpClient,
    webhook_secret: Option<String>,
}

impl StripeProvider {
    pub(crate) fn new(options: &StripeOptions) -> Result<Self, String> {
        let http = HttpClient::new(&options.api_base, Some(&options.secret_key), options.timeout)?;
        Ok(Self { http, webhook_secret: options.webhook_secret.clone() })
    }

    async fn get(&self, path: String) -> Result<HttpAnswer, ProviderError> {
        self.send(Method::GET, path, String::new(), None).await
    }

    async fn post(&self, path: String, form: &Form, key: &str) -> Result<HttpAnswer, ProviderError> {
        self.send(Method::POST, path, form.0.clone(), Some(key)).await
    }

    async fn send(
        &self,
        method: Method,
        path: String,
        body: String,
        key: Option<&str>,
    ) -> Result<HttpAnswer, ProviderError> {
        let content_type = "application/x-www-form-urlencoded";
        let headers = vec![("stripe-version", API_VERSION.to_owned())];
        self.http.send(HttpRequest { method, path, content_type, body, key, headers }).await
    }

    /// The payment of an answer. One that was declined is cancelled, because its buyer could pay it later all the same.
    async fn settled(&self, answer: HttpAnswer) -> Result<ProviderPayment, ProviderError> {
        let payment = intent(&answer)?;
        let ProviderState::Declined(code) = &payment.state else { return Ok(payment) };
        let key = format!("{}:cancel", payment.provider_ref.as_str());
        let path = format!("/v1/payment_intents/{}/cancel", payment.provider_ref.as_str());
        let cancelled = intent(&self.post(path, &Form::default(), &key).await?)?;
        Ok(match cancelled.state {
            ProviderState::Cancelled => {
                ProviderPayment { state: ProviderState::Declined(code.clone()), ..payment }
            }
            _ => cancelled,
        })
    }
}

/// The `PaymentIntent` of an answer, also of one that is an error about it.
fn intent(answer: &HttpAnswer) -> Result<ProviderPayment, ProviderError> {
    let error = &answer.json["error"];
    let object = if error.is_object() { &error["payment_intent"] } else { &answer.json };
    match payment(object) {
        Some(payment) => Ok(payment),
        None if error.is_object() => Err(error_of(error)),
        None => Err(ProviderError::NoAnswer("answer_not_understood".to_owned())),
    }
}

fn payment(object: &Value) -> Option<ProviderPayment> {
    let provider_ref = ProviderRef::new(object["id"].as_str()?)?;
    let state = match object["status"].as_str()? {
        "requires_payment_method" => ProviderState::Declined(code_of(&object["last_payment_error"])),
        "requires_action" => ProviderState::RequiresAction(next_action(object)?),
        "requires_capture" => ProviderState::Authorized,
        // Everything is captured at once, so both are the same.
        "succeeded" => {
            ProviderState::Captured(object["amount_received"].as_u64().or(object["amount"].as_u64())?)
        }
        "canceled" => ProviderState::Cancelled,
        // `processing`, and `requires_confirmation`, which a confirmed PaymentIntent passes through.
        _ => ProviderState::Processing,
    };
    Some(ProviderPayment { provider_ref, state })
}

fn next_action(object: &Value) -> Option<BuyerAction> {
    let url = object["next_action"]["redirect_to_url"]["url"].as_str();
    match (url, object["client_secret"].as_str()) {
        (Some(url), _) => Some(BuyerAction::Redirect { url: url.to_owned() }),
        (None, Some(secret)) => Some(BuyerAction::ProviderSdk { client_secret: secret.to_owned() }),
        (None, None) => None,
    }
}

/// The most exact code of an error.
fn code_of(error: &Value) -> String {
    let members = ["decline_code", "code", "type"];
    let code = members.iter().find_map(|member| error[*member].as_str());
    code.unwrap_or("declined").to_owned()
}

fn error_of(error: &Value) -> ProviderError {
    match error["type"].as_str() {
        Some("card_error") => ProviderError::Declined(code_of(error)),
        Some("api_error") => ProviderError::Failed(code_of(error)),
        _ => ProviderError::Refused(code_of(error)),
    }
}

impl PaymentProvider for StripeProvider {
    fn authorize<'a>(
        &'a self,
        request: &'a PaymentRequest<'a>,
        method: &'a ProviderMethod,
    ) -> ProviderFuture<'a, ProviderPayment> {
        Box::pin(async move {
            let PaymentRequest { reservation_id, payment_id, charge, attempt, key, method: _, sent_after: _ } =
                *request;
            let terms = &charge.terms;
            let mut form = Form::default();
            form.add("amount", &charge.amount.to_string());
            form.add("currency", charge.currency.as_str());
            form.add("payment_method", method.method_ref.as_str());
            form.add("confirm", "true");
            form.add(
                "capture_method",
                match terms.capture {
                    CaptureMethod::AfterConfirm => "manual",
                    CaptureMethod::ChargeThenConfirm => "automatic",
                },
            );
            if let Some(customer) = &method.customer_ref {
                form.add("customer", customer.as_str());
            }
            match &terms.return_url {
                Some(url) => form.add("return_url", url),
                // Nobody is there who could do something.
                None => {
                    form.add("off_session", "true");
                    form.add("payment_method_types[]", "card");
                }
            }
            if let Some(description) = &terms.description {
                form.add("description", description);
            }
            form.add("metadata[reservation_id]", &reservation_id.to_string());
            form.add("metadata[payment_id]", payment_id);
            form.add("metadata[attempt]", &attempt.to_string());
            let answer = self.post("/v1/payment_intents".to_owned(), &form, key).await?;
            self.settled(answer).await
        })
    }

    fn retrieve<'a>(&'a self, provider_ref: &'a ProviderRef) -> ProviderFuture<'a, ProviderPayment> {
        Box::pin(async move {
            let answer = self.get(format!("/v1/payment_intents/{}", path(provider_ref))).await?;
            self.settled(answer).await
        })
    }

    /// By list and never by search, which lags behind.
    fn find<'a>(&'a self, request: &'a PaymentRequest<'a>) -> ProviderFuture<'a, Option<ProviderPayment>> {
        Box::pin(async move {
            let since = request.sent_after.millis() / 1_000 - CLOCK_MARGIN_SECONDS;
            let mut base = format!("/v1/payment_intents?limit={PAGE}&created%5Bgte%5D={}", since.max(0));
            if let Some(customer) = request.method.and_then(|method| method.customer_ref.as_ref()) {
                base.push_str("&customer=");
                base.push_str(&path(customer));
            }
            let mut after = String::new();
            for _ in 0..PAGES {
                let answer = self.get(format!("{base}{after}")).await?;
                let Some(data) = answer.json["data"].as_array() else {
                    return Err(error_of(&answer.json["error"]));
                };
                let attempt = request.attempt.to_string();
                let is_it = |object: &&Value| {
                    object["metadata"]["payment_id"] == request.payment_id
                        && object["metadata"]["attempt"] == attempt.as_str()
                };
                if let Some(found) = data.iter().find(is_it) {
                    let answer = HttpAnswer { status: answer.status, json: found.clone() };
                    return self.settled(answer).await.map(Some);
                }
                let last = data.last().and_then(|object| object["id"].as_str());
                match last {
                    Some(last) if answer.json["has_more"] == true => {
                        after = format!("&starting_after={last}");
                    }
                    _ => return Ok(None),
                }
            }
            Err(ProviderError::NoAnswer("too_many_payments".to_owned()))
        })
    }

    fn capture<'a>(
        &'a self,
        provider_ref: &'a ProviderRef,
        amount: u64,
        key: &'a str,
    ) -> ProviderFuture<'a, ProviderPayment> {
        Box::pin(async move {
            let mut form = Form::default();
            form.add("amount_to_capture", &amount.to_string());
            let answer =
                self.post(format!("/v1/payment_intents/{}/capture", path(provider_ref)), &form, key).await?;
            if answer.json["error"]["type"] == "card_error" {
                return Err(error_of(&answer.json["error"]));
            }
            intent(&answer)
        })
    }

    fn void<'a>(
        &'a self,
        provider_ref: &'a ProviderRef,
        key: &'a str,
    ) -> ProviderFuture<'a, ProviderPayment> {
        Box::pin(async move {
            let address = format!("/v1/payment_intents/{}/cancel", path(provider_ref));
            intent(&self.post(address, &Form::default(), key).await?)
        })
    }

    fn refund<'a>(&'a self, request: &'a RefundRequest<'a>) -> ProviderFuture<'a, ()> {
        Box::pin(async move {
            let mut form = Form::default();
            form.add("payment_intent", request.provider_ref.as_str());
            form.add("amount", &request.amount.to_string());
            form.add("metadata[attempt]", &request.attempt.to_string());
            let answer = self.post("/v1/refunds".to_owned(), &form, request.key).await?;
            let error = &answer.json["error"];
            if error.is_object() {
                return Err(ProviderError::Declined(code_of(error)));
            }
            match answer.json["status"].as_str() {
                Some("succeeded" | "pending" | "requires_action") => Ok(()),
                Some(status) => {
                    let reason = answer.json["failure_reason"].as_str().unwrap_or(status);
                    Err(ProviderError::Declined(reason.to_owned()))
                }
                None => Err(ProviderError::NoAnswer("answer_not_understood".to_owned())),
            }
        })
    }

    fn has_refunded<'a>(&'a self, request: &'a RefundRequest<'a>) -> ProviderFuture<'a, bool> {
        Box::pin(async move {
            let address = format!("/v1/refunds?limit={PAGE}&payment_intent={}", path(request.provider_ref));
            let answer = self.get(address).await?;
            let Some(data) = answer.json["data"].as_array() else {
                return Err(error_of(&answer.json["error"]));
            };
            let attempt = request.attempt.to_string();
            Ok(data.iter().any(|refund| {
                refund["metadata"]["attempt"] == attempt.as_str()
                    && !matches!(refund["status"].as_str(), Some("failed" | "canceled"))
            }))
        })
    }

    fn read_webhook(
        &self,
        headers: WebhookHeaders<'_>,
        body: &[u8],
        now: Instant,
    ) -> Result<Option<ReservationId>, String> {
        let secret = self.webhook_secret.as_deref();
        let secret = secret.ok_or("the server has no webhook_secret of [providers.stripe]")?;
        signature::check(headers.stripe_signature, secret, body, now)?;
        let event: Value = serde_json::from_slice(body).map_err(|_| "its body is not JSON".to_owned())?;
        let id = event["data"]["object"]["metadata"]["reservation_id"].as_str();
        Ok(id.and_then(reservation_id))
    }
}

fn path(text: &ProviderRef) -> String {
    utf8_percent_encode(text.as_str(), ENCODED).to_string()
}

/// The members of a form.
#[derive(Default)]
struct Form(String);

impl Form {
    fn add(&mut self, name: &str, value: &str) {
        if !self.0.is_empty() {
            self.0.push('&');
        }
        self.0.extend(utf8_percent_encode(name, ENCODED));
        self.0.push('=');
        self.0.extend(utf8_percent_encode(value, ENCODED));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::StatusCode;
    use serde_json::json;

    fn read(json: Value) -> Result<ProviderPayment, ProviderError> {
        intent(&HttpAnswer { status: StatusCode::OK, json })
    }

    #[test]
    fn every_status_of_a_payment_intent_is_understood() {
        let with = |status: &str| {
            json!({
                "id": "pi_1", "status": status, "amount_received": 1_990, "client_secret": "pi_1_secret_2",
                "last_payment_error": { "type": "card_error", "code": "card_declined", "decline_code": "lost_card" },
            })
        };
        let state = |status: &str| read(with(status)).unwrap().state;
        assert_eq!(state("requires_payment_method"), ProviderState::Declined("lost_card".to_owned()));
        let sdk = BuyerAction::ProviderSdk { client_secret: "pi_1_secret_2".to_owned() };
        assert_eq!(state("requires_action"), ProviderState::RequiresAction(sdk));
        assert_eq!(state("processing"), ProviderState::Processing);
        assert_eq!(state("requires_confirmation"), ProviderState::Processing);
        assert_eq!(state("requires_capture"), ProviderState::Authorized);
        assert_eq!(state("succeeded"), ProviderState::Captured(1_990));
        assert_eq!(state("canceled"), ProviderState::Cancelled);
        let mut redirect = with("requires_action");
        redirect["next_action"] = json!({ "redirect_to_url": { "url": "https://bank.example/3ds" } });
        let url = "https://bank.example/3ds".to_owned();
        assert_eq!(
            read(redirect).unwrap().state,
            ProviderState::RequiresAction(BuyerAction::Redirect { url })
        );
    }

    #[test]
    fn an_error_has_its_code_and_the_payment_that_it_is_about() {
        let declined = json!({ "error": {
            "type": "card_error", "code": "card_declined", "decline_code": "insufficient_funds",
            "payment_intent": { "id": "pi_2", "status": "requires_payment_method",
                "last_payment_error": { "decline_code": "insufficient_funds" } },
        } });
        assert_eq!(read(declined).unwrap().state, ProviderState::Declined("insufficient_funds".to_owned()));
        let without = json!({ "error": { "type": "card_error", "code": "expired_card" } });
        assert_eq!(read(without), Err(ProviderError::Declined("expired_card".to_owned())));
        let wrong = json!({ "error": { "type": "invalid_request_error", "code": "resource_missing" } });
        assert_eq!(read(wrong), Err(ProviderError::Refused("resource_missing".to_owned())));
        let captured = json!({ "error": { "type": "invalid_request_error", "code": "payment_intent_unexpected_state",
            "payment_intent": { "id": "pi_3", "status": "succeeded", "amount_received": 5 } } });
        assert_eq!(read(captured).unwrap().state, ProviderState::Captured(5));
        assert!(matches!(read(json!({})), Err(ProviderError::NoAnswer(_))));
    }

    #[test]
    fn a_form_has_no_character_that_would_end_a_member() {
        let mut form = Form::default();
        form.add("metadata[a]", "x&y=z é");
        assert_eq!(form.0, "metadata%5Ba%5D=x%26y%3Dz%20%C3%A9");
    }
}
