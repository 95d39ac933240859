//! What brokers have in common: many messages wait for their confirmations at a time, and a failure ends the connection.

use crate::message::{Message, independent};
use crate::sink::{DeliveryError, Sink, SinkFuture};

/// Messages that wait for their confirmations at a time.
const WINDOW: usize = 2_048;

/// A broker that messages are published to.
pub(super) trait Broker: Send {
    /// Publishes messages of different subjects, and waits for all confirmations. Connects if there is no connection.
    async fn publish(&mut self, messages: &[Message]) -> Result<(), DeliveryError>;

    /// Drops the connection, and with it all that is under way.
    fn disconnect(&mut self);

    /// Makes what messages are published to, if it does not exist.
    async fn create(&mut self) -> Result<(), DeliveryError>;
}

/// A sink over a broker.
pub(super) struct BrokerSink<B>(pub(super) B);

impl<B: Broker> Sink for BrokerSink<B> {
    fn deliver<'a>(&'a mut self, messages: &'a [Message]) -> SinkFuture<'a, ()> {
        Box::pin(async move {
            let mut rest = messages;
            while !rest.is_empty() {
                let window = rest.get(..WINDOW).unwrap_or(rest);
                let (part, behind) = rest.split_at(independent(window));
                if let Err(error) = self.0.publish(part).await {
                    if !error.is_refused {
                        self.0.disconnect();
                    }
                    return Err(error.after(messages.len() - rest.len()));
                }
                rest = behind;
            }
            Ok(())
        })
    }

    fn init(&mut self) -> SinkFuture<'_, ()> {
        Box::pin(self.0.create())
    }
}
