//! The calls on checkouts, refunds and orders.

use super::attempt::Error;
use super::changes::Change;
use super::lists::push_page;
use super::request::{Request, push_encoded, push_parameter};
use super::{Client, reservation};
use crate::wire::{CheckoutRequest, Order, Page, RefundRequest, Reservation};
use stockhold_domain::ReservationId;

/// The path of the orders.
const ORDERS: &str = "/v1/orders";

impl Client {
    /// Takes the payment of a hold and confirms it. The payment may still be under way in the answer, or need the buyer. A declined
    /// payment is a refusal. The server waits some seconds for the provider.
    pub async fn start_checkout(
        &self,
        id: ReservationId,
        checkout: &CheckoutRequest,
        change: Change<'_>,
    ) -> Result<Reservation, Error> {
        self.change("POST", reservation(id, "/checkout"), checkout, change).await
    }

    /// A reservation with its payment, and what the buyer has to do.
    pub async fn checkout(&self, id: ReservationId) -> Result<Reservation, Error> {
        self.http.read(Request::new("GET", reservation(id, "/checkout"))).await
    }

    /// Gives a payment up. A repetition changes nothing, so it takes no key.
    pub async fn cancel_checkout(&self, id: ReservationId) -> Result<Reservation, Error> {
        self.http.read(Request::new("POST", reservation(id, "/checkout/cancel"))).await
    }

    /// Gives money back. A key is generated when none is given.
    pub async fn refund(
        &self,
        id: ReservationId,
        refund: &RefundRequest,
        key: Option<&str>,
    ) -> Result<Reservation, Error> {
        self.http.read(Request::new("POST", reservation(id, "/refund")).json(refund)?.key(key)).await
    }

    /// Tries a failed refund again. A repetition changes nothing, so it takes no key.
    pub async fn retry_refund(&self, id: ReservationId) -> Result<Reservation, Error> {
        self.http.read(Request::new("POST", reservation(id, "/refund/retry"))).await
    }

    /// One order.
    pub async fn order(&self, order_id: &str) -> Result<Order, Error> {
        let mut path = format!("{ORDERS}/");
        push_encoded(&mut path, order_id);
        self.http.read(Request::new("GET", path)).await
    }

    /// A page of orders, the newest reservation first: of this status and this customer, if they are given. `starting_after` is the
    /// `next_cursor` of the page before.
    pub async fn orders(
        &self,
        (status, customer_id): (Option<&str>, Option<&str>),
        limit: Option<usize>,
        starting_after: Option<&str>,
    ) -> Result<Page<Order>, Error> {
        let mut path = ORDERS.to_owned();
        push_parameter(&mut path, "status", status);
        push_parameter(&mut path, "customer_id", customer_id);
        push_page(&mut path, limit, starting_after);
        self.http.read(Request::new("GET", path)).await
    }
}
