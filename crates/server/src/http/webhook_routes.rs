//! The routes of webhook endpoints. They concern all events, so a caller with restrictions may neither see nor change them.
//!
//! A change of the settings is one commit with its event. Deliveries are the relay's (`stockhold_relay`).

use super::authorize::missing_scope;
use super::keys::{KeyUse, NEVER, idempotency_key, used};
use super::reply::{self, Reply};
use super::request_error::RequestError;
use super::worker::{HandlerResult, RequestContext, Worker};
use std::borrow::Cow;
use stockhold_api::EventTypes;
use stockhold_api::decode::{EventBound, Invalid};
use stockhold_api::problem::Problem;
use stockhold_api::resources::deliveries::{DeliveriesQuery, DeliveryPage, EventRange};
use stockhold_api::resources::webhooks::{
    NewWebhook, RotateRequest, Webhook, WebhookChange, WebhookList, WebhookRequest, WebhookSecret,
};
use stockhold_api::routes::RouteId;
use stockhold_api::webhook_record::{EndpointSecret, StoredSecret, WEBHOOKS, WebhookRecord, WebhookStatus};
use stockhold_domain::{
    Command, EventId, Instant, Label, Outcome, Record, RecordChange, RecordKey, RecordKind, RecordValue,
    Rejection, Reply as Made, SetRecord,
};
use stockhold_relay::{DeliveryFilter, WebhookCommandError};
use stockhold_service::{Scope, WebhookSecret as SecretText};
use stockhold_store::{Failure, Query, QueryResult};

/// Tries of a change of an endpoint that others change at the same time.
const TRIES: usize = 5;
/// The version of a record that does not exist.
const ABSENT: u64 = 0;

impl Worker {
    /// `POST /v1/webhooks`
    pub(super) async fn create_webhook(
        &self,
        context: RequestContext<'_>,
        mut request: WebhookRequest,
    ) -> HandlerResult {
        let meaning = request.meaning();
        let key = idempotency_key(context, request.idempotency_key.take().map(Cow::Owned))?;
        let key_use = KeyUse { key: key.as_deref(), meaning: &meaning };
        let used = used(context, RouteId::CreateWebhook.spec().operation, key_use);
        let is_full = self.all_webhooks().await?.len() >= WEBHOOKS;
        if is_full && used.is_none() {
            return Err(Problem::too_many_webhooks(WEBHOOKS).into());
        }
        let (now, secret) = (self.clocks.wall.now(), new_secret()?);
        let mut record = WebhookRecord {
            url: String::new(),
            types: Vec::new(),
            skus: Vec::new(),
            locations: Vec::new(),
            rate_limit: None,
            status: WebhookStatus::Enabled,
            disabled_reason: None,
            secrets: vec![EndpointSecret { secret: StoredSecret::Clear(secret.clone()), ends_at: None }],
            created_at: now.micros(),
            updated_at: now.micros(),
            enabled_after: self.newest_position().await?,
            scopes: context.caller.principal.scopes.iter().map(|scope| scope.name().to_owned()).collect(),
        };
        self.set_members(&mut record, request.into())?;
        let id = label(&self.made_id(now).to_string())?;
        // A command that can't take effect asks whether the request is a repeated one.
        let expected_version = if is_full { NEVER } else { ABSENT };
        let change = RecordChange::EndpointCreated;
        let value = Some(self.to_stored(&id, &record)?);
        let command = Command::SetRecord(SetRecord { key: record_key(&id), expected_version, value, change });
        match self.run(context, command, used).await? {
            Outcome::Done(_) => Ok(created(&id, &record, Some(&secret))),
            // A secret is shown once.
            Outcome::Replayed(Made::Record(Record { key, value: Some(value), .. })) => {
                Ok(Reply { replayed: true, ..created(&key.id, &read(&value)?, None) })
            }
            // It was deleted since.
            Outcome::Replayed(Made::Record(Record { key, value: None, .. })) => {
                Err(Problem::unknown_webhook(key.id.as_str()).into())
            }
            Outcome::Refused(Rejection::RecordChanged { .. }) if is_full => {
                Err(Problem::too_many_webhooks(WEBHOOKS).into())
            }
            Outcome::Refused(rejection) => Err(Problem::from(rejection).into()),
            Outcome::Replayed(_) | Outcome::Later => Err(RequestError::wrong_answer()),
        }
    }

    /// `GET /v1/webhooks`
    pub(super) async fn webhooks(&self) -> HandlerResult {
        let all = self.all_webhooks().await?;
        let data = all.iter().map(|(id, record)| Webhook::of(id, record)).collect();
        Ok(reply::shape(&WebhookList { data }))
    }

    /// `GET /v1/webhooks/{webhook_id}`
    pub(super) async fn webhook(&self, id: Label) -> HandlerResult {
        let (record, _) = self.stored_webhook(&id).await?;
        Ok(reply::shape(&Webhook::of(id.as_str(), &record)))
    }

    /// `PATCH /v1/webhooks/{webhook_id}`
    pub(super) async fn update_webhook(
        &self,
        context: RequestContext<'_>,
        (id, change): (Label, WebhookChange),
    ) -> HandlerResult {
        for _ in 0..TRIES {
            let (before, version) = self.own_webhook(context, &id).await?;
            let mut record = before.clone();
            let is_enabled_again =
                before.status == WebhookStatus::Disabled && change.status == Some(WebhookStatus::Enabled);
            if is_enabled_again {
                record.disabled_reason = None;
                record.enabled_after = self.newest_position().await?;
            }
            self.set_members(&mut record, change.clone())?;
            record.updated_at = self.clocks.wall.now().micros();
            let change = RecordChange::EndpointChanged;
            if self.has_set(context, &id, Some(&record), version, change).await? {
                return Ok(reply::shape(&Webhook::of(id.as_str(), &record)));
            }
        }
        Err(RequestError::from_store(&Failure::Overloaded))
    }

    /// `DELETE /v1/webhooks/{webhook_id}`
    pub(super) async fn delete_webhook(&self, context: RequestContext<'_>, id: Label) -> HandlerResult {
        for _ in 0..TRIES {
            let (_, version) = self.own_webhook(context, &id).await?;
            if self.has_set(context, &id, None, version, RecordChange::EndpointDeleted).await? {
                self.relay
                    .forget_webhook(id.as_str())
                    .await
                    .map_err(|error| RequestError::from_store(&error))?;
                return Ok(reply::empty(204));
            }
        }
        Err(RequestError::from_store(&Failure::Overloaded))
    }

    /// `POST /v1/webhooks/{webhook_id}/test`
    pub(super) async fn test_webhook(&self, context: RequestContext<'_>, id: Label) -> HandlerResult {
        let (record, _) = self.own_webhook(context, &id).await?;
        let event_id = self.made_id(self.clocks.wall.now());
        let test = self.relay.test_webhook(id.as_str(), &record, event_id).await;
        Ok(Reply { status: 202, ..reply::shape(&test) })
    }

    /// `POST /v1/webhooks/{webhook_id}/rotate`
    pub(super) async fn rotate_webhook(
        &self,
        context: RequestContext<'_>,
        (id, request): (Label, RotateRequest),
    ) -> HandlerResult {
        let (meaning, overlap) = (request.meaning(&id), i64::from(request.overlap()));
        let key = idempotency_key(context, request.idempotency_key.map(Cow::Owned))?;
        let key_use = KeyUse { key: key.as_deref(), meaning: &meaning };
        let used = used(context, RouteId::RotateWebhook.spec().operation, key_use);
        let secret = new_secret()?;
        for _ in 0..TRIES {
            let (mut record, expected_version) = self.own_webhook(context, &id).await?;
            let now = self.clocks.wall.now();
            let end = Instant::from_micros(now.micros() + overlap * 1_000_000);
            record.rotate(secret.clone(), end, now);
            let (key, value) = (record_key(&id), Some(self.to_stored(&id, &record)?));
            let change = RecordChange::EndpointSecretRotated;
            let command = Command::SetRecord(SetRecord { key, expected_version, value, change });
            match self.run(context, command, used).await? {
                Outcome::Done(_) => return Ok(rotated(Some(&secret))),
                Outcome::Replayed(_) => return Ok(Reply { replayed: true, ..rotated(None) }),
                Outcome::Refused(Rejection::RecordChanged { .. }) => {}
                Outcome::Refused(rejection) => return Err(Problem::from(rejection).into()),
                Outcome::Later => return Err(RequestError::wrong_answer()),
            }
        }
        Err(RequestError::from_store(&Failure::Overloaded))
    }

    /// `GET /v1/webhooks/{webhook_id}/deliveries`
    pub(super) async fn deliveries(
        &self,
        context: RequestContext<'_>,
        (id, query): (Label, DeliveriesQuery),
    ) -> HandlerResult {
        let limit = query.page_size();
        self.take_page_tokens(context, limit).await?;
        let (record, _) = self.stored_webhook(&id).await?;
        let filter = DeliveryFilter { status: query.status, before: query.before(), limit };
        let found = self.relay.webhook_deliveries(id.as_str(), &record, filter).await;
        let (all, next) = found.map_err(|error| refusal(error, ""))?;
        Ok(reply::shape(&DeliveryPage::of(all, next)))
    }

    /// `POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/retry`
    pub(super) async fn retry_delivery(
        &self,
        context: RequestContext<'_>,
        (id, delivery): (Label, Label),
    ) -> HandlerResult {
        let record = self.enabled_webhook(context, &id).await?;
        let retried = self.relay.retry_delivery(id.as_str(), &record, delivery.as_str()).await;
        retried.map_err(|error| refusal(error, delivery.as_str()))?;
        Ok(reply::empty(204))
    }

    /// `POST /v1/webhooks/{webhook_id}/replay`
    pub(super) async fn replay_webhook(
        &self,
        context: RequestContext<'_>,
        (id, range): (Label, EventRange),
    ) -> HandlerResult {
        let record = self.enabled_webhook(context, &id).await?;
        let position_at =
            async |at| self.relay.position_at(at).await.map_err(|failure| RequestError::from_store(&failure));
        let from = match range.from {
            EventBound::Position(position) => position,
            EventBound::Time(since) => position_at(since).await?,
        };
        let to = match range.to {
            None => None,
            Some(EventBound::Position(position)) => Some(position),
            // The last event before the next microsecond.
            Some(EventBound::Time(until)) => {
                let next = Instant::from_micros(until.micros().saturating_add(1));
                Some(position_at(next).await?.saturating_sub(1))
            }
        };
        let replay = self.relay.replay_webhook(id.as_str(), &record, (from, to), range.only_failed).await;
        let replay = replay.map_err(|error| refusal(error, ""))?;
        Ok(Reply { status: 202, ..reply::shape(&replay) })
    }

    /// Sets what a request says of an endpoint.
    fn set_members(&self, record: &mut WebhookRecord, change: WebhookChange) -> Result<(), RequestError> {
        if let Some(url) = &change.url {
            self.relay.check_webhook_url(url).map_err(|what| Invalid::new("/url", what))?;
        }
        change.apply(record);
        if EventTypes::named(&record.types).overlaps(EventTypes::ACCESS) && !record.may_get_access_events() {
            return Err(missing_scope(Scope::KeysAdmin));
        }
        Ok(())
    }

    /// All endpoints, in the order of their creation.
    async fn all_webhooks(&self) -> Result<Vec<(String, WebhookRecord)>, RequestError> {
        let query = Query::Records { kind: RecordKind::Webhook, after: None, limit: WEBHOOKS };
        let QueryResult::Records(records) = self.find(query).await? else {
            return Err(RequestError::wrong_answer());
        };
        let mut all = Vec::with_capacity(records.len());
        for record in records {
            if let Some(value) = &record.value {
                all.push((record.key.id.as_str().to_owned(), read(value)?));
            }
        }
        Ok(all)
    }

    /// An endpoint and the version of its settings. Refuses an id that none has.
    async fn stored_webhook(&self, id: &Label) -> Result<(WebhookRecord, u64), RequestError> {
        let QueryResult::Record(found) = self.find(Query::Record(record_key(id))).await? else {
            return Err(RequestError::wrong_answer());
        };
        let value = found.as_ref().and_then(|record| Some((record.version, record.value.as_ref()?)));
        let Some((version, value)) = value else {
            return Err(Problem::unknown_webhook(id.as_str()).into());
        };
        Ok((read(value)?, version))
    }

    /// An endpoint that the caller may change, and the version of its settings: it has every scope that the creator had.
    async fn own_webhook(
        &self,
        context: RequestContext<'_>,
        id: &Label,
    ) -> Result<(WebhookRecord, u64), RequestError> {
        let (record, version) = self.stored_webhook(id).await?;
        match record.scopes().first_missing_in(context.caller.principal.scopes) {
            Some(scope) => Err(missing_scope(scope)),
            None => Ok((record, version)),
        }
    }

    /// An endpoint that gets events and that the caller may change.
    async fn enabled_webhook(
        &self,
        context: RequestContext<'_>,
        id: &Label,
    ) -> Result<WebhookRecord, RequestError> {
        let (record, _) = self.own_webhook(context, id).await?;
        match record.status {
            WebhookStatus::Enabled => Ok(record),
            WebhookStatus::Disabled => Err(Problem::webhook_disabled(id.as_str()).into()),
        }
    }

    /// Writes the settings of an endpoint. Returns false if they were changed since they were read.
    async fn has_set(
        &self,
        context: RequestContext<'_>,
        id: &Label,
        record: Option<&WebhookRecord>,
        expected_version: u64,
        change: RecordChange,
    ) -> Result<bool, RequestError> {
        let value = record.map(|record| self.to_stored(id, record)).transpose()?;
        let command = Command::SetRecord(SetRecord { key: record_key(id), expected_version, value, change });
        match self.run(context, command, None).await? {
            Outcome::Done(_) => Ok(true),
            Outcome::Refused(Rejection::RecordChanged { .. }) => Ok(false),
            Outcome::Refused(rejection) => Err(Problem::from(rejection).into()),
            Outcome::Replayed(_) | Outcome::Later => Err(RequestError::wrong_answer()),
        }
    }

    /// The stored form of an endpoint, with its secrets encrypted if the configuration has a key.
    fn to_stored(&self, id: &Label, record: &WebhookRecord) -> Result<RecordValue, RequestError> {
        let mut record = record.clone();
        if let Err(error) = record.seal(id, self.customers.keyring()) {
            // An older secret that nobody can read must not keep the endpoint from getting a new one.
            tracing::error!(webhook = id.as_str(), %error, "a secret of a webhook can't be encrypted again");
        }
        RecordValue::new(&record.to_bytes())
            .map_err(|_| Invalid::new("", "names more and longer SKUs and locations than may be").into())
    }

    fn made_id(&self, now: Instant) -> EventId {
        EventId::new(now, self.ids.borrow_mut().random())
    }
}

/// The answer to the request that created an endpoint, or repeats that one and gets no secret.
fn created(id: &Label, record: &WebhookRecord, secret: Option<&SecretText>) -> Reply {
    let shown = reply::shape(&NewWebhook::of(id.as_str(), record, secret));
    let place = format!("/v1/webhooks/{id}");
    let headers = vec![("location", place.into()), ("cache-control", "no-store".into())];
    Reply { status: 201, headers, ..shown }
}

/// The answer with a new secret. A repeated request gets none.
fn rotated(secret: Option<&SecretText>) -> Reply {
    let shown = reply::shape(&WebhookSecret::of(secret));
    Reply { headers: vec![("cache-control", "no-store".into())], ..shown }
}

fn record_key(id: &Label) -> RecordKey {
    RecordKey { kind: RecordKind::Webhook, id: id.clone() }
}

fn label(text: &str) -> Result<Label, RequestError> {
    Label::new(text).map_err(|error| RequestError::internal(error.to_string()))
}

fn read(value: &RecordValue) -> Result<WebhookRecord, RequestError> {
    WebhookRecord::from_bytes(value.as_bytes()).map_err(|error| RequestError::internal(error.to_string()))
}

fn new_secret() -> Result<SecretText, RequestError> {
    SecretText::generate().map_err(|error| RequestError::internal(error.to_string()))
}

fn refusal(error: WebhookCommandError, delivery: &str) -> RequestError {
    match error {
        WebhookCommandError::UnknownDelivery => Problem::unknown_delivery(delivery).into(),
        WebhookCommandError::OutOfRange(first, last) => {
            let detail =
                format!("must be {first} to {last}: the events that the store has and the endpoint has got");
            Problem::from(Invalid::new("/from_position", detail)).into()
        }
        WebhookCommandError::Store(failure) => RequestError::from_store(&failure),
    }
}
