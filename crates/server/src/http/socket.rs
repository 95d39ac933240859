//! A connection as hyper sees it. It holds back what hyper would say of its own to a client whose request it can't read: an
//! empty answer, where all others are problems. And it gives up a client that does not read what it is sent.

use super::limits::{SEND_STALL_TIMEOUT, send_timeout};
use super::memory_budget::BudgetGuard;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

/// A buffer that has grown past this is not kept.
const KEEP: usize = 64 * 1024;

/// What a connection's two sides, the requests that come and the bytes that go, have to know of each other.
#[derive(Debug, Default)]
pub(super) struct ConnectionState {
    /// Requests that hyper could read.
    pub(super) begun: Cell<u64>,
    /// Those that are answered.
    pub(super) made: Cell<u64>,
    /// Whether there was a stream of events among the answers.
    pub(super) streams: Cell<bool>,
    /// What the latest answer takes until it is sent.
    pub(super) budget: RefCell<Option<BudgetGuard>>,
    /// Answers of which hyper has written the beginning.
    written: Cell<u64>,
    /// Whether something was held back.
    refused: Cell<bool>,
}

impl ConnectionState {
    /// Whether hyper had something of its own to say, which was held back.
    pub(super) fn was_refused(&self) -> bool {
        self.refused.get()
    }

    /// Whether what hyper writes now is nobody's answer. Of a stream it writes more and more, so there it is not known.
    fn is_hypers_own(&self) -> bool {
        let (begun, made) = (self.begun.get(), self.made.get());
        begun == made && self.written.get() == made && !self.streams.get()
    }
}

/// See the module.
pub(super) struct Socket {
    /// What was read before hyper came in.
    read: Bytes,
    stream: TcpStream,
    /// What hyper has written and how much of it has been sent. Empty before it takes more, so that each piece that hyper
    /// writes is seen from its beginning.
    out: Vec<u8>,
    sent: usize,
    state: Rc<ConnectionState>,
    /// Runs while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    /// When it has to have taken all of `out`, once it has not at once.
    ends: Option<Instant>,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, read: Vec<u8>, state: Rc<ConnectionState>) -> Self {
        Self { read: read.into(), stream, out: Vec::new(), sent: 0, state, stalled: None, ends: None }
    }

    /// Sends what hyper has written and not flushed: it leaves that to whoever takes the connection back.
    pub(super) async fn finish(&mut self) -> io::Result<()> {
        poll_fn(|context| self.poll_send(context)).await
    }

    /// The connection itself.
    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }

    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(left) = self.out.get(self.sent..).filter(|left| !left.is_empty()) {
            match Pin::new(&mut self.stream).poll_write(context, left)? {
                Poll::Ready(0) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                Poll::Ready(count) => {
                    self.sent += count;
                    self.stalled = None;
                }
                Poll::Pending => {
                    let now = Instant::now();
                    let ends = *self.ends.get_or_insert(now + send_timeout(left.len()));
                    let stalled = || Box::pin(sleep_until(ends.min(now + SEND_STALL_TIMEOUT)));
                    ready!(self.stalled.get_or_insert_with(stalled).as_mut().poll(context));
                    metrics::counter!("stockhold_slow_consumers_total").increment(1);
                    self.out.clear();
                    return Poll::Ready(Err(ErrorKind::TimedOut.into()));
                }
            }
        }
        self.sent = 0;
        self.ends = None;
        self.out.clear();
        self.out.shrink_to(KEEP);
        Poll::Ready(Ok(()))
    }
}

impl Socket {
    /// Notices that whoever reads a stream has gone. hyper does not look while it answers, since a client that has sent all
    /// it will send may still read; of a stream nobody would notice before the next event but one.
    fn look_for_the_end(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let mut byte = [0];
        match self.stream.poll_peek(context, &mut ReadBuf::new(&mut byte))? {
            Poll::Ready(0) => Err(ErrorKind::ConnectionReset.into()),
            Poll::Ready(_) | Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let count = self.read.len().min(buffer.remaining());
        buffer.put_slice(&self.read.split_to(count));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
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
        ready!(self.poll_send(context))?;
        self.state.budget.take();
        if self.state.streams.get() {
            self.look_for_the_end(context)?;
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
