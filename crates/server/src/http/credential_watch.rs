//! The credential of a stream that stays open. It is checked for as long as the stream is.

use super::admission::bounds::CREDENTIAL_CHECK_INTERVAL;
use super::authorize::client_address;
use super::request_head::{RequestHead, SingleHeader};
use super::worker::Worker;
use std::net::IpAddr;
use stockhold_domain::Instant;

/// The credential of a stream.
pub(super) struct CredentialWatch {
    authorization: Option<Vec<u8>>,
    client: IpAddr,
}

impl CredentialWatch {
    pub(super) fn of(head: &RequestHead<'_>) -> Self {
        let authorization = match head.authorization {
            SingleHeader::Value(value) => Some(value.to_vec()),
            SingleHeader::Absent | SingleHeader::Repeated => None,
        };
        Self { authorization, client: client_address(head) }
    }

    /// Waits until the credential is refused, for example because its key was revoked, or can't be checked any more. A check holds
    /// until the next one, so it is made for the instant of that one. Otherwise a stream could outlive the table of keys.
    pub(super) async fn ended(&self, worker: &Worker) {
        let interval = CREDENTIAL_CHECK_INTERVAL;
        let micros = i64::try_from(interval.as_micros()).unwrap_or(i64::MAX);
        loop {
            tokio::time::sleep(interval).await;
            let mut next = worker.access.check_time(worker.clocks.wall.now());
            next.wall = Instant::from_micros(next.wall.micros() + micros);
            next.steady += interval;
            let checked =
                worker.access.authenticator.authenticate(self.authorization.as_deref(), self.client, next);
            if checked.is_err() {
                return;
            }
        }
    }
}
