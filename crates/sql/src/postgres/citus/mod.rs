//! Citus: tables that are spread over workers by their buckets.
//!
//! The statements are those of one server. What differs: a statement over arrays is about one bucket (`run` sends one for each), plans
//! are made for each execution, since only then Citus sees the bucket, and positions of events are in a table of the coordinator
//! (`feed`). All connections are to the coordinator.
//!
//! Small tables stay on the coordinator: pauses, limits with their counters, records, customers, due payments, the sequencer. A
//! transaction that writes one of them and events has to be a two-phase commit. Citus does not know of tables that are not its own,
//! so such a transaction also writes to `two_phase`, which is (see [`WRITE_LOCALLY`]).

mod distribute;
mod feed;
mod snapshot;
mod statements;

pub(super) use distribute::{check, distribute};
pub(super) use snapshot::ClusterSnapshot;
pub(super) use statements::{for_one_bucket, text_of};

use super::errors::open_error;
use super::rows::column;
use crate::engine::{Changes, LockSet, OpenError};
use std::collections::BTreeSet;
use stockhold_domain::{KeyRecord, KeyTarget, bucket_of};
use tokio_postgres::Client;

/// Where the tables are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// On the server that one is connected to.
    OneServer,
    /// Spread over the workers of a Citus cluster.
    Citus,
}

/// Makes the commit of a transaction a two-phase commit. Otherwise Citus would commit at the worker first, and a coordinator that
/// crashed before its own commit would have half of the transaction.
pub(super) const WRITE_LOCALLY: &str = "DELETE FROM stockhold.two_phase";

/// Says that a batch is under way: who numbers events waits for those that may have drawn a serial. The lock is had until the commit
/// has been answered by all workers.
pub(super) const UNDER_WAY: &str = "LOCK TABLE stockhold.feed IN ROW SHARE MODE";

/// Keeps the shard of a bucket where it is until the batch ends: a location is never empty, so no row is deleted. A lock of a row does
/// not stop Citus from copying its shard to another worker, or to a shard of its own. The batch would decide over a row that it has
/// locked in the old shard, and write to the new one, whose row another batch has locked. Every write stops Citus.
pub(super) const KEEP_SHARD: &str = "DELETE FROM stockhold.items WHERE bucket = $1 AND location = ''";

/// The bucket of a key: that of what it was used for, so that a batch of one bucket is written at one worker. The same request has
/// the same bucket each time, so of two servers that run it at once the table's key lets one through. Another request may have another
/// bucket, which the table's key does not find. So keys are looked for on every shard, once for all commands of a batch.
pub(super) fn key_bucket(record: &KeyRecord) -> u16 {
    match &record.target {
        KeyTarget::Reservation(id) => id.bucket(),
        KeyTarget::Item(key) => bucket_of(key),
        KeyTarget::Record(_) => crate::engine::key_bucket(record.hash),
    }
}

/// The buckets of the rows that a batch locks, in their order.
pub(super) fn locked_buckets(lock_set: &LockSet) -> BTreeSet<i16> {
    let items = lock_set.all_items().chain(lock_set.units.keys()).map(|key| column(bucket_of(key)));
    items.chain(lock_set.holds.iter().map(|id| column(id.bucket()))).collect()
}

/// Limits how long a batch waits for a lock at a worker. Sent in a message of its own, since Citus sends all of the message to the
/// workers.
pub(super) fn settings_of_batch(lock_timeout: u128) -> String {
    format!("SET LOCAL lock_timeout = {lock_timeout}")
}

/// What sessions are set to besides what they are set to on one server. Each has one connection to each worker.
const SETTINGS: &str = "
    SET plan_cache_mode = force_custom_plan; SET citus.propagate_set_commands = 'local';
    SET citus.multi_shard_modify_mode = 'sequential'; SET citus.max_adaptive_executor_pool_size = 1;
    RESET enable_seqscan; RESET enable_hashjoin; RESET enable_mergejoin";

/// Whether any table is spread, whether it was done by this program, and whether this user may do what is needed.
const LOOK: &str = "
    SELECT EXISTS (SELECT FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid
        WHERE c.relnamespace = to_regnamespace('stockhold')),
    to_regclass('stockhold.feed') IS NOT NULL,
    has_function_privilege('recover_prepared_transactions()', 'EXECUTE')";
const LOCAL_GROUP: &str = "SELECT groupid FROM pg_dist_local_group";

/// Refuses a worker: the tables of the coordinator are not there.
pub(super) async fn refuse_worker(client: &Client) -> Result<(), OpenError> {
    let row = client.query_one(LOCAL_GROUP, &[]).await.map_err(|error| open_error(&error))?;
    if row.get::<_, i32>(0) == 0 {
        return Ok(());
    }
    Err(OpenError::Unfit("it is a worker of a Citus cluster: give the address of the coordinator".to_owned()))
}

/// Finds out where the tables are, and sets what Citus needs.
pub(super) async fn ready(client: &Client, has_citus: bool) -> Result<Layout, OpenError> {
    if !has_citus {
        return Ok(Layout::OneServer);
    }
    let failed = |error| open_error(&error);
    let row = client.query_one(LOOK, &[]).await.map_err(failed)?;
    let why = match (row.get(0), row.get(1), row.get(2)) {
        (false, _, _) => return Ok(Layout::OneServer),
        (true, true, true) => None,
        (true, false, _) => {
            Some("its tables were spread by other statements than those of `stockhold migrate --distribute`")
        }
        (true, true, false) => Some(
            "GRANT EXECUTE ON FUNCTION recover_prepared_transactions to this user: it ends what a lost worker left open",
        ),
    };
    if let Some(why) = why {
        return Err(OpenError::Unfit(why.to_owned()));
    }
    client.batch_execute(SETTINGS).await.map_err(failed)?;
    Ok(Layout::Citus)
}

/// Whether a batch writes tables of the coordinator.
pub(super) fn writes_on_coordinator(changes: &Changes<'_>) -> bool {
    let limits = &changes.limits;
    let counters = limits.new_counters.len() + limits.changed_counters.len() + limits.gone_counters.len();
    let counted = limits.gone_holds.len() + limits.new_holds.len();
    let records = changes.new_records.len() + changes.changed_records.len();
    limits.set.len() + counters + counted + records + changes.pauses.len() + changes.due_payments.len() > 0
}
