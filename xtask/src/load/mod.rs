//! The load generator: one thread, non-blocking sockets, one request in flight per connection. It must stay far
//! cheaper than what it drives, and it never forgives: an answer that its traffic did not ask for, or none, is an error of
//! the whole run.

pub(crate) mod commands;
pub(crate) mod credentials;
pub(crate) mod crowd;
pub(crate) mod http;
mod meter;
pub(crate) mod mix;
pub(crate) mod open;
pub(crate) mod pairs;
pub(crate) mod reads;
pub(crate) mod resp;

use crate::http::ANSWER_TIMEOUT;
use crate::{Outcome, fail};
use meter::Meter;
pub(crate) use meter::{Run, histogram, process_time};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The core that servers are held to while something is measured.
pub(crate) const SERVER_CPU: usize = 0;
/// The core that the load is held to.
pub(crate) const LOAD_CPU: usize = 1;

const POLL_TIMEOUT: Duration = Duration::from_millis(100);
/// Room for one read: answers to thousands of commands come in large pieces.
const READ_BYTES: usize = 256 * 1024;
/// What a connection's buffer begins with: most answers fit.
const ANSWER_BYTES: usize = 2 * 1024;

/// What is sent and what counts as an answer.
pub(crate) trait Traffic {
    /// Writes the next request for a connection into `out`, which is empty; false when there is none left.
    fn request(&mut self, connection: usize, out: &mut Vec<u8>) -> bool;

    /// Looks at what a connection has received: the length of a whole answer, `None` while it is incomplete, an error
    /// when it is a refusal.
    fn answer(&mut self, connection: usize, received: &[u8]) -> Outcome<Option<usize>>;

    /// Whether the latest answer counts: all do, unless the traffic asks for more than the server can give.
    fn counts(&self) -> bool {
        true
    }

    /// Operations that one answer stands for.
    fn operations(&self) -> u64 {
        1
    }
}

/// How long a run is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) warm_up: Duration,
    pub(crate) measure: Duration,
}

impl Plan {
    /// Until the traffic has no more requests.
    pub(crate) const ALL: Self = Self { warm_up: Duration::ZERO, measure: Duration::MAX };
}

/// Raises this process's limit on open files as far as it may: every connection is one.
pub(crate) fn raise_open_files() -> Outcome<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}

/// Holds the calling thread to one core.
pub(crate) fn pin(cpu: usize) -> Outcome<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// One connection of a generator.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    received: Vec<u8>,
    /// What the socket had no room for yet.
    unsent: Vec<u8>,
    /// When the request in flight was meant to be sent.
    since: Option<Instant>,
}

impl Wire {
    /// Connects and registers with the poll under its index.
    pub(crate) fn open(address: SocketAddr, index: usize, poll: &Poll) -> Outcome<Self> {
        let stream = std::net::TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry().register(&mut stream, Token(index), Interest::READABLE | Interest::WRITABLE)?;
        let (received, unsent) = (Vec::with_capacity(ANSWER_BYTES), Vec::new());
        Ok(Self { stream, received, unsent, since: None })
    }

    /// Sends one request, or as much of it as the socket takes; [`Wire::send_rest`] sends the rest.
    pub(crate) fn send(&mut self, request: &[u8], since: Instant) -> Outcome<()> {
        self.since = Some(since);
        let sent = self.write(request)?;
        self.unsent.extend_from_slice(&request[sent..]);
        Ok(())
    }

    /// Sends what is left of a request, when there is room again.
    pub(crate) fn send_rest(&mut self) -> Outcome<()> {
        if !self.unsent.is_empty() {
            let unsent = std::mem::take(&mut self.unsent);
            let sent = self.write(&unsent)?;
            self.unsent.extend_from_slice(&unsent[sent..]);
        }
        Ok(())
    }

    /// Writes until the socket takes no more; the poll then tells when it does again.
    fn write(&mut self, bytes: &[u8]) -> Outcome<usize> {
        let mut sent = 0;
        while sent < bytes.len() {
            match self.stream.write(&bytes[sent..]) {
                Ok(0) => return fail("unanswered: the server closed a connection"),
                Ok(written) => sent += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(sent)
    }

    /// Reads the available bytes. With one request in flight a read that does not fill the chunk leaves nothing behind, so
    /// no second read is needed to find that out.
    fn read(&mut self, chunk: &mut [u8]) -> Outcome<()> {
        loop {
            match self.stream.read(chunk) {
                Ok(0) => return fail("unanswered: the server closed a connection"),
                Ok(read) => {
                    self.received.extend_from_slice(&chunk[..read]);
                    if read < chunk.len() {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes what has come. When that completes the answer, says since when it was awaited.
    pub(crate) fn receive(
        &mut self,
        index: usize,
        chunk: &mut [u8],
        traffic: &mut dyn Traffic,
    ) -> Outcome<Option<Instant>> {
        self.send_rest()?;
        self.read(chunk)?;
        if self.received.is_empty() {
            return Ok(None);
        }
        let Some(length) = traffic.answer(index, &self.received)? else { return Ok(None) };
        if length != self.received.len() {
            return fail("more was received than was asked for");
        }
        self.received.clear();
        match self.since.take() {
            Some(since) => Ok(Some(since)),
            None => fail("an answer to nothing"),
        }
    }
}

/// Room for one read.
pub(crate) fn chunk() -> Vec<u8> {
    vec![0; READ_BYTES]
}

/// Runs a closed loop on the calling thread: every connection sends its next request when the last was answered.
pub(crate) fn closed(
    address: SocketAddr,
    connections: usize,
    plan: Plan,
    server: Option<u32>,
    traffic: &mut dyn Traffic,
) -> Outcome<Run> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(connections.max(1));
    let mut wires =
        (0..connections).map(|index| Wire::open(address, index, &poll)).collect::<Outcome<Vec<Wire>>>()?;
    let mut request = Vec::with_capacity(ANSWER_BYTES);
    let mut chunk = chunk();

    let start = Instant::now();
    let begin = start + plan.warm_up;
    let end = begin.checked_add(plan.measure);
    let mut meter = Meter::new(server)?;
    let (mut answered, mut in_flight) = (0_u64, 0_usize);
    for (index, wire) in wires.iter_mut().enumerate() {
        request.clear();
        if traffic.request(index, &mut request) {
            wire.send(&request, Instant::now())?;
            in_flight += 1;
        }
    }

    let mut last = start;
    while in_flight > 0 {
        poll.poll(&mut events, Some(POLL_TIMEOUT))?;
        if events.is_empty() && last.elapsed() > ANSWER_TIMEOUT {
            return fail(format!("{in_flight} requests were not answered within {ANSWER_TIMEOUT:?}"));
        }
        for event in &events {
            let index = event.token().0;
            let Some(since) = wires[index].receive(index, &mut chunk, traffic)? else { continue };
            let now = Instant::now();
            (last, answered, in_flight) = (now, answered + 1, in_flight - 1);
            let over = end.is_some_and(|end| now >= end);
            if now >= begin {
                let counted = traffic.counts().then(|| traffic.operations());
                meter.record(now, now - since, counted)?;
            }
            request.clear();
            if !over && traffic.request(index, &mut request) {
                wires[index].send(&request, now)?;
                in_flight += 1;
            } else {
                meter.stop(now)?;
            }
        }
    }
    if end.is_some() && !meter.has_counted() {
        return fail("no answer came while measuring that counts: it has to be measured for longer");
    }
    meter.finish(answered)
}
