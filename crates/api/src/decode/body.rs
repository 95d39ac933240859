//! The bodies of the routes, field by field. Optional fields refuse `null`, except where it clears a setting
//! of an item.

use super::Invalid;
use super::explain::explain;
use super::field::{
    AmountOff, CaptureWord, CurrencyCode, Delta, DispositionWord, Flag, FulfilmentWord, Id, IfExpiredWord,
    JsonObject, Key, ModeWord, MoneyAmount, OnDeclineWord, PaymentTtl, Percent, ProviderName, Quantity,
    ReturnFromWord, Stock, SupplyQuantity, Text, Time, Together, Ttl, UnitAmount, given, setting,
};
use super::metadata::Metadata;
use super::source::SourceBody;
use super::terms::body_with_terms;
use super::units::AttributesField;
use crate::field::{ObjectShape, RequestBody};
use serde::Deserialize;
use stockhold_domain::Patch;

body_with_terms! {
pub(super) struct ReserveBody<'a> {
    pub(super) owner_id: Text,
    #[serde(default, deserialize_with = "given")]
    pub(super) quantity: Option<Quantity>,
    #[serde(default, deserialize_with = "given")]
    pub(super) ttl_seconds: Option<Ttl>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) idempotency_key: Option<Key<'a>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) fulfilment: Option<FulfilmentWord>,
    #[serde(default, deserialize_with = "given")]
    pub(super) hold_token: Option<Flag>,
    #[serde(default, deserialize_with = "given")]
    pub(super) override_limits: Option<Flag>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) auto_checkout: Option<JsonObject<CheckoutBody<'a>>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) units: Option<Vec<Text>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) adjacent: Option<Flag>,
    #[serde(default, deserialize_with = "given")]
    pub(super) sections: Option<Vec<Text>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) min_together: Option<Together>,
    #[serde(default, deserialize_with = "given")]
    pub(super) attributes: Option<AttributesField>,
}}

body_with_terms! {
pub(super) struct BasketBody<'a> {
    pub(super) owner_id: Text,
    pub(super) lines: Vec<JsonObject<LineBody>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) ttl_seconds: Option<Ttl>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) idempotency_key: Option<Key<'a>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) fulfilment: Option<FulfilmentWord>,
    #[serde(default, deserialize_with = "given")]
    pub(super) hold_token: Option<Flag>,
    #[serde(default, deserialize_with = "given")]
    pub(super) override_limits: Option<Flag>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) auto_checkout: Option<JsonObject<CheckoutBody<'a>>>,
}}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LineBody {
    pub(super) sku: Text,
    #[serde(default, deserialize_with = "given")]
    pub(super) location: Option<Text>,
    #[serde(default, deserialize_with = "given")]
    pub(super) source: Option<JsonObject<SourceBody>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) quantity: Option<Quantity>,
    #[serde(default, deserialize_with = "given")]
    pub(super) units: Option<Vec<Text>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) adjacent: Option<Flag>,
    #[serde(default, deserialize_with = "given")]
    pub(super) sections: Option<Vec<Text>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) min_together: Option<Together>,
    #[serde(default, deserialize_with = "given")]
    pub(super) attributes: Option<AttributesField>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfirmBody<'a> {
    #[serde(default, deserialize_with = "given")]
    pub(super) order_id: Option<Text>,
    #[serde(default, deserialize_with = "given")]
    pub(super) payment_id: Option<Text>,
    #[serde(default, deserialize_with = "given")]
    pub(super) if_expired: Option<IfExpiredWord>,
    #[serde(default, deserialize_with = "given")]
    pub(super) override_limits: Option<Flag>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) idempotency_key: Option<Key<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExtendBody<'a> {
    pub(super) ttl_seconds: Ttl,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) idempotency_key: Option<Key<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AmendBody<'a> {
    #[serde(default, deserialize_with = "given")]
    pub(super) lines: Option<Vec<JsonObject<LineBody>>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) fulfilment: Option<FulfilmentWord>,
    #[serde(default, deserialize_with = "given")]
    pub(super) ttl_seconds: Option<Ttl>,
    #[serde(default, deserialize_with = "given")]
    pub(super) metadata: Option<Metadata>,
    #[serde(default, deserialize_with = "given")]
    pub(super) override_limits: Option<Flag>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) idempotency_key: Option<Key<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TransferBody<'a> {
    #[serde(default, deserialize_with = "given")]
    pub(super) owner_id: Option<Text>,
    #[serde(default, deserialize_with = "setting")]
    pub(super) customer_id: Patch<Text>,
    #[serde(default, deserialize_with = "setting")]
    pub(super) session_id: Patch<Text>,
    #[serde(default, deserialize_with = "given")]
    pub(super) override_limits: Option<Flag>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) idempotency_key: Option<Key<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SplitBody<'a> {
    pub(super) lines: Vec<JsonObject<LineBody>>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) idempotency_key: Option<Key<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MergeBody<'a> {
    pub(super) from: Vec<Id>,
    #[serde(default, deserialize_with = "given")]
    pub(super) override_limits: Option<Flag>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) idempotency_key: Option<Key<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PaymentBody<'a> {
    pub(super) payment_id: Text,
    #[serde(default, deserialize_with = "given")]
    pub(super) window_seconds: Option<PaymentTtl>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) idempotency_key: Option<Key<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckoutBody<'a> {
    #[serde(default, deserialize_with = "given")]
    pub(super) payment_method: Option<JsonObject<PaymentMethodBody>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) customer_id: Option<Text>,
    #[serde(default, deserialize_with = "given")]
    pub(super) order_id: Option<Text>,
    #[serde(default, deserialize_with = "given")]
    pub(super) capture: Option<CaptureWord>,
    #[serde(default, deserialize_with = "given")]
    pub(super) on_decline: Option<OnDeclineWord>,
    #[serde(default, deserialize_with = "given")]
    pub(super) notify: Option<Flag>,
    #[serde(default, deserialize_with = "given")]
    pub(super) window_seconds: Option<PaymentTtl>,
    #[serde(default, deserialize_with = "given")]
    pub(super) return_url: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) description: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) extra: Option<Vec<JsonObject<ExtraBody>>>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) idempotency_key: Option<Key<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PaymentMethodBody {
    pub(super) provider: Text,
    pub(super) method_ref: ProviderName,
    #[serde(default, deserialize_with = "given")]
    pub(super) customer_ref: Option<ProviderName>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExtraBody {
    pub(super) name: Text,
    pub(super) amount: MoneyAmount,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RefundBody<'a> {
    #[serde(default, deserialize_with = "given")]
    pub(super) amount: Option<MoneyAmount>,
    #[serde(default, deserialize_with = "given")]
    pub(super) lines: Option<Vec<JsonObject<LineBody>>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) units: Option<Vec<Text>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) disposition: Option<DispositionWord>,
    pub(super) reason: Text,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) idempotency_key: Option<Key<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FulfilBody<'a> {
    #[serde(default, deserialize_with = "given")]
    pub(super) lines: Option<Vec<JsonObject<LineBody>>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) units: Option<Vec<Text>>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) idempotency_key: Option<Key<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReturnBody<'a> {
    #[serde(default, deserialize_with = "given")]
    pub(super) lines: Option<Vec<JsonObject<LineBody>>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) units: Option<Vec<Text>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) from: Option<ReturnFromWord>,
    #[serde(default, deserialize_with = "given")]
    pub(super) disposition: Option<DispositionWord>,
    pub(super) reason: Text,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) idempotency_key: Option<Key<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StockBody {
    #[serde(default, deserialize_with = "given")]
    pub(super) total_units: Option<Stock>,
    #[serde(default, deserialize_with = "given")]
    pub(super) on_hand: Option<Stock>,
    #[serde(default, deserialize_with = "given")]
    pub(super) fulfilled_units_seen: Option<Stock>,
    #[serde(default, deserialize_with = "given")]
    pub(super) mode: Option<ModeWord>,
    #[serde(default, deserialize_with = "given")]
    pub(super) safety_stock: Option<Stock>,
    #[serde(default, deserialize_with = "given")]
    pub(super) oversell_allowance: Option<Stock>,
    #[serde(default, deserialize_with = "setting")]
    pub(super) gated: Patch<Flag>,
    #[serde(default, deserialize_with = "setting")]
    pub(super) sale_starts_at: Patch<Time>,
    #[serde(default, deserialize_with = "setting")]
    pub(super) sale_ends_at: Patch<Time>,
    #[serde(default, deserialize_with = "setting")]
    pub(super) incoming: Patch<Vec<JsonObject<SupplyBody>>>,
    #[serde(default, deserialize_with = "setting")]
    pub(super) default_ttl_seconds: Patch<Ttl>,
    #[serde(default, deserialize_with = "setting")]
    pub(super) max_hold_seconds: Patch<Ttl>,
    #[serde(default, deserialize_with = "setting")]
    pub(super) max_payment_seconds: Patch<PaymentTtl>,
    #[serde(default, deserialize_with = "setting")]
    pub(super) price: Patch<JsonObject<PriceBody>>,
    #[serde(default, deserialize_with = "setting")]
    pub(super) low_stock: Patch<Stock>,
    #[serde(default, deserialize_with = "setting")]
    pub(super) stock_master: Patch<Text>,
    #[serde(default, rename = "override", deserialize_with = "given")]
    pub(super) override_owner: Option<Flag>,
    #[serde(default, deserialize_with = "setting")]
    pub(super) metadata: Patch<Metadata>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SupplyBody {
    pub(super) supply_id: Text,
    pub(super) quantity: SupplyQuantity,
    pub(super) available_from: Time,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PriceBody {
    pub(super) unit_amount: UnitAmount,
    pub(super) currency: CurrencyCode,
    #[serde(default, deserialize_with = "given")]
    pub(super) discounts: Option<Vec<JsonObject<DiscountBody>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DiscountBody {
    #[serde(default, deserialize_with = "given")]
    pub(super) percent: Option<Percent>,
    #[serde(default, deserialize_with = "given")]
    pub(super) amount_off: Option<AmountOff>,
    #[serde(default, deserialize_with = "given")]
    pub(super) from: Option<Time>,
    #[serde(default, deserialize_with = "given")]
    pub(super) to: Option<Time>,
    #[serde(default, deserialize_with = "given")]
    pub(super) channels: Option<Vec<Text>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QuoteBody {
    pub(super) lines: Vec<JsonObject<QuoteLineBody>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) channel: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QuoteLineBody {
    pub(super) sku: Text,
    #[serde(default, deserialize_with = "given")]
    pub(super) location: Option<Text>,
    #[serde(default, deserialize_with = "given")]
    pub(super) quantity: Option<Quantity>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AdjustBody<'a> {
    pub(super) delta: Delta,
    #[serde(default, deserialize_with = "given")]
    pub(super) reason: Option<Text>,
    #[serde(default, deserialize_with = "given")]
    pub(super) supply_id: Option<Text>,
    #[serde(default, rename = "override", deserialize_with = "given")]
    pub(super) override_owner: Option<Flag>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) idempotency_key: Option<Key<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SaleBody {
    #[serde(default, deserialize_with = "given")]
    pub(super) reason: Option<Text>,
}

/// Reads a body. Only when that fails is the body read a second time to find its errors, which costs several times as
/// much.
pub(crate) fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Invalid> {
    match serde_json::from_slice::<JsonObject<T>>(body) {
        Ok(JsonObject(read)) => Ok(read),
        Err(error) => Err(explain::<T>(body, &error)),
    }
}

/// Reads a shape.
pub(crate) fn read_request<'a, T: ObjectShape + Deserialize<'a>>(body: &'a [u8]) -> Result<T, Invalid> {
    read::<RequestBody<T>>(body).map(|RequestBody(shape)| shape)
}

/// Reads a shape that may be left out.
pub(super) fn read_request_or_default<'a, T: Default + ObjectShape + Deserialize<'a>>(
    body: &'a [u8],
) -> Result<T, Invalid> {
    if body.trim_ascii().is_empty() { Ok(T::default()) } else { read_request(body) }
}

/// Reads a body that may be left out.
pub(super) fn read_or_default<'a, T: Default + Deserialize<'a>>(body: &'a [u8]) -> Result<T, Invalid> {
    if body.trim_ascii().is_empty() {
        return Ok(T::default());
    }
    read(body)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PoolBody {
    #[serde(default, deserialize_with = "given")]
    pub(super) allocated: Option<Stock>,
    #[serde(default, deserialize_with = "given")]
    pub(super) fallback: Option<Flag>,
    #[serde(default, deserialize_with = "given")]
    pub(super) releases_at: Option<Time>,
    #[serde(default, deserialize_with = "given")]
    pub(super) idle_release_seconds: Option<Ttl>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PoolUnitsBody {
    #[serde(default, deserialize_with = "given")]
    pub(super) units: Option<Vec<Text>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) sections: Option<Vec<Text>>,
}
