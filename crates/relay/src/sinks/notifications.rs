//! Notifications of buyers, by mail and push.

use crate::message::Message;
use crate::sink::{DeliveryError, Sink, SinkFuture};
use std::collections::HashMap;
use std::sync::Arc;
use stockhold_domain::EventId;
use stockhold_notify::{Channel, Notifier};
use tokio::task::JoinSet;

/// Notifications that are sent at once.
const AT_ONCE: usize = 16;

/// Tells buyers of the events.
pub(super) struct NotificationSink {
    notifier: Arc<Notifier>,
    /// On which channels buyers were told already of events that are delivered again.
    done: HashMap<EventId, Vec<Channel>>,
}

impl NotificationSink {
    pub(super) fn new(notifier: Arc<Notifier>) -> Self {
        Self { notifier, done: HashMap::new() }
    }

    /// Tells the buyers of some events. All are tried, so one that can't be told now delays no other.
    async fn tell(&mut self, messages: &[Message]) -> Result<(), DeliveryError> {
        let mut telling = JoinSet::new();
        for (number, message) in messages.iter().enumerate() {
            let Some(event) = message.event.clone() else { continue };
            let (notifier, mut done) =
                (Arc::clone(&self.notifier), self.done.remove(&message.id).unwrap_or_default());
            telling.spawn_local(async move {
                let result = notifier.notify(&event, &mut done).await;
                (number, event.id, done, result)
            });
        }
        let mut first: Option<(usize, String)> = None;
        let mut told = Vec::new();
        while let Some(ended) = telling.join_next().await {
            let (number, id, done, result) = ended.map_err(DeliveryError::failed)?;
            told.push((number, id, done));
            if let Err(error) = result
                && first.as_ref().is_none_or(|(earlier, _)| number < *earlier)
            {
                first = Some((number, error));
            }
        }
        let Some((confirmed, error)) = first else { return Ok(()) };
        // Those behind it are delivered again.
        let again = told.into_iter().filter(|(number, ..)| *number >= confirmed);
        self.done.extend(again.map(|(_, id, done)| (id, done)));
        Err(DeliveryError::failed(error).after(confirmed))
    }
}

impl Sink for NotificationSink {
    fn deliver<'a>(&'a mut self, messages: &'a [Message]) -> SinkFuture<'a, ()> {
        Box::pin(async move {
            for (number, part) in messages.chunks(AT_ONCE).enumerate() {
                self.tell(part).await.map_err(|error| error.after(number * AT_ONCE))?;
            }
            Ok(())
        })
    }
}
