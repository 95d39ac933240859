//! The body of an answer: messages, then the trailers with the status.

use super::super::admission::memory::BudgetGuard;
use super::super::unsent::Unsent;
use super::trailers;
use super::watch::EventMessages;
use bytes::{BufMut, Bytes, BytesMut};
use hyper::body::Frame;
use hyper::header::HeaderMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use stockhold_grpc::{Status, code, plain};
use tokio::sync::mpsc;

/// The body of an answer.
pub(crate) enum Messages {
    /// All of it.
    Whole(Option<Bytes>, Option<HeaderMap>),
    /// What a task sends.
    Fed(mpsc::Receiver<Piece>),
    /// Events.
    Events(Box<EventMessages>),
    /// Nothing more.
    Ended,
}

/// A part of an answer that a task sends.
pub(crate) enum Piece {
    /// One message or more.
    Messages(Bytes),
    /// The status, after which nothing follows.
    Status(Box<Status>),
}

impl Messages {
    /// One message.
    pub(super) fn one(message: &[u8], unsent: &Unsent, budget: Option<BudgetGuard>) -> Self {
        let framed = unsent.track(framed(message), budget);
        Self::Whole(Some(framed), Some(trailers(&plain(code::OK, ""))))
    }

    pub(crate) fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut *self {
            Self::Whole(message, trailers) => {
                let frame = message.take().map(Frame::data).or_else(|| trailers.take().map(Frame::trailers));
                return Poll::Ready(frame.map(Ok));
            }
            Self::Ended => return Poll::Ready(None),
            Self::Fed(pieces) => ready!(pieces.poll_recv(context)),
            Self::Events(events) => Some(ready!(events.poll_piece(context))),
        };
        Poll::Ready(Some(Ok(match piece {
            Some(Piece::Messages(messages)) => Frame::data(messages),
            Some(Piece::Status(status)) => self.end(&status),
            None => self.end(&plain(code::INTERNAL, "The stream ended without a status.")),
        })))
    }

    fn end(&mut self, status: &Status) -> Frame<Bytes> {
        *self = Self::Ended;
        Frame::trailers(trailers(status))
    }
}

/// A message with what stands before it.
pub(super) fn framed(message: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(message.len() + 5);
    put(&mut out, message);
    out.freeze()
}

/// Appends a message.
pub(super) fn put(out: &mut BytesMut, message: &[u8]) {
    out.put_u8(0);
    // No answer is as long as 4 GiB.
    out.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    out.extend_from_slice(message);
}
