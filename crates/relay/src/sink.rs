//! What a sink does.

use crate::message::Message;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use stockhold_api::sink_record::AsideEvent;

/// A future that a sink returns.
pub(crate) type SinkFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, DeliveryError>> + 'a>>;

/// A system that events are delivered to. It connects at the first delivery, and again after each failure.
pub(crate) trait Sink: Send {
    /// Events that are read and delivered at a time.
    fn batch_events(&self) -> usize {
        crate::feed::BATCH
    }

    /// Delivers messages in their order, and returns once the other system has confirmed all of them. If the future is dropped, the
    /// messages are delivered again.
    fn deliver<'a>(&'a mut self, messages: &'a [Message]) -> SinkFuture<'a, ()>;

    /// The events of the last call of `deliver` that were confirmed although a part of them could not be delivered, put aside now.
    fn put_aside(&mut self, _now: i64) -> Vec<AsideEvent> {
        Vec::new()
    }

    /// Delivers the missing part of an event that was put aside. `false`: the other system still does not take it.
    fn deliver_aside<'a>(&'a mut self, _: &'a Message, _: &'a AsideEvent) -> SinkFuture<'a, bool> {
        Box::pin(std::future::ready(Ok(true)))
    }

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
    /// What was wrong, in the words of the other system if there are any. It never has a password.
    pub(crate) message: String,
    /// Who has to do what before anything goes on. `None`: it may go on by itself.
    pub(crate) action: Option<String>,
}

/// What to do about a message that another system refuses, if nothing better is known.
const ACT_ON_REFUSAL: &str = "make the other system take the event, or skip it";

impl DeliveryError {
    /// The other system can't be reached, or does not answer.
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self { confirmed: 0, is_refused: false, message: message.to_string(), action: None }
    }

    /// The other system does not take the first message.
    pub(crate) fn refused(message: impl fmt::Display) -> Self {
        Self { is_refused: true, ..Self::blocked(message, ACT_ON_REFUSAL) }
    }

    /// The other system takes nothing before somebody acts.
    pub(crate) fn blocked(message: impl fmt::Display, action: impl fmt::Display) -> Self {
        Self { action: Some(action.to_string()), ..Self::failed(message) }
    }

    /// The same, with what to do about it.
    pub(crate) fn with_action(self, action: impl fmt::Display) -> Self {
        Self { action: Some(action.to_string()), ..self }
    }

    /// The same, after so many confirmed messages more.
    pub(crate) fn after(self, confirmed: usize) -> Self {
        Self { confirmed: self.confirmed + confirmed, ..self }
    }
}

/// Sends messages by a `send` that confirms all of them or none. If they are refused, half as many are sent at a time, until the refused
/// one is alone. So those before it are confirmed, and the error is about it.
pub(crate) async fn send_up_to_refused<M>(
    messages: &[M],
    mut send: impl AsyncFnMut(&[M]) -> Result<(), DeliveryError>,
) -> Result<(), DeliveryError> {
    let (mut confirmed, mut most) = (0, messages.len());
    while let Some(rest) = messages.get(confirmed..).filter(|rest| !rest.is_empty()) {
        let part = rest.get(..most).unwrap_or(rest);
        match send(part).await {
            Ok(()) => confirmed += part.len(),
            Err(error) if error.is_refused && part.len() > 1 => most = part.len() / 2,
            Err(error) => return Err(error.after(confirmed)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends 100 messages, of which one is refused or fails. Returns the error and how often something was sent.
    fn send(broken: usize, is_refused: bool) -> (DeliveryError, usize) {
        let messages: Vec<usize> = (0..100).collect();
        let mut count = 0;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let sent = runtime.block_on(send_up_to_refused(&messages, async |part| {
            count += 1;
            match part.contains(&broken) {
                true if is_refused => Err(DeliveryError::refused(format!("{part:?}"))),
                true => Err(DeliveryError::failed("down")),
                false => Ok(()),
            }
        }));
        (sent.unwrap_err(), count)
    }

    #[test]
    fn those_before_a_refused_message_are_confirmed() {
        for refused in [0, 1, 49, 50, 63, 98, 99] {
            let (error, count) = send(refused, true);
            assert_eq!((error.confirmed, error.message), (refused, format!("[{refused}]")));
            assert!(count < 120, "{count}");
        }
    }

    #[test]
    fn a_failure_is_not_looked_into() {
        let (error, count) = send(70, false);
        assert_eq!((error.confirmed, error.is_refused, count), (0, false, 1));
    }
}
