//! Somebody between a store and its server who cuts connections at the moment that a test wants.
//!
//! It reads what is sent message by message, so that it knows when a batch begins and when it commits: one that has asked for the
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
    /// When what commits it comes by, which does not reach the server.
    BeforeCommit,
    /// When the server has answered to COMMIT: the answer does not reach the store.
    AfterCommit,
    /// When the answer to COMMIT has reached the store.
    AfterAnswer,
}

/// What a request is to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Begin,
    Commit,
    Other,
}

/// What a database's protocol shows of batches. One for each connection.
pub(crate) trait Wire: Default + Send + 'static {
    /// What addresses begin with.
    const SCHEME: &'static str;
    /// What the store sends next.
    fn request(&mut self, from: impl Read) -> std::io::Result<(Vec<u8>, Moment)>;
    /// What the server sends next.
    fn answer(from: impl Read) -> std::io::Result<Vec<u8>>;
    /// Whether an answer on a connection that commits is that to COMMIT.
    fn is_of_commit(answer: &[u8]) -> bool;
}

/// What is shared with the threads that pass bytes on.
#[derive(Default)]
struct Shared {
    /// What is to be done to the next batch.
    armed: Mutex<Option<Cut>>,
    /// Connections are neither taken nor kept.
    closed: AtomicBool,
    /// Whether open connections forward nothing any more, without being closed.
    deaf: Mutex<Arc<AtomicBool>>,
    sockets: Mutex<Vec<(TcpStream, UnixStream)>>,
}

/// A proxy between a store and its database server.
pub(crate) struct Proxy {
    url: String,
    shared: Arc<Shared>,
}

impl Proxy {
    /// In front of a server's socket, for a database of it.
    pub(crate) fn new<W: Wire>(server: PathBuf, database: &str) -> Self {
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
                pass::<W>(store, server, &of_thread);
            }
        });
        let url = format!("{}://stockhold@127.0.0.1:{port}/{database}?sslmode=disable", W::SCHEME);
        Self { url, shared }
    }

    /// The address of the database through it.
    pub(crate) fn url(&self) -> String {
        self.url.clone()
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

fn pass<W: Wire>(store: TcpStream, server: UnixStream, shared: &Arc<Shared>) {
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
        let _ = forwards::<W>(&from, &to, &of_thread, &answered, &deaf);
        if !deaf.load(Ordering::SeqCst) {
            cut(&from, &to);
        }
    });
    let (to, from) = (store, server);
    std::thread::spawn(move || {
        let _ = backwards::<W>(&from, &to, &answers, &deaf_too);
        if !deaf_too.load(Ordering::SeqCst) {
            cut(&to, &from);
        }
    });
}

/// From the store to the server. It ends when the connection does, or is to.
fn forwards<W: Wire>(
    from: &TcpStream,
    mut to: &UnixStream,
    shared: &Shared,
    answers: &Mutex<Option<Cut>>,
    deaf: &AtomicBool,
) -> std::io::Result<()> {
    let mut wire = W::default();
    loop {
        let (request, moment) = wire.request(from)?;
        if deaf.load(Ordering::SeqCst) {
            return Ok(());
        }
        let armed = *shared.armed.lock().unwrap();
        let now = match armed {
            Some(Cut::AtBegin) => moment == Moment::Begin,
            Some(_) => moment == Moment::Commit,
            None => false,
        };
        if now {
            *shared.armed.lock().unwrap() = None;
            match armed {
                Some(Cut::AfterCommit | Cut::AfterAnswer) => *answers.lock().unwrap() = armed,
                _ => return Ok(()),
            }
        }
        to.write_all(&request)?;
    }
}

/// From the server to the store.
fn backwards<W: Wire>(
    from: &UnixStream,
    mut to: &TcpStream,
    answers: &Mutex<Option<Cut>>,
    deaf: &AtomicBool,
) -> std::io::Result<()> {
    loop {
        let answer = W::answer(from)?;
        if deaf.load(Ordering::SeqCst) {
            return Ok(());
        }
        let armed = *answers.lock().unwrap();
        let cut = armed.filter(|_| W::is_of_commit(&answer));
        if cut == Some(Cut::AfterCommit) {
            return Ok(());
        }
        to.write_all(&answer)?;
        if cut == Some(Cut::AfterAnswer) {
            return Ok(());
        }
    }
}
