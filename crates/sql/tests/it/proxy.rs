//! Somebody between a store and its server who cuts connections at the moment that a test wants.
//!
//! It reads what the store sends message by message, so that it knows when COMMIT comes by: of a batch that has asked for the
//! pauses, as every reserve does; the store's own transactions behind the requests are let through.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// When a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// When a batch begins: nothing of it reaches the server.
    AtBegin,
    /// When COMMIT comes by, which does not reach the server.
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
    /// Of the connections that there are: nothing is passed on any more, and nobody is told.
    deaf: Mutex<Arc<AtomicBool>>,
    sockets: Mutex<Vec<(TcpStream, UnixStream)>>,
}

/// See the module.
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

impl Proxy {
    /// In front of a server's socket.
    pub(crate) fn new(server: PathBuf) -> Self {
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
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://stockhold@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }

    /// Cuts the next batch.
    pub(crate) fn arm(&self, cut: Cut) {
        *self.shared.armed.lock().unwrap() = Some(cut);
    }

    /// Whether the cut has been made.
    pub(crate) fn has_cut(&self) -> bool {
        self.shared.armed.lock().unwrap().is_none()
    }

    /// From now on nothing comes through the connections that there are, as if the machine behind them were gone. New ones are
    /// in order.
    pub(crate) fn hush(&self) {
        std::mem::take(&mut *self.shared.deaf.lock().unwrap()).store(true, Ordering::SeqCst);
    }

    /// Cuts all connections and lets none through, until told otherwise.
    pub(crate) fn close(&self, closed: bool) {
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
    let deaf = Arc::clone(&shared.deaf.lock().unwrap());
    let deaf_too = Arc::clone(&deaf);
    let ((from, to), of_thread, answered) = (both(), Arc::clone(shared), Arc::clone(&answers));
    std::thread::spawn(move || {
        // An error is a connection that has ended.
        let _ = forwards(&from, &to, &of_thread, &answered, &deaf);
        if !deaf.load(Ordering::SeqCst) {
            cut(&from, &to);
        }
    });
    let (to, from) = (store, server);
    std::thread::spawn(move || {
        let _ = backwards(&from, &to, &answers, &deaf_too);
        if !deaf_too.load(Ordering::SeqCst) {
            cut(&to, &from);
        }
    });
}

/// From the store to the server, message by message. It ends when the connection does, or is to.
fn forwards(
    mut from: &TcpStream,
    mut to: &UnixStream,
    shared: &Shared,
    answers: &Mutex<Option<Cut>>,
    deaf: &AtomicBool,
) -> std::io::Result<()> {
    let mut of_reserves = false;
    let mut started = false;
    loop {
        // The first message has no kind.
        let mut head = vec![0; if started { 5 } else { 4 }];
        from.read_exact(&mut head)?;
        let length: [u8; 4] = head[head.len() - 4..].try_into().expect("four bytes");
        let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).expect("a length") - 4];
        from.read_exact(&mut body)?;
        if deaf.load(Ordering::SeqCst) {
            return Ok(());
        }
        let query = if started && head[0] == b'Q' {
            String::from_utf8_lossy(&body).into_owned()
        } else {
            String::new()
        };
        started = true;
        let armed = *shared.armed.lock().unwrap();
        if query.starts_with("BEGIN") {
            of_reserves = query.contains("LOCK TABLE");
        }
        let at_commit = of_reserves && query.starts_with("COMMIT");
        let done = match armed {
            Some(Cut::AtBegin) if query.starts_with("BEGIN") && of_reserves => true,
            Some(Cut::BeforeCommit) if at_commit => true,
            Some(cut @ (Cut::AfterCommit | Cut::AfterAnswer)) if at_commit => {
                *answers.lock().unwrap() = Some(cut);
                *shared.armed.lock().unwrap() = None;
                false
            }
            _ => false,
        };
        if done {
            *shared.armed.lock().unwrap() = None;
            return Ok(());
        }
        to.write_all(&head)?;
        to.write_all(&body)?;
    }
}

/// From the server to the store, message by message.
fn backwards(
    mut from: &UnixStream,
    mut to: &TcpStream,
    answers: &Mutex<Option<Cut>>,
    deaf: &AtomicBool,
) -> std::io::Result<()> {
    loop {
        let mut head = [0; 5];
        from.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; usize::try_from(length).expect("a length") - 4];
        from.read_exact(&mut body)?;
        if deaf.load(Ordering::SeqCst) {
            return Ok(());
        }
        let to_commit = head[0] == b'C' && body.starts_with(b"COMMIT");
        let cut = answers.lock().unwrap().filter(|_| to_commit);
        if cut == Some(Cut::AfterCommit) {
            return Ok(());
        }
        to.write_all(&head)?;
        to.write_all(&body)?;
        if cut == Some(Cut::AfterAnswer) {
            // Ready for the next: without it the store waits on.
            let mut ready = [0; 6];
            from.read_exact(&mut ready)?;
            return to.write_all(&ready);
        }
    }
}
