//! What a sink does.

use crate::message::Message;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// A future that a sink returns.
pub(crate) type SinkFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, DeliveryError>> + 'a>>;

/// A system that events are delivered to. It connects at the first delivery, and again after each failure.
pub(crate) trait Sink: Send {
    /// Delivers messages in their order, and returns once the other system has confirmed all of them. If the future is dropped, the
    /// messages are delivered again.
    fn deliver<'a>(&'a mut self, messages: &'a [Message]) -> SinkFuture<'a, ()>;

    /// Makes what the operator of the other system would make: a stream, a table. Does nothing if it is there.
    fn init(&mut self) -> SinkFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A delivery that was not confirmed.
#[derive(Debug)]
pub(crate) struct DeliveryError {
    /// How many messages at the beginning were confirmed.
    pub(crate) confirmed: usize,
    /// Whether the other system refuses the message behind them for good. Then nothing behind it may be sent.
    pub(crate) is_refused: bool,
    /// What was wrong. It never has a password.
    pub(crate) message: String,
}

impl DeliveryError {
    /// The other system can't be reached, or does not answer.
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self { confirmed: 0, is_refused: false, message: message.to_string() }
    }

    /// The other system does not take the first message.
    pub(crate) fn refused(message: impl fmt::Display) -> Self {
        Self { confirmed: 0, is_refused: true, message: message.to_string() }
    }

    /// The same, after so many confirmed messages more.
    pub(crate) fn after(self, confirmed: usize) -> Self {
        Self { confirmed: self.confirmed + confirmed, ..self }
    }
}
