//! `stockhold migrate --distribute`: spreads the tables over the workers of a Citus cluster.

use super::{Layout, ready};
use crate::engine::OpenError;
use crate::postgres::errors::open_error;
use tokio_postgres::Client;

const STATEMENTS: &str = include_str!("../../../migrations/citus.sql");

/// Most shards: one for each bucket.
const MOST_SHARDS: u32 = stockhold_domain::BUCKETS as u32;

/// What a cluster has to have before tables are spread.
const CHECKS: &str = "
    SELECT (SELECT count(*) FROM pg_dist_node WHERE groupid = 0),
        (SELECT count(*) FROM pg_dist_node WHERE groupid <> 0 AND noderole = 'primary' AND isactive AND shouldhaveshards),
        (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
            AND application_name = 'stockhold')";
/// Nodes that do not let a transaction be prepared.
const UNPREPARED: &str = "
    SELECT node.nodename || ':' || node.nodeport FROM run_command_on_all_nodes('SHOW max_prepared_transactions') AS said
    JOIN pg_dist_node node USING (nodeid) WHERE NOT said.success OR said.result = '0'";
/// The rows that the tables had before they were spread stay on the coordinator, hidden.
const FORGET_HIDDEN: &str = "
    SELECT truncate_local_data_after_distributing_table(logicalrelid) FROM pg_dist_partition
    WHERE logicalrelid::text LIKE 'stockhold.%' AND partmethod = 'h'";

/// Whether the tables can be spread over the workers, or are spread already.
pub(in crate::postgres) async fn check(
    client: &Client,
    has_citus: bool,
    shards: u32,
) -> Result<(), OpenError> {
    let failed = |error| open_error(&error);
    let unfit = |why: &str| Err(OpenError::Unfit(why.to_owned()));
    if !(1..=MOST_SHARDS).contains(&shards) {
        return Err(OpenError::Option(format!("--shards: 1 to {MOST_SHARDS} (found {shards})")));
    }
    if !has_citus {
        return unfit(
            "it has no Citus, and only Citus can distribute the tables: install the extension on every node, put it into \
             shared_preload_libraries, and run CREATE EXTENSION citus in this database",
        );
    }
    if ready(client, has_citus).await? == Layout::Citus {
        return Ok(());
    }
    let row = client.query_one(CHECKS, &[]).await.map_err(failed)?;
    let [coordinators, workers, servers] = [0, 1, 2].map(|column| row.get::<_, i64>(column));
    if coordinators == 0 {
        return unfit("the cluster does not know its coordinator: run citus_set_coordinator_host there");
    }
    if workers == 0 {
        return unfit("the cluster has no worker that may have shards: add one with citus_add_node");
    }
    if servers > 0 {
        return unfit("servers are connected: stop them before the tables are distributed");
    }
    let unprepared = client.query(UNPREPARED, &[]).await.map_err(failed)?;
    if !unprepared.is_empty() {
        let nodes: Vec<String> = unprepared.iter().map(|row| row.get(0)).collect();
        return Err(OpenError::Unfit(format!(
            "baskets over two workers need two-phase commits: set max_prepared_transactions at {}",
            nodes.join(", ")
        )));
    }
    Ok(())
}

/// Spreads the tables over the workers. Returns whether it did: they may be spread already.
pub(in crate::postgres) async fn distribute(client: &Client, shards: u32) -> Result<bool, OpenError> {
    let failed = |error| open_error(&error);
    if ready(client, true).await? == Layout::Citus {
        return Ok(false);
    }
    let statements = STATEMENTS.replace("$SHARDS", &shards.to_string());
    client.batch_execute(&format!("BEGIN; {statements}; COMMIT")).await.map_err(failed)?;
    client.batch_execute(FORGET_HIDDEN).await.map_err(failed)?;
    Ok(true)
}
