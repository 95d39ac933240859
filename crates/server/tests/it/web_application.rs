//! A web application that gets webhooks and keeps them.

use crate::support::wait_for;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request that the application got.
#[derive(Clone)]
pub(crate) struct Delivery {
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Delivery {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found: Vec<_> = self.headers.iter().filter(|(one, _)| one == name).collect();
        assert_eq!(found.len(), 1, "{name}");
        &found[0].1
    }

    pub(crate) fn event(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn kind(&self) -> String {
        self.event()["type"].as_str().unwrap().to_owned()
    }

    /// How many of its signatures are by each of these secrets.
    pub(crate) fn signed_by(&self, secrets: &[&str]) -> Vec<usize> {
        let (id, timestamp) = (self.header("webhook-id"), self.header("webhook-timestamp"));
        assert_eq!(self.event()["id"], id);
        assert_eq!(self.header("content-type"), "application/cloudevents+json");
        let mut signed = format!("{id}.{timestamp}.").into_bytes();
        signed.extend_from_slice(&self.body);
        let signatures: Vec<_> = self.header("webhook-signature").split(' ').collect();
        let count = |secret: &&str| {
            let bytes = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
            let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &bytes);
            let is_valid = |signature: &&&str| {
                let tag = STANDARD.decode(signature.strip_prefix("v1,").unwrap()).unwrap();
                ring::hmac::verify(&key, &signed, &tag).is_ok()
            };
            signatures.iter().filter(is_valid).count()
        };
        secrets.iter().map(count).collect()
    }
}

/// How the application answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// With this status.
    Status(u16),
    /// With this status, and a header.
    With(u16, &'static str, &'static str),
    /// Never.
    Hang,
    /// With status 200 and a body without an end.
    Endless,
    /// With this status and a part of the body, and then with nothing.
    Unfinished(u16),
}

/// A web application.
pub(crate) struct Application {
    pub(crate) url: String,
    deliveries: Arc<Mutex<Vec<Delivery>>>,
    answer: Arc<Mutex<Answer>>,
}

impl Application {
    pub(crate) fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let deliveries: Arc<Mutex<Vec<Delivery>>> = Arc::default();
        let answer = Arc::new(Mutex::new(answer));
        let (kept, answers) = (Arc::clone(&deliveries), Arc::clone(&answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (kept, answers) = (Arc::clone(&kept), Arc::clone(&answers));
                std::thread::spawn(move || {
                    // A sender that is killed leaves half a request.
                    if let Some((delivery, stream)) = read(stream.unwrap()) {
                        kept.lock().unwrap().push(delivery);
                        let answer = *answers.lock().unwrap();
                        let _ = write(stream, answer);
                    }
                });
            }
        });
        Self { url, deliveries, answer }
    }

    /// Answers in another way from now on.
    pub(crate) fn set_answer(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    pub(crate) fn deliveries(&self) -> Vec<Delivery> {
        self.deliveries.lock().unwrap().clone()
    }

    /// Waits for so many deliveries.
    pub(crate) fn wait_for(&self, count: usize) -> Vec<Delivery> {
        wait_for("deliveries", || {
            let deliveries = self.deliveries();
            (deliveries.len() >= count).then_some(deliveries)
        })
    }

    /// Waits for a delivery of this type, and returns the newest one.
    pub(crate) fn wait_for_kind(&self, kind: &str) -> Delivery {
        wait_for(kind, || self.deliveries().into_iter().rev().find(|delivery| delivery.kind() == kind))
    }

    /// Forgets what it got.
    pub(crate) fn forget(&self) {
        self.deliveries.lock().unwrap().clear();
    }
}

fn read(stream: TcpStream) -> Option<(Delivery, TcpStream)> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).ok()?;
    let path = line.strip_prefix("POST ")?.split(' ').next()?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = &headers.iter().find(|(name, _)| name == "content-length")?.1;
    let mut body = vec![0; length.parse().ok()?];
    stream.read_exact(&mut body).ok()?;
    Some((Delivery { path, headers, body }, stream.into_inner()))
}

fn write(mut stream: TcpStream, answer: Answer) -> std::io::Result<()> {
    let head = |status: u16, header: &str| {
        format!("HTTP/1.1 {status} Status\r\ncontent-length: 0\r\nconnection: close\r\n{header}\r\n")
    };
    match answer {
        Answer::Status(status) => stream.write_all(head(status, "").as_bytes()),
        Answer::With(status, name, value) => {
            stream.write_all(head(status, &format!("{name}: {value}\r\n")).as_bytes())
        }
        Answer::Hang => {
            // Until the sender gives up.
            let _ = stream.read(&mut [0]);
            Ok(())
        }
        Answer::Unfinished(status) => {
            stream
                .write_all(format!("HTTP/1.1 {status} Status\r\ncontent-length: 100\r\n\r\n{{").as_bytes())?;
            let _ = stream.read(&mut [0]);
            Ok(())
        }
        Answer::Endless => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
            loop {
                stream.write_all(&[b'x'; 4_096])?;
            }
        }
    }
}
