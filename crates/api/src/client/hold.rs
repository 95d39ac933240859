//! A hold for as long as a function runs.

use super::attempt::Error;
use super::{At, Client};
use crate::wire::{Confirmation, Reservation, Terms};
use std::fmt;
use std::future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stockhold_domain::ReservationId;

/// A hold is extended each time that its time to live, divided by this, has passed.
const EXTENDS_PER_TTL: u32 = 3;
/// With these refusals of a release, the units are sold or about to be, by another call of the function.
const SOLD_OTHERWISE: [&str; 2] = ["reservation_confirmed", "payment_in_progress"];

/// What the function of [`Client::with_hold`] gets.
#[derive(Debug)]
pub struct Hold {
    client: Client,
    reservation: Reservation,
    is_confirmed: AtomicBool,
}

/// Why [`Client::with_hold`] failed.
#[derive(Debug)]
pub enum HoldError<E> {
    /// Nothing was reserved, and the function did not run.
    Reserve(Error),
    /// The error of the function. The hold was released, or ends at its deadline if the release failed too.
    Work(E),
    /// The function returned without a confirm, and the release failed. The hold ends at its deadline.
    Release(Error),
}

impl<E: fmt::Display> fmt::Display for HoldError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserve(error) => write!(f, "the reserve failed: {error}"),
            Self::Work(error) => error.fmt(f),
            Self::Release(error) => write!(f, "the release failed: {error}"),
        }
    }
}

impl<E: std::error::Error> std::error::Error for HoldError<E> {}

impl Hold {
    /// The id of the reservation.
    pub fn id(&self) -> ReservationId {
        self.reservation.reservation_id
    }

    /// The reservation as the reserve returned it.
    pub fn reservation(&self) -> &Reservation {
        &self.reservation
    }

    /// Whether [`Hold::confirm`] has turned it into a sale.
    pub fn is_confirmed(&self) -> bool {
        self.is_confirmed.load(Ordering::Acquire)
    }

    /// Turns the hold into a sale. A key is generated when none is given.
    pub async fn confirm(
        &self,
        confirmation: &Confirmation,
        key: Option<&str>,
    ) -> Result<Reservation, Error> {
        let sold = self.client.confirm_as(self.id(), confirmation, key).await?;
        self.is_confirmed.store(true, Ordering::Release);
        Ok(sold)
    }
}

impl Client {
    /// Reserves units of one item, and runs `work`. The hold is extended at each third of its time to live while `work` runs, and
    /// not after that. Unless `work` has confirmed it, the hold is released.
    ///
    /// A hold whose future is dropped is neither extended nor released: it ends at its deadline.
    ///
    /// `examples/sell.rs` uses it.
    pub async fn with_hold<T, E>(
        &self,
        at: At<'_>,
        quantity: u64,
        terms: &Terms,
        key: Option<&str>,
        work: impl AsyncFnOnce(&Hold) -> Result<T, E>,
    ) -> Result<T, HoldError<E>> {
        let reservation = self.reserve(at, quantity, terms, key).await.map_err(HoldError::Reserve)?;
        let ttl_seconds = terms.ttl_seconds.unwrap_or_else(|| ttl_seconds_of(&reservation));
        let hold = Hold { client: self.clone(), reservation, is_confirmed: AtomicBool::new(false) };
        let result = tokio::select! {
            result = work(&hold) => result,
            () = self.keep_extended(hold.id(), ttl_seconds) => unreachable!("it never ends"),
        };
        match result {
            Ok(value) if hold.is_confirmed() => Ok(value),
            Ok(value) => match self.release(hold.id(), None).await {
                Err(Error::Refused(problem)) if SOLD_OTHERWISE.contains(&problem.reason.as_str()) => {
                    Ok(value)
                }
                Err(error) => Err(HoldError::Release(error)),
                Ok(()) => Ok(value),
            },
            Err(error) => {
                if !hold.is_confirmed() {
                    // The hold ends at its deadline at the latest. The error of the function matters more.
                    let _ = self.release(hold.id(), None).await;
                }
                Err(HoldError::Work(error))
            }
        }
    }

    /// Extends a hold for ever. After a refusal the deadline stays as it is, and the confirm says what became of the hold.
    async fn keep_extended(&self, id: ReservationId, ttl_seconds: u32) {
        let pause = Duration::from_secs(u64::from(ttl_seconds)) / EXTENDS_PER_TTL;
        loop {
            tokio::time::sleep(pause).await;
            match self.extend(id, ttl_seconds, None).await {
                // If the server can't be reached now, the next extend may still come in time.
                Ok(_) | Err(Error::Unreachable { .. }) => {}
                Err(Error::Refused(problem)) if problem.retryable => {}
                Err(_) => return future::pending().await,
            }
        }
    }
}

/// The time to live that the item gave to a reservation, in whole seconds and 1 at least.
fn ttl_seconds_of(reservation: &Reservation) -> u32 {
    let seconds = (reservation.expires_at.micros() - reservation.created_at.micros()) / 1_000_000;
    u32::try_from(seconds).unwrap_or(u32::MAX).max(1)
}
