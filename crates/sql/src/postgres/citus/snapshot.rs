//! One moment of the whole cluster, for audits.
//!
//! Citus begins a transaction at a worker when a statement needs the worker, so the snapshots of two nodes would show two moments. A
//! second connection therefore holds batches up while the snapshots begin: it waits until no batch is under way, and keeps others from
//! beginning, for some milliseconds. From then on each node shows that moment, while batches go on.

use crate::audit::AuditError;
use crate::engine::DbError;
use crate::postgres::connect::{Driver, PostgresConnection};
use core::time::Duration;
use tokio_postgres::Client;

/// The lock excludes [`super::UNDER_WAY`], which every batch has until all workers have committed it.
const HOLD_BATCHES_UP: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED; LOCK TABLE stockhold.feed IN EXCLUSIVE MODE";
const LET_BATCHES_GO: &str = "ROLLBACK";
/// How often the lock is asked for. Batches that come later wait behind the request, so it is given up when the lock times out.
const TRIES: u32 = 20;
/// The pause between two of them, in which batches go on.
const PAUSE: Duration = Duration::from_millis(200);

/// A page may take long on a machine that has to read it from its disk.
const BEGIN: &str = "SET statement_timeout = 0; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
/// Asks every shard, so that a transaction begins at each worker.
const BEGIN_AT_WORKERS: &str = "SELECT count(*) FROM stockhold.items WHERE bucket < 0";
const PLACEMENTS: &str = "
    SELECT coalesce(string_agg(format('%s %s', p.shardid, p.groupid), ',' ORDER BY p.shardid, p.groupid), '')
    FROM pg_dist_placement p JOIN pg_dist_shard s USING (shardid) JOIN pg_class c ON c.oid = s.logicalrelid
    WHERE c.relnamespace = 'stockhold'::regnamespace";

/// What an audit of a cluster needs besides its connection.
pub(in crate::postgres) struct ClusterSnapshot {
    /// Holds batches up.
    barrier: Client,
    _driver: Driver,
    /// Where the shards were when the snapshot began. `None` without a snapshot.
    placements: Option<String>,
}

impl ClusterSnapshot {
    pub(in crate::postgres) fn new(barrier: Client, driver: Driver) -> Self {
        Self { barrier, _driver: driver, placements: None }
    }
}

impl PostgresConnection {
    /// Begins a transaction that shows one moment of all nodes.
    pub(in crate::postgres) async fn begin_cluster_snapshot(
        &self,
        snapshot: &mut ClusterSnapshot,
    ) -> Result<(), DbError> {
        hold_batches_up(&snapshot.barrier).await?;
        // The end of what a lost node has left prepared would be seen at one node and not at another.
        self.recover_in_doubt().await?;
        snapshot.placements = Some(self.placements().await?);
        self.client.batch_execute(BEGIN).await?;
        self.client.query_one(BEGIN_AT_WORKERS, &[]).await?;
        Ok(snapshot.barrier.batch_execute(LET_BATCHES_GO).await?)
    }

    /// Ends it. A shard that was moved meanwhile has not been seen where it is now.
    pub(in crate::postgres) async fn end_cluster_snapshot(
        &self,
        snapshot: &mut ClusterSnapshot,
    ) -> Result<(), AuditError> {
        let before = snapshot.placements.take();
        if before.is_some() && before != Some(self.placements().await?) {
            let why = "shards were moved or split while the tables were read: run it again";
            return Err(AuditError::Refused(why.to_owned()));
        }
        Ok(())
    }

    async fn placements(&self) -> Result<String, DbError> {
        Ok(self.client.query_one(PLACEMENTS, &[]).await?.try_get(0)?)
    }
}

async fn hold_batches_up(barrier: &Client) -> Result<(), DbError> {
    let mut tries = 1;
    loop {
        match barrier.batch_execute(HOLD_BATCHES_UP).await.map_err(DbError::from) {
            Err(DbError::LockTimeout(_)) if tries < TRIES => {
                barrier.batch_execute(LET_BATCHES_GO).await?;
                tokio::time::sleep(PAUSE).await;
                tries += 1;
            }
            done => return done,
        }
    }
}
