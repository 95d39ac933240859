//! An address that moves: a forwarder in front of whichever server is the primary, as a virtual address or a proxy would be.
//!
//! A server goes in one of two ways. A process that is killed has its connections closed by its machine; a machine that is gone
//! says nothing: open connections stay open and silent for ever, new ones wait until the address has moved.

use crate::Outcome;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

const CHUNK: usize = 16 * 1024;

/// A forwarder to the primary of the moment.
pub(super) struct Forwarder {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    moved: Condvar,
}

struct State {
    target: Target,
    /// Whether what is connected now is connected to a machine that is gone.
    gone: Arc<AtomicBool>,
    /// Ends of connections to machines that are gone: open, and never read or written again.
    silent: Vec<TcpStream>,
}

#[derive(Clone, Copy)]
enum Target {
    At(SocketAddr),
    /// Nothing listens on the address.
    Nowhere,
    /// The forwarder ends.
    Over,
}

impl Forwarder {
    /// To a port of this machine.
    pub(super) fn start(port: u16) -> Outcome<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let state = State { target: Target::At(local(port)), gone: Arc::default(), silent: Vec::new() };
        let shared = Arc::new(Shared { state: Mutex::new(state), moved: Condvar::new() });
        let of_thread = Arc::clone(&shared);
        let accepting = std::thread::spawn(move || accept(&listener, &of_thread));
        Ok(Self { address, shared, accepting: Some(accepting) })
    }

    /// The machine behind it is gone, from now on and without a word.
    pub(super) fn go_silent(&self) {
        let mut state = self.shared.lock();
        state.gone.store(true, Ordering::SeqCst);
        state.target = Target::Nowhere;
    }

    /// Moves to another port.
    pub(super) fn move_to(&self, port: u16) {
        let mut state = self.shared.lock();
        (state.target, state.gone) = (Target::At(local(port)), Arc::default());
        self.shared.moved.notify_all();
    }

    /// Connections that are still open to machines that are gone.
    pub(super) fn forget(&self) {
        self.shared.lock().silent.clear();
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.shared.lock().target = Target::Over;
        self.shared.moved.notify_all();
        // The accepting thread checks this flag after each connection.
        TcpStream::connect(self.address).ok();
        if let Some(accepting) = self.accepting.take() {
            accepting.join().ok();
        }
    }
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where to, once it is known.
    fn target(&self) -> Option<(SocketAddr, Arc<AtomicBool>)> {
        let mut state = self.lock();
        loop {
            match state.target {
                Target::At(target) => return Some((target, Arc::clone(&state.gone))),
                Target::Over => return None,
                Target::Nowhere => {
                    state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming().flatten() {
        if matches!(shared.lock().target, Target::Over) {
            return;
        }
        let shared = Arc::clone(shared);
        std::thread::spawn(move || connect(&client, &shared));
    }
}

/// A server that can't be reached closes the connection, as it would have been refused.
fn connect(client: &TcpStream, shared: &Arc<Shared>) {
    let Some((target, gone)) = shared.target() else { return };
    let Ok(server) = TcpStream::connect(target) else { return };
    client.set_nodelay(true).ok();
    server.set_nodelay(true).ok();
    let (Ok(from), Ok(to)) = (client.try_clone(), server.try_clone()) else { return };
    let (other_shared, other_gone) = (Arc::clone(shared), Arc::clone(&gone));
    std::thread::spawn(move || pump(&from, &to, &other_shared, &other_gone));
    pump(&server, client, shared, &gone);
}

fn pump(from: &TcpStream, to: &TcpStream, shared: &Shared, gone: &AtomicBool) {
    use std::io::{Read, Write};
    let mut chunk = vec![0; CHUNK];
    let (mut source, mut sink) = (from, to);
    loop {
        let read = match source.read(&mut chunk) {
            Ok(read @ 1..) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Ok(_) | Err(_) => break,
        };
        if gone.load(Ordering::SeqCst) || sink.write_all(&chunk[..read]).is_err() {
            break;
        }
    }
    if gone.load(Ordering::SeqCst) {
        let ends = [from, to].into_iter().filter_map(|end| end.try_clone().ok());
        shared.lock().silent.extend(ends);
        return;
    }
    from.shutdown(Shutdown::Both).ok();
    to.shutdown(Shutdown::Both).ok();
}
