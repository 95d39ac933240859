//! The proxy that loses answers, for HTTP/2.

use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What a client sends before its first frame.
const PREFACE: usize = 24;
/// Length of the head of a frame.
const HEAD: usize = 9;
/// The type of a frame that begins a request or an answer.
const HEADERS: u8 = 1;

/// Passes every connection on, and closes it before the answer of every second request.
pub(super) struct LossyHttp2Proxy {
    pub(super) address: String,
    requests: Arc<AtomicUsize>,
}

impl LossyHttp2Proxy {
    pub(super) fn start(server: &str) -> Self {
        let server = server.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (server, counted) = (server.clone(), Arc::clone(&counted));
                // An error ends the connection, which is what the client is tested with.
                thread::spawn(move || serve(&client?, &server, &counted));
            }
        });
        Self { address, requests }
    }

    /// The number of answers that were lost.
    pub(super) fn lost(&self) -> usize {
        self.requests.load(Ordering::Relaxed).div_ceil(2)
    }
}

fn serve(client: &TcpStream, address: &str, requests: &Arc<AtomicUsize>) -> std::io::Result<()> {
    let server = TcpStream::connect(address)?;
    let (from, to, counted) = (client.try_clone()?, server.try_clone()?, Arc::clone(requests));
    thread::spawn(move || {
        let _ = pass_requests(&from, &to, &counted);
        to.shutdown(Shutdown::Both)
    });
    let _ = pass_answers(&server, client, requests);
    client.shutdown(Shutdown::Both)?;
    server.shutdown(Shutdown::Both)
}

fn pass_requests(from: &TcpStream, mut to: &TcpStream, requests: &AtomicUsize) -> std::io::Result<()> {
    let mut from = BufReader::new(from);
    let mut preface = [0; PREFACE];
    from.read_exact(&mut preface)?;
    to.write_all(&preface)?;
    loop {
        let (kind, frame) = frame(&mut from)?;
        if kind == HEADERS {
            requests.fetch_add(1, Ordering::Relaxed);
        }
        to.write_all(&frame)?;
    }
}

fn pass_answers(from: &TcpStream, mut to: &TcpStream, requests: &AtomicUsize) -> std::io::Result<()> {
    let mut from = BufReader::new(from);
    loop {
        let (kind, frame) = frame(&mut from)?;
        // The client sends one request after the other.
        if kind == HEADERS && !requests.load(Ordering::Relaxed).is_multiple_of(2) {
            return Ok(());
        }
        to.write_all(&frame)?;
    }
}

/// The type of a frame, and all of it.
fn frame(from: &mut impl Read) -> std::io::Result<(u8, Vec<u8>)> {
    let mut frame = vec![0; HEAD];
    from.read_exact(&mut frame)?;
    let length = frame[..3].iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
    frame.resize(HEAD + length, 0);
    from.read_exact(&mut frame[HEAD..])?;
    Ok((frame[3], frame))
}
