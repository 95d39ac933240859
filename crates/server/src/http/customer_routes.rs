//! The routes of customers, and checkouts with their stored payment methods. Personal data belongs to no location and no channel, so a
//! caller with restrictions may neither see nor change it.
//!
//! Personal data is in the answers of these routes only: in no error, log or event.

use super::reply::{self, Reply};
use super::request_error::RequestError;
use super::worker::{HandlerResult, Worker};
use crate::secrets_at_rest::reseal;
use stockhold_api::decode::CustomerPage;
use stockhold_api::encode;
use stockhold_api::problem::Problem;
use stockhold_api::resources::customers::{Customer, RewrapPage};
use stockhold_customers::{CustomerError, Profile, SealError};
use stockhold_domain::{
    CheckoutTerms, Command, Hold, Instant, Label, PaymentMethod, Precondition, ReservationId, SealedRefs,
};
use stockhold_store::{Answer, Failure, Query, QueryResult, Request};

/// Payments under way that are looked at before a customer is erased: more than a store can move on within a payment window.
const PAYMENTS_EXAMINED: usize = 1_000_000;
/// Reservations that are read together.
const READ_TOGETHER: usize = 256;

impl Worker {
    /// `PUT /v1/customers/{customer_id}`
    pub(super) async fn put_customer(
        &self,
        (id, profile, condition): (Label, Profile, Option<Precondition>),
    ) -> HandlerResult {
        let written = self.customers.put(&id, &profile, condition.as_ref()).await;
        let (version, is_new) = written.map_err(|error| refusal(error, condition.as_ref()))?;
        let shown = show(id, version, &profile);
        Ok(Reply { status: if is_new { 201 } else { 200 }, ..shown })
    }

    /// `GET /v1/customers/{customer_id}`
    pub(super) async fn customer(&self, id: Label) -> HandlerResult {
        match self.customers.get(&id).await.map_err(|error| refusal(error, None))? {
            Some(customer) => Ok(show(id, customer.version, &customer.profile)),
            None => Err(Problem::unknown_customer(&id).into()),
        }
    }

    /// `DELETE /v1/customers/{customer_id}`
    pub(super) async fn delete_customer(
        &self,
        (id, condition): (Label, Option<Precondition>),
    ) -> HandlerResult {
        let refused = |error| refusal(error, condition.as_ref());
        self.customers.check_key().map_err(refused)?;
        if let Some(hold) = self.payment_of(&id).await? {
            return Err(Problem::customer_in_payment(&id, &hold).into());
        }
        if self.customers.delete(&id, condition.as_ref()).await.map_err(refused)? {
            Ok(reply::empty(204))
        } else {
            Err(Problem::unknown_customer(&id).into())
        }
    }

    /// A reservation whose payment is under way with the stored payment method of a customer. A checkout that comes in the same moment
    /// may be missed. Its payment is declined then, because nobody can read its payment method.
    async fn payment_of(&self, id: &Label) -> Result<Option<Hold>, RequestError> {
        let query = Query::DuePayments { now: Instant::from_micros(i64::MAX), limit: PAYMENTS_EXAMINED };
        let QueryResult::DuePayments(under_way) = self.find(query).await? else {
            return Err(RequestError::wrong_answer());
        };
        let is_of = |hold: &Hold| {
            let charge = hold.charge();
            charge.is_some_and(|charge| !charge.state.is_at_rest() && charge.terms.customer_id() == Some(id))
        };
        for some in under_way.chunks(READ_TOGETHER) {
            let ask =
                |id: &ReservationId| self.pending_replies.submit(Request::Query(Query::Reservation(*id)));
            let answers: Vec<_> = some.iter().map(ask).collect();
            for answer in answers {
                match answer.await {
                    Ok(Answer::QueryResult(QueryResult::Reservation(hold))) => {
                        if let Some(hold) = hold.filter(is_of) {
                            return Ok(Some(hold));
                        }
                    }
                    Ok(_) => return Err(RequestError::wrong_answer()),
                    Err(failure) => return Err(RequestError::from_store(&failure)),
                }
            }
        }
        Ok(None)
    }

    /// `POST /v1/customer-keys/rewrap`
    pub(super) async fn rewrap_customers(&self, page: CustomerPage) -> HandlerResult {
        let is_first = page.after.is_none();
        let rewrapped = self.customers.rewrap_page(page.after, page.limit).await;
        let mut rewrapped = rewrapped.map_err(|error| refusal(error, None))?;
        if is_first {
            let keyring = self.customers.keyring();
            let resealed = reseal(&*self.store, &*self.clocks.store, keyring).await;
            let resealed = resealed.map_err(|failure| RequestError::from_store(&failure))?;
            if let Some((name, error)) = resealed.unreadable.first() {
                tracing::error!(name, %error, "a secret of the service can't be read");
                let SealError::UnknownKey(id) = error else {
                    return Err(RequestError::internal(error.to_string()));
                };
                return Err(Problem::encryption_key_missing(Some(id)).into());
            }
            rewrapped.rewrapped += resealed.written;
        }
        Ok(reply::shape(&RewrapPage::from(rewrapped)))
    }

    /// Puts the stored payment method of a customer into a checkout, encrypted. It is not part of the fingerprint of the request, because
    /// each encryption is another one. So a repeated request is a replay, also when the customer was erased since: the rules refuse a
    /// customer without a payment method only if the request is not a replay.
    pub(super) async fn seal_method(&self, mut command: Command) -> Result<Command, RequestError> {
        let terms = match &mut command {
            Command::StartCheckout(start) => Some(&mut start.request.terms),
            Command::Reserve(reserve) => reserve.checkout.as_mut().map(|checkout| &mut checkout.terms),
            _ => None,
        };
        if let Some(CheckoutTerms {
            provider, method: PaymentMethod::Customer { customer_id, sealed }, ..
        }) = terms
        {
            let known = self.customers.seal(customer_id, self.checkout.providers()).await;
            if let Some(method) = known.map_err(|error| refusal(error, None))? {
                *provider = method.provider;
                *sealed = SealedRefs::new(&method.bytes);
            }
        }
        Ok(command)
    }
}

fn show(id: Label, version: u64, profile: &Profile) -> Reply {
    let customer = Customer::of(id, version, profile);
    let mut shown = reply::with_etag(version, |out| encode::shape(out, &customer));
    shown.headers.push(("cache-control", "no-store".into()));
    shown
}

/// Why a customer was not read or written. `condition` is that of the request.
fn refusal(error: CustomerError, condition: Option<&Precondition>) -> RequestError {
    match error {
        CustomerError::NoKey => Problem::encryption_key_missing(None).into(),
        CustomerError::UnknownKey(id) => Problem::encryption_key_missing(Some(&id)).into(),
        CustomerError::Changed(found) if condition.is_some() => Problem::customer_changed(found).into(),
        // Many write the customer at the same time.
        CustomerError::Changed(_) => RequestError::from_store(&Failure::Overloaded),
        CustomerError::Store(failure) => RequestError::from_store(&failure),
        CustomerError::Damaged | CustomerError::NoRandomNumbers => RequestError::internal(error.to_string()),
    }
}
