//! Sinks over TLS, to servers whose certificates are of an authority of the test: whom a sink trusts, and what it shows.

use super::brokers::{Nats, bind, block_on, messages_of, take_all};
use super::clickhouse::{self, ClickHouse};
use super::kafka::{Tansu, events_by};
use super::rabbitmq::RabbitMq;
use super::tls_proxy::{Checks, TlsProxy};
use super::{
    check, feed, sell, server_with, stock, variable, variables, wait_for_error, wait_until_delivered,
};
use crate::access::redis::Redis;
use crate::ctl::done;
use crate::support::{Server, free_port, said, stockhold, wait_for};
use crate::tls_support::{Authority, Pair};
use redis::Client;
use rskafka::client::ClientBuilder;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// The password in the addresses, which is shown nowhere.
const PASSWORD: &str = "hush-hush";

const UNTRUSTED: &str =
    "the server's certificate is not trusted: ca_file has to have the authority that issued it";

/// An authority, a server's certificate for `localhost`, and those of clients, as files.
pub(super) struct Certificates {
    files: TempDir,
    authority: Authority,
    pair: Pair,
    client: Pair,
}

impl Certificates {
    pub(super) fn new() -> Self {
        let (files, authority) = (TempDir::new().unwrap(), Authority::new());
        let other = Authority::named("another authority");
        let pair = authority.issue_for(&["localhost"]);
        let client = authority.issue_for(&["stockhold"]);
        let stranger = other.issue_for(&["stockhold"]);
        for (name, text) in [
            ("ca.pem", &authority.pem),
            ("other.pem", &other.pem),
            // It is replaced while the server runs. Until then it has another authority of the same name.
            ("renewed.pem", &Authority::new().pem),
            ("cert.pem", &pair.cert),
            ("key.pem", &pair.key),
            ("client.pem", &client.cert),
            ("client-key.pem", &client.key),
            ("stranger.pem", &stranger.cert),
            ("stranger-key.pem", &stranger.key),
        ] {
            std::fs::write(files.path().join(name), text).unwrap();
        }
        Self { files, authority, pair, client }
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }

    /// The server's side of a proxy.
    pub(super) fn checks(&self, asks_clients: bool) -> Checks {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if asks_clients {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(self.authority.roots()), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivateKeyDer::from_pem_slice(self.pair.key.as_bytes()).unwrap();
        let config = builder.with_single_cert(vec![self.pair.der()], key).unwrap();
        Checks { tls: Some(Arc::new(config)), mechanism: None }
    }

    /// A server with a sink that trusts the right authority, and others that do not, or have another host in their address. `init` makes
    /// what the sinks need. Returns it once the first sink has delivered everything, and the others are as they should be.
    fn check_trust(
        &self,
        dir: &Path,
        kind: &str,
        url: impl Fn(&str) -> String,
        init: impl FnOnce(&Server),
    ) -> Server {
        // What the system trusts is not what issued the certificate.
        let mut all = vec![("SSL_CERT_FILE".to_owned(), self.path("other.pem"))];
        for (name, host, ca) in [
            ("trusting", "localhost", Some("ca.pem")),
            ("distrusting", "localhost", None),
            ("misnamed", "127.0.0.1", Some("ca.pem")),
            ("renewed", "localhost", Some("renewed.pem")),
        ] {
            all.extend(variables(name, kind, &url(host)));
            all.extend(ca.map(|file| variable(name, "CA_FILE", &self.path(file))));
        }
        let server = server_with(dir, &all);
        stock(&server, "tee", 1_000);
        init(&server);
        sell(&server, "tee", 10);
        wait_until_delivered(&server, "trusting");
        for (name, text) in [
            ("distrusting", UNTRUSTED),
            ("renewed", UNTRUSTED),
            ("misnamed", "certificate not valid for name \"127.0.0.1\""),
        ] {
            let error = wait_for_error(&server, name);
            assert!(error.contains(text), "{name}: {error}");
            assert!(!error.contains(PASSWORD), "{name}: {error}");
        }
        // A file that is replaced is read at the next try.
        std::fs::copy(self.path("ca.pem"), self.path("renewed.pem")).unwrap();
        wait_until_delivered(&server, "renewed");
        let log = server.log();
        assert!(!log.contains(PASSWORD), "{log}");
        server
    }

    /// A server whose sinks show different certificates to a server that asks for one.
    fn check_client_certificates(
        &self,
        dir: &Path,
        kind: &str,
        url: &str,
        init: impl FnOnce(&Server),
    ) -> Server {
        let mut all = Vec::new();
        for (name, cert) in [("known", Some("client")), ("without", None), ("stranger", Some("stranger"))] {
            all.extend(variables(name, kind, url));
            all.push(variable(name, "CA_FILE", &self.path("ca.pem")));
            if let Some(cert) = cert {
                all.push(variable(name, "CLIENT_CERT_FILE", &self.path(&format!("{cert}.pem"))));
                all.push(variable(name, "CLIENT_KEY_FILE", &self.path(&format!("{cert}-key.pem"))));
            }
        }
        let server = server_with(dir, &all);
        stock(&server, "tee", 1_000);
        init(&server);
        sell(&server, "tee", 10);
        wait_until_delivered(&server, "known");
        for name in ["without", "stranger"] {
            let error = wait_for_error(&server, name);
            assert!(!error.contains("not trusted"), "{name}: {error}");
        }
        server
    }

    /// A client of Kafka that is trusted, and trusts the authority.
    pub(super) fn kafka_client(&self, port: u16) -> ClientBuilder {
        let tls = self.authority.client_config(rustls::ALL_VERSIONS, Some(&self.client), &[]);
        ClientBuilder::new(vec![format!("localhost:{port}")]).tls_config(tls)
    }

    /// The arguments of a NATS server.
    fn nats(&self) -> Vec<String> {
        let (cert, key) = (self.path("cert.pem"), self.path("key.pem"));
        ["--tls", "--tlscert", &cert, "--tlskey", &key].map(str::to_owned).into()
    }

    /// The events of the stream of a NATS server that asks for this.
    fn nats_events(&self, port: u16, options: async_nats::ConnectOptions) -> Vec<Value> {
        block_on(async {
            let options = options.add_root_certificates(self.path("ca.pem").into()).require_tls(true);
            messages_of(options.connect(format!("tls://localhost:{port}")).await.unwrap()).await
        })
    }

    /// The lines of the configuration of a `RabbitMQ` server.
    fn rabbitmq(&self, port: u16, asks_clients: bool) -> String {
        let verify = if asks_clients { "verify_peer" } else { "verify_none" };
        format!(
            "listeners.ssl.1 = 127.0.0.1:{port}\nssl_options.cacertfile = {}\nssl_options.certfile = {}\n\
             ssl_options.keyfile = {}\nssl_options.verify = {verify}\n\
             ssl_options.fail_if_no_peer_cert = {asks_clients}\n",
            self.path("ca.pem"),
            self.path("cert.pem"),
            self.path("key.pem")
        )
    }

    /// A Redis server, with a port without TLS beside.
    fn redis(&self, plain: u16, clients: &str) -> Redis {
        let (ca, cert, key) = (self.path("ca.pem"), self.path("cert.pem"), self.path("key.pem"));
        Redis::start(&[
            "--port",
            &plain.to_string(),
            "--tls-port",
            "PORT",
            "--tls-cert-file",
            &cert,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &ca,
            "--tls-auth-clients",
            clients,
            "--requirepass",
            PASSWORD,
        ])
    }
}

fn init(name: &str) -> impl Fn(&Server) {
    let name = name.to_owned();
    move |server| drop(done(server, &["sinks", "init", &name]))
}

#[test]
fn nats_over_tls() {
    let (dir, certificates) = (TempDir::new().unwrap(), Certificates::new());
    let mut arguments = certificates.nats();
    arguments.extend(["--user", "shop", "--pass", PASSWORD].map(str::to_owned));
    let nats = Nats::start_with(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let url = |host: &str| format!("tls://shop:{PASSWORD}@{host}:{}", nats.port());
    let server = certificates.check_trust(dir.path(), "nats", url, init("trusting"));
    let options = async_nats::ConnectOptions::with_user_and_password("shop".into(), PASSWORD.into());
    check(&certificates.nats_events(nats.port(), options), &feed(&server));
}

#[test]
fn nats_asks_for_a_certificate() {
    let (dir, certificates) = (TempDir::new().unwrap(), Certificates::new());
    let mut arguments = certificates.nats();
    arguments.extend(["--tlsverify".to_owned(), "--tlscacert".to_owned(), certificates.path("ca.pem")]);
    let nats = Nats::start_with(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let url = format!("tls://localhost:{}", nats.port());
    let server = certificates.check_client_certificates(dir.path(), "nats", &url, init("known"));
    let (cert, key) = (certificates.path("client.pem"), certificates.path("client-key.pem"));
    let options = async_nats::ConnectOptions::new().add_client_certificate(cert.into(), key.into());
    check(&certificates.nats_events(nats.port(), options), &feed(&server));
}

/// NATS speaks first, without TLS, and its client could go on like this.
#[test]
fn nats_without_tls_is_refused_where_tls_is_wanted() {
    let (dir, certificates, nats) = (TempDir::new().unwrap(), Certificates::new(), Nats::start());
    let mut all = variables("bus", "nats", &format!("tls://shop:{PASSWORD}@localhost:{}", nats.port()));
    all.push(variable("bus", "CA_FILE", &certificates.path("ca.pem")));
    let server = server_with(dir.path(), &all);
    stock(&server, "tee", 1_000);
    let error = wait_for_error(&server, "bus");
    assert!(error.contains("connecting to NATS") && !error.contains(PASSWORD), "{error}");
}

#[test]
fn rabbitmq_over_tls() {
    let (dir, certificates, port) = (TempDir::new().unwrap(), Certificates::new(), free_port());
    let rabbitmq = RabbitMq::start_with(&certificates.rabbitmq(port, false));
    rabbitmq.add_user("shop", PASSWORD);
    let url = |host: &str| format!("amqps://shop:{PASSWORD}@{host}:{port}/%2f");
    let server = certificates.check_trust(dir.path(), "rabbitmq", url, |server| {
        init("trusting")(server);
        block_on(bind(&rabbitmq.url(), "#"));
    });
    check(&block_on(take_all(&rabbitmq.url())), &feed(&server));
}

#[test]
fn rabbitmq_asks_for_a_certificate() {
    let (dir, certificates, port) = (TempDir::new().unwrap(), Certificates::new(), free_port());
    let rabbitmq = RabbitMq::start_with(&certificates.rabbitmq(port, true));
    let url = format!("amqps://guest:guest@localhost:{port}/%2f");
    let server = certificates.check_client_certificates(dir.path(), "rabbitmq", &url, |server| {
        init("known")(server);
        block_on(bind(&rabbitmq.url(), "#"));
    });
    check(&block_on(take_all(&rabbitmq.url())), &feed(&server));
}

#[test]
fn kafka_over_tls() {
    let (dir, certificates, port) = (TempDir::new().unwrap(), Certificates::new(), free_port());
    let proxy = TlsProxy::to(port, certificates.checks(false));
    // Clients connect to the address that the broker tells them.
    let _kafka = Tansu::advertised_as(port, &format!("localhost:{}", proxy.port));
    let url = |host: &str| format!("kafkas://{host}:{}", proxy.port);
    let server = certificates.check_trust(dir.path(), "kafka", url, init("trusting"));
    check(&events_by(|| certificates.kafka_client(proxy.port)), &feed(&server));
}

#[test]
fn kafka_asks_for_a_certificate() {
    let (dir, certificates, port) = (TempDir::new().unwrap(), Certificates::new(), free_port());
    let proxy = TlsProxy::to(port, certificates.checks(true));
    let _kafka = Tansu::advertised_as(port, &format!("localhost:{}", proxy.port));
    let url = format!("kafkas://localhost:{}", proxy.port);
    let server = certificates.check_client_certificates(dir.path(), "kafka", &url, init("known"));
    check(&events_by(|| certificates.kafka_client(proxy.port)), &feed(&server));
}

#[test]
fn clickhouse_over_tls() {
    let (dir, certificates, clickhouse) = (TempDir::new().unwrap(), Certificates::new(), ClickHouse::start());
    let proxy = TlsProxy::to(clickhouse.port(), certificates.checks(false));
    let url = |host: &str| clickhouse::url(proxy.port).replace("http:", "https:").replace("127.0.0.1", host);
    let server = certificates.check_trust(dir.path(), "clickhouse", url, init("trusting"));
    check(&clickhouse::events(&clickhouse), &feed(&server));
}

#[test]
fn clickhouse_asks_for_a_certificate() {
    let (dir, certificates, clickhouse) = (TempDir::new().unwrap(), Certificates::new(), ClickHouse::start());
    let proxy = TlsProxy::to(clickhouse.port(), certificates.checks(true));
    let url = clickhouse::url(proxy.port).replace("http:", "https:").replace("127.0.0.1", "localhost");
    let server = certificates.check_client_certificates(dir.path(), "clickhouse", &url, init("known"));
    check(&clickhouse::events(&clickhouse), &feed(&server));
}

/// Waits until the cache shows what is available.
fn wait_for_availability(plain: u16, server: &Server) {
    let available = server.item("tee").unwrap().available;
    let client = Client::open(format!("redis://:{PASSWORD}@127.0.0.1:{plain}")).unwrap();
    let mut connection = client.get_connection().unwrap();
    wait_for("the newest state", || {
        let found: Option<u64> = redis::cmd("HGET")
            .arg(&["stockhold:available:default:tee", "available"])
            .query(&mut connection)
            .unwrap();
        (found == Some(available)).then_some(())
    });
}

#[test]
fn redis_over_tls() {
    let (dir, certificates, plain) = (TempDir::new().unwrap(), Certificates::new(), free_port());
    let redis = certificates.redis(plain, "no");
    let url = |host: &str| format!("rediss://:{PASSWORD}@{host}:{}", redis.port());
    let server = certificates.check_trust(dir.path(), "redis", url, |_| ());
    wait_for_availability(plain, &server);
}

#[test]
fn redis_asks_for_a_certificate() {
    let (dir, certificates, plain) = (TempDir::new().unwrap(), Certificates::new(), free_port());
    let redis = certificates.redis(plain, "yes");
    let url = format!("rediss://:{PASSWORD}@localhost:{}", redis.port());
    let server = certificates.check_client_certificates(dir.path(), "redis", &url, |_| ());
    wait_for_availability(plain, &server);
}

#[test]
fn a_start_with_a_file_of_a_sink_that_can_not_be_used_names_the_key() {
    let (dir, certificates) = (TempDir::new().unwrap(), Certificates::new());
    let (ca, cert, key) =
        (certificates.path("ca.pem"), certificates.path("client.pem"), certificates.path("client-key.pem"));
    let (missing, other_key) = (certificates.path("missing.pem"), certificates.path("stranger-key.pem"));
    let files = |ca: &str, cert: &str, key: &str| {
        [("CA_FILE", ca), ("CLIENT_CERT_FILE", cert), ("CLIENT_KEY_FILE", key)]
            .map(|(member, file)| variable("bus", member, file))
    };
    for (files, member, words) in [
        (files(&missing, &cert, &key), "ca_file", "missing.pem: No such file"),
        (files(&key, &cert, &key), "ca_file", "client-key.pem: has no certificate"),
        (files(&ca, &missing, &key), "client_cert_file", "missing.pem: No such file"),
        (files(&ca, &key, &key), "client_cert_file", "client-key.pem: has no certificate"),
        (files(&ca, &cert, &missing), "client_key_file", "missing.pem: No such file"),
        (files(&ca, &cert, &ca), "client_key_file", "ca.pem: has no private key"),
        (files(&ca, &cert, &other_key), "client_key_file", "stranger-key.pem: is not the key"),
    ] {
        let mut command = stockhold(dir.path());
        command.args(["serve", "--data-dir", "data", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"]);
        command.envs(variables("bus", "nats", "tls://localhost:4222")).envs(files);
        let refused = command.output().unwrap();
        let told = said(&refused);
        assert_eq!(refused.status.code(), Some(2), "{told}");
        assert!(told.contains(&format!("sinks.bus.{member}: ")) && told.contains(words), "{told}");
        assert!(!dir.path().join("data").exists(), "nothing was done");
    }
}

#[test]
fn a_start_with_a_file_of_webhooks_that_can_not_be_used_names_the_key() {
    let (dir, certificates) = (TempDir::new().unwrap(), Certificates::new());
    for (file, words) in [
        ("missing.pem", "missing.pem: No such file"),
        ("client-key.pem", "client-key.pem: has no certificate"),
    ] {
        let mut command = stockhold(dir.path());
        command.args(["serve", "--data-dir", "data", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"]);
        let refused = command.env("STOCKHOLD_WEBHOOK_CA_FILE", certificates.path(file)).output().unwrap();
        let told = said(&refused);
        assert_eq!(refused.status.code(), Some(2), "{told}");
        assert!(told.contains("webhook_ca_file: ") && told.contains(words), "{told}");
        assert!(!dir.path().join("data").exists(), "nothing was done");
    }
}
