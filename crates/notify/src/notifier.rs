//! Makes notifications from events and sends them.

use crate::kind::NotificationKind;
use crate::push::{PushOptions, PushSender};
use crate::sample::data;
use crate::smtp::{SmtpOptions, SmtpSender};
use crate::templates::Templates;
use crate::verdict::Verdict;
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
    fn name(self) -> &'static str {
        match self {
            Self::Mail => "mail",
            Self::Push => "push",
        }
    }
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
            "Notifications of buyers, by channel and result: sent, refused (not sent again) or failed (sent again)"
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
    /// those on which this call did it. An error means that the event has to be given again.
    pub async fn notify(&self, event: &Event, done: &mut Vec<Channel>) -> Result<(), String> {
        let Some((kind, hold)) = NotificationKind::of(event) else { return Ok(()) };
        if kind == NotificationKind::ReservationExpired && !self.expiry {
            return Ok(());
        }
        let Some(customer) = buyer(hold) else { return Ok(()) };
        let id = event.id.to_string();
        let contact = match self.customers.contact(customer).await {
            Ok(Some(contact)) => contact,
            Ok(None) => return Ok(()),
            Err(error @ CustomerError::Damaged) => {
                tracing::error!(event_id = id, %error, "a buyer can't be notified");
                return Ok(());
            }
            // It names a key, or what the store lacks.
            Err(error) => return Err(error.to_string()),
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
                return Ok(());
            }
        };
        let Contact { email, push_token, locale: _ } = contact;
        let mut failure = None;
        if let (Some(smtp), Some(to), false) = (&self.smtp, &email, done.contains(&Channel::Mail)) {
            note(Channel::Mail, smtp.send(to, &id, &text).await, &id, done, &mut failure);
        }
        if let (Some(push), Some(to), false) = (&self.push, &push_token, done.contains(&Channel::Push)) {
            note(Channel::Push, push.send(to, &id, kind.name(), &text).await, &id, done, &mut failure);
        }
        failure.map_or(Ok(()), Err)
    }
}

/// The customer whose payment it is, or for whom the reservation was made.
fn buyer(hold: &Hold) -> Option<&Label> {
    match hold.charge().map(|charge| &charge.terms.method) {
        Some(PaymentMethod::Customer { customer_id, .. }) => Some(customer_id),
        _ => hold.terms.reserve.optional.as_ref()?.customer_id.as_ref(),
    }
}

fn note(channel: Channel, verdict: Verdict, id: &str, done: &mut Vec<Channel>, failure: &mut Option<String>) {
    let result = match verdict {
        Verdict::Sent => "sent",
        Verdict::Refused(why) => {
            tracing::warn!(channel = channel.name(), event_id = id, why, "a notification was refused");
            "refused"
        }
        Verdict::Later(why) => {
            *failure = Some(why);
            "failed"
        }
    };
    if result != "failed" {
        done.push(channel);
    }
    metrics::counter!("stockhold_notifications_total", "channel" => channel.name(), "result" => result)
        .increment(1);
}

/// The reservation as the API shows it.
fn reservation(hold: &Hold) -> serde_json::Value {
    let mut text = Vec::with_capacity(1_024);
    encode::reservation(&mut text, hold);
    serde_json::from_slice(&text).unwrap_or_default()
}
