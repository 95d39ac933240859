//! A subscriber to everything that a NATS server is sent. The protocol is text: <https://docs.nats.io/reference/reference-protocols/nats-protocol>.
//! A subscription outside of `JetStream` shows what was published twice, too.

use crate::{Outcome, fail};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

const SUBJECTS: &str = "stockhold.>";

/// Hands every event to `take`, in the order of the server, until the connection ends.
pub(super) fn subscribe(url: &str, mut take: impl FnMut(&Value) + Send + 'static) -> Outcome<()> {
    let address = url.trim_start_matches("nats://");
    let mut stream = TcpStream::connect(address)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    if !line.starts_with("INFO ") {
        return fail(format!("NATS begins with {line:?}"));
    }
    write!(stream, "CONNECT {{\"verbose\":false,\"headers\":true}}\r\nSUB {SUBJECTS} 1\r\nPING\r\n")?;
    // The answer to the ping says that the subscription counts.
    line.clear();
    reader.read_line(&mut line)?;
    if line.trim_end() != "PONG" {
        return fail(format!("NATS answers {line:?}"));
    }
    std::thread::spawn(move || {
        let mut body = Vec::new();
        loop {
            line.clear();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |word: Option<&&str>| word.and_then(|word| word.parse::<usize>().ok()).unwrap_or(0);
            let (head, length) = match words.first() {
                Some(&"MSG") => (0, number(words.last())),
                // With headers: their length, and that of all.
                Some(&"HMSG") => (number(words.get(words.len().saturating_sub(2))), number(words.last())),
                Some(&"PING") => {
                    stream.write_all(b"PONG\r\n").ok();
                    continue;
                }
                _ => continue,
            };
            // The line end follows.
            body.resize(length + 2, 0);
            if reader.read_exact(&mut body).is_err() {
                return;
            }
            if let Ok(event) = serde_json::from_slice(&body[head..length]) {
                take(&event);
            }
        }
    });
    Ok(())
}
