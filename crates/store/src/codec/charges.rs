//! Encoding of charges, and of the commands about them.

use super::prices::currency;
use super::read::{DecodeError, Reader};
use super::write::{
    end_fields, put_bytes, put_field, put_i64, put_label, put_label_field, put_option, put_text, put_u64,
};
use std::sync::Arc;
use stockhold_domain::{
    CaptureMethod, Charge, ChargeState, CheckoutTerms, ExtraAmount, OnDecline, PaymentMethod, PendingRefund,
    ProviderRef, ProviderReport, SealedRefs, limits,
};

type Read<T> = Result<T, DecodeError>;

const PROVIDER_REF: u8 = 1;
const CAPTURED: u8 = 2;
const REFUNDED: u8 = 3;
const CAPTURE_ATTEMPTS: u8 = 4;
const REFUND_ATTEMPTS: u8 = 5;
const REFUNDS: u8 = 6;
const TRIES: u8 = 7;
const REFUSALS: u8 = 8;
const ERROR: u8 = 9;
const DUE_AT: u8 = 10;
const REACQUIRES: u8 = 11;

const RETURN_URL: u8 = 1;
const DESCRIPTION: u8 = 2;
const EXTRA: u8 = 3;
const NOTIFY: u8 = 4;

const METHOD_NAMED: u8 = 0;
const METHOD_OF_CUSTOMER: u8 = 1;

/// Every state at the place of its byte.
const STATES: [ChargeState; 12] = [
    ChargeState::Pending,
    ChargeState::RequiresAction,
    ChargeState::Processing,
    ChargeState::Authorized,
    ChargeState::Capturing,
    ChargeState::Captured,
    ChargeState::Declined,
    ChargeState::Voiding,
    ChargeState::Voided,
    ChargeState::Refunding,
    ChargeState::Refunded,
    ChargeState::RefundFailed,
];

/// Appends a charge.
pub(super) fn put_charge(out: &mut Vec<u8>, charge: &Charge) {
    let Charge {
        state,
        terms,
        order_id,
        amount,
        currency,
        provider_ref,
        reacquires,
        captured,
        refunded,
        capture_attempts,
        refund_attempts,
        attempted_at,
        refunds,
        tries,
        refusals,
        error,
        due_at,
    } = charge;
    let place = STATES.iter().position(|known| known == state).unwrap_or(STATES.len());
    out.push(u8::try_from(place).unwrap_or(u8::MAX));
    put_checkout_terms(out, terms);
    put_text(out, order_id.as_str());
    put_u64(out, *amount);
    put_text(out, currency.as_str());
    put_i64(out, attempted_at.micros());
    let number = |number: u64| (number > 0).then_some(number);
    put_field(out, PROVIDER_REF, provider_ref.as_ref(), |out, text| put_text(out, text.as_str()));
    put_field(out, CAPTURED, number(*captured), put_u64);
    put_field(out, REFUNDED, number(*refunded), put_u64);
    put_field(out, CAPTURE_ATTEMPTS, number((*capture_attempts).into()), put_u64);
    put_field(out, REFUND_ATTEMPTS, number((*refund_attempts).into()), put_u64);
    put_field(out, REFUNDS, (!refunds.is_empty()).then_some(refunds), |out, refunds| {
        put_u64(out, refunds.len() as u64);
        for PendingRefund { amount, reason } in refunds {
            put_u64(out, *amount);
            put_text(out, reason.as_str());
        }
    });
    put_field(out, TRIES, number((*tries).into()), put_u64);
    put_field(out, REFUSALS, number((*refusals).into()), put_u64);
    put_label_field(out, ERROR, error.as_ref());
    put_field(out, DUE_AT, *due_at, |out, at| put_i64(out, at.micros()));
    put_field(out, REACQUIRES, reacquires.then_some(1), put_u64);
    end_fields(out);
}

/// Reads a charge.
pub(super) fn charge(reader: &mut Reader<'_>) -> Read<Charge> {
    let state = STATES.get(usize::from(reader.byte("state of a charge")?)).copied();
    let state = state.ok_or_else(|| reader.bad("state of a charge"))?;
    let mut charge = Charge {
        state,
        terms: Arc::new(checkout_terms(reader)?),
        order_id: reader.label()?,
        amount: reader.u64()?,
        currency: currency(reader)?,
        attempted_at: reader.instant()?,
        provider_ref: None,
        reacquires: false,
        captured: 0,
        refunded: 0,
        capture_attempts: 0,
        refund_attempts: 0,
        refunds: Vec::new(),
        tries: 0,
        refusals: 0,
        error: None,
        due_at: None,
    };
    reader.fields(|reader, tag| {
        match tag {
            PROVIDER_REF => charge.provider_ref = Some(provider_ref(reader)?),
            CAPTURED => charge.captured = reader.positive()?,
            REFUNDED => charge.refunded = reader.positive()?,
            CAPTURE_ATTEMPTS => charge.capture_attempts = reader.positive_u32()?,
            REFUND_ATTEMPTS => charge.refund_attempts = reader.positive_u32()?,
            REFUNDS => charge.refunds = refunds(reader)?,
            TRIES => charge.tries = reader.positive_u32()?,
            REFUSALS => charge.refusals = reader.positive_u32()?,
            ERROR => charge.error = Some(reader.label()?),
            DUE_AT => charge.due_at = Some(reader.instant()?),
            REACQUIRES => charge.reacquires = set_flag(reader)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(charge)
}

/// A field that is there only when it is true. It has one value only: a changed byte must not read as the same charge.
fn set_flag(reader: &mut Reader<'_>) -> Read<bool> {
    if reader.flag()? { Ok(true) } else { Err(reader.bad("field")) }
}

fn refunds(reader: &mut Reader<'_>) -> Read<Vec<PendingRefund>> {
    let count = reader.count(limits::PENDING_REFUNDS as u64)?;
    let refund =
        |reader: &mut Reader<'_>| Ok(PendingRefund { amount: reader.u64()?, reason: reader.label()? });
    (0..count).map(|_| refund(reader)).collect()
}

fn provider_ref(reader: &mut Reader<'_>) -> Read<ProviderRef> {
    ProviderRef::new(reader.text()?).ok_or_else(|| reader.bad("name of a payment provider"))
}

/// Appends what the caller of a checkout said.
pub(super) fn put_checkout_terms(out: &mut Vec<u8>, terms: &CheckoutTerms) {
    let CheckoutTerms { provider, method, capture, on_decline, return_url, description, extra, notify } =
        terms;
    put_text(out, provider.as_str());
    put_method(out, method);
    out.push(match capture {
        CaptureMethod::AfterConfirm => 0,
        CaptureMethod::ChargeThenConfirm => 1,
    });
    out.push(match on_decline {
        OnDecline::Release => 0,
        OnDecline::Keep => 1,
    });
    put_field(out, RETURN_URL, return_url.as_ref(), |out, text| put_text(out, text));
    put_field(out, DESCRIPTION, description.as_ref(), |out, text| put_text(out, text));
    put_field(out, EXTRA, (!extra.is_empty()).then_some(extra), |out, extra| {
        put_u64(out, extra.len() as u64);
        for ExtraAmount { name, amount } in extra {
            put_text(out, name.as_str());
            put_u64(out, *amount);
        }
    });
    put_field(out, NOTIFY, notify.then_some(1), put_u64);
    end_fields(out);
}

fn put_method(out: &mut Vec<u8>, method: &PaymentMethod) {
    match method {
        PaymentMethod::Named { customer_ref, method_ref } => {
            out.push(METHOD_NAMED);
            put_text(out, method_ref.as_str());
            put_option(out, customer_ref.as_ref(), |out, text| put_text(out, text.as_str()));
        }
        PaymentMethod::Customer { customer_id, sealed } => {
            out.push(METHOD_OF_CUSTOMER);
            put_text(out, customer_id.as_str());
            put_option(out, sealed.as_ref(), |out, sealed| put_bytes(out, sealed.as_bytes()));
        }
    }
}

/// What [`put_option`] has written.
fn option<'a, T>(reader: &mut Reader<'a>, read: impl FnOnce(&mut Reader<'a>) -> Read<T>) -> Read<Option<T>> {
    if reader.flag()? { read(reader).map(Some) } else { Ok(None) }
}

fn method(reader: &mut Reader<'_>) -> Read<PaymentMethod> {
    match reader.byte("payment method")? {
        METHOD_NAMED => {
            let method_ref = provider_ref(reader)?;
            Ok(PaymentMethod::Named { customer_ref: option(reader, provider_ref)?, method_ref })
        }
        METHOD_OF_CUSTOMER => {
            let customer_id = reader.label()?;
            let sealed = option(reader, |reader| {
                SealedRefs::new(reader.raw_text()?).ok_or_else(|| reader.bad("encrypted payment method"))
            })?;
            Ok(PaymentMethod::Customer { customer_id, sealed })
        }
        _ => Err(reader.bad("payment method")),
    }
}

fn checkout_terms(reader: &mut Reader<'_>) -> Read<CheckoutTerms> {
    let mut terms = CheckoutTerms {
        provider: reader.label()?,
        method: method(reader)?,
        capture: match reader.byte("capture method")? {
            0 => CaptureMethod::AfterConfirm,
            1 => CaptureMethod::ChargeThenConfirm,
            _ => return Err(reader.bad("capture method")),
        },
        on_decline: match reader.byte("what a decline does")? {
            0 => OnDecline::Release,
            1 => OnDecline::Keep,
            _ => return Err(reader.bad("what a decline does")),
        },
        return_url: None,
        description: None,
        extra: Box::default(),
        notify: false,
    };
    reader.fields(|reader, tag| {
        match tag {
            RETURN_URL => terms.return_url = Some(reader.text()?.into()),
            DESCRIPTION => terms.description = Some(reader.text()?.into()),
            EXTRA => {
                let count = reader.count(limits::EXTRA_AMOUNTS as u64)?;
                let extra = |reader: &mut Reader<'_>| {
                    Ok(ExtraAmount { name: reader.label()?, amount: reader.u64()? })
                };
                terms.extra = (0..count).map(|_| extra(reader)).collect::<Read<_>>()?;
            }
            NOTIFY => terms.notify = set_flag(reader)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(terms)
}

/// Appends a report, for a fingerprint.
pub(super) fn put_report(out: &mut Vec<u8>, report: &ProviderReport) {
    let (tag, text, amount, error) = match report {
        ProviderReport::NoAnswer { error } => (0, None, None, Some(error)),
        ProviderReport::Failed { error } => (1, None, None, Some(error)),
        ProviderReport::RequiresAction { provider_ref } => (2, Some(provider_ref), None, None),
        ProviderReport::Processing { provider_ref } => (3, Some(provider_ref), None, None),
        ProviderReport::Authorized { provider_ref } => (4, Some(provider_ref), None, None),
        ProviderReport::Captured { provider_ref, amount } => (5, Some(provider_ref), Some(*amount), None),
        ProviderReport::Declined { error } => (6, None, None, Some(error)),
        ProviderReport::Cancelled => (7, None, None, None),
        ProviderReport::Refunded => (8, None, None, None),
        ProviderReport::RefundRefused { error } => (9, None, None, Some(error)),
    };
    out.push(tag);
    put_option(out, text, |out, text| put_text(out, text.as_str()));
    put_option(out, amount, put_u64);
    put_label(out, error);
}
