//! Galera: what is different where the database is a node of a cluster. Each node has locks of its own. A transaction of another node
//! is seen at the commit only: the cluster refuses it (*certification*) if it has written a row that a transaction committed before it
//! has written too and that it had not seen. And a node that applies a transaction of another node aborts those of its own that have
//! locked the same rows.
//!
//! So a batch has to write everything that it has locked for a decision. Most of it changes anyway. What does not is written here.
//!
//! - *The pauses and the limits.* Every reserve reads them, and a row that every batch writes would let no two nodes commit at
//!   the same time. So there are slots: a batch writes one slot, and a batch that sets a pause or a limit writes all of them.
//! - *The row of an item whose units have ids*, if it was locked, as for safety stock.
//!
//! What is only read, and not locked, is as new as at one server: the session waits until its node has applied what the cluster had
//! committed (`wsrep_sync_wait`).

use super::script::{Bulk, Script, Step, Upserts, key};
use super::statements::StatementKind;
use crate::engine::{Changes, LockSet};
use core::fmt::Write;
use core::hash::{BuildHasher, Hasher};
use std::collections::BTreeSet;
use std::hash::RandomState;
use stockhold_domain::ItemKey;

/// Slots, as the migration makes them: so many that two connections seldom have the same, and few enough to write them all.
const SLOTS: u64 = 256;

/// Reads, changes and the begin of a transaction wait until the node has applied what the cluster had committed before. The server does
/// not repeat a statement by itself that the cluster has aborted: a compound statement would answer twice.
pub(super) const SETTINGS: &str = "SET SESSION wsrep_sync_wait = 7, wsrep_retry_autocommit = 0";

/// What the log says at the first connection to a node.
pub(super) const SEVERAL_NODES: &str = "the database is a node of a Galera cluster. Servers may use different nodes: no unit is promised \
twice, no answer is lost, and reads show what any server has answered. Batches of two nodes about the same SKU abort each other and are \
repeated, so it is sold fastest at one node. Deadlines depend on the clocks of the nodes: keep them synchronized";
/// The same for MySQL.
pub(super) const ONE_NODE: &str = "the database is a node of a Galera cluster of MySQL: every server over it has to use this node. Two nodes sell units twice";

/// The variable of a MySQL server that has the plugin for group replication.
pub(super) const SINGLE_PRIMARY: &str = "group_replication_single_primary_mode";
/// Why such a server is refused if it is off: two members that write do not see each other's locks.
pub(super) const SEVERAL_PRIMARIES: &str = "the server is set up for group replication in multi-primary mode \
(group_replication_single_primary_mode is OFF), where two members sell the same units: use single-primary mode. \
SELECT group_replication_switch_to_single_primary_mode() changes a running group, and the setting has to be ON at every member";

/// What a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerKind {
    /// MariaDB has compound statements outside of procedures.
    pub(super) is_mariadb: bool,
    /// Whether it is a node of a Galera cluster.
    pub(super) in_cluster: bool,
    pub(super) upserts: Upserts,
}

impl ServerKind {
    /// Whether packets of writes are compound statements. A server alone does not abort a transaction between two statements, and
    /// statements by themselves cost it less.
    pub(super) fn has_compound_packets(self) -> bool {
        self.is_mariadb && self.in_cluster
    }
}

/// What the open transaction has locked and has to write for the cluster.
pub(super) struct Certification {
    /// The slot of this connection.
    slot: u64,
    settings: Settings,
    items: BTreeSet<ItemKey>,
}

/// How a transaction has locked the pauses and the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settings {
    Unlocked,
    Read,
    Set,
}

const TOUCH_ITEMS: Bulk<Step> = Bulk {
    step: Step::Write,
    head: "UPDATE stockhold_items FORCE INDEX (PRIMARY) SET serial=@stockhold_serial WHERE (location,sku) IN (",
    between: ",",
    tail: ")",
    affects: Some((Step::Write, 1)),
};

impl Certification {
    pub(super) fn new() -> Self {
        let random = RandomState::new().build_hasher().finish();
        Self { slot: random % SLOTS, settings: Settings::Unlocked, items: BTreeSet::new() }
    }

    /// A transaction has locked something.
    pub(super) fn locked(&mut self, lock_set: &LockSet) {
        self.settings = match (lock_set.sets_settings(), lock_set.reads_settings()) {
            (true, _) => Settings::Set,
            (false, true) => Settings::Read,
            (false, false) => Settings::Unlocked,
        };
        self.items.clone_from(&lock_set.items);
    }

    /// The statements before all others. A batch that sets a pause or a limit writes the slots before it draws the serial of its events:
    /// a reserve that commits until then has a smaller one, and one that commits later is refused.
    pub(super) fn begin(&self, script: &mut Script<Step>) {
        if self.settings == Settings::Set {
            // Reserves of other nodes that have locked this row and have no slot yet are aborted when this is applied there.
            script
                .add(Step::Write)
                .push_str("UPDATE stockhold_pauses SET limits_version=limits_version+1 WHERE location=x''");
            script.add(Step::Write).push_str("UPDATE stockhold_cluster_slots SET version=version+1");
        }
    }

    /// The statements behind the changes of a batch.
    pub(super) fn end(&self, script: &mut Script<Step>, changes: &Changes<'_>) {
        let counted: BTreeSet<&ItemKey> = changes.figures.iter().map(|row| row.item).collect();
        let written: BTreeSet<&ItemKey> =
            changes.changed_items.iter().chain(&changes.new_items).map(|item| &item.key).collect();
        let unwritten = self.items.iter().filter(|item| {
            counted.contains(item) && !written.contains(item) && !changes.deleted_items.contains(item)
        });
        script.add_rows(&TOUCH_ITEMS, unwritten, |text, item| {
            text.push('(');
            key(text, item);
            text.push(')');
        });
        self.take_slot(script);
    }

    /// Writes the slot of this connection, if pauses or limits were read.
    pub(super) fn take_slot(&self, script: &mut Script<Step>) {
        if self.settings == Settings::Read {
            let slot = self.slot;
            let text = script.add(Step::Write);
            let _ = write!(text, "UPDATE stockhold_cluster_slots SET version=version+1 WHERE slot={slot}");
        }
    }
}

/// Whether the transaction is still open. The cluster may have aborted it between two statements of the packet, and those behind it
/// have locked nothing for longer than they took.
pub(super) fn in_transaction(script: &mut Script<StatementKind>) {
    script.add(StatementKind::InTransaction).push_str("SELECT @@in_transaction");
}
