//! A proxy between a server and the broker of a sink, which cuts connections, is slow, or is down.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Bytes that are passed on at a time. Batches of events are longer.
const CHUNK: usize = 4 * 1024;
/// No cut is wanted.
const NEVER: u64 = u64::MAX;

/// What the connections of a proxy do.
struct Faults {
    /// Bytes of requests, and of answers, after which a connection is cut.
    cut_after: [AtomicU64; 2],
    cuts: AtomicU64,
    pause_ms: AtomicU64,
    is_down: AtomicBool,
}

/// A proxy in front of a port of this machine.
pub(super) struct Proxy {
    pub(super) port: u16,
    faults: Arc<Faults>,
}

/// What is cut.
#[derive(Clone, Copy)]
pub(super) enum Direction {
    /// What the server sends. The rest of a batch does not arrive.
    Requests = 0,
    /// What the broker answers. A batch arrives whose confirmation is lost.
    Answers = 1,
}

impl Proxy {
    pub(super) fn to(target: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let faults = Arc::new(Faults {
            cut_after: [AtomicU64::new(NEVER), AtomicU64::new(NEVER)],
            cuts: AtomicU64::new(0),
            pause_ms: AtomicU64::new(0),
            is_down: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&faults);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let target = TcpStream::connect((Ipv4Addr::LOCALHOST, target));
                let Some(target) = target.ok().filter(|_| !of_thread.is_down.load(Ordering::SeqCst)) else {
                    continue;
                };
                let ends = [(&client, &target, Direction::Requests), (&target, &client, Direction::Answers)];
                for (from, to, direction) in ends {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let faults = Arc::clone(&of_thread);
                    std::thread::spawn(move || pass(&from, &to, direction, &faults));
                }
            }
        });
        Self { port, faults }
    }

    /// Cuts one connection after so many bytes, counted from now on.
    pub(super) fn cut_after(&self, bytes: u64, direction: Direction) {
        self.faults.cut_after[direction as usize].store(bytes, Ordering::SeqCst);
    }

    /// Connections that were cut.
    pub(super) fn cuts(&self) -> u64 {
        self.faults.cuts.load(Ordering::SeqCst)
    }

    /// Pauses before each [`CHUNK`].
    pub(super) fn slow_down(&self, pause: Duration) {
        self.faults.pause_ms.store(u64::try_from(pause.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// Ends all connections and takes no new ones, or takes them again.
    pub(super) fn set_down(&self, is_down: bool) {
        self.faults.is_down.store(is_down, Ordering::SeqCst);
    }
}

/// Passes bytes on until an end closes or a fault ends the connection.
fn pass(mut from: &TcpStream, mut to: &TcpStream, direction: Direction, faults: &Faults) {
    let mut chunk = [0; CHUNK];
    // A connection without traffic has to notice that it is down, too.
    from.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    loop {
        let read = match from.read(&mut chunk) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => None,
            Ok(read) if read > 0 => Some(read),
            _ => break,
        };
        if faults.is_down.load(Ordering::SeqCst) {
            break;
        }
        let Some(read) = read else { continue };
        std::thread::sleep(Duration::from_millis(faults.pause_ms.load(Ordering::SeqCst)));
        let left =
            faults.cut_after[direction as usize].fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                (left != NEVER).then(|| left.checked_sub(read as u64).unwrap_or(NEVER))
            });
        let passed = left.map_or(read, |left| read.min(usize::try_from(left).unwrap()));
        if to.write_all(&chunk[..passed]).is_err() {
            break;
        }
        if passed < read {
            faults.cuts.fetch_add(1, Ordering::SeqCst);
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
