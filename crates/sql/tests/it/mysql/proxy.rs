//! Somebody between a store and its server who cuts connections at the moment that a test wants.
//!
//! It reads what is sent packet by packet, so that it knows when a batch begins and when it commits: one that has asked for the
//! pauses, as every reserve does; the store's own transactions behind the requests are let through.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A command that is a text of statements.
const QUERY: u8 = 3;
/// An answer that is in order and has no rows.
const OK: u8 = 0;
/// A flag of such an answer: another statement's follows.
const MORE_RESULTS: u16 = 8;

/// When a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// When a batch begins: nothing of it reaches the server.
    AtBegin,
    /// When a batch writes and commits, which does not reach the server.
    BeforeCommit,
    /// When the server has answered to COMMIT: the answer does not reach the store.
    AfterCommit,
    /// When the answer to COMMIT has reached the store.
    AfterAnswer,
}

/// What is shared with the threads that pass bytes on.
#[derive(Default)]
struct Shared {
    /// What is to be done to the next batch.
    armed: Mutex<Option<Cut>>,
    /// Connections are neither taken nor kept.
    closed: AtomicBool,
    sockets: Mutex<Vec<(TcpStream, UnixStream)>>,
}

/// See the module.
pub(super) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

impl Proxy {
    /// In front of a server's socket.
    pub(super) fn new(server: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        std::thread::spawn(move || {
            for store in listener.incoming().flatten() {
                if of_thread.closed.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(server) = UnixStream::connect(&server) else { continue };
                pass(store, server, &of_thread);
            }
        });
        Self { port, shared }
    }

    /// The address of a database through it.
    pub(super) fn url(&self, database: &str) -> String {
        format!("mysql://stockhold@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }

    /// Cuts the next batch.
    pub(super) fn arm(&self, cut: Cut) {
        *self.shared.armed.lock().unwrap() = Some(cut);
    }

    /// Whether the cut has been made.
    pub(super) fn has_cut(&self) -> bool {
        self.shared.armed.lock().unwrap().is_none()
    }

    /// Cuts all connections and lets none through, until told otherwise.
    pub(super) fn close(&self, closed: bool) {
        self.shared.closed.store(closed, Ordering::SeqCst);
        if closed {
            for (store, server) in self.shared.sockets.lock().unwrap().drain(..) {
                cut(&store, &server);
            }
        }
    }
}

fn cut(store: &TcpStream, server: &UnixStream) {
    // What is closed already needs no closing.
    let _ = store.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

fn pass(store: TcpStream, server: UnixStream, shared: &Arc<Shared>) {
    let _ = store.set_nodelay(true);
    let both = || (store.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
    shared.sockets.lock().unwrap().push(both());
    // What is to happen to the answers of this connection.
    let answers = Arc::new(Mutex::new(None));
    let ((from, to), of_thread, answered) = (both(), Arc::clone(shared), Arc::clone(&answers));
    std::thread::spawn(move || {
        // An error is a connection that has ended.
        let _ = forwards(&from, &to, &of_thread, &answered);
        cut(&from, &to);
    });
    let (to, from) = (store, server);
    std::thread::spawn(move || {
        let _ = backwards(&from, &to, &answers);
        cut(&to, &from);
    });
}

/// A packet with its header.
fn packet(mut from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut packet = vec![0; 4];
    from.read_exact(&mut packet)?;
    let length = u32::from_le_bytes([packet[0], packet[1], packet[2], 0]);
    packet.resize(4 + usize::try_from(length).expect("a length"), 0);
    from.read_exact(&mut packet[4..])?;
    Ok(packet)
}

/// From the store to the server. It ends when the connection does, or is to.
fn forwards(
    from: &TcpStream,
    mut to: &UnixStream,
    shared: &Shared,
    answers: &Mutex<Option<Cut>>,
) -> std::io::Result<()> {
    loop {
        let packet = packet(from)?;
        let is_query = packet[3] == 0 && packet.get(4) == Some(&QUERY);
        let text = if is_query { String::from_utf8_lossy(&packet[5..]) } else { "".into() };
        let begins = text.starts_with("START TRANSACTION") && text.contains("stockhold_pauses");
        let commits = text.starts_with("INSERT INTO stockhold_events") && text.ends_with("COMMIT");
        let armed = *shared.armed.lock().unwrap();
        let now = match armed {
            Some(Cut::AtBegin) => begins,
            Some(_) => commits,
            None => false,
        };
        if now {
            *shared.armed.lock().unwrap() = None;
            match armed {
                Some(Cut::AfterCommit | Cut::AfterAnswer) => *answers.lock().unwrap() = armed,
                _ => return Ok(()),
            }
        }
        to.write_all(&packet)?;
    }
}

/// From the server to the store. All answers to what commits are in order and without rows; the last of them is COMMIT's.
fn backwards(from: &UnixStream, mut to: &TcpStream, answers: &Mutex<Option<Cut>>) -> std::io::Result<()> {
    loop {
        let packet = packet(from)?;
        let armed = *answers.lock().unwrap();
        let cut = armed.filter(|_| packet[4] == OK && status(&packet[5..]) & MORE_RESULTS == 0);
        if cut == Some(Cut::AfterCommit) {
            return Ok(());
        }
        to.write_all(&packet)?;
        if cut == Some(Cut::AfterAnswer) {
            return Ok(());
        }
    }
}

/// The flags behind the two numbers (rows that changed, an id that was drawn), each of one byte or of as many as the first
/// says.
fn status(body: &[u8]) -> u16 {
    let mut at = 0;
    for _ in 0..2 {
        at += match body[at] {
            0xfc => 3,
            0xfd => 4,
            0xfe => 9,
            _ => 1,
        };
    }
    u16::from_le_bytes([body[at], body[at + 1]])
}
