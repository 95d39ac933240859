//! Turns flags into requests about checkouts, refunds and orders.

use super::ApiRequest;
use super::changes::{SoldUnitsArgs, VersionArgs};
use super::requests::{KeyArgs, PageArgs, named, reservation};
use super::show;
use crate::client::{encoded, push_query};
use crate::table::Column;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::str::FromStr;

const ORDERS: [Column; 7] = [
    Column("ORDER", "order_id"),
    Column("STATUS", "status"),
    Column("AMOUNT", "amount"),
    Column("REFUNDED", "refunded_amount"),
    Column("CURRENCY", "currency"),
    Column("OWNER", "owner_id"),
    Column("RESERVATION", "reservation_id"),
];

/// `NAME=AMOUNT`: an amount beside the lines.
#[derive(Clone, Debug)]
struct ExtraArg {
    name: String,
    amount: u64,
}

impl FromStr for ExtraArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, amount) = text.rsplit_once('=').ok_or("must be NAME=AMOUNT, like postage=490")?;
        let amount = amount.parse().map_err(|_| format!("{amount:?} is not an amount: write 4.90 as 490"))?;
        Ok(Self { name: name.to_owned(), amount })
    }
}

#[derive(Subcommand)]
pub(super) enum CheckoutCommand {
    /// Take the payment of a hold and confirm it
    ///
    ///   stockhold ctl checkout start RESERVATION --provider test --method approve --extra postage=490
    ///   stockhold ctl checkout start RESERVATION --customer anna
    #[command(verbatim_doc_comment)]
    Start(Box<StartCheckoutArgs>),
    /// Show a reservation with its payment, and what the buyer has to do
    Show(CheckoutArgs),
    /// Give the payment of a hold up: the hold is released when the provider has ended the payment
    Cancel(CheckoutArgs),
}

#[derive(Args)]
pub(super) struct CheckoutArgs {
    /// The reservation's id
    id: String,
}

#[derive(Args)]
pub(super) struct StartCheckoutArgs {
    /// The reservation's id
    id: String,
    /// The customer whose stored payment method is used, instead of --method
    #[arg(long, value_name = "CUSTOMER", conflicts_with_all = ["method", "provider", "provider_customer"])]
    customer: Option<String>,
    /// The payment provider: stripe or test
    #[arg(long, value_name = "NAME", default_value = "stripe")]
    provider: String,
    /// The payment method, as the provider names it
    #[arg(long, value_name = "REF", required_unless_present = "customer")]
    method: Option<String>,
    /// The customer, as the provider names it
    #[arg(long, value_name = "CUSTOMER")]
    provider_customer: Option<String>,
    /// The order that the reservation becomes [default: a new id]
    #[arg(long, value_name = "ORDER")]
    order: Option<String>,
    /// Move the money before the confirm, and not after it
    #[arg(long)]
    charge_first: bool,
    /// Keep the hold if the payment is declined [default: it is released]
    #[arg(long)]
    keep: bool,
    /// Notify the buyer by mail and push, if the server is configured for it
    #[arg(long)]
    notify: bool,
    /// Length of the payment window [default: 900]
    #[arg(long, value_name = "SECONDS")]
    window: Option<u64>,
    /// Where the provider sends the buyer back to
    #[arg(long, value_name = "URL")]
    return_url: Option<String>,
    /// An amount beside the lines, in the smallest unit of the currency. Repeat it for more
    #[arg(long, value_name = "NAME=AMOUNT")]
    extra: Vec<ExtraArg>,
    #[command(flatten)]
    version: VersionArgs,
}

impl StartCheckoutArgs {
    fn request(&self) -> Result<ApiRequest, String> {
        let method = self.method.as_ref().map(|method| {
            named(json!({
                "provider": self.provider,
                "method_ref": method,
                "customer_ref": self.provider_customer,
            }))
        });
        let extra: Vec<Value> =
            self.extra.iter().map(|extra| json!({ "name": extra.name, "amount": extra.amount })).collect();
        let body = named(json!({
            "payment_method": method,
            "customer_id": self.customer,
            "order_id": self.order,
            "capture": self.charge_first.then_some("charge_then_confirm"),
            "on_decline": self.keep.then_some("keep"),
            "notify": self.notify.then_some(true),
            "window_seconds": self.window,
            "return_url": self.return_url,
            "extra": if extra.is_empty() { Value::Null } else { extra.into() },
        }));
        self.version.request(reservation(&self.id, "/checkout"), body)
    }
}

impl CheckoutCommand {
    pub(super) fn request(&self) -> Result<ApiRequest, String> {
        match self {
            Self::Start(ask) => ask.request(),
            Self::Show(ask) => Ok(ApiRequest::get(reservation(&ask.id, "/checkout"), show::reservation)),
            Self::Cancel(ask) => Ok(without_body(reservation(&ask.id, "/checkout/cancel"))),
        }
    }
}

/// A command whose repetition changes nothing.
fn without_body(path: String) -> ApiRequest {
    ApiRequest { method: "POST", ..ApiRequest::get(path, show::reservation) }
}

#[derive(Args)]
pub(super) struct RefundArgs {
    /// The reservation's id
    id: String,
    /// Why, for the record
    #[arg(long, required_unless_present = "retry")]
    reason: Option<String>,
    /// How much, in the smallest unit of the currency [default: what --line or --unit cost, else all that is left]
    #[arg(long)]
    amount: Option<u64>,
    #[command(flatten)]
    units: SoldUnitsArgs,
    /// Take the units off the total instead of selling them again
    #[arg(long)]
    write_off: bool,
    /// Try a failed refund again, instead of asking for a new one
    #[arg(long, conflicts_with_all = ["reason", "amount", "write_off", "key"])]
    retry: bool,
    #[command(flatten)]
    key: KeyArgs,
}

impl RefundArgs {
    pub(super) fn request(&self) -> Result<ApiRequest, String> {
        if self.retry {
            return Ok(without_body(reservation(&self.id, "/refund/retry")));
        }
        let (lines, units) = self.units.json();
        let body = named(json!({
            "reason": self.reason,
            "amount": self.amount,
            "lines": lines,
            "units": units,
            "disposition": self.write_off.then_some("write_off"),
        }));
        ApiRequest::post(reservation(&self.id, "/refund"), body, show::reservation)
            .keyed(self.key.key.as_ref())
    }
}

#[derive(Subcommand)]
pub(super) enum OrdersCommand {
    /// List orders, the newest reservation first
    ///
    ///   stockhold ctl orders list --status authorized
    #[command(verbatim_doc_comment)]
    List(ListOrdersArgs),
    /// Show an order
    Get(GetOrderArgs),
}

#[derive(Args)]
pub(super) struct ListOrdersArgs {
    /// Only those with this status now: authorized, paid, cancelled, partially_refunded or refunded
    #[arg(long)]
    status: Option<String>,
    /// Only those of this customer
    #[arg(long, value_name = "CUSTOMER")]
    customer: Option<String>,
    #[command(flatten)]
    page: PageArgs,
}

#[derive(Args)]
pub(super) struct GetOrderArgs {
    /// The order's id
    order: String,
}

impl OrdersCommand {
    pub(super) fn request(&self) -> ApiRequest {
        match self {
            Self::List(ask) => {
                let mut path = "/v1/orders".to_owned();
                for (name, value) in [("status", &ask.status), ("customer_id", &ask.customer)] {
                    if let Some(value) = value {
                        push_query(&mut path, name, value);
                    }
                }
                ask.page.push(&mut path);
                ApiRequest::get(path, |value| show::list(value, &ORDERS))
            }
            Self::Get(ask) => {
                let path = format!("/v1/orders/{}", encoded(&ask.order));
                ApiRequest::get(path, |value| show::fields(value, &FIELDS))
            }
        }
    }
}

const FIELDS: [(&str, &str); 9] = [
    ("order", "order_id"),
    ("status", "status"),
    ("amount", "amount"),
    ("refunded", "refunded_amount"),
    ("currency", "currency"),
    ("owner", "owner_id"),
    ("customer", "customer_id"),
    ("payment", "payment_id"),
    ("reservation", "reservation_id"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extra_has_a_name_and_an_amount() {
        let extra: ExtraArg = "gift=wrap=490".parse().unwrap();
        assert_eq!((&*extra.name, extra.amount), ("gift=wrap", 490));
        assert!("postage".parse::<ExtraArg>().is_err());
        assert!("postage=4.90".parse::<ExtraArg>().unwrap_err().contains("write 4.90 as 490"));
    }
}
