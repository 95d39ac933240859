//! A standby that is read: its address, and how far it and its primary are.
//!
//! Positions are places in the write-ahead log, on the timeline that they belong to. A standby knows a new timeline from its own
//! control file, which it writes with its next checkpoint: after a failover it may not be read for some minutes.

use super::Postgres;
use super::connect::{Connection, Target};
use crate::engine::{OpenError, Options, Pair, Position, Replica, ReplicaStore, Trouble};
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
pub(crate) fn beside(
    primary: Arc<dyn Store>,
    url: &str,
    replica: &Replica,
    options: &Options,
) -> Result<ReplicaStore, OpenError> {
    let primary_target = Target::new(url, options)?;
    let pair = Standby {
        primary: Postgres { target: primary_target, options: options.clone() },
        replica: Target::new(&replica.url, options)?,
    };
    ReplicaStore::start(primary, pair, replica.staleness)
}

struct Standby {
    primary: Postgres,
    replica: Target,
}

impl Pair for Standby {
    type Session = Connection;

    async fn primary(&self) -> Result<Connection, OpenError> {
        Connection::open(&self.primary.target, &self.primary.options).await
    }

    async fn replica(&self) -> Result<Connection, OpenError> {
        Connection::open_replica(&self.replica, &self.primary.options).await
    }

    async fn committed(&self, primary: &mut Connection) -> Result<Position, Trouble> {
        let position = position(primary, COMMITTED).await?;
        position.ok_or_else(|| Trouble::Alarm("the primary has no position".to_owned()))
    }

    async fn applied(&self, replica: &mut Connection) -> Result<Option<Position>, Trouble> {
        position(replica, APPLIED).await
    }
}

/// Timeline and place, in one round trip; `None` when there is no such row.
async fn position(connection: &Connection, query: &str) -> Result<Option<Position>, Trouble> {
    let messages = connection.client.simple_query(query).await?;
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let Some(row) = row else { return Ok(None) };
    let number = |column| row.get(column).and_then(|text: &str| text.parse().ok());
    let (Some(timeline), Some(place)) = (number(0), number(1)) else {
        return Err(Trouble::Alarm("a position that is no number".to_owned()));
    };
    Ok(Some(Position([(0, (timeline, place))].into())))
}
