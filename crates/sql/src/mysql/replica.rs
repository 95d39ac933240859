//! A replica of MariaDB that is read: its address, and how far it and its primary are.
//!
//! Positions are global transaction ids: for each domain the server that wrote last and the number it gave. MySQL's are sets of
//! another form and are not understood here.

use super::blocking;
use super::connect::{MysqlConnection, MysqlTarget};
use crate::engine::{DbError, LogPosition, OpenError, Options, Replica, ReplicaDialect, ReplicaStore};
use std::collections::BTreeMap;
use std::sync::Arc;
use stockhold_store::Store;

const COMMITTED: &str = "SELECT @@GLOBAL.gtid_binlog_pos";
const APPLIED: &str = "SELECT @@GLOBAL.gtid_slave_pos";

/// Puts a replica beside a store that is open.
pub(crate) fn open_with_replica(
    primary: Arc<dyn Store>,
    url: &str,
    replica: &Replica,
    options: &Options,
) -> Result<ReplicaStore, OpenError> {
    let pair = MysqlReplica {
        primary: Arc::new(MysqlTarget::new(url, options)?),
        replica: Arc::new(MysqlTarget::of_replica(&replica.url, options)?),
    };
    let target = Arc::clone(&pair.primary);
    let (_, kind) = blocking(async move { target.connect().await })?;
    if !kind.is_mariadb {
        return Err(OpenError::Unfit(
            "replicas of MySQL are not read, only those of MariaDB and PostgreSQL: leave out the replica"
                .to_owned(),
        ));
    }
    ReplicaStore::start(primary, pair, replica.staleness)
}

struct MysqlReplica {
    primary: Arc<MysqlTarget>,
    replica: Arc<MysqlTarget>,
}

impl ReplicaDialect for MysqlReplica {
    type Session = MysqlConnection;

    async fn primary(&self) -> Result<MysqlConnection, OpenError> {
        MysqlConnection::open(&self.primary).await
    }

    async fn replica(&self) -> Result<MysqlConnection, OpenError> {
        MysqlConnection::open(&self.replica).await
    }

    async fn committed(&self, primary: &mut MysqlConnection) -> Result<LogPosition, DbError> {
        position(primary, COMMITTED).await
    }

    /// One that has never followed anybody has no position.
    async fn applied(&self, replica: &mut MysqlConnection) -> Result<Option<LogPosition>, DbError> {
        Ok(Some(position(replica, APPLIED).await?).filter(|position| *position != LogPosition::default()))
    }
}

async fn position(connection: &mut MysqlConnection, query: &str) -> Result<LogPosition, DbError> {
    let rows = connection.query(query).await?.concat();
    let text = rows.first().and_then(|row| row.get_opt::<String, _>(0)).and_then(Result::ok);
    let ids = text.ok_or_else(|| DbError::InvariantViolated("a server without a position".to_owned()))?;
    parsed(&ids)
        .ok_or_else(|| DbError::InvariantViolated("a position of another form than MariaDB's".to_owned()))
}

/// `0-1-100,7-3-4`: domain, server, number.
fn parsed(ids: &str) -> Option<LogPosition> {
    let one = |id: &str| {
        let mut parts = id.trim().split('-');
        let (domain, server, number) = (parts.next()?, parts.next()?, parts.next()?);
        let whole = parts.next().is_none();
        whole.then_some((domain.parse().ok()?, (server.parse().ok()?, number.parse().ok()?)))
    };
    let ids = ids.split(',').filter(|id| !id.trim().is_empty());
    ids.map(one).collect::<Option<BTreeMap<_, _>>>().map(LogPosition)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_of_all_domains_are_read() {
        assert_eq!(parsed("0-1-100, 7-3-4"), Some(LogPosition([(0, (1, 100)), (7, (3, 4))].into())));
        assert_eq!(parsed(""), Some(LogPosition::default()));
        for wrong in ["0-1", "0-1-2-3", "a-1-2", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
