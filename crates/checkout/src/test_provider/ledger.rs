//! The ledger of the test provider: its payments, and the answers that it remembers. Each change is appended to a file, so that a restart
//! knows all of it. The provider's own power cuts are not simulated, so the file is not synced.

use super::method::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use stockhold_store::own_files;

/// Times that a refund of `refund_fails_three_times` fails.
const FAILED_REFUNDS: u32 = 3;

/// The state of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LedgerState {
    RequiresAction,
    Authorized,
    Captured,
    Declined,
    Voided,
}

/// A payment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LedgerPayment {
    pub(super) provider_ref: String,
    pub(super) reservation_id: String,
    pub(super) payment_id: String,
    pub(super) attempt: u64,
    pub(super) amount: u64,
    pub(super) currency: String,
    pub(super) method: String,
    /// Whether the money moves without a capture.
    pub(super) capture: bool,
    pub(super) state: LedgerState,
    pub(super) captured_amount: u64,
    pub(super) refunded_amount: u64,
    /// The attempts of refunds that were made.
    pub(super) refund_attempts: Vec<u64>,
    pub(super) refused_refunds: u32,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
enum Entry {
    Payment(LedgerPayment),
    Answer { key: String, status: u16, body: Value },
}

/// What a request is answered with.
#[derive(Clone, Debug)]
pub(super) struct LedgerAnswer {
    pub(super) status: u16,
    pub(super) body: Value,
}

pub(super) struct Ledger {
    file: File,
    payments: BTreeMap<String, LedgerPayment>,
    answers: HashMap<String, LedgerAnswer>,
    /// Where the buyer goes who has to do something.
    action_base: String,
}

impl Ledger {
    pub(super) fn open(file: &Path, action_base: String) -> io::Result<Self> {
        let (mut payments, mut answers) = (BTreeMap::new(), HashMap::new());
        if file.exists() {
            for line in BufReader::new(File::open(file)?).lines() {
                match serde_json::from_str(&line?) {
                    Ok(Entry::Payment(payment)) => {
                        payments.insert(payment.provider_ref.clone(), payment);
                    }
                    Ok(Entry::Answer { key, status, body }) => {
                        answers.insert(key, LedgerAnswer { status, body });
                    }
                    // The process was killed while it wrote the last line. Nobody got an answer about it.
                    Err(error) if error.is_eof() => {}
                    Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
                }
            }
        }
        let mut file = own_files::options().create(true).append(true).open(file)?;
        // Whatever the last line was, the next one begins anew.
        if !payments.is_empty() || !answers.is_empty() {
            file.write_all(b"\n")?;
        }
        Ok(Self { file, payments, answers, action_base })
    }

    /// The answer that a key got before.
    pub(super) fn answer_to(&self, key: &str) -> Option<LedgerAnswer> {
        self.answers.get(key).cloned()
    }

    /// Remembers an answer for its key.
    pub(super) fn remember(&mut self, key: &str, answer: &LedgerAnswer) {
        let LedgerAnswer { status, body } = answer.clone();
        self.append(&Entry::Answer { key: key.to_owned(), status, body });
        self.answers.insert(key.to_owned(), answer.clone());
    }

    fn append(&mut self, entry: &Entry) {
        let written =
            serde_json::to_string(entry).map(|line| self.file.write_all(format!("{line}\n").as_bytes()));
        if !matches!(written, Ok(Ok(()))) {
            tracing::error!("the ledger of the test provider can't be written");
        }
    }

    fn put(&mut self, payment: LedgerPayment) -> LedgerAnswer {
        let body = self.show(&payment);
        self.append(&Entry::Payment(payment.clone()));
        self.payments.insert(payment.provider_ref.clone(), payment);
        LedgerAnswer { status: 200, body }
    }

    fn show(&self, payment: &LedgerPayment) -> Value {
        let mut shown = json!(payment);
        if payment.state == LedgerState::RequiresAction {
            shown["action_url"] = format!("{}/action/{}", self.action_base, payment.provider_ref).into();
        }
        if payment.state == LedgerState::Declined {
            shown["error"] = "card_declined".into();
        }
        shown
    }

    /// All payments, or those of a payment id and an attempt.
    pub(super) fn list(&self, filter: Option<(&str, u64)>) -> Value {
        let fits = |payment: &&LedgerPayment| {
            filter.is_none_or(|(id, attempt)| payment.payment_id == id && payment.attempt == attempt)
        };
        let data: Vec<Value> = self.payments.values().filter(fits).map(|one| self.show(one)).collect();
        json!({ "data": data })
    }

    pub(super) fn payment(&self, provider_ref: &str) -> Option<LedgerAnswer> {
        self.payments.get(provider_ref).map(|payment| LedgerAnswer { status: 200, body: self.show(payment) })
    }

    /// The reservation and the method of a payment.
    pub(super) fn subject(&self, provider_ref: &str) -> Option<(String, Option<Method>)> {
        let payment = self.payments.get(provider_ref)?;
        Some((payment.reservation_id.clone(), Method::from_name(&payment.method)))
    }

    /// Makes a payment.
    pub(super) fn create(&mut self, mut payment: LedgerPayment, method: Method) -> LedgerAnswer {
        payment.provider_ref = format!("pay_{:08}", self.payments.len() + 1);
        match method {
            Method::Decline => payment.state = LedgerState::Declined,
            Method::RequireAction => payment.state = LedgerState::RequiresAction,
            _ => approve(&mut payment),
        }
        let is_declined = payment.state == LedgerState::Declined;
        let answer = self.put(payment);
        LedgerAnswer { status: if is_declined { 402 } else { 200 }, ..answer }
    }

    /// What the buyer did.
    pub(super) fn complete(&mut self, provider_ref: &str, outcome: &str) -> Option<LedgerAnswer> {
        let mut payment = self.payments.get(provider_ref)?.clone();
        if payment.state != LedgerState::RequiresAction {
            return Some(refused(409, "not_waiting"));
        }
        match outcome {
            "approve" => approve(&mut payment),
            "decline" => payment.state = LedgerState::Declined,
            _ => return Some(refused(400, "unknown_outcome")),
        }
        Some(self.put(payment))
    }

    pub(super) fn capture(&mut self, provider_ref: &str, amount: u64) -> Option<LedgerAnswer> {
        let mut payment = self.payments.get(provider_ref)?.clone();
        if payment.state == LedgerState::Authorized {
            if Method::from_name(&payment.method) == Some(Method::CaptureFails) {
                return Some(refused(402, "capture_declined"));
            }
            if amount > payment.amount {
                return Some(refused(400, "exceeds_authorized"));
            }
            payment.state = LedgerState::Captured;
            payment.captured_amount = amount;
            return Some(self.put(payment));
        }
        self.payment(provider_ref)
    }

    pub(super) fn void(&mut self, provider_ref: &str) -> Option<LedgerAnswer> {
        let mut payment = self.payments.get(provider_ref)?.clone();
        if matches!(payment.state, LedgerState::Authorized | LedgerState::RequiresAction) {
            payment.state = LedgerState::Voided;
            return Some(self.put(payment));
        }
        self.payment(provider_ref)
    }

    pub(super) fn refund(&mut self, provider_ref: &str, amount: u64, attempt: u64) -> Option<LedgerAnswer> {
        let mut payment = self.payments.get(provider_ref)?.clone();
        let fails = Method::from_name(&payment.method) == Some(Method::RefundFailsThreeTimes);
        if fails && payment.refused_refunds < FAILED_REFUNDS {
            payment.refused_refunds += 1;
            self.put(payment);
            return Some(refused(402, "refund_refused"));
        }
        if payment.state != LedgerState::Captured
            || payment.refunded_amount + amount > payment.captured_amount
        {
            return Some(refused(402, "exceeds_captured"));
        }
        payment.refunded_amount += amount;
        payment.refund_attempts.push(attempt);
        Some(self.put(payment))
    }
}

fn approve(payment: &mut LedgerPayment) {
    if payment.capture {
        payment.state = LedgerState::Captured;
        payment.captured_amount = payment.amount;
    } else {
        payment.state = LedgerState::Authorized;
    }
}

pub(super) fn refused(status: u16, error: &str) -> LedgerAnswer {
    LedgerAnswer { status, body: json!({ "error": error }) }
}
