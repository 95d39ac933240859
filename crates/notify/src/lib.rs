//! Tells buyers by mail and push what becomes of their orders.
//!
//! A notification is made from one event of a reservation whose checkout asked for it ([`NotificationKind::of`]). The text is a template
//! in the buyer's language (`templates`), and the address is among the
//! encrypted data of the customer (`stockhold_customers`). The relay calls [`Notifier::notify`]
//! for each event, and again for an event that failed, so a buyer is notified at least once. Every repetition has the same id. A message
//! that is refused, perhaps because of its recipient, is put aside: the relay keeps the event, and goes on with others.
//!
//! What must never happen: an address or a secret in a log or an error; one message that can't be sent holds back all others.
//!
//! Read in this order: `kind`, `templates`, `verdict`, `notifier`, `smtp`, `push`.

mod kind;
mod money;
mod notifier;
mod push;
mod sample;
mod smtp;
mod smtp_session;
mod templates;
mod verdict;

pub use kind::NotificationKind;
pub use notifier::{Channel, Notified, Notifier, NotifierOptions, NotifyFailure, PutAside};
pub use push::PushOptions;
pub use sample::sample;
pub use smtp_session::SmtpOptions;
pub use templates::{FALLBACK_LOCALE, RenderedText, Templates};
