//! A private Galera cluster for tests: three nodes of MariaDB, gone when dropped. The nodes listen on the loopback interface, or each in
//! a network namespace of its own, where links can be cut. No test is skipped for want of Galera: a machine without it fails loudly.

use crate::mysql::support::{Programs, Server, Session};
use crate::support::ports::free_port;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The library of Galera, where Debian puts it.
const PROVIDER: &str = "/usr/lib/galera/libgalera_smm.so";
pub(crate) const NODES: usize = 3;
/// Threads of a node that apply what the others commit.
pub(crate) const APPLIERS: usize = 4;
/// The port of the group where each node has a network of its own.
const GROUP_PORT: u16 = 4_567;

/// A running cluster.
pub(crate) struct Cluster {
    nodes: [Server; NODES],
    /// Where the group finds its members.
    members: String,
    network: Option<Network>,
    databases: AtomicU32,
}

impl Cluster {
    /// The cluster that tests share while any of them runs. It does not sync: no test kills its nodes.
    pub(crate) fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let unsynced = ["--innodb-flush-log-at-trx-commit=2"];
            let cluster = Arc::new(Self::start(None, &unsynced));
            *shared = Arc::downgrade(&cluster);
            cluster
        })
    }

    /// One of its own, for a test that kills nodes.
    pub(crate) fn alone() -> Self {
        Self::start(None, &[])
    }

    /// One whose nodes can be cut off from each other. By network namespaces if the user may make them, and else by a setting of
    /// Galera. The test says which.
    pub(crate) fn with_links() -> Self {
        Self::start(Network::make(), &[])
    }

    fn start(network: Option<Network>, settings: &[&str]) -> Self {
        assert!(
            Path::new(PROVIDER).exists(),
            "these tests need Galera and found no {PROVIDER}: install it, on Debian with `apt-get install galera-4 rsync`"
        );
        let places: Vec<Place> = (0..NODES).map(|number| Place::new(number, network.as_ref())).collect();
        let members: Vec<String> = places.iter().map(Place::group).collect();
        let node = |number: usize| {
            let place = &places[number];
            let launcher = network.as_ref().map(|network| network.launcher(number)).unwrap_or_default();
            Server::stopped(&Programs::installed(), Some(free_port()), launcher, |_| {
                place.settings(number, settings)
            })
        };
        let cluster = Self {
            nodes: [node(0), node(1), node(2)],
            members: members.join(","),
            network,
            databases: AtomicU32::new(0),
        };
        cluster.nodes[0].run_with(&["--wsrep-cluster-address=gcomm://".to_owned()]);
        cluster.wait_until_joined(0);
        cluster.nodes[0].make_user();
        for number in 1..NODES {
            cluster.run(number);
        }
        cluster
    }

    /// A node.
    pub(crate) fn node(&self, number: usize) -> &Server {
        &self.nodes[number % NODES]
    }

    /// Starts a node that was killed. It gets what it has missed from another one.
    pub(crate) fn run(&self, number: usize) {
        let members = &self.members;
        self.node(number).run_with(&[format!("--wsrep-cluster-address=gcomm://{members}")]);
        self.wait_until_joined(number);
    }

    /// Waits until a node is a part of the cluster.
    pub(crate) fn wait_until_joined(&self, number: usize) {
        let node = self.node(number);
        node.wait_until_ready();
        let mut session = node.session(None);
        session.wait_until("the node is synced", |session| {
            session.status("wsrep_local_state_comment") == "Synced" && session.status("wsrep_ready") == "ON"
        });
    }

    /// Cuts a node off from the others, or joins it again.
    pub(crate) fn cut_off(&self, number: usize, off: bool) {
        match &self.network {
            Some(network) => network.set_link(number, if off { "down" } else { "up" }),
            None => {
                let mut session = self.node(number).session(None);
                let value = u8::from(off);
                session.run(&format!("SET GLOBAL wsrep_provider_options = 'gmcast.isolate={value}'"));
            }
        }
    }

    /// How nodes are cut off.
    pub(crate) fn how_cut_off(&self) -> &'static str {
        if self.network.is_some() { "network namespaces" } else { "gmcast.isolate" }
    }

    /// Waits until a node says of itself that it is in the part of the cluster that has the majority, or that it is not.
    pub(crate) fn wait_until_primary(&self, number: usize, primary: bool) {
        let status = if primary { "Primary" } else { "non-Primary" };
        let mut session = self.node(number).session(None);
        session.wait_until(status, |session| session.status("wsrep_cluster_status") == status);
    }

    /// A new, empty database.
    pub(crate) fn database(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.node(0).session(None).run(&format!("CREATE DATABASE {name}"));
        for node in &self.nodes {
            // Until it is there.
            node.session(None).run("SET SESSION wsrep_sync_wait = 7; SELECT 1");
        }
        name
    }

    /// A plain session of a database, at a node.
    pub(crate) fn session(&self, number: usize, database: &str) -> Session {
        self.node(number).session(Some(database))
    }
}

/// Where a node is reached by the others.
struct Place {
    address: String,
    group_port: u16,
    /// For missed transactions, and for whole copies.
    transfer_ports: [u16; 2],
}

impl Place {
    fn new(number: usize, network: Option<&Network>) -> Self {
        match network {
            Some(_) => Self {
                address: Network::address(number),
                group_port: GROUP_PORT,
                transfer_ports: [GROUP_PORT + 1, GROUP_PORT + 2],
            },
            None => Self {
                address: "127.0.0.1".to_owned(),
                group_port: free_port(),
                transfer_ports: [free_port(), free_port()],
            },
        }
    }

    fn group(&self) -> String {
        format!("{}:{}", self.address, self.group_port)
    }

    fn settings(&self, number: usize, more: &[&str]) -> Vec<String> {
        let Self { address, group_port, transfer_ports: [missed, whole] } = self;
        let options = [
            format!("base_host={address};base_port={group_port};gmcast.listen_addr=tcp://{address}:{group_port}"),
            format!("ist.recv_addr={address}:{missed}"),
            "gcache.size=64M".to_owned(),
            // A node that is gone is missed sooner than in production.
            "evs.keepalive_period=PT0.3S;evs.suspect_timeout=PT1.5S;evs.inactive_timeout=PT3S;evs.install_timeout=PT3S".to_owned(),
        ];
        let mut settings = vec![
            "--wsrep-on=ON".to_owned(),
            format!("--wsrep-provider={PROVIDER}"),
            "--wsrep-cluster-name=stockhold".to_owned(),
            format!("--wsrep-node-address={address}"),
            format!("--wsrep-node-name=node{number}"),
            "--wsrep-sst-method=rsync".to_owned(),
            format!("--wsrep-sst-receive-address={address}:{whole}"),
            format!("--wsrep-provider-options={}", options.join(";")),
            format!("--wsrep-slave-threads={APPLIERS}"),
            "--binlog-format=ROW".to_owned(),
            "--innodb-autoinc-lock-mode=2".to_owned(),
        ];
        settings.extend(more.iter().map(ToString::to_string));
        settings
    }
}

/// Three network namespaces around a fourth with a bridge. Nothing of it is seen outside.
struct Network {
    prefix: String,
}

impl Network {
    /// `None` if the user may not make namespaces.
    fn make() -> Option<Self> {
        let network = Self { prefix: format!("shg{}", std::process::id()) };
        let bridge = network.namespace(NODES);
        if !ip(&["netns", "add", &bridge]) {
            return None;
        }
        let made = ip(&["-n", &bridge, "link", "add", "bridge", "type", "bridge"])
            && ip(&["-n", &bridge, "link", "set", "bridge", "up"])
            && (0..NODES).all(|number| network.add(number, &bridge));
        // It removes what was made if it is dropped.
        made.then_some(network)
    }

    fn add(&self, number: usize, bridge: &str) -> bool {
        let (namespace, link) = (self.namespace(number), format!("link{number}"));
        let address = format!("{}/24", Self::address(number));
        ip(&["netns", "add", &namespace])
            && ip(&[
                "-n", bridge, "link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns",
                &namespace,
            ])
            && ip(&["-n", bridge, "link", "set", &link, "master", "bridge"])
            && ip(&["-n", bridge, "link", "set", &link, "up"])
            && ip(&["-n", &namespace, "address", "add", &address, "dev", "eth0"])
            && ip(&["-n", &namespace, "link", "set", "eth0", "up"])
            && ip(&["-n", &namespace, "link", "set", "lo", "up"])
    }

    fn namespace(&self, number: usize) -> String {
        format!("{}-{number}", self.prefix)
    }

    fn address(number: usize) -> String {
        format!("10.77.0.{}", number + 1)
    }

    fn launcher(&self, number: usize) -> Vec<String> {
        let namespace = self.namespace(number);
        ["ip", "netns", "exec", &namespace].map(str::to_owned).into()
    }

    fn set_link(&self, number: usize, state: &str) {
        let (bridge, link) = (self.namespace(NODES), format!("link{number}"));
        assert!(ip(&["-n", &bridge, "link", "set", &link, state]), "a link goes {state}");
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for number in 0..=NODES {
            ip(&["netns", "delete", &self.namespace(number)]);
        }
    }
}

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).output().is_ok_and(|done| done.status.success())
}
