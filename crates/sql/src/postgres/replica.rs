//! A standby that is read: its address, and how far it and its primary are.
//!
//! Positions are places in the write-ahead log, on the timeline that they belong to. A standby knows a new timeline from its own
//! control file, which it writes with its next checkpoint: after a failover it may not be read for some minutes.

use super::Postgres;
use super::connect::{PostgresConnection, PostgresTarget};
use crate::engine::{DbError, LogPosition, OpenError, Options, Replica, ReplicaDialect, ReplicaStore};
use std::sync::Arc;
use stockhold_store::Store;
use tokio_postgres::SimpleQueryMessage;

/// What is flushed can have been seen, since commits are synchronous.
const COMMITTED: &str = "
    SELECT ('x' || left(pg_walfile_name(lsn), 8))::bit(32)::bigint, (lsn - '0/0')::bigint
    FROM pg_current_wal_flush_lsn() AS lsn";
const APPLIED: &str = "
    SELECT timeline_id, (pg_last_wal_replay_lsn() - '0/0')::bigint
    FROM pg_control_checkpoint() WHERE pg_is_in_recovery()";

/// Puts a replica beside a store that is open.
pub(crate) fn open_with_replica(
    primary: Arc<dyn Store>,
    url: &str,
    replica: &Replica,
    options: &Options,
) -> Result<ReplicaStore, OpenError> {
    let primary_target = PostgresTarget::new(url, options)?;
    let pair = PostgresReplica {
        primary: Postgres { target: primary_target, options: options.clone() },
        replica: PostgresTarget::new(&replica.url, options)?,
    };
    ReplicaStore::start(primary, pair, replica.staleness)
}

struct PostgresReplica {
    primary: Postgres,
    replica: PostgresTarget,
}

impl ReplicaDialect for PostgresReplica {
    type Session = PostgresConnection;

    async fn primary(&self) -> Result<PostgresConnection, OpenError> {
        PostgresConnection::open(&self.primary.target, &self.primary.options).await
    }

    async fn replica(&self) -> Result<PostgresConnection, OpenError> {
        PostgresConnection::open_replica(&self.replica, &self.primary.options).await
    }

    async fn committed(&self, primary: &mut PostgresConnection) -> Result<LogPosition, DbError> {
        let position = position(primary, COMMITTED).await?;
        position.ok_or_else(|| DbError::InvariantViolated("the primary has no position".to_owned()))
    }

    async fn applied(&self, replica: &mut PostgresConnection) -> Result<Option<LogPosition>, DbError> {
        position(replica, APPLIED).await
    }
}

/// Timeline and place, in one round trip; `None` when there is no such row.
async fn position(connection: &PostgresConnection, query: &str) -> Result<Option<LogPosition>, DbError> {
    let messages = connection.client.simple_query(query).await?;
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let Some(row) = row else { return Ok(None) };
    let number = |column| row.get(column).and_then(|text: &str| text.parse().ok());
    let (Some(timeline), Some(place)) = (number(0), number(1)) else {
        return Err(DbError::InvariantViolated("a position that is no number".to_owned()));
    };
    Ok(Some(LogPosition([(0, (timeline, place))].into())))
}
