//! A connection as hyper sees it. It suppresses hyper's own answer to a request that it can't read, which has no body,
//! because all errors are answered with a problem. And it closes the connection of a client that does not read.

use super::admission::bounds::{HEAD_TIMEOUT, SEND_STALL_TIMEOUT, send_timeout};
use super::admission::connections::Connection;
use super::admission::memory::BudgetGuard;
use super::transport::Transport;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// A larger buffer is not kept.
const KEEP: usize = 64 * 1024;

/// The state that the request side and the socket side of a connection share.
#[derive(Debug)]
pub(super) struct ConnectionState {
    connection: Rc<Connection>,
    /// Requests that hyper has read.
    pub(super) begun: Cell<u64>,
    /// Requests that are answered.
    pub(super) made: Cell<u64>,
    /// Whether one of the answers was an event stream.
    pub(super) streams: Cell<bool>,
    /// The memory that the latest answer reserves until it is sent.
    pub(super) budget: RefCell<Option<BudgetGuard>>,
    /// Answers that hyper has begun to write.
    written: Cell<u64>,
    /// Whether output of hyper was suppressed.
    refused: Cell<bool>,
    /// Whether a head did not end in time.
    late: Cell<bool>,
}

impl ConnectionState {
    pub(super) fn new(connection: Rc<Connection>) -> Self {
        Self {
            connection,
            begun: Cell::new(0),
            made: Cell::new(0),
            streams: Cell::new(false),
            budget: RefCell::new(None),
            written: Cell::new(0),
            refused: Cell::new(false),
            late: Cell::new(false),
        }
    }

    /// Whether a head did not end in time.
    pub(super) fn is_late(&self) -> bool {
        self.late.get()
    }

    /// How many requests were read, if none is worked on: what comes is the head of the next one.
    fn requests_before_head(&self) -> Option<u64> {
        (self.begun.get() == self.made.get()).then_some(self.begun.get())
    }

    /// A request begins. Returns `false` when the connection has to close instead.
    pub(super) fn begin(&self) -> bool {
        let may = self.connection.begin();
        self.begun.set(self.begun.get() + u64::from(may));
        may
    }

    /// A further piece of the latest answer is going to be written.
    pub(super) fn continues(&self) {
        self.written.set(self.made.get().saturating_sub(1));
    }

    /// All that was written is sent.
    fn sent(&self) {
        self.budget.take();
        if self.begun.get() > 0 && self.begun.get() == self.made.get() && !self.streams.get() {
            self.connection.rest(std::time::Instant::now());
        }
    }

    /// Whether hyper tried to write an answer of its own, which was suppressed.
    pub(super) fn was_refused(&self) -> bool {
        self.refused.get()
    }

    /// Whether hyper's output belongs to no answer. For an event stream this is unknown, because hyper writes it bit
    /// by bit.
    fn is_hypers_own(&self) -> bool {
        let (begun, made) = (self.begun.get(), self.made.get());
        begun == made && self.written.get() == made && !self.streams.get()
    }
}

/// A connection as hyper sees it.
pub(super) struct Socket<S> {
    /// Bytes that were read before hyper asked for them.
    read: Bytes,
    stream: S,
    /// Output of hyper. It is sent completely before more is accepted, so that the beginning of each piece of output
    /// is seen.
    out: Vec<u8>,
    sent: usize,
    state: Rc<ConnectionState>,
    /// A timer that runs while the client reads nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Deadline for sending all of `out`, set when it can't be sent at once.
    ends: Option<Instant>,
    /// Whether the client has read nothing for too long.
    cut: bool,
    /// The head that has begun.
    head: Option<Head>,
}

/// A head that has begun and is not complete.
struct Head {
    /// How many requests were read before it.
    before: u64,
    ends: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S: Transport> Socket<S> {
    pub(super) fn new(stream: S, read: Vec<u8>, state: Rc<ConnectionState>) -> Self {
        let read = read.into();
        Self {
            read,
            stream,
            out: Vec::new(),
            sent: 0,
            state,
            stalled: None,
            ends: None,
            cut: false,
            head: None,
        }
    }

    /// Sends bytes that do not come from hyper.
    pub(super) async fn send(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        self.finish().await?;
        self.out = bytes;
        self.finish().await
    }

    /// Sends the output that hyper has written and not flushed.
    pub(super) async fn finish(&mut self) -> io::Result<()> {
        poll_fn(|context| self.poll_send(context)).await
    }

    /// The connection itself.
    pub(super) fn into_stream(self) -> S {
        self.stream
    }

    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.cut {
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        while let Some(left) = self.out.get(self.sent..).filter(|left| !left.is_empty()) {
            match Pin::new(&mut self.stream).poll_write(context, left)? {
                Poll::Ready(0) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                Poll::Ready(count) => {
                    self.sent += count;
                    self.stalled = None;
                }
                Poll::Pending => {
                    let left = left.len();
                    return self.poll_stalled(context, left);
                }
            }
        }
        // TLS has accepted the bytes, and may still hold the last of them.
        if Pin::new(&mut self.stream).poll_flush(context)?.is_pending() {
            return self.poll_stalled(context, 0);
        }
        self.sent = 0;
        self.stalled = None;
        self.ends = None;
        self.out.clear();
        self.out.shrink_to(KEEP);
        Poll::Ready(Ok(()))
    }

    /// Waits for a client that does not read, and cuts it after too long.
    fn poll_stalled(&mut self, context: &mut Context<'_>, left: usize) -> Poll<io::Result<()>> {
        let now = Instant::now();
        let ends = *self.ends.get_or_insert(now + send_timeout(left));
        let stalled = || Box::pin(sleep_until(ends.min(now + SEND_STALL_TIMEOUT)));
        ready!(self.stalled.get_or_insert_with(stalled).as_mut().poll(context));
        metrics::counter!("stockhold_slow_consumers_total").increment(1);
        self.cut = true;
        self.out.clear();
        Poll::Ready(Err(ErrorKind::TimedOut.into()))
    }

    /// Gives up a head that has begun and does not end. hyper's own timer runs from the request before it.
    fn poll_head(
        &mut self,
        context: &mut Context<'_>,
        came: bool,
        read: Poll<io::Result<()>>,
    ) -> Poll<io::Result<()>> {
        let Some(requests) = self.state.requests_before_head() else { return read };
        if self.head.as_ref().is_some_and(|head| head.before != requests) {
            self.head = None;
        }
        if came {
            let begins = || Head { before: requests, ends: Instant::now() + HEAD_TIMEOUT, timer: None };
            self.head.get_or_insert_with(begins);
            return read;
        }
        let Some(Head { ends, timer, .. }) = &mut self.head else { return read };
        ready!(timer.get_or_insert_with(|| Box::pin(sleep_until(*ends))).as_mut().poll(context));
        self.state.late.set(true);
        Poll::Ready(Err(ErrorKind::TimedOut.into()))
    }

    /// Notices that the client of an event stream has closed the connection. hyper does not check this while it
    /// answers, because a client that has shut down its sending side may still read. Without this check, a closed
    /// stream would be noticed only after two further events.
    fn look_for_the_end(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if !self.read.is_empty() {
            return Ok(());
        }
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        if Pin::new(&mut self.stream).poll_read(context, &mut buffer)?.is_ready() {
            if buffer.filled().is_empty() {
                return Err(ErrorKind::ConnectionReset.into());
            }
            self.read = Bytes::copy_from_slice(buffer.filled());
        }
        Ok(())
    }
}

impl<S: Transport> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            let before = buffer.filled().len();
            let read = Pin::new(&mut self.stream).poll_read(context, buffer);
            let came = buffer.filled().len() > before;
            return if came || read.is_pending() { self.poll_head(context, came, read) } else { read };
        }
        let count = self.read.len().min(buffer.remaining());
        buffer.put_slice(&self.read.split_to(count));
        Poll::Ready(Ok(()))
    }
}

impl<S: Transport> AsyncWrite for Socket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_send(context))?;
        if self.state.is_hypers_own() {
            self.state.refused.set(true);
        } else {
            self.state.written.set(self.state.made.get());
            self.out.extend_from_slice(bytes);
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let had_output = !self.out.is_empty();
        ready!(self.poll_send(context))?;
        if had_output {
            self.state.sent();
        }
        if self.state.streams.get() {
            self.look_for_the_end(context)?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::super::admission::connections::Connections;
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn a_head_that_does_not_end_is_given_up() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let connection = Connections::new(1).admit(None).unwrap();
        let state = Rc::new(ConnectionState::new(Rc::new(connection)));
        let mut socket = Socket::new(stream, Vec::new(), Rc::clone(&state));
        let mut read = [0; 8];
        // Nothing has begun, so nothing has to end.
        timeout(2 * HEAD_TIMEOUT, socket.read(&mut read)).await.unwrap_err();
        client.write_all(b"GET").await.unwrap();
        assert_eq!(socket.read(&mut read).await.unwrap(), 3);
        let begun = Instant::now();
        let error = socket.read(&mut read).await.unwrap_err();
        assert_eq!((error.kind(), state.is_late()), (ErrorKind::TimedOut, true));
        assert_eq!(begun.elapsed().as_secs(), HEAD_TIMEOUT.as_secs());
        // A request that was read and answered has ended its head.
        assert!(state.begin());
        state.made.set(1);
        timeout(2 * HEAD_TIMEOUT, socket.read(&mut read)).await.unwrap_err();
    }
}
