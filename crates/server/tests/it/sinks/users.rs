//! Sinks say who they are by the user, the password or the token in their address.

use super::brokers::{Nats, bind, block_on, take_all};
use super::kafka::{Tansu, events_by};
use super::rabbitmq::RabbitMq;
use super::sasl::{Mechanism, PASSWORD, USER};
use super::tls::Certificates;
use super::tls_proxy::{Checks, TlsProxy};
use super::{
    check, feed, sell, server_with, stock, variable, variables, wait_for_error, wait_until_delivered,
};
use crate::ctl::done;
use crate::support::{Server, free_port};
use rskafka::client::{ClientBuilder, Credentials, SaslConfig};
use tempfile::TempDir;

/// The password as it is in an address.
const ENCODED: &str = "p%40ss%2Fword";
const TOKEN: &str = "t0ken/of+the=test";

/// Checks that a sink is refused, and that its error and the log do not have the password.
fn check_refused(server: &Server, name: &str, words: &str) {
    let error = wait_for_error(server, name);
    assert!(error.contains(words), "{error}");
    let log = server.log();
    for secret in [PASSWORD, ENCODED, "wr0ng", TOKEN] {
        assert!(!error.contains(secret) && !log.contains(secret), "{error}\n{log}");
    }
}

#[test]
fn nats_knows_a_user_and_a_token() {
    let dir = TempDir::new().unwrap();
    let by_password = Nats::start_with(&["--user", USER, "--pass", PASSWORD]);
    let by_token = Nats::start_with(&["--auth", TOKEN]);
    let (port, token_port) = (by_password.port(), by_token.port());
    let encoded_token = TOKEN.replace('/', "%2F");
    let all: Vec<_> = [
        ("user", format!("nats://{USER}:{ENCODED}@127.0.0.1:{port}")),
        ("wrong", format!("nats://{USER}:wr0ng@127.0.0.1:{port}")),
        ("nobody", format!("nats://127.0.0.1:{port}")),
        ("token", format!("nats://{encoded_token}@127.0.0.1:{token_port}")),
    ]
    .iter()
    .flat_map(|(name, url)| variables(name, "nats", url))
    .collect();
    let server = server_with(dir.path(), &all);
    stock(&server, "tee", 1_000);
    for name in ["user", "token"] {
        done(&server, &["sinks", "init", name]);
    }
    sell(&server, "tee", 5);
    for name in ["user", "token"] {
        wait_until_delivered(&server, name);
    }
    check_refused(&server, "wrong", "authorization violation");
    check_refused(&server, "nobody", "authorization violation");
    for name in ["wrong", "nobody"] {
        let blocked = super::sink(&server, name);
        assert_eq!(blocked["state"], "blocked", "{blocked}");
        assert!(blocked["last_error"]["action"].as_str().unwrap().contains("password"), "{blocked}");
    }
}

#[test]
fn rabbitmq_knows_a_user() {
    let (dir, rabbitmq) = (TempDir::new().unwrap(), RabbitMq::start());
    rabbitmq.add_user(USER, PASSWORD);
    let port = rabbitmq.port();
    let mut all = variables("user", "rabbitmq", &format!("amqp://{USER}:{ENCODED}@127.0.0.1:{port}/%2f"));
    all.extend(variables("wrong", "rabbitmq", &format!("amqp://{USER}:wr0ng@127.0.0.1:{port}/%2f")));
    let server = server_with(dir.path(), &all);
    stock(&server, "tee", 1_000);
    done(&server, &["sinks", "init", "user"]);
    block_on(bind(&rabbitmq.url(), "#"));
    sell(&server, "tee", 5);
    wait_until_delivered(&server, "user");
    check(&block_on(take_all(&rabbitmq.url())), &feed(&server));
    check_refused(&server, "wrong", "ACCESS_REFUSED");
}

/// A sink delivers whose user the broker asks for, and one with a wrong password does not.
fn check_kafka(
    scheme: &str,
    certificates: &Certificates,
    checks: Checks,
    client: impl Fn(u16) -> ClientBuilder,
) {
    let (dir, port) = (TempDir::new().unwrap(), free_port());
    let is_secure = checks.tls.is_some();
    let proxy = TlsProxy::to(port, checks);
    let _kafka = Tansu::advertised_as(port, &format!("localhost:{}", proxy.port));
    let mut all = Vec::new();
    for (name, user) in [
        ("user", format!("{USER}:{ENCODED}@")),
        ("wrong", format!("{USER}:wr0ng@")),
        ("nobody", String::new()),
    ] {
        all.extend(variables(name, "kafka", &format!("{scheme}://{user}localhost:{}", proxy.port)));
        if is_secure {
            all.push(variable(name, "CA_FILE", &certificates.path("ca.pem")));
        }
    }
    let server = server_with(dir.path(), &all);
    stock(&server, "tee", 1_000);
    done(&server, &["sinks", "init", "user"]);
    sell(&server, "tee", 5);
    wait_until_delivered(&server, "user");
    check(&events_by(|| client(proxy.port)), &feed(&server));
    check_refused(&server, "wrong", "Sasl handshake failed");
    check_refused(&server, "nobody", "connecting to Kafka");
}

#[test]
fn kafka_knows_a_user_by_scram() {
    let checks = Checks { tls: None, mechanism: Some(Mechanism::ScramSha256) };
    check_kafka("kafka", &Certificates::new(), checks, |port| {
        let user = Credentials::new(USER.to_owned(), PASSWORD.to_owned());
        ClientBuilder::new(vec![format!("localhost:{port}")]).sasl_config(SaslConfig::ScramSha256(user))
    });
}

#[test]
fn kafka_knows_a_user_by_a_password_over_tls() {
    let certificates = Certificates::new();
    let checks = Checks { mechanism: Some(Mechanism::Plain), ..certificates.checks(false) };
    check_kafka("kafkas", &certificates, checks, |port| {
        let user = Credentials::new(USER.to_owned(), PASSWORD.to_owned());
        certificates.kafka_client(port).sasl_config(SaslConfig::Plain(user))
    });
}
