//! Who sends a request, and whether it may: credential, rate limit, scope, in this order. What a caller may see of the data is
//! decided where the data is read (`restrict.rs`).

use super::admission::bounds::ENTRIES_PER_TOKEN;
use super::request_error::RequestError;
use super::request_head::{RequestHead, SingleHeader};
use super::restrict::allow;
use super::route::Route;
use super::worker::{RequestContext, Worker};
use crate::access::RateVerdict;
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;
use stockhold_api::decode;
use stockhold_api::problem::Problem;
use stockhold_api::routes::{RequiredScope, Restriction, RouteId};
use stockhold_domain::{AccessDenied, Label, RecordKey, RecordKind, Scope as SaleScope};
use stockhold_service::{
    AuthenticationError, Caller, CredentialFault, HoldTokenClaims, KeyId, KeyRecord, ListenerPrincipal,
    MissingPermission, PrincipalKind, Scope, unknown_key,
};
use stockhold_store::{Failure, Query, QueryResult};

/// Capacity for the value of a `RateLimit` header, in bytes. Hardly any value is longer.
const ITEM_BYTES: usize = 40;

impl Worker {
    /// Refuses a request that reached the server under a name of somebody else, where callers need no credential. A request without a
    /// name comes from no browser.
    pub(super) fn check_host(&self, head: &RequestHead<'_>) -> Result<(), RequestError> {
        let is_trusted = !self.access.authenticator.is_required()
            || head.listener.is_some_and(|profile| self.access.profile_principal(profile).is_some());
        match head.host {
            SingleHeader::Value(host) if is_trusted => {
                let host = String::from_utf8_lossy(host);
                if self.access.hosts.allows(&host) {
                    Ok(())
                } else {
                    Err(Problem::foreign_host(&host).into())
                }
            }
            SingleHeader::Value(_) | SingleHeader::Absent | SingleHeader::Repeated => Ok(()),
        }
    }

    /// The caller of a request.
    pub(super) async fn authenticate(&self, head: &RequestHead<'_>) -> Result<Arc<Caller>, RequestError> {
        if let Some(principal) = head.listener.and_then(|profile| self.access.profile_principal(profile)) {
            return self.client_of_listener(head, principal).await;
        }
        let authorization = match head.authorization {
            SingleHeader::Absent => None,
            SingleHeader::Value(value) => Some(value),
            SingleHeader::Repeated => {
                let why = "The request has two Authorization headers.";
                return Err(self.refused(head, CredentialFault::Malformed, why, None).await);
            }
        };
        let (client, now) = (client_address(head), self.access.check_time(head.now));
        let mut found = self.access.authenticator.look_up(authorization, client, now);
        if found == Err(AuthenticationError::UnverifiedToken) {
            // Without this, anybody could have signatures checked for every guess.
            if self.access.is_exhausted(client).await
                && let Some(verdict) = self.refused_verdict(head).await
            {
                return Err(too_many_requests(verdict));
            }
            found = self.access.authenticator.verify(authorization, head.now);
        }
        if let Err(AuthenticationError::UnknownKey(id)) = found {
            // Without this, anybody could have the store read for every guess.
            if self.access.is_exhausted(client).await {
                let (why, id) = ("There is no such API key.", Some(id.to_string()));
                return Err(self.refused(head, CredentialFault::Unknown, why, id).await);
            }
            found = match self.read_key(id).await? {
                Some(record) => {
                    self.access.authenticator.add_key(record, now.steady);
                    self.access.authenticator.authenticate(authorization, client, now)
                }
                None => Err(unknown_key(id)),
            };
        }
        if found == Err(AuthenticationError::NoSigningKey) {
            let is_known =
                !self.access.is_exhausted(client).await && self.load_hold_token_key().await?.is_some();
            if !is_known {
                let why = "The hold token is not valid.";
                return Err(self.refused(head, CredentialFault::Malformed, why, None).await);
            }
            found = self.access.authenticator.authenticate(authorization, client, now);
        }
        match found {
            Ok(caller) => Ok(caller),
            Err(AuthenticationError::Refused { fault, why, subject }) => {
                Err(self.refused(head, fault, &why, subject).await)
            }
            Err(AuthenticationError::Unavailable(why)) => {
                Err(RequestError::from_store(&Failure::Unavailable(why)))
            }
            Err(
                AuthenticationError::UnknownKey(_)
                | AuthenticationError::NoSigningKey
                | AuthenticationError::UnverifiedToken,
            ) => Err(RequestError::internal("a key that was just added is unknown")),
        }
    }

    /// The caller of a request to a listener with a principal of its own. A credential is not looked at.
    async fn client_of_listener(
        &self,
        head: &RequestHead<'_>,
        principal: &ListenerPrincipal,
    ) -> Result<Arc<Caller>, RequestError> {
        let (client, caller) = (client_address(head), principal.caller());
        if principal.allows_address(client) {
            return Ok(caller);
        }
        let why = format!("This listener may not be used from {client}.");
        Err(self.refused(head, CredentialFault::Network, &why, Some(caller.principal.to_string())).await)
    }

    /// Reads an API key from the store.
    pub(super) async fn read_key(&self, id: KeyId) -> Result<Option<KeyRecord>, RequestError> {
        let QueryResult::Record(record) = self.find(Query::Record(key_record_key(id))).await? else {
            return Err(RequestError::wrong_answer());
        };
        let value = record.and_then(|record| record.value);
        let read = value.map(|value| KeyRecord::from_bytes(value.as_bytes())).transpose();
        read.map_err(|error| RequestError::internal(error.to_string()))
    }

    /// The answer to a refused credential. It counts against the address, and is a refusal for too many requests once the
    /// address has no allowance left.
    async fn refused(
        &self,
        head: &RequestHead<'_>,
        fault: CredentialFault,
        why: &str,
        subject: Option<String>,
    ) -> RequestError {
        metrics::counter!("stockhold_credentials_refused_total", "reason" => fault.name()).increment(1);
        if let Some(verdict) = self.refused_verdict(head).await {
            return too_many_requests(verdict);
        }
        if let Some(subject) = subject.filter(|subject| self.access.may_log(subject)) {
            tracing::warn!(credential = fault.name(), subject, "a credential was refused");
        }
        Problem::unauthenticated(fault, why).into()
    }

    /// Takes a token of the caller's address. Its verdict if the address has no allowance left.
    async fn refused_verdict(&self, head: &RequestHead<'_>) -> Option<RateVerdict> {
        let verdict = self.access.count_address(client_address(head)).await;
        verdict.filter(|verdict| !verdict.status.allowed)
    }

    /// Takes a token for a request. The headers of the answer show what is left.
    pub(super) async fn take_token(&self, context: RequestContext<'_>) -> Result<(), RequestError> {
        heed_verdict(context, self.access.count_request(context.caller).await)
    }

    /// Takes the tokens of a batch of commands beyond the one of its request.
    pub(super) async fn take_batch_tokens(
        &self,
        context: RequestContext<'_>,
        commands: usize,
    ) -> Result<(), RequestError> {
        heed_verdict(context, self.access.count_batch(context.caller, commands).await)
    }

    /// Refuses a route whose scope the caller lacks, and one that concerns everything if the caller is restricted.
    pub(super) async fn check_route(&self, route: Route<'_>, caller: &Caller) -> Result<(), RequestError> {
        self.check_scope(route, caller).await?;
        match route.id.spec().restriction {
            Restriction::Refused => allow(caller.principal.restrictions.denies_scope(&SaleScope::Everything)),
            Restriction::ByItem
            | Restriction::ByReservation
            | Restriction::Filtered
            | Restriction::ByKey
            | Restriction::PerCommand => Ok(()),
        }
    }

    /// Takes the tokens of a read of so many entries beyond the one of its request.
    pub(super) async fn take_page_tokens(
        &self,
        context: RequestContext<'_>,
        entries: usize,
    ) -> Result<(), RequestError> {
        let tokens = entries.div_ceil(ENTRIES_PER_TOKEN);
        if tokens > 1 { self.take_batch_tokens(context, tokens).await } else { Ok(()) }
    }

    /// Counts a request without a credential against its address, where others need one.
    pub(super) async fn count_open_request(
        &self,
        head: &RequestHead<'_>,
        rate: &Cell<Option<RateVerdict>>,
    ) -> Result<(), RequestError> {
        if !self.access.authenticator.is_required() {
            return Ok(());
        }
        match self.access.count_address(client_address(head)).await {
            Some(verdict) if !verdict.status.allowed => Err(too_many_requests(verdict)),
            verdict => {
                rate.set(verdict);
                Ok(())
            }
        }
    }

    /// Refuses a route whose scope the caller lacks.
    async fn check_scope(&self, route: Route<'_>, caller: &Caller) -> Result<(), RequestError> {
        let spec = route.id.spec();
        let scope = match spec.scope {
            // The commands are judged one by one, and a hold token is for none of them.
            RequiredScope::EachCommand if matches!(caller.principal.kind, PrincipalKind::Hold(_)) => {
                return Err(missing_scope(Scope::ReservationsWrite));
            }
            RequiredScope::Open | RequiredScope::EachCommand => return Ok(()),
            RequiredScope::One(scope) => scope,
        };
        if caller.principal.may(scope) {
            return Ok(());
        }
        let PrincipalKind::Hold(HoldTokenClaims { reservation, .. }) = caller.principal.kind else {
            return Err(missing_scope(scope));
        };
        // Only the reservation of the token, and only while it is active.
        let [id, _] = route.parameters;
        if !spec.hold_token || decode::reservation(id, None).ok() != Some(reservation) {
            return Err(missing_scope(scope));
        }
        match self.find(Query::Reservation(reservation)).await? {
            QueryResult::Reservation(None) => Ok(()),
            QueryResult::Reservation(Some(hold)) => match caller.principal.access().denies_hold(&hold) {
                // Whether it is repeated is for the rules.
                Some(AccessDenied::Ended) if route.id == RouteId::Release => Ok(()),
                denied => allow(denied),
            },
            _ => Err(RequestError::wrong_answer()),
        }
    }
}

fn heed_verdict(context: RequestContext<'_>, verdict: Option<RateVerdict>) -> Result<(), RequestError> {
    let Some(verdict) = verdict else { return Ok(()) };
    if !verdict.status.allowed {
        return Err(too_many_requests(verdict));
    }
    context.rate.set(Some(verdict));
    Ok(())
}

/// The refusal of a caller that lacks a scope.
pub(super) fn missing_scope(scope: Scope) -> RequestError {
    Problem::not_permitted(MissingPermission::Scope(scope)).into()
}

/// The name of the record of an API key.
pub(super) fn key_record_key(id: KeyId) -> RecordKey {
    #[expect(clippy::expect_used, reason = "a key id is 36 characters of ASCII")]
    let id = Label::new(&id.to_string()).expect("a key id is a label");
    RecordKey { kind: RecordKind::ApiKey, id }
}

/// The address of the caller.
pub(super) fn client_address(head: &RequestHead<'_>) -> IpAddr {
    head.client.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

fn too_many_requests(verdict: RateVerdict) -> RequestError {
    let seconds = whole_seconds(verdict.status.retry_after).max(1);
    RequestError { rate: Some(Box::new(verdict)), ..Problem::rate_limited(seconds).into() }
}

/// Adds the `RateLimit` headers (draft-ietf-httpapi-ratelimit-headers-10).
pub(super) fn add_rate_headers(verdict: RateVerdict, headers: &mut Vec<crate::access::Header>) {
    let RateVerdict { policy, limit, status } = verdict;
    let reset = if status.allowed { status.reset_after } else { status.retry_after };
    let (burst, window) = (limit.burst(), limit.window_seconds());
    headers.push(("ratelimit-policy", item(policy, [(";q=", burst.into()), (";w=", window)]).into()));
    let (remaining, reset) = (status.remaining.into(), whole_seconds(reset));
    headers.push(("ratelimit", item(policy, [(";r=", remaining), (";t=", reset)]).into()));
}

/// A string with parameters (RFC 9651). Every answer to a caller with a limit has two of them, and `format!` takes several times as
/// long.
fn item(text: &str, parameters: [(&str, u64); 2]) -> String {
    let mut out = String::with_capacity(ITEM_BYTES);
    out.push('"');
    out.push_str(text);
    out.push('"');
    for (name, value) in parameters {
        out.push_str(name);
        out.push_str(itoa::Buffer::new().format(value));
    }
    out
}

fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}
