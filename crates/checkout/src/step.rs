//! One step of a payment: what its provider is asked, and what its answer says. It changes nothing in the store.

use crate::provider::{
    PaymentProvider, PaymentRequest, ProviderError, ProviderPayment, ProviderState, RefundRequest,
};
use stockhold_customers::ProviderMethod;
use stockhold_domain::{Charge, ChargeState, Hold, Instant, Label, ProviderRef, ProviderReport, Status};
use stockhold_store::clock::Clocks;

/// How long a provider remembers an idempotency key. Stripe does so for 24 hours. After that a request is never repeated: the provider's
/// lists say what became of it.
const KEY_LIFETIME_MICROS: i64 = 23 * 3_600 * 1_000_000;
/// The code of a payment whose customer was erased before it could be asked for.
const CUSTOMER_ERASED: &str = "customer_erased";

/// Whether the next step of a payment needs the payment method: it is asked for, or looked for because a request was not answered.
pub(crate) fn needs_method(charge: &Charge) -> bool {
    let state = charge.state;
    let asks = matches!(
        state,
        ChargeState::Pending | ChargeState::RequiresAction | ChargeState::Processing | ChargeState::Voiding
    );
    asks && charge.provider_ref.is_none()
}

/// Asks the provider of a payment what comes next. `method` is the payment method, where [`needs_method`] says so. `None`: its customer
/// was erased.
pub(crate) async fn ask(
    provider: &dyn PaymentProvider,
    hold: &Hold,
    method: Option<&ProviderMethod>,
    clocks: &Clocks,
) -> Option<ProviderReport> {
    let charge = hold.charge()?;
    let payment = hold.details().payment.as_ref()?;
    let attempt = hold.details().authorizations;
    let key = format!("{}:authorize:{attempt}", hold.id);
    let (now, attempted_at) = (clocks.store.now().micros(), charge.attempted_at.micros());
    // The provider's clock is near the wall clock, and the attempt has the time of the store, which may be ahead of it.
    let ahead = now.saturating_sub(clocks.wall.now().micros()).max(0);
    let request = PaymentRequest {
        reservation_id: hold.id,
        payment_id: payment.id.as_str(),
        charge,
        method,
        attempt,
        key: &key,
        sent_after: Instant::from_micros(attempted_at.saturating_sub(ahead)),
    };
    let is_key_known = now.saturating_sub(attempted_at) < KEY_LIFETIME_MICROS;
    let step = Step { provider, hold, charge, request, is_key_known };
    Some(match charge.state {
        ChargeState::Pending | ChargeState::RequiresAction | ChargeState::Processing => {
            match &charge.provider_ref {
                Some(known) => reported(provider.retrieve(known).await),
                None => step.authorize().await,
            }
        }
        ChargeState::Authorized | ChargeState::Capturing => step.capture(charge.provider_ref.as_ref()?).await,
        ChargeState::Voiding => match &charge.provider_ref {
            Some(known) => step.void(known).await,
            None => step.find_to_void().await,
        },
        ChargeState::Refunding => step.refund(charge.provider_ref.as_ref()?).await?,
        ChargeState::Captured
        | ChargeState::Declined
        | ChargeState::Voided
        | ChargeState::Refunded
        | ChargeState::RefundFailed => return None,
    })
}

struct Step<'a> {
    provider: &'a dyn PaymentProvider,
    hold: &'a Hold,
    charge: &'a Charge,
    request: PaymentRequest<'a>,
    /// Whether the provider still knows the latest key.
    is_key_known: bool,
}

impl Step<'_> {
    async fn authorize(&self) -> ProviderReport {
        let Some(method) = self.request.method else { return self.find_or_declined().await };
        if !self.is_key_known {
            return self.find_or_failed("key_forgotten").await;
        }
        match self.provider.authorize(&self.request, method).await {
            // The provider may give this answer to the same key again and again.
            Err(ProviderError::Failed(code)) if self.charge.tries > 0 => self.find_or_failed(&code).await,
            answer => reported(answer),
        }
    }

    /// What the provider's lists say about a request that has no answer.
    async fn find_or_failed(&self, code: &str) -> ProviderReport {
        match self.provider.find(&self.request).await {
            Ok(Some(payment)) => report_of(payment),
            Ok(None) => ProviderReport::Failed { error: label(code) },
            Err(error) => no_answer(&error),
        }
    }

    /// Without its method a payment can't be asked for, only found.
    async fn find_or_declined(&self) -> ProviderReport {
        match self.provider.find(&self.request).await {
            Ok(Some(payment)) => report_of(payment),
            Ok(None) => ProviderReport::Declined { error: label(CUSTOMER_ERASED) },
            Err(error) => no_answer(&error),
        }
    }

    async fn capture(&self, known: &ProviderRef) -> ProviderReport {
        if !self.is_key_known {
            return match self.provider.retrieve(known).await {
                Ok(payment) => captured(payment, "key_forgotten"),
                Err(error) => no_answer(&error),
            };
        }
        let key = format!("{}:capture:{}", self.hold.id, self.charge.capture_attempts);
        match self.provider.capture(known, self.charge.amount, &key).await {
            Ok(payment) => captured(payment, "not_captured"),
            Err(ProviderError::Declined(code)) => ProviderReport::Declined { error: label(&code) },
            Err(ProviderError::Refused(code) | ProviderError::Failed(code)) => {
                match self.provider.retrieve(known).await {
                    Ok(payment) => captured(payment, &code),
                    Err(error) => no_answer(&error),
                }
            }
            Err(error) => no_answer(&error),
        }
    }

    /// Money may have come to a hold that has expired: that is reported first, because the rules may take the units again.
    async fn void(&self, known: &ProviderRef) -> ProviderReport {
        if self.charge.reacquires && self.hold.status == Status::Expired {
            match self.provider.retrieve(known).await {
                Ok(payment) if is_money(&payment) => return report_of(payment),
                Ok(_) => {}
                Err(error) => return no_answer(&error),
            }
        }
        // A payment can be ended once only, so each try may have a key of its own.
        let key = format!("{}:void:{}.{}", self.hold.id, self.request.attempt, self.charge.tries);
        match self.provider.void(known, &key).await {
            Ok(payment) => ended(payment),
            Err(ProviderError::Refused(_) | ProviderError::Declined(_) | ProviderError::Failed(_)) => {
                match self.provider.retrieve(known).await {
                    Ok(payment) => ended(payment),
                    Err(error) => no_answer(&error),
                }
            }
            Err(error) => no_answer(&error),
        }
    }

    /// A payment is to be ended whose request was not answered, if it was ever sent. It is looked for, and else asked for once more with
    /// the same key: then it is known, and can be ended.
    async fn find_to_void(&self) -> ProviderReport {
        match self.provider.find(&self.request).await {
            Ok(Some(payment)) => return report_of(payment),
            Ok(None) => {}
            Err(error) => return no_answer(&error),
        }
        let Some(method) = self.request.method.filter(|_| self.is_key_known) else {
            return ProviderReport::Cancelled;
        };
        match self.provider.authorize(&self.request, method).await {
            Ok(payment) => report_of(payment),
            Err(ProviderError::Declined(_) | ProviderError::Refused(_)) => ProviderReport::Cancelled,
            // It answers so to this key, and its lists have no payment.
            Err(ProviderError::Failed(_)) if self.charge.tries > 0 => ProviderReport::Cancelled,
            Err(error) => no_answer(&error),
        }
    }

    async fn refund(&self, known: &ProviderRef) -> Option<ProviderReport> {
        let amount = self.charge.refunds.first()?.amount;
        let attempt = self.charge.refund_attempts;
        let key = format!("{}:refund:{attempt}", self.hold.id);
        let request = RefundRequest { provider_ref: known, amount, attempt, key: &key };
        let answer = if self.is_key_known {
            self.provider.refund(&request).await
        } else {
            Err(ProviderError::Failed("key_forgotten".to_owned()))
        };
        Some(match answer {
            Ok(()) => ProviderReport::Refunded,
            Err(ProviderError::Declined(code) | ProviderError::Refused(code)) => {
                ProviderReport::RefundRefused { error: label(&code) }
            }
            Err(ProviderError::Failed(code)) if self.charge.tries > 0 || !self.is_key_known => {
                match self.provider.has_refunded(&request).await {
                    Ok(true) => ProviderReport::Refunded,
                    Ok(false) => ProviderReport::Failed { error: label(&code) },
                    Err(error) => no_answer(&error),
                }
            }
            Err(error) => no_answer(&error),
        })
    }
}

/// What a payment says that was to be captured. `code` is why it may not be.
fn captured(payment: ProviderPayment, code: &str) -> ProviderReport {
    match payment.state {
        // Certainly not captured, so the request can be made again.
        ProviderState::Authorized => ProviderReport::Failed { error: label(code) },
        ProviderState::Declined(code) => ProviderReport::Declined { error: label(&code) },
        _ => report_of(payment),
    }
}

fn is_money(payment: &ProviderPayment) -> bool {
    matches!(payment.state, ProviderState::Authorized | ProviderState::Captured(_))
}

/// What a payment says that was to be ended.
fn ended(payment: ProviderPayment) -> ProviderReport {
    match payment.state {
        ProviderState::Cancelled | ProviderState::Declined(_) => ProviderReport::Cancelled,
        ProviderState::Captured(_) => report_of(payment),
        ProviderState::Authorized | ProviderState::RequiresAction(_) | ProviderState::Processing => {
            ProviderReport::NoAnswer { error: label("not_ended_yet") }
        }
    }
}

fn reported(answer: Result<ProviderPayment, ProviderError>) -> ProviderReport {
    match answer {
        Ok(payment) => report_of(payment),
        Err(ProviderError::Declined(code) | ProviderError::Refused(code)) => {
            ProviderReport::Declined { error: label(&code) }
        }
        Err(error) => no_answer(&error),
    }
}

fn report_of(ProviderPayment { provider_ref, state }: ProviderPayment) -> ProviderReport {
    match state {
        ProviderState::RequiresAction(_) => ProviderReport::RequiresAction { provider_ref },
        ProviderState::Processing => ProviderReport::Processing { provider_ref },
        ProviderState::Authorized => ProviderReport::Authorized { provider_ref },
        ProviderState::Captured(amount) => ProviderReport::Captured { provider_ref, amount },
        ProviderState::Declined(code) => ProviderReport::Declined { error: label(&code) },
        ProviderState::Cancelled => ProviderReport::Cancelled,
    }
}

fn no_answer(error: &ProviderError) -> ProviderReport {
    let code = match error {
        ProviderError::NoAnswer(code)
        | ProviderError::Failed(code)
        | ProviderError::Declined(code)
        | ProviderError::Refused(code) => code,
        ProviderError::Unauthorized => "provider_unauthorized",
    };
    ProviderReport::NoAnswer { error: label(code) }
}

/// A code as a label. A code that is none is replaced, because it comes from outside.
fn label(code: &str) -> Label {
    let short: String = code.chars().filter(|c| !c.is_control()).take(64).collect();
    Label::new(&short).unwrap_or_else(|_| unknown_code())
}

fn unknown_code() -> Label {
    Label::new("unknown").unwrap_or_else(|_| unreachable!("a word is a label"))
}
