//! What a client knows of one reservation from acknowledged answers, and the check of later answers against it.

use super::Stock;
use super::known_line::{KnownLine, lines};
use super::op::Reserve;
use crate::http::Request;
use serde_json::Value;
use std::collections::BTreeSet;

/// Related reservations that an answer lists at most.
const RELATED: usize = 100;

/// One reservation, as acknowledged by answers.
#[derive(Clone, Debug)]
pub(super) struct KnownReservation {
    pub(super) id: String,
    pub(super) made_by: Made,
    pub(super) parties: Parties,
    pub(super) lines: Vec<KnownLine>,
    pub(super) deadline: Deadline,
    pub(super) max_expires_at: i64,
    pub(super) state: ReservationState,
    pub(super) version: u64,
    /// Transitions besides those in `version` that may have happened unseen.
    pub(super) maybe_more: u64,
    pub(super) payment: Option<KnownPayment>,
    /// Whether it, or one that it comes from, ever had a payment window.
    pub(super) had_window: bool,
    pub(super) links: Links,
}

/// The request that made a reservation, and the status of its success.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) request: Request,
    pub(super) status: u16,
}

/// Who a reservation is for, and the note in its metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parties {
    pub(super) owner: String,
    pub(super) customer: Option<String>,
    pub(super) note: Option<u64>,
}

/// A deadline in milliseconds since 1970, or the two instants that it lies between: the closing of a payment window is
/// answered without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deadline {
    pub(super) from: i64,
    pub(super) to: i64,
}

/// The latest payment window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownPayment {
    pub(super) id: String,
    pub(super) state: WindowState,
    /// When it ends, if an answer has shown that.
    pub(super) until: Option<i64>,
    /// The deadline of the reservation before the window was opened.
    pub(super) before: Deadline,
}

/// The state of a payment window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WindowState {
    Open,
    Closed,
    /// The reservation expired in it.
    Lapsed,
    /// It was closed at about the deadline: closed or lapsed, whichever came first.
    Ended,
}

/// The relations of a reservation to others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Links {
    pub(super) split_from: Option<String>,
    pub(super) split_into: Vec<String>,
    pub(super) merged_from: Vec<String>,
    pub(super) merged_into: Option<String>,
    pub(super) replaces: Option<String>,
    pub(super) replaced_by: Option<String>,
}

/// The state of a reservation, from acknowledged answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReservationState {
    /// Held when last heard of; the deadline may have come since.
    Active,
    Confirmed,
    Cancelled,
    Expired,
    /// A release succeeded at about the deadline: cancelled or expired, whichever came first.
    Ended,
}

/// A reservation as one answer shows it.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) id: String,
    pub(super) state: ReservationState,
    pub(super) version: u64,
    pub(super) lines: Vec<KnownLine>,
    pub(super) expires_at: i64,
    pub(super) max_expires_at: i64,
    pub(super) parties: Parties,
    pub(super) payment: Option<ShownPayment>,
    pub(super) links: Links,
    closed_at: Option<i64>,
    merged: bool,
}

/// A payment window as an answer shows it.
#[derive(Clone, Debug)]
pub(super) struct ShownPayment {
    pub(super) id: String,
    pub(super) state: WindowState,
    pub(super) until: i64,
}

impl Deadline {
    pub(super) fn at(instant: i64) -> Self {
        Self { from: instant, to: instant }
    }

    pub(super) fn is_exact(self) -> bool {
        self.from == self.to
    }

    fn has(self, instant: i64) -> bool {
        (self.from..=self.to).contains(&instant)
    }
}

impl Shown {
    pub(super) fn read(answer: &Value, stock: &[Stock]) -> Result<Self, String> {
        let text = |name: &str| answer[name].as_str().map(str::to_owned);
        let id_list = |name: &str| {
            let ids = answer[name].as_array().into_iter().flatten();
            ids.filter_map(|id| id.as_str().map(str::to_owned)).collect()
        };
        let payment = match &answer["payment"] {
            Value::Null => None,
            payment => Some(ShownPayment {
                id: payment["payment_id"].as_str().ok_or("a payment with no id")?.to_owned(),
                state: match payment["state"].as_str() {
                    Some("open") => WindowState::Open,
                    Some("closed") => WindowState::Closed,
                    Some("lapsed") => WindowState::Lapsed,
                    _ => return Err(format!("payment {payment}")),
                },
                until: millis(&payment["until"])?,
            }),
        };
        let shown = Self {
            id: text("reservation_id").ok_or("no reservation_id")?,
            state: state(answer)?,
            version: answer["version"].as_u64().ok_or("no version")?,
            lines: lines(answer, stock)?,
            expires_at: millis(&answer["expires_at"])?,
            max_expires_at: millis(&answer["max_expires_at"])?,
            parties: Parties {
                owner: text("owner_id").ok_or("no owner_id")?,
                customer: text("customer_id"),
                note: answer["metadata"]["note"].as_u64(),
            },
            payment,
            links: Links {
                split_from: text("split_from"),
                split_into: id_list("split_into"),
                merged_from: id_list("merged_from"),
                merged_into: text("merged_into"),
                replaces: text("replaces"),
                replaced_by: text("replaced_by"),
            },
            closed_at: millis(&answer["closed_at"]).ok(),
            merged: answer["close_reason"] == "merged",
        };
        if shown.lines.is_empty() || shown.merged != shown.links.merged_into.is_some() {
            return Err("a reservation that does not add up".to_owned());
        }
        if shown.state == ReservationState::Expired && shown.closed_at.is_none_or(|at| at < shown.expires_at)
        {
            return Err("expired before its deadline".to_owned());
        }
        Ok(shown)
    }
}

impl KnownReservation {
    /// From the answer to its reserve, checked against what was asked.
    pub(super) fn new(
        request: &Reserve,
        made_by: Made,
        answer: &Value,
        stock: &[Stock],
    ) -> Result<Self, String> {
        let shown = Shown::read(answer, stock)?;
        for line in &shown.lines {
            let asked = request.lines.iter().find(|(sku, _)| *sku == line.sku).map_or(0, |(_, asked)| *asked);
            let granted =
                if request.partial { (1..=asked).contains(&line.quantity) } else { line.quantity == asked };
            if !granted || line.requested != asked {
                return Err(format!("{} of {asked} granted", line.quantity));
            }
            if let Some(named) = request.named((line.sku, asked), stock) {
                let named: BTreeSet<&str> = named.iter().map(String::as_str).collect();
                if line.ids() != named {
                    return Err(format!("{:?} granted, where {named:?} were asked for", line.units));
                }
            }
        }
        if !request.partial && shown.lines.len() != request.lines.len() {
            return Err(format!("{} of {} lines granted", shown.lines.len(), request.lines.len()));
        }
        if shown.parties
            != (Parties { owner: request.owner(), customer: request.customer.clone(), note: None })
        {
            return Err(format!("reserved for {:?}", shown.parties));
        }
        // The answer may be a replay after the deadline; then it shows the hold as it is now.
        let mut known = Self::made(&shown, made_by, 1);
        known.check(&shown)?;
        Ok(known)
    }

    /// One that was made with this version, and may have expired since. Its content is as shown.
    pub(super) fn made(shown: &Shown, made_by: Made, version: u64) -> Self {
        Self {
            id: shown.id.clone(),
            made_by,
            parties: shown.parties.clone(),
            lines: shown.lines.clone(),
            deadline: Deadline::at(shown.expires_at),
            max_expires_at: shown.max_expires_at,
            state: ReservationState::Active,
            version,
            maybe_more: 0,
            payment: None,
            had_window: false,
            links: Links::default(),
        }
    }

    /// Its open payment window.
    pub(super) fn open_payment(&self) -> Option<&KnownPayment> {
        self.payment.as_ref().filter(|payment| payment.state == WindowState::Open)
    }

    /// Units over all lines.
    pub(super) fn quantity(&self) -> u64 {
        self.lines.iter().map(|line| line.quantity).sum()
    }

    /// An active reservation has ended in this state.
    pub(super) fn end(&mut self, state: ReservationState) {
        self.state = state;
        self.version += 1;
        if let Some(payment) = &mut self.payment {
            match payment.state {
                // Whether it was closed before the end is not known.
                WindowState::Ended => (self.version, self.maybe_more) = (self.version - 1, 1),
                WindowState::Open if state == ReservationState::Expired => {
                    payment.state = WindowState::Lapsed;
                }
                WindowState::Open | WindowState::Closed | WindowState::Lapsed => {}
            }
        }
    }

    /// An answer has shown that it was active, so that a window that was closed did not lapse.
    pub(super) fn was_active(&mut self) {
        if let Some(payment) = &mut self.payment
            && payment.state == WindowState::Ended
        {
            payment.state = WindowState::Closed;
        }
    }

    /// Whether an answer agrees with what is known; takes from it what could not be known.
    pub(super) fn check(&mut self, shown: &Shown) -> Result<(), String> {
        if shown.id != self.id {
            return Err("another reservation".to_owned());
        }
        let now = shown.state;
        let agrees = match self.state {
            ReservationState::Active => now == ReservationState::Active || now == ReservationState::Expired,
            ReservationState::Ended => now == ReservationState::Cancelled || now == ReservationState::Expired,
            settled => now == settled,
        };
        if !agrees {
            return Err(format!("{now:?}, but {:?} was acknowledged", self.state));
        }
        let mut expected = self.clone();
        if self.state == ReservationState::Active && now == ReservationState::Expired {
            expected.end(now);
        }
        if !(expected.version..=expected.version + expected.maybe_more).contains(&shown.version) {
            let (version, more) = (expected.version, expected.maybe_more);
            return Err(format!("version {}, but {version} (+{more}) was acknowledged", shown.version));
        }
        if !self.deadline.has(shown.expires_at) || self.max_expires_at != shown.max_expires_at {
            return Err(format!("deadline {}, but {:?} was acknowledged", shown.expires_at, self.deadline));
        }
        let leads = shown.lines.len() == self.lines.len()
            && self.lines.iter().zip(&shown.lines).all(|(line, next)| line.leads_to(next));
        if !leads {
            return Err(format!("lines {:?}, but {:?} were acknowledged", shown.lines, self.lines));
        }
        if shown.parties != self.parties {
            return Err(format!("{:?}, but {:?} were acknowledged", shown.parties, self.parties));
        }
        if shown.links != self.links.latest() {
            return Err(format!("{:?}, but {:?} were acknowledged", shown.links, self.links));
        }
        let payment = expected.payment_as_shown(shown)?;
        *self = Self {
            state: now,
            version: shown.version,
            maybe_more: 0,
            deadline: Deadline::at(shown.expires_at),
            lines: shown.lines.clone(),
            payment,
            ..expected
        };
        Ok(())
    }

    /// The payment window after an answer, if the answer agrees with what is known of it.
    fn payment_as_shown(&self, shown: &Shown) -> Result<Option<KnownPayment>, String> {
        let (known, payment) = match (&self.payment, &shown.payment) {
            (None, None) => return Ok(None),
            (Some(known), Some(payment)) => (known, payment),
            _ => return Err(format!("payment {:?}, but {:?} was acknowledged", shown.payment, self.payment)),
        };
        let state = match known.state {
            WindowState::Ended if payment.state == WindowState::Closed => true,
            WindowState::Ended => {
                payment.state == WindowState::Lapsed && shown.state == ReservationState::Expired
            }
            settled => payment.state == settled,
        };
        if !state || payment.id != known.id || known.until.is_some_and(|until| until != payment.until) {
            return Err(format!("payment {payment:?}, but {known:?} was acknowledged"));
        }
        Ok(Some(KnownPayment { state: payment.state, until: Some(payment.until), ..known.clone() }))
    }
}

impl Links {
    /// As answers show them: of many related reservations only the latest.
    fn latest(&self) -> Self {
        let latest = |ids: &[String]| ids[ids.len().saturating_sub(RELATED)..].to_vec();
        Self { split_into: latest(&self.split_into), merged_from: latest(&self.merged_from), ..self.clone() }
    }
}

fn state(answer: &Value) -> Result<ReservationState, String> {
    match answer["status"].as_str() {
        Some("active") => Ok(ReservationState::Active),
        Some("confirmed") => Ok(ReservationState::Confirmed),
        Some("cancelled") => Ok(ReservationState::Cancelled),
        Some("expired") => Ok(ReservationState::Expired),
        _ => Err(format!("status {}", answer["status"])),
    }
}

/// An instant of an answer in milliseconds since 1970.
pub(super) fn millis(value: &Value) -> Result<i64, String> {
    let text = value.as_str().ok_or_else(|| format!("no instant: {value}"))?;
    text.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_millisecond).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
