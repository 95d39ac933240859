//! The calls that change a reservation.

use super::attempt::Error;
use super::request::{Request, push_parameter};
use super::{Client, reservation};
use crate::wire::{
    Amendment, Confirmation, MergeRequest, PaymentWindow, Recipient, RequestedLine, Reservation,
    ReturnedUnits, Shipment,
};
use serde::Serialize;
use stockhold_domain::ReservationId;

/// How a change is sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change<'a> {
    /// The version that the reservation must have.
    pub version: Option<u64>,
    /// The idempotency key. A key is generated when none is given.
    pub key: Option<&'a str>,
}

impl Client {
    /// Turns a hold into a sale. If it has expired and `confirmation` says so, the answer is a new reservation.
    pub async fn confirm_as(
        &self,
        id: ReservationId,
        confirmation: &Confirmation,
        key: Option<&str>,
    ) -> Result<Reservation, Error> {
        self.http.read(Request::new("POST", reservation(id, "/confirm")).json(confirmation)?.key(key)).await
    }

    /// Changes the lines, the deadline or the metadata of a hold.
    pub async fn amend(
        &self,
        id: ReservationId,
        amendment: &Amendment,
        change: Change<'_>,
    ) -> Result<Reservation, Error> {
        self.change("PATCH", reservation(id, ""), amendment, change).await
    }

    /// Gives a hold to another owner, customer or session.
    pub async fn transfer(
        &self,
        id: ReservationId,
        recipient: &Recipient,
        change: Change<'_>,
    ) -> Result<Reservation, Error> {
        self.change("POST", reservation(id, "/transfer"), recipient, change).await
    }

    /// Moves units of a hold into a new one, which is the answer.
    pub async fn split(
        &self,
        id: ReservationId,
        lines: &[RequestedLine],
        change: Change<'_>,
    ) -> Result<Reservation, Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            lines: &'a [RequestedLine],
        }
        self.change("POST", reservation(id, "/split"), &Body { lines }, change).await
    }

    /// Adds the lines of other holds to a hold. The others end.
    pub async fn merge(
        &self,
        id: ReservationId,
        merge: &MergeRequest,
        change: Change<'_>,
    ) -> Result<Reservation, Error> {
        self.change("POST", reservation(id, "/merge"), merge, change).await
    }

    /// Opens or prolongs the payment window of a hold.
    pub async fn open_payment(
        &self,
        id: ReservationId,
        window: &PaymentWindow,
        change: Change<'_>,
    ) -> Result<Reservation, Error> {
        self.change("POST", reservation(id, "/payment"), window, change).await
    }

    /// Closes the payment window of a hold: that of this payment, or the open one. A key is generated, so that a retry does not close a
    /// window that was opened since.
    pub async fn close_payment(
        &self,
        id: ReservationId,
        payment_id: Option<&str>,
        reason: Option<&str>,
    ) -> Result<(), Error> {
        let mut path = reservation(id, "/payment");
        push_parameter(&mut path, "payment_id", payment_id);
        push_parameter(&mut path, "reason", reason);
        self.http.send(Request::new("DELETE", path).key(None)).await?.done()
    }

    /// Records that sold units have left the shelf. A key is generated when none is given.
    pub async fn fulfil(
        &self,
        id: ReservationId,
        shipment: &Shipment,
        key: Option<&str>,
    ) -> Result<Reservation, Error> {
        self.http.read(Request::new("POST", reservation(id, "/fulfil")).json(shipment)?.key(key)).await
    }

    /// Returns sold units. A key is generated when none is given.
    pub async fn return_units(
        &self,
        id: ReservationId,
        returned: &ReturnedUnits,
        key: Option<&str>,
    ) -> Result<Reservation, Error> {
        self.http.read(Request::new("POST", reservation(id, "/return")).json(returned)?.key(key)).await
    }

    pub(super) async fn change(
        &self,
        method: &str,
        path: String,
        body: &impl Serialize,
        change: Change<'_>,
    ) -> Result<Reservation, Error> {
        let mut request = Request::new(method, path).json(body)?.key(change.key);
        if let Some(version) = change.version {
            request = request.if_match(version);
        }
        self.http.read(request).await
    }
}
