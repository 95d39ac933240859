//! A proxy between a client and a server that loses answers: the server has done its work, and the client hears nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Passes every connection of HTTP/1.1 on, and closes it before the answer of every second request.
pub(super) struct LossyProxy {
    pub(super) url: String,
    requests: Arc<AtomicUsize>,
}

impl LossyProxy {
    pub(super) fn start(server: &str) -> Self {
        let address = server.strip_prefix("http://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (address, counted) = (address.clone(), Arc::clone(&counted));
                // An error ends the connection, which is what the client is tested with.
                thread::spawn(move || serve(client?, &address, &counted));
            }
        });
        Self { url, requests }
    }

    /// The number of answers that were lost.
    pub(super) fn lost(&self) -> usize {
        self.requests.load(Ordering::Relaxed).div_ceil(2)
    }
}

fn serve(mut client: TcpStream, address: &str, requests: &AtomicUsize) -> std::io::Result<()> {
    let mut from_client = BufReader::new(client.try_clone()?);
    let mut server = TcpStream::connect(address)?;
    let mut from_server = BufReader::new(server.try_clone()?);
    while let Some(request) = message(&mut from_client)? {
        let is_lost = requests.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        server.write_all(&request)?;
        let Some(answer) = message(&mut from_server)? else { break };
        if is_lost {
            break;
        }
        client.write_all(&answer)?;
    }
    client.shutdown(std::net::Shutdown::Both)
}

/// One message of HTTP/1.1 with a length, or nothing at the end.
fn message(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Vec<u8>>> {
    let (mut message, mut length) = (Vec::new(), 0);
    loop {
        let begin = message.len();
        if stream.read_until(b'\n', &mut message)? == 0 {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&message[begin..]).to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    stream.take(length).read_to_end(&mut message)?;
    Ok(Some(message))
}
