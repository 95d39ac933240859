//! A stand-in for Firebase Cloud Messaging, which can't be had: the token endpoint, which checks the signature of the request, and the
//! endpoint for messages, in their HTTP forms.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

/// What it was sent, and how it answers.
#[derive(Default)]
pub(super) struct State {
    /// The messages that it has taken.
    pub(super) messages: Vec<Value>,
    /// How often an access token was asked for.
    pub(super) tokens: usize,
    /// The next answers to messages: the status, and the error code of the service.
    pub(super) answers: Vec<(u16, &'static str)>,
    /// Whether it knows the service account.
    pub(super) knows_nobody: bool,
}

pub(super) struct PushService {
    pub(super) url: String,
    pub(super) state: Arc<Mutex<State>>,
}

impl PushService {
    /// Starts it, and writes the file of a service account that it knows.
    pub(super) fn start(account: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let made = Command::new("openssl")
            .args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"])
            .output()
            .unwrap();
        let private_key = String::from_utf8(made.stdout).unwrap();
        let lines: String = private_key.lines().filter(|line| !line.starts_with("-----")).collect();
        let der = base64::prelude::BASE64_STANDARD.decode(lines).unwrap();
        let public_key = RsaKeyPair::from_pkcs8(&der).unwrap().public_key().as_ref().to_vec();
        let file = json!({
            "type": "service_account",
            "project_id": "tea-shop",
            "private_key": private_key,
            "client_email": "push@tea-shop.example",
            "token_uri": format!("{url}/token"),
        });
        fs::write(account, file.to_string()).unwrap();
        let state: Arc<Mutex<State>> = Arc::default();
        let (kept, audience) = (Arc::clone(&state), format!("{url}/token"));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (kept, audience, key) = (Arc::clone(&kept), audience.clone(), public_key.clone());
                thread::spawn(move || serve(stream.unwrap(), &kept, &audience, &key));
            }
        });
        Self { url, state }
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>, audience: &str, key: &[u8]) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some((path, authorization, body)) = request(&mut reader) {
        let (status, answer) = match path.as_str() {
            "/token" => token(&body, audience, key, state),
            "/v1/projects/tea-shop/messages:send" if authorization == "Bearer access-1" => {
                let mut state = state.lock().unwrap();
                let (status, code) =
                    if state.answers.is_empty() { (200, "") } else { state.answers.remove(0) };
                let message: Value = serde_json::from_str(&body).unwrap();
                if status == 200 {
                    state.messages.push(message["message"].clone());
                }
                let detail = json!({ "@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code });
                let details = if code.is_empty() { json!([]) } else { json!([detail]) };
                (
                    status,
                    json!({ "error": { "code": status, "status": "X", "message": "device-x", "details": details } }),
                )
            }
            _ => (401, json!({})),
        };
        let text = answer.to_string();
        let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{text}", text.len());
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Checks the signed request for an access token.
fn token(body: &str, audience: &str, key: &[u8], state: &Mutex<State>) -> (u16, Value) {
    let assertion = body
        .strip_prefix("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=")
        .unwrap_or_default();
    let (signed, signature) = assertion.rsplit_once('.').unwrap_or_default();
    let decoded = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).unwrap_or_default();
    let is_signed = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key)
        .verify(signed.as_bytes(), &decoded(signature))
        .is_ok();
    let claims = signed.split_once('.').map(|(_, claims)| decoded(claims)).unwrap_or_default();
    let claims: Value = serde_json::from_slice(&claims).unwrap_or_default();
    let lasts = claims["exp"].as_u64().unwrap_or(0).saturating_sub(claims["iat"].as_u64().unwrap_or(0));
    let fits = claims["iss"] == "push@tea-shop.example"
        && claims["aud"] == audience
        && claims["scope"] == "https://www.googleapis.com/auth/firebase.messaging"
        && (1..=3_600).contains(&lasts);
    if !is_signed || !fits || state.lock().unwrap().knows_nobody {
        return (400, json!({ "error": "invalid_grant", "error_description": "account not found" }));
    }
    state.lock().unwrap().tokens += 1;
    (200, json!({ "access_token": "access-1", "expires_in": 3_600, "token_type": "Bearer" }))
}

/// The path, the credentials and the body of a request.
fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, String, String)> {
    let (mut first, mut authorization, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => value.clone_into(&mut authorization),
            "content-length" => length = value.parse().unwrap(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let path = first.split(' ').nth(1)?.to_owned();
    Some((path, authorization, String::from_utf8(body).ok()?))
}
