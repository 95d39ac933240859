//! The broker's side of SASL in Kafka's protocol, in front of a broker that does not have it. Until a client has said who it is, only its
//! question about versions passes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};
use std::io;
use std::num::NonZeroU32;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

pub(super) const USER: &str = "shop";
pub(super) const PASSWORD: &str = "p@ss/word";

const SASL_HANDSHAKE: i16 = 17;
const API_VERSIONS: i16 = 18;
const SASL_AUTHENTICATE: i16 = 36;
/// The error code of a wrong user or password.
const AUTHENTICATION_FAILED: i16 = 58;
/// The version of `SaslAuthenticate` whose fields are compact.
const COMPACT_VERSION: i16 = 2;
/// Longest frame before a client is known.
const FRAME_BYTES: usize = 64 * 1024;
const SALT: &[u8] = b"salt of the test";
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4_096).unwrap();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mechanism {
    Plain,
    ScramSha256,
}

impl Mechanism {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
        }
    }
}

/// Lets the client say who it is. An error if it says anything else, or is not the user.
pub(super) async fn authenticate(
    client: &mut (impl AsyncRead + AsyncWrite + Unpin),
    broker: &mut (impl AsyncRead + AsyncWrite + Unpin),
    mechanism: Mechanism,
) -> io::Result<()> {
    let mut exchange = Exchange { mechanism, first: None };
    loop {
        let frame = read_frame(client).await?;
        let (api, version) = (number(&frame, 0), number(&frame, 2));
        let correlation = &frame[4..8];
        // The name of the client.
        let body = &frame[10 + usize::try_from(number(&frame, 8)).unwrap()..];
        match api {
            API_VERSIONS => {
                write_frame(broker, &frame).await?;
                let answer = read_frame(broker).await?;
                write_frame(client, &answer).await?;
            }
            SASL_HANDSHAKE => {
                let name = mechanism.name().as_bytes();
                let length = u16::try_from(name.len()).unwrap().to_be_bytes();
                let offered = [correlation, &[0, 0, 0, 0, 0, 1], &length, name].concat();
                write_frame(client, &offered).await?;
                if body.get(2..) != Some(name) {
                    return Err(io::Error::other("another mechanism"));
                }
            }
            SASL_AUTHENTICATE => {
                let is_compact = version >= COMPACT_VERSION;
                let step = exchange.step(&message(body, is_compact));
                write_frame(client, &answer(correlation, version, step.as_ref())).await?;
                match step {
                    Some(Step { is_last: true, .. }) => return Ok(()),
                    Some(_) => {}
                    None => return Err(io::Error::other("not the user")),
                }
            }
            _ => return Err(io::Error::other("the client has not said who it is")),
        }
    }
}

/// What the broker says next.
struct Step {
    message: Vec<u8>,
    is_last: bool,
}

struct Exchange {
    mechanism: Mechanism,
    /// Of SCRAM: the first message of the client without its header, and that of the broker.
    first: Option<(String, String)>,
}

impl Exchange {
    /// `None` if it is not the user.
    fn step(&mut self, message: &[u8]) -> Option<Step> {
        let text = std::str::from_utf8(message).unwrap();
        if self.mechanism == Mechanism::Plain {
            let is_user = text == format!("\0{USER}\0{PASSWORD}");
            return is_user.then(|| Step { message: Vec::new(), is_last: true });
        }
        let Some((client_first, broker_first)) = self.first.take() else {
            let bare = text.strip_prefix("n,,").unwrap();
            let nonce = bare.strip_prefix(&format!("n={USER},r="))?;
            let salt = STANDARD.encode(SALT);
            let answer = format!("r={nonce}broker,s={salt},i={ITERATIONS}");
            self.first = Some((bare.to_owned(), answer.clone()));
            return Some(Step { message: answer.into_bytes(), is_last: false });
        };
        let (without_proof, proof) = text.rsplit_once(",p=").unwrap();
        let signed = format!("{client_first},{broker_first},{without_proof}");
        let mut salted = [0; 32];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ITERATIONS, SALT, PASSWORD.as_bytes(), &mut salted);
        let sign = |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
        let client_key = sign(&salted, b"Client Key");
        let stored_key = digest::digest(&digest::SHA256, client_key.as_ref());
        let signature = sign(stored_key.as_ref(), signed.as_bytes());
        let expected: Vec<u8> =
            client_key.as_ref().iter().zip(signature.as_ref()).map(|(key, signed)| key ^ signed).collect();
        if STANDARD.decode(proof).unwrap() != expected {
            return None;
        }
        let broker_key = sign(&salted, b"Server Key");
        let signature = STANDARD.encode(sign(broker_key.as_ref(), signed.as_bytes()));
        Some(Step { message: format!("v={signature}").into_bytes(), is_last: true })
    }
}

/// The message in a request. Those of the tests are shorter than 128 bytes, or 16 KiB if they are compact.
fn message(body: &[u8], is_compact: bool) -> Vec<u8> {
    if !is_compact {
        return body[4..].to_vec();
    }
    // Behind the tagged fields of the head, of which there are none.
    let (length, at) = match (usize::from(body[1]), usize::from(body[2])) {
        (low, high) if low >= 0x80 => ((low & 0x7f) | (high << 7), 3),
        (low, _) => (low, 2),
    };
    body[at..at + length - 1].to_vec()
}

fn answer(correlation: &[u8], version: i16, step: Option<&Step>) -> Vec<u8> {
    let code = if step.is_some() { 0 } else { AUTHENTICATION_FAILED }.to_be_bytes();
    let message = step.map(|step| step.message.as_slice()).unwrap_or_default();
    let mut answer = correlation.to_vec();
    if version < COMPACT_VERSION {
        answer.extend(code);
        answer.extend((-1_i16).to_be_bytes());
        answer.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        answer.extend(message);
        answer.extend(if version == 1 { &[0_u8; 8][..] } else { &[] });
        return answer;
    }
    answer.push(0);
    answer.extend(code);
    answer.push(0);
    let length = message.len() + 1;
    if length >= 0x80 {
        answer.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        answer.push(u8::try_from(length >> 7).unwrap());
    } else {
        answer.push(u8::try_from(length).unwrap());
    }
    answer.extend(message);
    answer.extend([0; 9]);
    answer
}

fn number(frame: &[u8], at: usize) -> i16 {
    i16::from_be_bytes([frame[at], frame[at + 1]])
}

async fn read_frame(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = usize::try_from(stream.read_u32().await?).unwrap();
    assert!(length <= FRAME_BYTES);
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame).await?;
    Ok(frame)
}

async fn write_frame(stream: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> io::Result<()> {
    stream.write_u32(u32::try_from(frame.len()).unwrap()).await?;
    stream.write_all(frame).await?;
    stream.flush().await
}
