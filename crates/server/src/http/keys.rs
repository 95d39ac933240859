//! The management of API keys: create, list, read, roll and revoke. The rules are in [`stockhold_service`]. This module reads and
//! writes the records of the keys, and answers.
//!
//! A change is one commit with its event. After it, this instance knows the key at once. Other instances read a key that they do
//! not know from the store, and refresh their table of keys every second.

use super::authorize::key_record_key;
use super::commands::origin;
use super::reply::{self, Reply};
use super::request_error::RequestError;
use super::worker::{HandlerResult, RequestContext, Worker};
use std::borrow::Cow;
use stockhold_api::cursor;
use stockhold_api::decode::{self, Invalid};
use stockhold_api::encode::{self, List};
use stockhold_api::problem::Problem;
use stockhold_api::resources::keys::{ApiKey, KeyRequest, NewApiKey, RollRequest};
use stockhold_api::routes::RouteId;
use stockhold_domain::{
    Command, Envelope, IdempotencyKey, Outcome, Record, RecordChange, RecordKind, RecordValue, Rejection,
    Reply as Made, SetRecord,
};
use stockhold_service::{
    KeyAdminError, KeyId, KeyRecord, NewApiKey as KeyText, create_key, may_manage, revoke_key, roll_key,
};
use stockhold_store::{Failure, Query, QueryResult, digest};

/// Tries of a change of a key that others change at the same time.
const TRIES: usize = 5;
/// Keys that are read at a time.
const KEYS_AT_ONCE: usize = 100;
/// Most reads for one page of keys. Keys that ended long ago count, so a page may be short where there are very many of them.
const READS: usize = 64;
/// Bytes after which a page ends, whatever its limit.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// The version of a record that does not exist.
const ABSENT: u64 = 0;
/// A version that no record has, for a command that can't take effect.
pub(super) const NEVER: u64 = u64::MAX;
/// What the idempotency key of the second command of a roll belongs to. No route has this name.
const END_ROLLED_KEY: &str = "end_rolled_key";

/// An API key and the version of its record.
struct StoredKey {
    key: KeyRecord,
    version: u64,
}

/// What an idempotency key of the caller is used for.
#[derive(Clone, Copy)]
pub(super) struct KeyUse<'a> {
    /// The caller's text.
    pub(super) key: Option<&'a str>,
    /// What was asked for.
    pub(super) meaning: &'a [u8],
}

impl Worker {
    /// `POST /v1/keys`
    pub(super) async fn create_key(&self, context: RequestContext<'_>, request: KeyRequest) -> HandlerResult {
        let meaning = request.meaning();
        let spec = request.spec();
        let key = idempotency_key(context, request.idempotency_key.map(Cow::Owned))?;
        let key_use = KeyUse { key: key.as_deref(), meaning: &meaning };
        let made = create_key(&context.caller.principal, &spec, self.clocks.wall.now());
        let (record, text) = made.map_err(|error| refusal(error, None))?;
        let used = used(context, RouteId::CreateKey.spec().operation, key_use);
        let command = put(&record, ABSENT, RecordChange::KeyCreated)?;
        match self.run(context, command, used).await? {
            Outcome::Done(_) => {
                self.access.add_key(record.clone());
                Ok(created(&record, Some(&text)))
            }
            Outcome::Replayed(reply) => replayed(context, reply),
            Outcome::Refused(rejection) => Err(Problem::from(rejection).into()),
            Outcome::Later => Err(RequestError::wrong_answer()),
        }
    }

    /// `POST /v1/keys/{key_id}/roll`
    ///
    /// The new key is put first, and then the old one gets its end, by two commands in this order. If a crash parts them, both keys
    /// work, and a repeated request goes on with the second command.
    pub(super) async fn roll_key(
        &self,
        context: RequestContext<'_>,
        (key_id, request): (KeyId, RollRequest),
    ) -> HandlerResult {
        let meaning = request.meaning(key_id);
        let key = idempotency_key(context, request.idempotency_key.map(Cow::Owned))?;
        let key_use = KeyUse { key: key.as_deref(), meaning: &meaning };
        let operation = RouteId::RollKey.spec().operation;
        let old = self.stored_key(key_id).await?;
        let seconds = request.expire_old_in_seconds;
        let rolled = roll_key(&context.caller.principal, &old.key, seconds, self.clocks.wall.now());
        let ((record, text), ended) = match rolled {
            Ok(rolled) => rolled,
            Err(KeyAdminError::Ended) => return self.earlier_roll(context, old, key_use).await,
            Err(error) => return Err(refusal(error, Some(key_id))),
        };
        let commands = [
            (put(&record, ABSENT, RecordChange::KeyRolled)?, used(context, operation, key_use)),
            // The same request under the same key ends the old one once, and another request under that key ends nothing.
            (put(&ended, old.version, RecordChange::KeyRevoked)?, used(context, END_ROLLED_KEY, key_use)),
        ];
        let [made, end] = self.set_two_keys(context, commands).await?;
        let reply = match made? {
            Outcome::Done(_) => {
                self.access.add_key(record.clone());
                created(&record, Some(&text))
            }
            Outcome::Replayed(reply) => replayed(context, reply)?,
            Outcome::Refused(rejection) => return Err(Problem::from(rejection).into()),
            Outcome::Later => return Err(RequestError::wrong_answer()),
        };
        match end? {
            Outcome::Done(_) => self.access.add_key(ended),
            Outcome::Replayed(_) => {}
            Outcome::Refused(Rejection::RecordChanged { .. }) => {
                let is_new = !reply.replayed;
                self.end_changed_key(context, key_id, seconds, is_new.then_some(&record)).await?;
            }
            Outcome::Refused(rejection) => return Err(Problem::from(rejection).into()),
            Outcome::Later => return Err(RequestError::wrong_answer()),
        }
        Ok(reply)
    }

    /// The answer to a roll of an ended key: that of the earlier roll, if the request repeats it, and a refusal otherwise. Whether it
    /// does is asked by a command under the idempotency key that can't take effect.
    async fn earlier_roll(
        &self,
        context: RequestContext<'_>,
        old: StoredKey,
        key_use: KeyUse<'_>,
    ) -> HandlerResult {
        let ended = || Err(Problem::key_ended(old.key.key_id).into());
        let Some(used) = used(context, RouteId::RollKey.spec().operation, key_use) else { return ended() };
        let command = put(&old.key, NEVER, RecordChange::Silent)?;
        match self.run(context, command, Some(used)).await? {
            Outcome::Replayed(reply) => replayed(context, reply),
            Outcome::Refused(Rejection::IdempotencyMismatch) => {
                Err(Problem::from(Rejection::IdempotencyMismatch).into())
            }
            Outcome::Refused(_) => ended(),
            Outcome::Done(_) | Outcome::Later => Err(RequestError::wrong_answer()),
        }
    }

    /// Ends a rolled key whose record was changed by others in between. If they ended it, the roll came too late: the new key, if
    /// this request made it, is revoked again.
    async fn end_changed_key(
        &self,
        context: RequestContext<'_>,
        id: KeyId,
        seconds: u32,
        made: Option<&KeyRecord>,
    ) -> Result<(), RequestError> {
        for _ in 0..TRIES {
            let old = self.stored_key(id).await?;
            let ended = match roll_key(&context.caller.principal, &old.key, seconds, self.clocks.wall.now()) {
                Ok((_, ended)) => ended,
                Err(KeyAdminError::Ended) => {
                    if let Some(made) = made {
                        self.end_key(context, made.key_id).await?;
                        return Err(Problem::key_ended(id).into());
                    }
                    return Ok(());
                }
                Err(error) => return Err(refusal(error, Some(id))),
            };
            if self.has_replaced(context, &old, ended).await? {
                return Ok(());
            }
        }
        // The new key exists. A repeated request ends the old one.
        Err(RequestError::from_store(&Failure::OutcomeUnknown))
    }

    /// `DELETE /v1/keys/{key_id}`
    pub(super) async fn revoke_key(&self, context: RequestContext<'_>, id: KeyId) -> HandlerResult {
        self.end_key(context, id).await?;
        Ok(reply::empty(204))
    }

    /// Revokes a key, unless it has ended.
    async fn end_key(&self, context: RequestContext<'_>, id: KeyId) -> Result<(), RequestError> {
        for _ in 0..TRIES {
            let old = self.stored_key(id).await?;
            may_manage(&context.caller.principal, &old.key).map_err(Problem::not_permitted)?;
            let now = self.clocks.wall.now();
            if old.key.has_ended(now) {
                // Another instance may have ended it a moment ago.
                self.access.add_key(old.key);
                return Ok(());
            }
            let ended = revoke_key(&old.key, now);
            if self.has_replaced(context, &old, ended).await? {
                return Ok(());
            }
        }
        Err(RequestError::from_store(&Failure::Overloaded))
    }

    /// Writes a key that gets an end. Returns false if its record was changed since it was read.
    async fn has_replaced(
        &self,
        context: RequestContext<'_>,
        old: &StoredKey,
        ended: KeyRecord,
    ) -> Result<bool, RequestError> {
        let command = put(&ended, old.version, RecordChange::KeyRevoked)?;
        match self.run(context, command, None).await? {
            Outcome::Done(_) => {
                self.access.add_key(ended);
                Ok(true)
            }
            Outcome::Refused(Rejection::RecordChanged { .. }) => Ok(false),
            Outcome::Refused(rejection) => Err(Problem::from(rejection).into()),
            Outcome::Replayed(_) | Outcome::Later => Err(RequestError::wrong_answer()),
        }
    }

    /// `GET /v1/keys/{key_id}`
    pub(super) async fn key(&self, context: RequestContext<'_>, id: KeyId) -> HandlerResult {
        let stored = self.stored_key(id).await?;
        may_manage(&context.caller.principal, &stored.key).map_err(Problem::not_permitted)?;
        Ok(reply::shape(&ApiKey::from(&stored.key)))
    }

    /// `GET /v1/keys`
    pub(super) async fn keys(
        &self,
        context: RequestContext<'_>,
        (mut after, limit): (Option<KeyId>, usize),
    ) -> HandlerResult {
        self.take_page_tokens(context, limit).await?;
        let now = self.clocks.wall.now();
        let mut out = Vec::new();
        let mut list = List::open(&mut out, "data");
        let mut shown = 0;
        let mut has_more = true;
        'page: for _ in 0..READS {
            let records = self.key_records(after).await?;
            let are_last = records.len() < KEYS_AT_ONCE;
            for record in records {
                let Some(id) = KeyId::parse(record.key.id.as_str()) else { continue };
                let is_shown = |key: &KeyRecord| {
                    key.is_listed(now) && may_manage(&context.caller.principal, key).is_ok()
                };
                if let Some(key) = readable(&record).filter(is_shown) {
                    if shown == limit || out.len() >= PAGE_BYTES {
                        break 'page;
                    }
                    encode::shape(list.entry(&mut out), &ApiKey::from(&key));
                    shown += 1;
                }
                after = Some(id);
            }
            if are_last {
                has_more = false;
                break;
            }
        }
        let next = after.filter(|_| has_more).map(cursor::of_key);
        list.close_page(&mut out, next.is_some(), next.as_deref());
        Ok(reply::written(out, None))
    }

    /// The records of keys after an id, in order.
    async fn key_records(&self, after: Option<KeyId>) -> Result<Vec<Record>, RequestError> {
        let after = after.map(|id| key_record_key(id).id);
        let query = Query::Records { kind: RecordKind::ApiKey, after, limit: KEYS_AT_ONCE };
        match self.find(query).await? {
            QueryResult::Records(records) => Ok(records),
            _ => Err(RequestError::wrong_answer()),
        }
    }

    /// An API key and the version of its record. Refuses an id that no key has.
    async fn stored_key(&self, id: KeyId) -> Result<StoredKey, RequestError> {
        let QueryResult::Record(found) = self.find(Query::Record(key_record_key(id))).await? else {
            return Err(RequestError::wrong_answer());
        };
        let value = found.as_ref().and_then(|record| Some((record.version, record.value.as_ref()?)));
        let Some((version, value)) = value else { return Err(Problem::unknown_key(id).into()) };
        Ok(StoredKey { key: read(value)?, version })
    }

    /// Writes two keys, strictly in this order.
    async fn set_two_keys(
        &self,
        context: RequestContext<'_>,
        commands: [(Command, Option<IdempotencyKey>); 2],
    ) -> Result<[Result<Outcome, RequestError>; 2], RequestError> {
        let origin = origin(context);
        let envelopes: Vec<Envelope> = commands
            .into_iter()
            .map(|(command, key)| self.envelope(context, origin.clone(), command, key))
            .collect();
        let outcomes: Vec<_> = self
            .run_all(envelopes)
            .await?
            .into_iter()
            .map(|outcome| outcome.map_err(|failure| RequestError::from_store(&failure)))
            .collect();
        outcomes.try_into().map_err(|_| RequestError::wrong_answer())
    }
}

/// The idempotency key of a request, from its header or its body.
pub(super) fn idempotency_key<'a>(
    context: RequestContext<'a>,
    in_body: Option<Cow<'a, str>>,
) -> Result<Option<Cow<'a, str>>, Invalid> {
    decode::idempotency_key(context.head.idempotency_key.value("/Idempotency-Key")?, in_body)
}

/// The use of an idempotency key for an operation.
pub(super) fn used(
    context: RequestContext<'_>,
    operation: &str,
    key_use: KeyUse<'_>,
) -> Option<IdempotencyKey> {
    let principal = context.caller.principal.actor.as_str();
    key_use.key.map(|key| IdempotencyKey {
        hash: digest::key_hash(principal, operation, key),
        fingerprint: digest::request_fingerprint(key_use.meaning),
    })
}

/// The command that writes a key.
fn put(key: &KeyRecord, expected_version: u64, change: RecordChange) -> Result<Command, RequestError> {
    let value = RecordValue::new(&key.to_bytes()).map_err(|_| {
        Invalid::new("", "names more and longer locations, channels and networks than a key may have")
    })?;
    let key = key_record_key(key.key_id);
    Ok(Command::SetRecord(SetRecord { key, expected_version, value: Some(value), change }))
}

fn read(value: &RecordValue) -> Result<KeyRecord, RequestError> {
    KeyRecord::from_bytes(value.as_bytes()).map_err(|error| RequestError::internal(error.to_string()))
}

/// The key of a record. One that can't be read does not hide the others from the list.
fn readable(record: &Record) -> Option<KeyRecord> {
    let read = KeyRecord::from_bytes(record.value.as_ref()?.as_bytes());
    read.inspect_err(|error| tracing::warn!(key_id = %record.key.id, %error, "a key is left out of the list"))
        .ok()
}

/// 201 and a new key. The answer must not be stored anywhere, because it has the key itself if this request made it.
fn created(key: &KeyRecord, text: Option<&KeyText>) -> Reply {
    let place = format!("/v1/keys/{}", key.key_id);
    let shown = reply::shape(&NewApiKey::of(key, text));
    let headers = vec![("location", place.into()), ("cache-control", "no-store".into())];
    Reply { status: 201, headers, ..shown }
}

/// The answer to a repeated request: the key that the first one made, as it is now, without its text.
fn replayed(context: RequestContext<'_>, reply: Made) -> HandlerResult {
    let Made::Record(Record { value: Some(value), .. }) = reply else {
        return Err(RequestError::wrong_answer());
    };
    let key = read(&value)?;
    // Another key of the same principal may ask.
    may_manage(&context.caller.principal, &key)
        .map_err(|missing| Problem::not_permitted(missing).replayed())?;
    Ok(Reply { replayed: true, ..created(&key, None) })
}

/// Why a key is not made. `id` is the key that was to be rolled.
fn refusal(error: KeyAdminError, id: Option<KeyId>) -> RequestError {
    match (error, id) {
        (KeyAdminError::Invalid(pointer, detail), _) => Invalid::new(pointer, detail).into(),
        (KeyAdminError::Missing(missing), _) => Problem::not_permitted(missing).into(),
        (KeyAdminError::Ended, Some(id)) => Problem::key_ended(id).into(),
        (KeyAdminError::Ended, None) => RequestError::internal("a new key has ended"),
        (KeyAdminError::Random(error), _) => RequestError::internal(format!("no random bytes: {error}")),
    }
}
