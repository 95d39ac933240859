//! Push messages, in the HTTP v1 form of Firebase Cloud Messaging.
//!
//! <https://firebase.google.com/docs/cloud-messaging/send/v1-api> and <https://developers.google.com/identity/protocols/oauth2/service-account>.

use crate::templates::RenderedText;
use crate::verdict::Verdict;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde::Deserialize;
use serde_json::{Value, json};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stockhold_api::client::{Client, Raw};
use stockhold_api::printable::quote;
use stockhold_store::clock::Clock;
use tokio::sync::Mutex;

/// The address of the service.
const API_BASE: &str = "https://fcm.googleapis.com";
/// What the access token may be used for.
const SCOPE: &str = "https://www.googleapis.com/auth/firebase.messaging";
/// How long the signed request for an access token is valid.
const ASSERTION_SECONDS: u64 = 3_600;
/// A token is renewed so long before its end.
const RENEWED_BEFORE_SECONDS: u64 = 300;
const ACT_ON_ACCOUNT: &str = "have the owner of the push project let this service account send messages, or correct \
     notifications.push.service_account_file";
/// Longest time that a request may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How push messages are sent.
#[derive(Clone, Debug)]
pub struct PushOptions {
    /// The address of the service; Google's when absent.
    pub api_base: Option<String>,
    /// The file with the service account's key, as Google's console gives it.
    pub service_account_file: PathBuf,
}

/// The members of the file of a service account that are needed.
#[derive(Deserialize)]
struct ServiceAccount {
    project_id: String,
    client_email: String,
    private_key: String,
    token_uri: String,
}

/// Sends push messages.
pub(crate) struct PushSender {
    client: Client,
    token_client: Client,
    token_path: String,
    project_id: String,
    client_email: String,
    token_uri: String,
    key: RsaKeyPair,
    clock: Arc<dyn Clock>,
    token: Mutex<Option<AccessToken>>,
    /// Whether the last message was refused because of its access token.
    was_refused: AtomicBool,
}

struct AccessToken {
    text: String,
    /// Whether it took the place of one that the service refused.
    is_renewed: bool,
    /// In seconds since 1970.
    ends_at: u64,
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    expires_in: u64,
}

impl PushSender {
    /// Reads the key. It connects at the first message.
    pub(crate) fn new(options: &PushOptions, clock: Arc<dyn Clock>) -> Result<Self, String> {
        let file = &options.service_account_file;
        let wrong = |what: &str| format!("service_account_file: {}: {what}", file.display());
        let account = read_account(file).map_err(|error| wrong(&error))?;
        let pem = pem::parse(&account.private_key).map_err(|_| wrong("private_key is no PEM"))?;
        let key = RsaKeyPair::from_pkcs8(pem.contents()).map_err(|_| wrong("private_key is no RSA key"))?;
        let (token_base, token_path) = split_address(&account.token_uri)
            .ok_or_else(|| wrong("token_uri is no address with http:// or https://"))?;
        let tries = NonZeroU32::MIN;
        let client = |base: &str| {
            let client = Client::new(base).map_err(|error| error.to_string())?;
            Ok::<_, String>(client.with_patience(tries, TIMEOUT))
        };
        let base = options.api_base.as_deref().unwrap_or(API_BASE);
        Ok(Self {
            client: client(base).map_err(|error| format!("api_base: {error}"))?,
            token_client: client(&token_base).map_err(|error| wrong(&error))?,
            token_path,
            project_id: account.project_id,
            client_email: account.client_email,
            token_uri: account.token_uri,
            key,
            clock,
            token: Mutex::new(None),
            was_refused: AtomicBool::new(false),
        })
    }

    /// Sends a message. The app recognizes a repetition by `id` in its data.
    pub(crate) async fn send(&self, to: &str, id: &str, kind: &str, text: &RenderedText) -> Verdict {
        let token = match self.access_token().await {
            Ok(token) => token,
            Err(verdict) => return verdict,
        };
        let body = json!({ "message": {
            "token": to,
            "notification": { "title": text.subject, "body": text.text.trim() },
            "data": { "id": id, "kind": kind },
        } });
        let path = format!("/v1/projects/{}/messages:send", self.project_id);
        let authorization = format!("Bearer {token}");
        let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
        let sent = self.client.send_raw_with("POST", &path, &headers, body.to_string().as_bytes()).await;
        let Ok(answer) = sent else { return Verdict::Later("the push service can't be reached".to_owned()) };
        if answer.status == 401 {
            // A token that has just been made should be good.
            let used = self.token.lock().await.take();
            let is_renewed = used.is_some_and(|used| used.is_renewed && used.text == token);
            self.was_refused.store(true, Ordering::Relaxed);
            return if is_renewed { verdict(&answer) } else { Verdict::Later(words(&answer)) };
        }
        self.was_refused.store(false, Ordering::Relaxed);
        verdict(&answer)
    }

    /// The access token, a new one if the old one ends soon.
    async fn access_token(&self) -> Result<String, Verdict> {
        let mut token = self.token.lock().await;
        let now = u64::try_from(self.clock.now().millis() / 1_000).unwrap_or(0);
        if let Some(token) = token.as_ref().filter(|token| token.ends_at > now + RENEWED_BEFORE_SECONDS) {
            return Ok(token.text.clone());
        }
        let assertion = self.assertion(now).map_err(|what| Verdict::Blocked(what, ACT_ON_ACCOUNT))?;
        let body =
            format!("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion={assertion}");
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let answer =
            self.token_client.send_raw_with("POST", &self.token_path, &headers, body.as_bytes()).await;
        let later = |what: &str| Verdict::Later(what.to_owned());
        let answer = answer.map_err(|_| later("the token service of push can't be reached"))?;
        if answer.status != 200 {
            let said = quote(&String::from_utf8_lossy(&answer.body));
            let what = quote(&format!("the token service of push answered {}: {said}", answer.status));
            // It knows the account, or it does not.
            let is_final = matches!(answer.status, 400 | 401 | 403 | 404);
            return Err(if is_final { Verdict::Blocked(what, ACT_ON_ACCOUNT) } else { Verdict::Later(what) });
        }
        let read: TokenAnswer = serde_json::from_slice(&answer.body)
            .map_err(|_| later("the answer of the token service of push is wrong"))?;
        let ends_at = now.saturating_add(read.expires_in);
        let is_renewed = self.was_refused.load(Ordering::Relaxed);
        *token = Some(AccessToken { text: read.access_token.clone(), ends_at, is_renewed });
        Ok(read.access_token)
    }

    /// The signed request for an access token.
    fn assertion(&self, now: u64) -> Result<String, String> {
        let header = json!({ "alg": "RS256", "typ": "JWT" });
        let claims = json!({
            "iss": self.client_email,
            "scope": SCOPE,
            "aud": self.token_uri,
            "iat": now,
            "exp": now + ASSERTION_SECONDS,
        });
        let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(&claims));
        let mut signature = vec![0; self.key.public().modulus_len()];
        self.key
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature)
            .map_err(|_| "the key of the service account can't sign".to_owned())?;
        Ok(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }
}

fn read_account(file: &Path) -> Result<ServiceAccount, String> {
    let text = std::fs::read(file).map_err(|error| error.to_string())?;
    // The text of an error could quote the key.
    serde_json::from_slice(&text)
        .map_err(|error| format!("line {}: is no service account's key", error.line()))
}

/// The origin of an address, and its path.
fn split_address(address: &str) -> Option<(String, String)> {
    let (scheme, rest) = address.split_once("://")?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let is_known = ["http", "https"].contains(&scheme) && !authority.is_empty();
    is_known.then(|| (format!("{scheme}://{authority}"), format!("/{path}")))
}

/// What an answer means, by the error codes of the service: <https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode>. What is about
/// one token must not keep other buyers from being told.
fn verdict(answer: &Raw) -> Verdict {
    let what = words(answer);
    let code = error_code(answer);
    match (answer.status, code.as_deref()) {
        (200..300, _) => Verdict::Sent,
        (_, Some("UNREGISTERED" | "SENDER_ID_MISMATCH")) | (400, _) => Verdict::Refused(what),
        // The service could not hand it to Apple or to a browser's service, which may be true of all such devices. A 404 without a code
        // of the service is an unregistered token, or a project that does not exist.
        (_, Some("THIRD_PARTY_AUTH_ERROR")) | (404, _) => Verdict::Aside(what),
        (401 | 403, _) => Verdict::Blocked(what, ACT_ON_ACCOUNT),
        _ => Verdict::Later(what),
    }
}

/// The code of an error: that of the service if there is one.
fn error_code(answer: &Raw) -> Option<String> {
    let body: Value = serde_json::from_slice(&answer.body).ok()?;
    let details = body["error"]["details"].as_array()?;
    details.iter().find_map(|detail| detail["errorCode"].as_str()).map(str::to_owned)
}

/// What the service said. A message of the service may quote the device's token, so only its codes are shown.
fn words(answer: &Raw) -> String {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let status = body["error"]["status"].as_str().unwrap_or_default();
    let code = error_code(answer).unwrap_or_default();
    quote(&format!("the push service answered {} {status} {code}", answer.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(
        clippy::default_trait_access,
        reason = "the type of the headers is of a library that this crate does not have"
    )]
    #[test]
    fn what_is_about_one_token_is_told_from_what_is_about_all() {
        let answer = |status: u16, code: Option<&str>| {
            let details = code.map(|code| json!([{ "@type": "type.googleapis.com/x", "errorCode": code }]));
            let body = json!({ "error": { "status": "S", "message": "device-1", "details": details } });
            let body = body.to_string().into_bytes().into();
            verdict(&Raw { status, headers: Default::default(), body })
        };
        assert_eq!(answer(200, None), Verdict::Sent);
        for (status, code) in [(404, "UNREGISTERED"), (403, "SENDER_ID_MISMATCH"), (400, "INVALID_ARGUMENT")]
        {
            let said = format!("the push service answered {status} S {code}");
            assert_eq!(answer(status, Some(code)), Verdict::Refused(said));
        }
        assert!(matches!(answer(401, Some("THIRD_PARTY_AUTH_ERROR")), Verdict::Aside(_)));
        assert!(matches!(answer(404, None), Verdict::Aside(_)));
        assert!(matches!(answer(403, None), Verdict::Blocked(..)));
        for (status, code) in [(429, "QUOTA_EXCEEDED"), (503, "UNAVAILABLE"), (500, "INTERNAL")] {
            assert!(matches!(answer(status, Some(code)), Verdict::Later(_)), "{status}");
        }
    }
}
