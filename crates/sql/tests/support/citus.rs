//! A private Citus cluster for tests: a coordinator and two workers, gone when dropped. Citus is in no package of Debian, so these tests
//! run only where the environment names a PostgreSQL that has it, or where the PostgreSQL that is found has it. They say when they did
//! not run.

use super::{Server, Session, binaries, ports};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Names the directory of `postgres` and `initdb` of a PostgreSQL that has Citus.
const VARIABLE: &str = "STOCKHOLD_TEST_CITUS";

/// Shards of the clusters of tests.
pub(crate) const SHARDS: u32 = 8;

/// Anybody may come in, without a password.
pub(crate) const TRUST_ALL: &str = "local all all trust\nhost all all 127.0.0.1/32 trust\n";

/// A running cluster.
pub(crate) struct Cluster {
    /// The coordinator first.
    nodes: [Server; 3],
    databases: AtomicU32,
    /// Databases are made one after the other: nodes that are added at the same time wait for each other.
    making: Mutex<()>,
}

impl Cluster {
    /// The cluster that tests share while any of them runs. `None`, and a line on the standard error, where there is no Citus.
    pub(crate) fn shared() -> Option<Arc<Self>> {
        static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = shared.upgrade() {
            return Some(running);
        }
        let cluster = Arc::new(Self::start(false, TRUST_ALL)?);
        *shared = Arc::downgrade(&cluster);
        Some(cluster)
    }

    /// One of its own, for a test that kills nodes or needs other rules of who may come in (`hba`).
    pub(crate) fn start(syncs: bool, hba: &str) -> Option<Self> {
        let binaries = binaries_with_citus()?;
        let nodes = [(); 3].map(|()| {
            let mut node = Server::prepare(Some(ports::free_port()), syncs, binaries.clone());
            node.settings = vec![
                "shared_preload_libraries=citus",
                "max_prepared_transactions=300",
                "citus.node_conninfo=sslmode=disable",
                "citus.enable_statistics_collection=off",
                "citus.recover_2pc_interval=1s",
                // Citus has a process for each database, without which no deadlock is found.
                "max_worker_processes=100",
            ];
            let data = node.directory.path().join("data");
            std::fs::write(data.join("pg_hba.conf"), hba).expect("the file of who may come in");
            node.account.own_all(&data);
            node.run();
            node
        });
        Some(Self { nodes, databases: AtomicU32::new(0), making: Mutex::default() })
    }

    /// The coordinator.
    pub(crate) fn coordinator(&self) -> &Server {
        &self.nodes[0]
    }

    /// A worker, 0 or 1.
    pub(crate) fn worker(&self, number: usize) -> &Server {
        &self.nodes[1 + number]
    }

    /// A new database, on every node. Returns its name.
    pub(crate) fn database(&self) -> String {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        for node in &self.nodes {
            Session::open(&node.url("postgres")).run(&format!("CREATE DATABASE {name}"));
            Session::open(&node.url(&name)).run("CREATE EXTENSION citus");
        }
        let mut coordinator = Session::open(&self.coordinator().url(&name));
        let [first, workers @ ..] = &self.nodes;
        coordinator.run(&format!("SELECT citus_set_coordinator_host('127.0.0.1', {})", first.port()));
        for worker in workers {
            coordinator.run(&format!("SELECT citus_add_node('127.0.0.1', {})", worker.port()));
        }
        name
    }

    /// Removes a database, which would keep a process of Citus busy. One that cannot be removed stays until the cluster ends.
    pub(crate) fn remove(&self, name: &str) {
        for node in &self.nodes {
            let _ =
                Session::open(&node.url("postgres")).try_run(&format!("DROP DATABASE {name} WITH (FORCE)"));
        }
    }
}

/// Where `postgres` and `initdb` of a PostgreSQL with Citus are.
fn binaries_with_citus() -> Option<PathBuf> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let binaries = named.clone().unwrap_or_else(binaries);
    let has_citus = shared_directory(&binaries).is_some_and(|at| at.join("extension/citus.control").exists());
    assert!(has_citus || named.is_none(), "{VARIABLE} names {}, which has no Citus", binaries.display());
    if !has_citus {
        let said = format!(
            "NOT RUN: the tests on a Citus cluster. {} has no Citus; {VARIABLE} can name the directory of programs of a \
             PostgreSQL that has it.\n",
            binaries.display()
        );
        // Past the test runner, which keeps what tests that pass print to itself.
        let _ = std::io::stderr().lock().write_all(said.as_bytes());
        return None;
    }
    Some(binaries)
}

fn shared_directory(binaries: &Path) -> Option<PathBuf> {
    let said = Command::new(binaries.join("pg_config")).arg("--sharedir").output().ok()?;
    Some(PathBuf::from(String::from_utf8_lossy(&said.stdout).trim().to_owned()))
}
