//! What templates are tried with.

use crate::kind::NotificationKind;
use serde_json::{Value, json};

/// The data of a notification of this kind, with example values.
pub fn sample(kind: NotificationKind) -> Value {
    use NotificationKind as Kind;
    let (status, state, order) = match kind {
        Kind::OrderConfirmed => ("confirmed", "captured", Some(("paid", 0))),
        Kind::OrderCancelled => ("confirmed", "voided", Some(("cancelled", 0))),
        Kind::OrderRefunded => ("confirmed", "captured", Some(("partially_refunded", 990))),
        Kind::ReservationCancelled => ("cancelled", "voided", None),
        Kind::ReservationExpired => ("expired", "voiding", None),
        Kind::PaymentFailed => ("active", "declined", None),
        Kind::PaymentActionRequired => ("active", "requires_action", None),
    };
    let mut reservation = json!({
        "reservation_id": "018bcfe5-6800-7fff-bfff-ffffffffffff",
        "status": status,
        "owner_id": "cart-7",
        "customer_id": "customer-1",
        "quantity": 2,
        "amount": 1_500,
        "currency": "eur",
        "created_at": "2026-11-27T09:00:00.000Z",
        "expires_at": "2026-11-27T09:15:00.000Z",
        "lines": [
            { "sku": "shirt", "location": "default", "quantity": 2, "unit_amount": 750, "amount": 1_500, "currency": "eur" },
        ],
        "metadata": {},
        "payment": {
            "payment_id": "pay_019303a1-5b40-7c3e-9d51-3f0a6c1e8b27",
            "state": state,
            "provider": "stripe",
            "amount": 1_990,
            "currency": "eur",
        },
    });
    if let Some((status, refunded)) = order {
        if state == "captured" {
            reservation["payment"]["captured_amount"] = 1_990.into();
            reservation["payment"]["refunded_amount"] = refunded.into();
        }
        reservation["order"] = json!({
            "order_id": "order-1002",
            "status": status,
            "amount": 1_990,
            "refunded_amount": refunded,
            "currency": "eur",
        });
    }
    data(kind, "019303a1-5b40-7c3e-9d51-3f0a6c1e8b28", "2026-11-27T09:01:00.000Z", "order-1002", &reservation)
}

/// The data of a notification.
pub(crate) fn data(kind: NotificationKind, id: &str, at: &str, order_id: &str, reservation: &Value) -> Value {
    json!({ "kind": kind.name(), "id": id, "at": at, "order_id": order_id, "reservation": reservation })
}
