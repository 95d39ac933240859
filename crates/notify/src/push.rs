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
use std::time::Duration;
use stockhold_api::client::{Client, Raw};
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
}

struct AccessToken {
    text: String,
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
        })
    }

    /// Sends a message. The app recognizes a repetition by `id` in its data.
    pub(crate) async fn send(&self, to: &str, id: &str, kind: &str, text: &RenderedText) -> Verdict {
        let token = match self.access_token().await {
            Ok(token) => token,
            Err(what) => return Verdict::Later(what),
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
            *self.token.lock().await = None;
        }
        verdict(&answer)
    }

    /// The access token, a new one if the old one ends soon.
    async fn access_token(&self) -> Result<String, String> {
        let mut token = self.token.lock().await;
        let now = u64::try_from(self.clock.now().millis() / 1_000).unwrap_or(0);
        if let Some(token) = token.as_ref().filter(|token| token.ends_at > now + RENEWED_BEFORE_SECONDS) {
            return Ok(token.text.clone());
        }
        let assertion = self.assertion(now)?;
        let body =
            format!("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion={assertion}");
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let answer =
            self.token_client.send_raw_with("POST", &self.token_path, &headers, body.as_bytes()).await;
        let answer = answer.map_err(|_| "the token service of push can't be reached".to_owned())?;
        if answer.status != 200 {
            return Err(format!("the token service of push answered {}", answer.status));
        }
        let read: TokenAnswer = serde_json::from_slice(&answer.body)
            .map_err(|_| "the answer of the token service of push is wrong".to_owned())?;
        let ends_at = now.saturating_add(read.expires_in);
        *token = Some(AccessToken { text: read.access_token.clone(), ends_at });
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

/// What an answer means. A token that is not registered any more, or is none, is refused for good.
fn verdict(answer: &Raw) -> Verdict {
    let what = format!("the push service answered {}", answer.status);
    match answer.status {
        200..300 => Verdict::Sent,
        400 | 404 => Verdict::Refused(what),
        _ => Verdict::Later(what),
    }
}
