//! Makes notifications from events and sends them.

use crate::kind::NotificationKind;
use crate::push::{PushOptions, PushSender};
use crate::sample::data;
use crate::smtp::SmtpSender;
use crate::smtp_session::SmtpOptions;
use crate::templates::Templates;
use crate::verdict::Verdict;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use stockhold_api::encode;
use stockhold_customers::{Contact, CustomerError, Customers};
use stockhold_domain::{Event, Hold, Label, PaymentMethod};
use stockhold_store::clock::Clock;

/// What notifications are sent with.
#[derive(Clone, Default)]
pub struct NotifierOptions {
    /// The directory of the operator's templates.
    pub template_dir: Option<PathBuf>,
    /// Whether buyers are notified that a reservation has expired.
    pub expiry: bool,
    /// How mail is sent, if it is.
    pub smtp: Option<SmtpOptions>,
    /// How push messages are sent, if they are.
    pub push: Option<PushOptions>,
}

/// A way to a buyer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// Mail.
    Mail,
    /// A push message.
    Push,
}

impl Channel {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Mail, Self::Push];

    /// The name in metrics and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mail => "mail",
            Self::Push => "push",
        }
    }
}

/// A message that was not taken, perhaps because of its recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutAside {
    /// How it was sent.
    pub channel: Channel,
    /// What the other side said, without an address.
    pub why: String,
    /// A hash of the recipient, to tell one from another.
    pub recipient: u64,
}

/// What became of the messages of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notified {
    /// How the buyer was told.
    pub sent: Vec<Channel>,
    /// What is to be put aside.
    pub aside: Vec<PutAside>,
}

/// Why an event has to be given again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifyFailure {
    /// What was wrong, without an address.
    pub message: String,
    /// What somebody has to do before anything goes on. `None`: it may go on by itself.
    pub action: Option<&'static str>,
}

/// Sends notifications.
pub struct Notifier {
    templates: Templates,
    customers: Customers,
    expiry: bool,
    smtp: Option<SmtpSender>,
    push: Option<PushSender>,
}

impl Notifier {
    /// Reads the templates and keys. An error begins with the setting that it is about.
    pub fn new(
        options: &NotifierOptions,
        customers: Customers,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, String> {
        let templates = Templates::load(options.template_dir.as_deref())
            .map_err(|error| format!("template_dir: {error}"))?;
        let smtp = options.smtp.as_ref().map(SmtpSender::new).transpose();
        let push = options.push.as_ref().map(|push| PushSender::new(push, clock)).transpose();
        metrics::describe_counter!(
            "stockhold_notifications_total",
            "Notifications of buyers, by channel and result: sent, refused (not sent again), put_aside (sent again, behind others) or failed \
             (sent again)"
        );
        Ok(Self {
            templates,
            customers,
            expiry: options.expiry,
            smtp: smtp.map_err(|error| format!("smtp.{error}"))?,
            push: push.map_err(|error| format!("push.{error}"))?,
        })
    }

    /// Tells the buyer of an event, if there is something to tell. `done` has the channels on which the buyer was told already, and gets
    /// those on which this call did it, or never will. An error means that the event has to be given again.
    pub async fn notify(&self, event: &Event, done: &mut Vec<Channel>) -> Result<Notified, NotifyFailure> {
        let Some((kind, hold)) = NotificationKind::of(event) else { return Ok(Notified::default()) };
        if kind == NotificationKind::ReservationExpired && !self.expiry {
            return Ok(Notified::default());
        }
        let Some(customer) = buyer(hold) else { return Ok(Notified::default()) };
        let id = event.id.to_string();
        let contact = match self.customers.contact(customer).await {
            Ok(Some(contact)) => contact,
            Ok(None) => return Ok(Notified::default()),
            Err(error @ CustomerError::Damaged) => {
                tracing::error!(event_id = id, %error, "a buyer can't be notified");
                return Ok(Notified::default());
            }
            // It names a key, or what the store lacks.
            Err(error) => return Err(unreadable(&error)),
        };
        let data = data(
            kind,
            &id,
            &encode::instant_text(event.at),
            hold.charge().map_or("", |charge| charge.order_id.as_str()),
            &reservation(hold),
        );
        let text = match self.templates.render(kind, contact.locale.as_deref(), &data) {
            Ok(text) => text,
            Err(error) => {
                tracing::error!(kind = kind.name(), event_id = id, error, "a template can't be rendered");
                return Ok(Notified::default());
            }
        };
        let Contact { email, push_token, locale: _ } = contact;
        let mut results = Vec::new();
        if let (Some(smtp), Some(to), false) = (&self.smtp, &email, done.contains(&Channel::Mail)) {
            results.push((Channel::Mail, to, smtp.send(to, &id, &text).await));
        }
        if let (Some(push), Some(to), false) = (&self.push, &push_token, done.contains(&Channel::Push)) {
            results.push((Channel::Push, to, push.send(to, &id, kind.name(), &text).await));
        }
        note(results, &id, done)
    }
}

/// The data of the buyer can't be read.
fn unreadable(error: &CustomerError) -> NotifyFailure {
    let action = match error {
        CustomerError::NoKey | CustomerError::UnknownKey(_) => {
            Some("put the missing key into customers.encryption_keys")
        }
        _ => None,
    };
    NotifyFailure { message: error.to_string(), action }
}

/// The customer whose payment it is, or for whom the reservation was made.
fn buyer(hold: &Hold) -> Option<&Label> {
    match hold.charge().map(|charge| &charge.terms.method) {
        Some(PaymentMethod::Customer { customer_id, .. }) => Some(customer_id),
        _ => hold.terms.reserve.optional.as_ref()?.customer_id.as_ref(),
    }
}

/// Counts what became of the messages of an event. The first failure is that of the event.
fn note(
    results: Vec<(Channel, &String, Verdict)>,
    id: &str,
    done: &mut Vec<Channel>,
) -> Result<Notified, NotifyFailure> {
    let (mut notified, mut failure) = (Notified::default(), None);
    for (channel, to, verdict) in results {
        let failed =
            |action| NotifyFailure { message: format!("{}: {}", channel.name(), verdict.why()), action };
        let result = match &verdict {
            Verdict::Sent => {
                notified.sent.push(channel);
                "sent"
            }
            Verdict::Refused(why) => {
                tracing::warn!(channel = channel.name(), event_id = id, why, "a notification was refused");
                "refused"
            }
            Verdict::Aside(why) => {
                let mut recipient = DefaultHasher::new();
                to.hash(&mut recipient);
                notified.aside.push(PutAside { channel, why: why.clone(), recipient: recipient.finish() });
                "put_aside"
            }
            Verdict::Later(_) => {
                failure.get_or_insert(failed(None));
                "failed"
            }
            Verdict::Blocked(_, action) => {
                failure.get_or_insert(failed(Some(action)));
                "failed"
            }
        };
        if matches!(verdict, Verdict::Sent | Verdict::Refused(_)) {
            done.push(channel);
        }
        metrics::counter!("stockhold_notifications_total", "channel" => channel.name(), "result" => result)
            .increment(1);
    }
    failure.map_or(Ok(notified), Err)
}

/// The reservation as the API shows it.
fn reservation(hold: &Hold) -> serde_json::Value {
    let mut text = Vec::with_capacity(1_024);
    encode::reservation(&mut text, hold);
    serde_json::from_slice(&text).unwrap_or_default()
}
