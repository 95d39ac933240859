//! A Citus cluster as docs/operating.md has it set up: the schema belongs to one user, the servers have another one, and both have
//! passwords.

use super::PASSWORD;
use super::postgresql::Session;
use super::postgresql::citus::Cluster;
use super::used::verify;
use crate::replay;
use crate::support::{Server, free_port, said, stockhold, text};
use stockhold_api::client::At;
use stockhold_api::wire::{RequestedLine, Stock, Terms};

/// The nodes among themselves come in as the one who may do everything, all others by their passwords.
const PASSWORDS: &str =
    "local all all trust\nhost all stockhold 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";

/// Runs a command that has to end by itself with this exit code: what it said.
fn ends(arguments: &[&str], url: &str, code: i32) -> String {
    let dir = tempfile::tempdir().unwrap();
    let output = stockhold(dir.path()).args(arguments).env("STOCKHOLD_STORE", url).output().unwrap();
    let told = said(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
    assert!(!told.contains(PASSWORD), "{told}");
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

fn url(user: &str, port: u16, database: &str) -> String {
    format!("postgres://{user}:{PASSWORD}@127.0.0.1:{port}/{database}")
}

/// What the manual says about users, by the one who may do everything.
fn users(cluster: &Cluster, name: &str) {
    let mut session = Session::open(&cluster.coordinator().url(name));
    for user in ["owner", "shop"] {
        session.run(&format!("CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}'"));
        session.run(&format!(
            "INSERT INTO pg_dist_authinfo (nodeid, rolename, authinfo) VALUES (0, '{user}', 'password={PASSWORD}')"
        ));
    }
    session.run(&format!("GRANT CREATE ON DATABASE {name} TO owner"));
}

#[test]
fn a_cluster_is_set_up_as_the_manual_says() {
    let Some(cluster) = Cluster::start(false, PASSWORDS) else { return };
    let name = cluster.database();
    let (coordinator, worker) = (cluster.coordinator().port(), cluster.worker(0).port());
    users(&cluster, &name);
    let (owner, shop) = (url("owner", coordinator, &name), url("shop", coordinator, &name));
    let at_worker = url("shop", worker, &name);
    let distribute = ["migrate", "--distribute", "--shards", "8"];

    // What is wrong is refused, and nothing is made.
    for shards in ["0", "1025"] {
        let told = ends(&["migrate", "--distribute", "--shards", shards], &owner, 2);
        assert!(told.contains("is not in 1..=1024"), "{told}");
    }
    for arguments in [&["migrate", "--distribute", "--shards", "many"][..], &["migrate", "--shards", "8"]] {
        assert!(ends(arguments, &owner, 2).contains("--"), "{arguments:?}");
    }
    let told = ends(&distribute, &url("owner", worker, &name), 1);
    assert!(told.contains("give the address of the coordinator"), "{told}");
    let told = ends(&distribute, "mysql://owner:x@127.0.0.1/shop", 1);
    assert!(told.contains("only PostgreSQL with Citus"), "{told}");
    let told = ends(&distribute, &shop, 1);
    assert!(told.contains("denied") && told.contains("let this user make"), "{told}");
    let mut session = Session::open(&cluster.coordinator().url(&name));
    assert_eq!(session.text("SELECT to_regnamespace('stockhold') IS NULL"), "t");

    let told = ends(&distribute, &owner, 0);
    assert!(told.contains("the schema is created") && told.contains("8 shards"), "{told}");
    let told = ends(&["migrate", "--distribute", "--shards", "4"], &owner, 0);
    assert!(told.contains("spread over the workers before: nothing is changed"), "{told}");
    let shards = "SELECT count(*) FROM citus_shards WHERE table_name = 'stockhold.items'::regclass";
    assert_eq!(session.text(shards), "8");
    assert!(ends(&["migrate"], &owner, 0).contains("up to date"));

    // A server without the right that it needs says which.
    session.run(
        "GRANT USAGE ON SCHEMA stockhold TO shop;
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA stockhold TO shop;
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA stockhold TO shop",
    );
    let serve = |url: &str| {
        let ports = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
        ends(&["serve", "--listen", &ports[0], "--admin-listen", &ports[1]], url, 1)
    };
    let told = serve(&shop);
    assert!(told.contains("GRANT EXECUTE ON FUNCTION recover_prepared_transactions"), "{told}");
    session.run("GRANT EXECUTE ON FUNCTION recover_prepared_transactions TO shop");
    let told = serve(&at_worker);
    assert!(told.contains("give the address of the coordinator"), "{told}");
    assert!(ends(&["verify"], &at_worker, 1).contains("give the address of the coordinator"));

    sells(&shop);
    // Servers are connected, and the tables are spread already.
    let told = ends(&distribute, &owner, 0);
    assert!(told.contains("nothing is changed"), "{told}");
}

/// Two servers, a key that is used at both, a basket over all SKUs, a replay of a day, and recounts beside them.
fn sells(url: &str) {
    let servers = [Server::over(url), Server::over(url)];
    let skus: Vec<String> = (0..8).map(|number| format!("sku-{number}")).collect();
    let terms = Terms { owner_id: "cart-1".to_owned(), ..Terms::default() };
    let stock = Stock { total_units: Some(10), ..Stock::default() };
    let hold = servers[0].ask(async |client| {
        for sku in &skus {
            client.put_stock(At { sku, location: None }, &stock, None).await.unwrap();
        }
        let hold = client.reserve(At { sku: &skus[0], location: None }, 2, &terms, Some("k")).await.unwrap();
        let line = |sku: &String| RequestedLine { sku: sku.clone(), location: None, quantity: 1 };
        let lines: Vec<RequestedLine> = skus.iter().map(line).collect();
        let basket = client.reserve_basket(&lines, &terms, Some("basket")).await.unwrap();
        client.confirm(basket.reservation_id, None, None).await.unwrap();
        hold.reservation_id
    });
    servers[1].ask(async |client| {
        let at = At { sku: &skus[0], location: None };
        let again = client.reserve(at, 2, &terms, Some("k")).await.unwrap();
        assert_eq!(again.reservation_id, hold);
        assert_eq!(client.available(at).await.unwrap().available, 7);
    });
    replay::report(&replay::sample(&servers[0]).output().unwrap());
    replay::check_books(&servers[1]);
    let verdict = verify(&servers[0], url);
    assert_eq!((&verdict["adds_up"], &verdict["drift"]), (&true.into(), &0.into()));
}
