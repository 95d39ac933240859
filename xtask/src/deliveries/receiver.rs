//! A receiver of webhooks: it answers every request with 204 and hands the event on.

use crate::Outcome;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// Listens until the process ends.
pub(super) fn listen(take: impl Fn(&Value) + Send + Sync + 'static) -> Outcome<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let take = Arc::new(take);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let take = Arc::clone(&take);
            // A connection that ends in an error is the sender's to open again.
            std::thread::spawn(move || answer(&stream, &*take).ok());
        }
    });
    Ok(address)
}

fn answer(mut stream: &TcpStream, take: &dyn Fn(&Value)) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut line, mut body) = (String::new(), Vec::new());
    loop {
        let mut length = 0;
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line == "\r\n" {
                break;
            }
            let field = line.split_once(':');
            if let Some((_, value)) = field.filter(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        body.resize(length, 0);
        reader.read_exact(&mut body)?;
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
        if let Ok(event) = serde_json::from_slice(&body) {
            take(&event);
        }
    }
}
