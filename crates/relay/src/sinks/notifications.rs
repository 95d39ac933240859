//! Notifications of buyers, by mail and push.

use crate::message::Message;
use crate::sink::{DeliveryError, Sink, SinkFuture};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use stockhold_api::sink_record::AsideEvent;
use stockhold_domain::EventId;
use stockhold_notify::{Channel, Notified, Notifier, NotifyFailure};
use tokio::task::JoinSet;

/// Notifications that are sent at once.
const AT_ONCE: usize = 16;
/// So many different recipients in a row whose messages are not taken are no coincidence.
const IN_A_ROW: usize = 3;

const ACT_ON_ALL: &str = "have the operator of the mail server or of the push service take the messages of this server; what was put aside \
     is sent then";

/// Tells buyers of the events.
pub(super) struct NotificationSink {
    notifier: Arc<Notifier>,
    /// On which channels buyers were told already of events that are delivered again.
    done: HashMap<EventId, Vec<Channel>>,
    /// The recipients whose messages were put aside since the last one that was taken, by channel.
    in_a_row: HashMap<Channel, HashSet<u64>>,
    /// What the last delivery has put aside.
    aside: Vec<AsideEvent>,
}

/// What became of an event.
struct NotifyResult {
    id: EventId,
    done: Vec<Channel>,
    result: Result<Notified, NotifyFailure>,
}

impl NotificationSink {
    pub(super) fn new(notifier: Arc<Notifier>) -> Self {
        Self { notifier, done: HashMap::new(), in_a_row: HashMap::new(), aside: Vec::new() }
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
                (number, NotifyResult { id: event.id, done, result })
            });
        }
        let mut told = Vec::new();
        while let Some(ended) = telling.join_next().await {
            told.push(ended.map_err(DeliveryError::failed)?);
        }
        told.sort_unstable_by_key(|(number, _)| *number);
        let mut failure = None;
        for (number, one) in told {
            let failed = match &failure {
                None => self.note(&one, messages.get(number)),
                // It is delivered again, behind the one that failed.
                Some(_) => None,
            };
            failure = failure.or(failed.map(|error| error.after(number)));
            if failure.is_some() {
                self.done.insert(one.id, one.done);
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Notes what became of an event. Returns why it has to be delivered again.
    fn note(&mut self, told: &NotifyResult, message: Option<&Message>) -> Option<DeliveryError> {
        let Notified { sent, aside } = match &told.result {
            Ok(notified) => notified,
            Err(NotifyFailure { message, action: None }) => return Some(DeliveryError::failed(message)),
            Err(NotifyFailure { message, action: Some(action) }) => {
                return Some(DeliveryError::blocked(message, action));
            }
        };
        for channel in sent {
            self.in_a_row.remove(channel);
        }
        for one in aside {
            let recipients = self.in_a_row.entry(one.channel).or_default();
            recipients.insert(one.recipient);
            if recipients.len() >= IN_A_ROW {
                return Some(DeliveryError::blocked(
                    format!("{}: {}", one.channel.name(), one.why),
                    ACT_ON_ALL,
                ));
            }
        }
        if let Some(message) = message {
            self.aside.extend(aside.iter().map(|one| {
                let (channel, why) = (one.channel.name(), &one.why);
                tracing::warn!(channel, event_id = %told.id, why, "a notification was put aside");
                AsideEvent {
                    event_id: told.id.to_string(),
                    position: message.position,
                    part: channel.to_owned(),
                    at: 0,
                }
            }));
        }
        None
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

    fn put_aside(&mut self, now: i64) -> Vec<AsideEvent> {
        let aside = std::mem::take(&mut self.aside).into_iter();
        aside.map(|event| AsideEvent { at: now, ..event }).collect()
    }

    fn deliver_aside<'a>(&'a mut self, message: &'a Message, aside: &'a AsideEvent) -> SinkFuture<'a, bool> {
        Box::pin(async move {
            let Some(event) = &message.event else { return Ok(true) };
            // On the other channels the buyer was told.
            let mut done: Vec<_> =
                Channel::ALL.into_iter().filter(|channel| channel.name() != aside.part).collect();
            match self.notifier.notify(event, &mut done).await {
                Ok(notified) => Ok(notified.aside.is_empty()),
                Err(failure) => Err(DeliveryError::failed(failure.message)),
            }
        })
    }
}
